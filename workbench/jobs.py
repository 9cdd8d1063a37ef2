"""The queue of work for the worker process, as people see it and as the worker keeps it in order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import Conflict, NotFound
from crossner_core.processes import has_ended
from db import job_rows, run_rows, worker_rows
from db.engine import Session, Store
from db.training_tables import Job
from db.types import now
from workbench.accounts.access import OVERSEERS, WORKERS, enter, refuse_archived
from workbench.accounts.actors import Actor, fresh, require

# A worker that was silent for so many seconds is taken for dead, and its job for stale.
STALE_SECONDS = 30.0
# One on this machine whose process is gone is known to be dead much sooner.
GONE_SECONDS = 4.0
ALIVE_SECONDS = 15.0
# A worker that has nothing to do takes a new job sooner than this.
TAKEN_SECONDS = 2.0
SUGGESTING = ("preannotate", "score_pool")
"""The kinds of jobs that look for suggestions."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """Whether a worker is alive; `since` is when it started, or when the last one was heard of."""

    alive: bool
    name: str | None = None
    device: str | None = None
    since: dt.datetime | None = None

    @property
    def sentence(self) -> str:
        """Say it in one line for a page."""
        if self.alive and self.since:
            return f"A worker is running on {self.device} since {self.since:%Y-%m-%d %H:%M} UTC."
        heard = f" The last one was heard of at {self.since:%Y-%m-%d %H:%M:%S} UTC." if self.since else ""
        return f"No worker is alive: jobs wait until one is started with “workbench worker”.{heard}"


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as a page shows it; `progress` lies in [0, 1]."""

    id: int
    kind: str
    state: str
    run_id: int | None
    campaign_id: int | None
    progress: float
    message: str
    error: str | None
    attempts: int
    max_attempts: int
    cancel_requested: bool
    created_at: dt.datetime
    finished_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job in a worker's hands."""

    id: int
    kind: str
    priority: int
    payload: Mapping[str, Any]
    run_id: int | None
    campaign_id: int | None
    created_by: int | None
    attempts: int
    max_attempts: int


def worker_status(store: Store) -> WorkerStatus:
    """Say whether a worker is alive and on what it computes."""
    with store.read() as session:
        rows = worker_rows.everyone(session)
    if not rows:
        return WorkerStatus(alive=False)
    newest = rows[0]
    if job_rows.older_than(newest.heartbeat_at, ALIVE_SECONDS) or has_ended(newest.host, newest.pid):
        return WorkerStatus(alive=False, name=newest.name, device=newest.device, since=newest.heartbeat_at)
    return WorkerStatus(alive=True, name=newest.name, device=newest.device, since=newest.started_at)


def list_jobs(store: Store, actor: Actor, campaign_id: int | None = None, *, limit: int = 50) -> tuple[JobView, ...]:
    """Return jobs, newest first; those of one campaign if it is named. Experts see those of their campaigns."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        if campaign_id is not None:
            enter(session, actor, campaign_id, *OVERSEERS)
            member_id = None
        else:
            someone = fresh(session, actor, *OVERSEERS)
            member_id = someone.id if someone.role in WORKERS else None
        found = job_rows.recent(session, campaign_id=campaign_id, member_id=member_id, limit=limit)
        return tuple(view(job) for job in found)


def get_job(store: Store, actor: Actor, job_id: int) -> JobView:
    """Return a job; raise NotFound, also to an expert who is no member of its campaign."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        job = job_rows.get(session, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        if job.campaign_id is not None:
            enter(session, actor, job.campaign_id, *OVERSEERS)
        return view(job)


def queue_preannotation(store: Store, actor: Actor, campaign_id: int) -> int:
    """Ask the worker to pre-annotate a campaign's new sentences from links and gazetteer; return the job's id."""
    return _asked_once(store, actor, "preannotate", campaign_id, {})


def queue_pool_scoring(store: Store, actor: Actor, campaign_id: int, *, run_id: int | None = None) -> int:
    """Ask the worker to pre-annotate a campaign's pool with a run's checkpoint; the best one if none is named."""
    return _asked_once(store, actor, "score_pool", campaign_id, {"run_id": run_id})


def queue_once(session: Session, kind: str, campaign_id: int, payload: Mapping[str, Any], **more: Any) -> int:
    """Queue a campaign's job within a transaction unless one that does the same waits already; return its id."""
    twin = next(
        (one for one in job_rows.waiting(session, kind=kind, campaign_id=campaign_id) if one.payload == payload), None
    )
    if twin is not None:
        return twin.id
    return job_rows.add(session, kind=kind, payload=payload, campaign_id=campaign_id, **more)


def cancel_job(store: Store, actor: Actor, job_id: int) -> str:
    """Cancel a waiting job at once, ask a running one to stop; return its state. Its run follows it."""
    require(actor, "researcher", "admin")
    with store.write() as session:
        fresh(session, actor, "researcher", "admin")
        job = job_rows.get(session, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        return cancel_within(session, job)


def cancel_within(session: Session, job: Job) -> str:
    """Do what `cancel_job` does within a transaction whose caller has checked who asks."""
    state = job_rows.request_cancel(session, job_id=job.id) or "cancelled"
    if state == "cancelled" and job.run_id is not None:
        run_rows.finish(session, job.run_id, "cancelled")
    return state


def cancel_suggestions(store: Store, actor: Actor, campaign_id: int) -> int:
    """Cancel what looks for suggestions in a campaign, waiting or at work; return how many jobs that were.

    What was suggested until then stays. Raises Conflict where there are none.
    """
    require(actor, *OVERSEERS)
    with store.write() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        found = job_rows.under_way(session, campaign_id, SUGGESTING)
        if not found:
            raise Conflict("Nothing looks for suggestions in this campaign; there is nothing to cancel.")
        for job in found:
            cancel_within(session, job)
        return len(found)


def view(job: Job) -> JobView:
    """Show a row."""
    return JobView(**{name: getattr(job, name) for name in JobView.__dataclass_fields__})


def claim(
    store: Store, *, worker: str, run_ids: Sequence[int] | None = None, job_ids: Sequence[int] | None = None
) -> Claimed | None:
    """Take the next job for a worker (of these runs, or of these, if named); its run is under way from here on."""
    with store.read() as session:
        if not job_rows.counts(session).get("queued"):
            return None
    with store.write() as session:
        job = job_rows.claim(session, worker=worker, run_ids=run_ids, job_ids=job_ids)
        if job is None:
            return None
        if job.run_id is not None:
            run_rows.mark_started(session, job.run_id)
        return Claimed(**{name: getattr(job, name) for name in Claimed.__dataclass_fields__})


def held_up(store: Store, priority: int) -> bool:
    """Say whether a job that comes before this priority waits, and no idle worker has taken it."""
    with store.read() as session:
        return job_rows.waits_before(session, priority, since=now() - dt.timedelta(seconds=TAKEN_SECONDS))


def reclaim_stale(store: Store, *, in_hand: int | None = None) -> tuple[int, ...]:
    """Queue the jobs of dead workers again, or fail those that used up their attempts; return the jobs' ids.

    A worker that asks while at work names its job: it is alive, however late its pulse.
    """
    with store.read() as session:
        if not job_rows.counts(session).get("running"):
            return ()
    with store.write() as session:
        workers = {row.name: row for row in worker_rows.everyone(session)}
        found = []
        for job in job_rows.running(session):
            holder = workers.get(job.worker or "")
            gone = holder is not None and has_ended(holder.host, holder.pid)
            if job.id != in_hand and job_rows.older_than(job.heartbeat_at, GONE_SECONDS if gone else STALE_SECONDS):
                _take_back(session, job)
                found.append(job.id)
        return tuple(found)


def _take_back(session: Session, job: Job) -> None:
    held: dict[str, Any] = {"job_id": job.id, "worker": job.worker or ""}
    if job.cancel_requested:
        job_rows.finish(session, **held, state="cancelled", message="Cancelled; the worker had died.")
        if job.run_id is not None:
            run_rows.finish(session, job.run_id, "cancelled")
    elif job.attempts >= job.max_attempts:
        error = (
            f"The worker died {job.attempts} times while at this job (perhaps too little memory or disk). "
            "Look at the worker's log, then start the run again; nothing annotated is lost."
        )
        job_rows.finish(session, **held, state="failed", error=error)
        if job.run_id is not None:
            run_rows.finish(session, job.run_id, "failed", error=error)
    else:
        message = f"The worker died (attempt {job.attempts} of {job.max_attempts}); waiting to go on."
        job_rows.give_back(session, **held, message=message, counted=True)
        if job.run_id is not None:
            run_rows.update(session, job.run_id, state="queued")


def _asked_once(store: Store, actor: Actor, kind: str, campaign_id: int, payload: Mapping[str, Any]) -> int:
    require(actor, *OVERSEERS)
    with store.write() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        refuse_archived(campaign)
        return queue_once(session, kind, campaign_id, payload, created_by=actor.id or None)
