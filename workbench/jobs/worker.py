"""The worker process: takes jobs from the table one at a time. `python -m workbench.jobs.worker`"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any

from crossner_core.errors import StorageError, WorkbenchError
from crossner_core.folders import for_owner_only
from db.engine import Store
from db.migrate import migrate
from workbench.accounts.ways import acting
from workbench.jobs import lease
from workbench.jobs.context import Claimed, JobContext
from workbench.jobs.kind import PATIENT_ABOVE, job_kind, job_kinds
from workbench.jobs.running import run_job
from workbench.settings import Settings, get_settings, open_store
from workbench.webhooks.sending import Sender

log = logging.getLogger("workbench.jobs.worker")

POLL_SECONDS = 1.0
NICENESS = 10


class Worker:
    """Claims jobs (only those of `run_ids`, or `job_ids`, if given) and runs them until it is stopped.

    Meanwhile it sends to webhooks, unless it was started for certain jobs.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        run_ids: Sequence[int] | None = None,
        job_ids: Sequence[int] | None = None,
    ) -> None:
        self.store, self.settings, self.run_ids, self.job_ids = store, settings, run_ids, job_ids
        self.stopping = threading.Event()
        self.pulse = lease.Pulse(store)
        self.sender = Sender(store, settings) if run_ids is None and job_ids is None else None
        self._encoders: dict[str, Any] = {}

    def run(self, *, once: bool = False) -> int:
        """Work until `stop`, or with `once` until the queue is empty; return the number of jobs done."""
        with acting("worker"):
            return self._work(once)

    def _work(self, once: bool) -> int:
        done = 0
        self.pulse.start()
        if self.sender is not None:
            self.sender.start()
        try:
            # Loading PyTorch takes seconds: the page should show the worker before that.
            self.pulse.device = _prepare(self.settings)
            log.info("Worker %s is ready on %s.", self.pulse.name, self.pulse.device)
            while not self.stopping.is_set():
                if self._next():
                    done += 1
                elif once:
                    break
                else:
                    self.stopping.wait(POLL_SECONDS)
        finally:
            self._sign_off()
        return done

    def stop(self) -> None:
        """Stop at the next training step; the job goes back to the queue with its state saved."""
        self.stopping.set()
        if self.pulse.context is not None:
            self.pulse.context.shutdown.set()

    def _next(self) -> bool:
        """Run one job, if there is one; wait if the store fails."""
        try:
            self._reclaim()
            self._tick()
            job = lease.claim(self.store, worker=self.pulse.name, run_ids=self.run_ids, job_ids=self.job_ids)
        except StorageError as error:
            log.warning("%s Trying again in five seconds.", error)
            self.stopping.wait(5)
            return False
        if job is None:
            return False
        context = JobContext(
            job,
            self.store,
            self.settings,
            worker=self.pulse.name,
            encoders=self._encoders,
            others_first=partial(self._others_first, job),
        )
        self.pulse.context = context
        if self.stopping.is_set():
            context.shutdown.set()
        began = time.monotonic()
        log.info("Job %s (%s%s) begins.", job.id, job.kind, f" {job.run_id}" if job.run_id else "")
        run_job(context)
        self.pulse.context = None
        log.info("Job %s ended after %.1f s.", job.id, time.monotonic() - began)
        return True

    def _tick(self) -> None:
        """Do periodic work; a worker that was started for certain jobs runs only these."""
        if self.run_ids is None and self.job_ids is None:
            for name in job_kinds():
                job_kind(name).tick(self.store)

    def _reclaim(self, in_hand: int | None = None) -> None:
        for job_id in lease.reclaim_stale(self.store, in_hand=in_hand, settings=self.settings):
            log.warning("Job %s was left by a dead worker.", job_id)

    def _others_first(self, job: Claimed) -> bool:
        """Requeue the jobs of dead workers, do periodic work, and return whether a job goes before this patient one.

        Called while a long job runs; one that gives way resumes where it stopped.
        """
        try:
            self._reclaim(job.id)
            if self.run_ids is not None or self.job_ids is not None or job.priority <= PATIENT_ABOVE:
                return False
            self._tick()
            return lease.held_up(self.store, job.priority)
        except StorageError as error:
            log.warning("%s The current job continues.", error)
            return False

    def _sign_off(self) -> None:
        if self.sender is not None:
            self.sender.stop()
        try:
            self.pulse.stop()
        except StorageError as error:
            log.warning("Could not sign off: %s", error)


def _prepare(settings: Settings) -> str:
    # Waiting threads must not spin: the web app shares the machine. This only works before torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from crossner_core.adaptation import pretraining_job
    from crossner_core.training import loop
    from crossner_core.training.machine import prepare

    if settings.save_seconds is not None:
        loop.SECONDS_BETWEEN_SAVES = pretraining_job.SECONDS_BETWEEN_SAVES = settings.save_seconds
    return prepare(settings.worker_threads)


def main(settings: Settings | None = None, *, once: bool = False) -> int:
    """Run a worker until SIGTERM or Ctrl-C; return the exit code."""
    for_owner_only()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s worker: %(message)s", stream=sys.stderr, force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    chosen = settings or get_settings()
    try:
        # The web app must stay responsive: it shares the machine.
        os.nice(NICENESS)
        store = open_store(chosen)
        migrate(store)
        worker = Worker(store, chosen)

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            worker.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
        worker.run(once=once)
    except WorkbenchError as error:
        print(f"workbench worker: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
