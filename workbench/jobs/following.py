"""Run jobs in this process and follow their output, whichever worker runs them; for commands with `--wait`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from db import job_rows
from db.engine import Store
from workbench.accounts.actors import Actor, admit
from workbench.accounts.roles import OVERSEERS
from workbench.jobs.queue import OPEN, JobView, get_job, worker_status
from workbench.jobs.worker import Worker
from workbench.runs.adaptation import RunDetail, get_run, waits_for
from workbench.settings import Settings

_POLL_SECONDS = 0.3
Echo = Callable[[str], None]


def train_here(store: Store, actor: Actor, settings: Settings, run_ids: Sequence[int], *, echo: Echo = print) -> int:
    """Run the jobs of these runs as `work_here` does; one whose encoder another job makes waits for that job."""
    admit(store, actor, *OVERSEERS)
    with store.read() as session:
        job_ids = sorted(job.id for job in job_rows.for_runs(session, run_ids).values())
    return work_here(store, actor, settings, job_ids, echo=echo)


def work_here(store: Store, actor: Actor, settings: Settings, job_ids: Sequence[int], *, echo: Echo = print) -> int:
    """Run jobs in this process, or watch the worker that took them; return 0 when all are done, else 1.

    If interrupted, a job goes back to the queue with its state saved. Raises NotAllowed or NotFound, before any job
    begins, for one that the actor may not see.
    """
    admit(store, actor, *OVERSEERS)
    for job_id in job_ids:  # nothing begins before all may be seen
        get_job(store, actor, job_id)
    worker, ended = _begin(store, settings, job_ids)
    followed = [_Followed(store, actor, job_id, echo) for job_id in job_ids]
    try:
        while going := [each for each in followed if not each.look()]:
            waiting = [each for each in going if each.waits()]
            at_work = any(each.job.state == "running" for each in going) and worker_status(store).alive
            if ended.is_set() and len(waiting) < len(going) and not at_work:
                # The job of a dead worker can be claimed again once its lease has expired.
                worker, ended = _begin(store, settings, [each.job.id for each in going])
            time.sleep(_POLL_SECONDS)
    finally:
        worker.stop()
        ended.wait()
    return 0 if all(each.job.state == "done" for each in followed) else 1


def _begin(store: Store, settings: Settings, job_ids: Sequence[int]) -> tuple[Worker, threading.Event]:
    worker, ended = Worker(store, settings, job_ids=job_ids), threading.Event()

    def work() -> None:
        try:
            worker.run(once=True)
        finally:
            ended.set()

    threading.Thread(target=work, name="worker", daemon=True).start()
    return worker, ended


class _Followed:
    """A job that is watched, and what was printed about it."""

    def __init__(self, store: Store, actor: Actor, job_id: int, echo: Echo) -> None:
        self.store, self.actor, self.echo = store, actor, echo
        self.job: JobView = get_job(store, actor, job_id)
        self._events, self._message, self._ended, self._waited = 0, "", False, False

    def look(self) -> bool:
        """Print what is new; return whether the job has ended."""
        if self._ended:
            return True
        self.job = get_job(self.store, self.actor, self.job.id)
        ending = self._run(self.job.run_id) if self.job.run_id is not None else self._other()
        self._ended = self.job.state not in OPEN
        if self._ended:
            self.echo(ending)
        return self._ended

    def waits(self) -> bool:
        """Return whether another job has to end before this one; print that once."""
        run_id = self.job.run_id
        if run_id is None:
            return False
        with self.store.read() as session:
            awaited = job_rows.awaited_by(session, [run_id]).get(run_id)
        if awaited is not None and not self._waited:
            self.echo(f"run {run_id} · {waits_for(awaited)}; a worker has to do that.")
            self._waited = True
        return awaited is not None

    def _run(self, run_id: int) -> str:
        detail = get_run(self.store, self.actor, run_id, after=self._events)
        for event in detail.events:
            self._events = max(self._events, event.number)
            if event.message:
                self.echo(f"run {run_id} · {event.message}")
            elif event.dev_f1 is not None:
                where = f"run {run_id} · {event.phase} · epoch {event.epoch:.0f} · step {event.step}"
                best = " *" if event.is_best else ""
                self.echo(f"{where} · loss {event.loss or 0:.4f} · dev F1 {100 * event.dev_f1:.2f}{best}")
        return _ending(detail)

    def _other(self) -> str:
        if self.job.message not in ("", self._message) and self.job.state in OPEN:
            self._message = self.job.message
            self.echo(self._message)
        return f"job {self.job.id} {self.job.state}: {self.job.error or self.job.message}"


def _ending(detail: RunDetail) -> str:
    run = detail.run
    if run.state != "done":
        return f"run {run.id} {run.state}: {run.error or run.message}"
    scores = [
        f"{name} F1 {100 * f1:.2f}" for name, f1 in (("dev", run.dev_f1), ("test", run.test_f1)) if f1 is not None
    ]
    strict = ((detail.result or {}).get("test") or {}).get("strict_iob2")
    if strict:
        both = strict["support"] + strict["predicted"]
        scores.append(f"test strict IOB2 {100 * 2 * strict['correct'] / both if both else 0:.2f}")
    return f"run {run.id} done: {' · '.join(scores) or 'no scores'}"
