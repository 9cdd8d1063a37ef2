"""The job queue of the worker: start, list, cancel and resume jobs of any kind, and read their logs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import Conflict, NotFound
from crossner_core.processes import has_ended
from db import job_rows, worker_rows
from db.engine import Session, Store
from db.training_tables import Job
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, fresh
from workbench.accounts.roles import KEEPERS, LABELLERS, OVERSEERS
from workbench.jobs.context import Claimed, of_row
from workbench.jobs.kind import LogLine, job_kind, kind_of
from workbench.settings import settings_of

OPEN = ("queued", "running")
ALIVE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """Whether a worker is alive; `since` is when it started, or the last heartbeat of any worker."""

    alive: bool
    name: str | None = None
    device: str | None = None
    since: dt.datetime | None = None

    @property
    def sentence(self) -> str:
        """The status in one line, for a page."""
        if self.alive and self.since:
            return f"A worker is running on {self.device} since {self.since:%Y-%m-%d %H:%M} UTC."
        last = f" The last heartbeat was at {self.since:%Y-%m-%d %H:%M:%S} UTC." if self.since else ""
        return f"No worker is alive: jobs wait until one is started with “workbench worker”.{last}"


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

    @property
    def is_under_way(self) -> bool:
        """Whether the job is queued or running."""
        return self.state in OPEN

    @property
    def can_resume(self) -> bool:
        """Whether a job of this kind, once failed, can be resumed."""
        return kind_of(self.kind).can_resume is not None


def worker_status(store: Store) -> WorkerStatus:
    """Return whether a worker is alive, and its device."""
    with store.read() as session:
        rows = worker_rows.everyone(session)
    if not rows:
        return WorkerStatus(alive=False)
    newest = rows[0]
    if job_rows.older_than(newest.heartbeat_at, ALIVE_SECONDS) or has_ended(newest.host, newest.pid):
        return WorkerStatus(alive=False, name=newest.name, device=newest.device, since=newest.heartbeat_at)
    return WorkerStatus(alive=True, name=newest.name, device=newest.device, since=newest.started_at)


def list_jobs(
    store: Store, actor: Actor, campaign_id: int | None = None, *, kinds: Sequence[str] = (), limit: int = 50
) -> tuple[JobView, ...]:
    """Return jobs, newest first; those of one campaign if it is named. Experts see those of their campaigns."""
    with store.read() as session:
        if campaign_id is not None:
            current = enter(session, actor, campaign_id, *OVERSEERS)[0]
        else:
            current = fresh(session, actor, *OVERSEERS)
        member_id = current.id if current.role in LABELLERS else None
        jobs = job_rows.recent(session, campaign_id=campaign_id, member_id=member_id, kinds=kinds, limit=limit)
        return tuple(map(view, jobs))


def get_job(store: Store, actor: Actor, job_id: int) -> JobView:
    """Return a job; raise NotFound, also to an expert who is no member of its campaign."""
    with store.read() as session:
        return view(_job(session, actor, job_id))


def newest_job(store: Store, actor: Actor, kind: str, campaign_id: int) -> JobView | None:
    """Return a campaign's newest job of a kind; None before the first."""
    return next(iter(list_jobs(store, actor, campaign_id, kinds=(kind,), limit=1)), None)


def job_log(store: Store, actor: Actor, job_id: int) -> tuple[LogLine, ...]:
    """Return the log of a job; raise as `get_job` does."""
    with store.read() as session:
        job = _job(session, actor, job_id)
        return kind_of(job.kind).log(session, settings_of(store), Claimed.of(job))


def start_job(store: Store, actor: Actor, kind: str, campaign_id: int | None = None, **payload: Any) -> int:
    """Queue a job, for a campaign if it is named; return its id, or that of an unfinished one that does the same."""
    roles = job_kind(kind).roles
    with store.write() as session:
        if campaign_id is None:
            current = fresh(session, actor, *roles)
        else:
            current, campaign = enter(session, actor, campaign_id, *roles)
            refuse_archived(campaign)
        job_kind(kind).allows(session, actor, job_kind(kind).payload.from_dict(payload))
        job_id, is_new = start(session, kind, payload, by=actor, campaign_id=campaign_id)
        if is_new:
            audit.record(session, current, "start_job", ("job", job_id), campaign_id, kind=kind)
        return job_id


def start(
    session: Session,
    kind: str,
    payload: Mapping[str, Any],
    *,
    by: Actor,
    campaign_id: int | None = None,
    run_id: int | None = None,
    priority: int | None = None,
) -> tuple[int, bool]:
    """Queue a job within a transaction whose caller has authorised the actor; return its id, and whether it is new.

    Raises InvalidConfig for an unknown kind or a payload that does not fit it, Conflict if another job of the kind is
    in the way.
    """
    known = job_kind(kind)
    stored = known.payload.from_dict(payload).to_dict()
    for other in job_rows.under_way(session, campaign_id, (kind,)):
        if known.meets(other, stored):
            return other.id, False
    priority = known.priority if priority is None else priority
    asked = Claimed(0, kind, priority, stored, run_id, campaign_id, by.id or None, 0, 0)
    values = {"kind": kind, "payload": stored, "run_id": run_id, "campaign_id": campaign_id, "priority": priority}
    return job_rows.add(session, **values, created_by=by.id or None, after_id=known.after(session, asked)), True


def cancel_job(store: Store, actor: Actor, job_id: int) -> str:
    """Cancel a waiting job at once, ask a running one to stop; return its state.

    Whoever may start a kind may cancel it in their campaigns; jobs without a campaign only researchers and admins.
    """
    with store.write() as session:
        job = _job(session, actor, job_id, to_steer=True)
        state = cancel(session, job)
        audit.record(session, actor, "cancel_job", ("job", job.id), job.campaign_id, kind=job.kind, run=job.run_id)
    _forget(store, [job], [state])
    return state


def cancel_in_campaign(store: Store, actor: Actor, campaign_id: int, *kinds: str) -> list[str]:
    """Cancel a campaign's queued and running jobs of these kinds; return their states: `running` until they stop.

    Work done so far is kept. Raises Conflict if there are none.
    """
    first = job_kind(kinds[0])
    with store.write() as session:
        current, _ = enter(session, actor, campaign_id, *first.roles)
        jobs = job_rows.under_way(session, campaign_id, kinds)
        if not jobs:
            raise Conflict(f"{first.idle}; there is nothing to cancel.")
        states = [cancel(session, job) for job in jobs]
        for job in jobs:
            audit.record(session, current, "cancel_job", ("job", job.id), campaign_id, kind=job.kind, run=job.run_id)
    _forget(store, jobs, states)
    return states


def cancel(session: Session, job: Job) -> str:
    """Like `cancel_job`, within a transaction whose caller has authorised the actor."""
    state = job_rows.request_cancel(session, job_id=job.id) or "cancelled"
    if state == "cancelled":
        kind_of(job.kind).follow(session, Claimed.of(job), state, None)
    return state


def _forget(store: Store, jobs: Sequence[Job], states: Sequence[str]) -> None:
    for job, state in zip(jobs, states, strict=True):
        if state == "cancelled":
            kind_of(job.kind).forget(settings_of(store), Claimed.of(job))


def resume_job(store: Store, actor: Actor, job_id: int) -> int:
    """Queue a failed job again: it resumes from its saved state, or starts over without one; return its new id.

    Raises Conflict for a job that did not fail, that was resumed already, or whose kind saves no state.
    """
    with store.write() as session:
        row = _job(session, actor, job_id, to_steer=True)
        job, kind = Claimed.of(row), kind_of(row.kind)
        if kind.can_resume is None:
            raise Conflict(f"A job of the kind {kind.title!r} saves no state to resume from; start it anew.")
        stands = row.state == "failed" and not job_rows.has_successor(session, row)
        if not (stands and kind.can_resume(settings_of(store), job)):
            why = ": what a cancelled one had saved is removed. Start it anew" if row.state == "cancelled" else ""
            state = f"{row.state}{' and was resumed or removed already' if row.state == 'failed' else ''}"
            raise Conflict(f"{kind.names(job)} is {state}; only a failed {kind.title} can be resumed{why}.")
        kind.follow(session, job, "queued", None)
        new, _ = start(session, row.kind, row.payload, by=actor, campaign_id=row.campaign_id, run_id=row.run_id)
        audit.record(
            session, actor, "resume_job", ("job", row.id), row.campaign_id, kind=row.kind, run=row.run_id, new=new
        )
        return new


def may_steer(actor: Actor, job: JobView) -> bool:
    """Return whether somebody may cancel or resume a job of a campaign that they see."""
    return actor.role in (kind_of(job.kind).roles if job.campaign_id is not None else KEEPERS)


def _job(session: Session, actor: Actor, job_id: int, *, to_steer: bool = False) -> Job:
    """Return a job that somebody may see, or cancel and resume; raise NotFound or NotAllowed."""
    fresh(session, actor, *OVERSEERS)
    job = job_rows.get(session, job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    if job.campaign_id is not None:
        enter(session, actor, job.campaign_id, *(kind_of(job.kind).roles if to_steer else OVERSEERS))
    elif to_steer:
        fresh(session, actor, *KEEPERS)
    return job


def view(job: Job) -> JobView:
    """Return the view of a row."""
    return of_row(JobView, job)
