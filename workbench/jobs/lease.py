"""The worker's side of the job table: claim a job, hold it by heartbeat, and requeue the jobs of dead workers."""

from __future__ import annotations

import datetime as dt
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence

from crossner_core.errors import StorageError
from crossner_core.processes import has_ended
from db import job_rows, worker_rows
from db.engine import Session, Store
from db.training_tables import Job
from db.types import now
from workbench.jobs.context import Claimed, JobContext
from workbench.jobs.kind import job_kinds, kind_of
from workbench.settings import Settings, settings_of

log = logging.getLogger(__name__)

# A worker without a heartbeat for this many seconds counts as dead, and its job as stale.
STALE_SECONDS = 30.0
# The same for a worker on this machine whose process is gone.
GONE_SECONDS = 4.0
# An idle worker takes a new job sooner than this.
TAKEN_SECONDS = 2.0


def claim(
    store: Store, *, worker: str, run_ids: Sequence[int] | None = None, job_ids: Sequence[int] | None = None
) -> Claimed | None:
    """Claim the next job for a worker, of these runs or among these jobs if given; an unknown kind stays queued."""
    with store.read() as session:
        if not job_rows.counts(session).get("queued"):
            return None
    with store.write() as session:
        row = job_rows.claim(session, worker=worker, kinds=job_kinds(), run_ids=run_ids, job_ids=job_ids)
        if row is None:
            job_rows.explain_others(
                session,
                job_kinds(),
                "No worker here supports this kind of job; start one of the version that queued it.",
            )
            return None
        job = Claimed.of(row)
        kind_of(job.kind).follow(session, job, "running", None)
        return job


def held_up(store: Store, priority: int) -> bool:
    """Return whether a job that goes before this priority waits, and no idle worker has taken it."""
    with store.read() as session:
        since = now() - dt.timedelta(seconds=TAKEN_SECONDS)
        return job_rows.waits_before(session, priority, kinds=job_kinds(), since=since)


def reclaim_stale(store: Store, *, in_hand: int | None = None, settings: Settings | None = None) -> tuple[int, ...]:
    """Queue the jobs of dead workers again, or fail those that used up their attempts; return the jobs' ids.

    Attempts count from the last saved step: a job whose state has moved on since the previous death has them anew.
    A worker that calls this while running a job passes it as `in_hand`: it is alive, however late its heartbeat.
    """
    with store.read() as session:
        if not job_rows.counts(session).get("running"):
            return ()
    with store.write() as session:
        workers = {row.name: row for row in worker_rows.everyone(session)}
        stale = []
        for job in job_rows.running(session):
            holder = workers.get(job.worker or "")
            gone = holder is not None and has_ended(holder.host, holder.pid)
            if job.id != in_hand and job_rows.older_than(job.heartbeat_at, GONE_SECONDS if gone else STALE_SECONDS):
                _take_back(session, job, settings or settings_of(store))
                stale.append(job.id)
        return tuple(stale)


def _take_back(session: Session, row: Job, settings: Settings) -> None:
    saved = kind_of(row.kind).saved_step(session, settings, Claimed.of(row))
    job_rows.count_death(session, row, saved_step=saved)
    job, worker = Claimed.of(row), row.worker or ""
    if row.cancel_requested:
        end(session, job, worker, "cancelled", "Cancelled; the worker had died.")
    elif row.attempts >= row.max_attempts:
        error = (
            f"The worker died {row.attempts} times while running this job, without a step being saved in between "
            "(perhaps too little memory or disk). "
            "Look at the worker's log, then start the job again; nothing annotated is lost."
        )
        end(session, job, worker, "failed", error=error)
    else:
        message = f"The worker died (attempt {row.attempts} of {row.max_attempts}); waiting to resume."
        give_back(session, job, worker, message, counted=True)


def end(session: Session, job: Claimed, worker: str, state: str, message: str = "", error: str | None = None) -> bool:
    """End a job that a worker holds and update the rows of its kind; False when the lease is lost."""
    held = job_rows.finish(session, job_id=job.id, worker=worker, state=state, message=message, error=error)
    if held:
        kind_of(job.kind).follow(session, job, state, error)
    return held


def give_back(session: Session, job: Claimed, worker: str, message: str, *, counted: bool) -> bool:
    """Queue a held job again; `counted` is whether the attempt is used up. False when the lease is lost."""
    held = job_rows.give_back(session, job_id=job.id, worker=worker, message=message, counted=counted)
    if held:
        kind_of(job.kind).follow(session, job, "queued", None)
    return held


class Pulse:
    """A thread with sessions of its own that writes heartbeats every `period` seconds until `stop`."""

    def __init__(self, store: Store, *, period: float = 1.0) -> None:
        self.store, self.period = store, period
        self.host, self.pid = socket.gethostname(), os.getpid()
        self.name = f"{self.host}-{self.pid}-{uuid.uuid4().hex[:6]}"
        self.device = "starting"
        self.context: JobContext | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and remove the worker's row."""
        self._ending.set()
        self._thread.join()
        with self.store.write() as session:
            worker_rows.remove(session, name=self.name)

    def _run(self) -> None:
        beaten = time.monotonic()
        while not self._ending.wait(self.period):
            try:
                self._beat()
                beaten = time.monotonic()
            except StorageError as error:
                log.warning("Heartbeat failed: %s", error)
                # Another worker may have the job by now: two must not train it.
                if self.context is not None and time.monotonic() - beaten > STALE_SECONDS:
                    self.context.lost.set()

    def _beat(self) -> None:
        context = self.context
        with self.store.write() as session:
            worker_rows.beat(session, name=self.name, host=self.host, pid=self.pid, device=self.device)
            if context is None:
                return
            job_id, progress, message = context.job.id, context.progress, context.message
            cancels = job_rows.beat(session, job_id=job_id, worker=self.name, progress=progress, message=message)
        if cancels is None and self.context is context:
            context.lost.set()
        elif cancels:
            context.cancelled.set()
