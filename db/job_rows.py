"""Rows of the job table: queue, claim, lease and outcome of each job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from db.engine import Session, lock_rows
from db.tables import Member
from db.training_tables import Job, JobLine
from db.types import now

_OPEN = ("queued", "running")


def add(
    session: Session,
    *,
    kind: str,
    payload: Mapping[str, Any],
    run_id: int | None = None,
    campaign_id: int | None = None,
    created_by: int | None = None,
    priority: int = 10,
    max_attempts: int = 3,
    after_id: int | None = None,
) -> int:
    """Queue a job; return its id. It begins once the job `after_id` has ended, whatever its outcome."""
    job = Job(
        kind=kind,
        payload=dict(payload),
        run_id=run_id,
        campaign_id=campaign_id,
        created_by=created_by,
        priority=priority,
        max_attempts=max_attempts,
        after_id=after_id,
    )
    session.add(job)
    session.flush()
    return job.id


def get(session: Session, job_id: int) -> Job | None:
    """Return a job by id."""
    return session.get(Job, job_id)


def for_runs(session: Session, run_ids: Sequence[int]) -> dict[int, Job]:
    """Return the newest job of each run, by run id."""
    jobs = session.scalars(sa.select(Job).where(Job.run_id.in_(set(run_ids))).order_by(Job.id))
    return {cast(int, job.run_id): job for job in jobs}


def recent(
    session: Session,
    *,
    campaign_id: int | None = None,
    member_id: int | None = None,
    kinds: Sequence[str] = (),
    limit: int = 50,
) -> list[Job]:
    """Return jobs, newest first; for a member, those without a campaign and those of the member's campaigns."""
    query = sa.select(Job).order_by(Job.id.desc()).limit(limit)
    if campaign_id is not None:
        query = query.where(Job.campaign_id == campaign_id)
    if member_id is not None:
        theirs = sa.exists().where(Member.campaign_id == Job.campaign_id, Member.user_id == member_id)
        query = query.where(Job.campaign_id.is_(None) | theirs)
    if kinds:
        query = query.where(Job.kind.in_(kinds))
    return list(session.scalars(query))


def under_way(session: Session, campaign_id: int | None, kinds: Sequence[str] | None = None) -> list[Job]:
    """Return the queued and running jobs in this campaign (None: without one), oldest first; None: of any kind."""
    query = sa.select(Job).where(Job.campaign_id == campaign_id)
    if kinds is not None:
        query = query.where(Job.kind.in_(kinds))
    return list(session.scalars(query.where(Job.state.in_(_OPEN)).order_by(Job.id)))


def pretraining_of(session: Session, encoder: str) -> Job | None:
    """Return the queued or running job that pre-trains an encoder of this name."""
    query = sa.select(Job).where(Job.kind == "pretrain", Job.state.in_(_OPEN)).order_by(Job.id)
    return next((job for job in session.scalars(query) if job.payload["name"] == encoder), None)


def has_successor(session: Session, job: Job) -> bool:
    """Return whether a newer job makes the same request as this one."""
    query = sa.select(Job).where(Job.id > job.id, Job.kind == job.kind)
    query = query.where(Job.campaign_id == job.campaign_id, Job.run_id == job.run_id)
    return any(newer.payload == job.payload for newer in session.scalars(query))


def set_message(session: Session, job_id: int, message: str) -> None:
    """Write what became of a job, in the transaction that ends it."""
    session.execute(sa.update(Job).where(Job.id == job_id).values(message=message))


def give_campaign(session: Session, job_id: int, campaign_id: int) -> None:
    """Make a job one of the campaign that it made."""
    session.execute(sa.update(Job).where(Job.id == job_id).values(campaign_id=campaign_id))


def add_line(session: Session, job_id: int, message: str) -> None:
    """Add a line to a job's log."""
    session.add(JobLine(job_id=job_id, message=message))


def lines(session: Session, job_id: int) -> list[JobLine]:
    """Return the log of a job, in order."""
    return list(session.scalars(sa.select(JobLine).where(JobLine.job_id == job_id).order_by(JobLine.id)))


def claim(
    session: Session,
    *,
    worker: str,
    kinds: Sequence[str],
    run_ids: Sequence[int] | None = None,
    job_ids: Sequence[int] | None = None,
) -> Job | None:
    """Give the next queued job of these kinds to a worker; None when there is none (or another worker took it).

    `run_ids` restricts it to the jobs of these runs, `job_ids` to these jobs.
    """
    query = sa.select(Job.id).where(_may_begin(kinds)).order_by(Job.priority, Job.id).limit(1)
    if run_ids is not None:
        query = query.where(Job.run_id.in_(run_ids))
    if job_ids is not None:
        query = query.where(Job.id.in_(job_ids))
    job_id = session.scalar(lock_rows(query))
    if job_id is None:
        return None
    taken = _update(
        session,
        sa.and_(Job.id == job_id, Job.state == "queued"),
        state="running",
        worker=worker,
        heartbeat_at=now(),
        attempts=Job.attempts + 1,
        finished_at=None,
        error=None,
    )
    return session.get(Job, job_id, populate_existing=True) if taken else None


def beat(session: Session, *, job_id: int, worker: str, progress: float, message: str) -> bool | None:
    """Renew the lease; return whether to cancel, or None when the lease is lost."""
    held = _update(
        session,
        _held(job_id, worker),
        heartbeat_at=now(),
        progress=min(max(progress, 0.0), 1.0),
        message=message,
    )
    if not held:
        return None
    return bool(session.scalar(sa.select(Job.cancel_requested).where(Job.id == job_id)))


def awaited_by(session: Session, run_ids: Sequence[int]) -> dict[int, int]:
    """Return, by run, the unfinished job that has to end before the job of the run begins."""
    first = aliased(Job)
    query = sa.select(Job.run_id, first.id).join(first, first.id == Job.after_id)
    query = query.where(Job.run_id.in_(run_ids), Job.state == "queued", first.state.in_(_OPEN))
    return {run_id: job_id for run_id, job_id in session.execute(query) if run_id is not None}


def waits_before(session: Session, priority: int, *, kinds: Sequence[str], since: dt.datetime) -> bool:
    """Return whether a job of these kinds with a smaller priority could begin and was queued by `since`."""
    query = sa.select(Job.id).where(_may_begin(kinds), Job.priority < priority, Job.created_at <= since)
    return session.scalar(query.limit(1)) is not None


def holds(session: Session, *, job_id: int, worker: str) -> bool:
    """Return whether the worker still holds the job; the row is locked, so this holds until the transaction ends."""
    return session.scalar(sa.select(Job.id).where(_held(job_id, worker)).with_for_update()) is not None


def finish(
    session: Session, *, job_id: int, worker: str, state: str, message: str = "", error: str | None = None
) -> bool:
    """End a job that the worker holds; False when the lease is lost."""
    values: dict[str, Any] = {"state": state, "message": message, "error": error, "finished_at": now()}
    if state == "done":
        values["progress"] = 1.0
    return _update(session, _held(job_id, worker), **values)


def give_back(session: Session, *, job_id: int, worker: str, message: str, counted: bool) -> bool:
    """Queue a held job again; `counted` is whether the attempt is used up. False when the lease is lost."""
    attempts = Job.attempts if counted else Job.attempts - 1
    return _update(
        session,
        _held(job_id, worker),
        state="queued",
        worker=None,
        heartbeat_at=None,
        attempts=attempts,
        message=message,
    )


def count_death(session: Session, job: Job, *, saved_step: int) -> None:
    """Record how far the saved state of a job had come when its worker died; if it moved on, attempts start anew."""
    if saved_step > (job.saved_step or 0):
        job.attempts, job.saved_step = 1, saved_step
        session.flush()


def running(session: Session) -> list[Job]:
    """Return all running jobs, locked where the database supports it."""
    return list(session.scalars(lock_rows(sa.select(Job).where(Job.state == "running").order_by(Job.id))))


def request_cancel(session: Session, *, job_id: int) -> str | None:
    """Cancel a queued job at once, ask a running one to stop; return its new state."""
    _update(session, sa.and_(Job.id == job_id, Job.state == "queued"), state="cancelled", finished_at=now())
    _update(session, sa.and_(Job.id == job_id, Job.state == "running"), cancel_requested=True)
    return session.scalar(sa.select(Job.state).where(Job.id == job_id))


def counts(session: Session) -> dict[str, int]:
    """Return how many jobs are in each state."""
    rows = session.execute(sa.select(Job.state, sa.func.count()).group_by(Job.state))
    return {row[0]: row[1] for row in rows}


def older_than(moment: dt.datetime | None, seconds: float) -> bool:
    """Return whether a time is unknown, more than `seconds` ago, or as far ahead, as after a clock was set back."""
    return moment is None or abs((now() - moment).total_seconds()) > seconds


def explain_others(session: Session, kinds: Sequence[str], message: str) -> None:
    """Set the message of queued jobs of kinds other than these: why they wait."""
    _update(session, sa.and_(Job.state == "queued", Job.kind.not_in(kinds), Job.message != message), message=message)


def _may_begin(kinds: Sequence[str]) -> sa.ColumnElement[bool]:
    """Match queued jobs of these kinds that wait for no other job."""
    first = aliased(Job)
    waits = sa.exists().where(first.id == Job.after_id, first.state.in_(_OPEN))
    return sa.and_(Job.state == "queued", Job.kind.in_(kinds), ~waits)


def _held(job_id: int, worker: str) -> sa.ColumnElement[bool]:
    return sa.and_(Job.id == job_id, Job.worker == worker, Job.state == "running")


def _update(session: Session, where: sa.ColumnElement[bool], **values: Any) -> bool:
    statement = sa.update(Job).where(where).values(**values).execution_options(synchronize_session=False)
    return cast(sa.CursorResult[Any], session.execute(statement)).rowcount == 1
