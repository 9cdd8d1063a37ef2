"""Rows of runs and their log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import defer, selectinload

from db.engine import Session
from db.training_tables import Run, RunEvent
from db.types import UtcTime, now

FINAL = ("done", "failed", "cancelled")


def add(session: Session, values: Mapping[str, Any]) -> int:
    """Add a run with these column values; return its id."""
    run = Run(**values)
    session.add(run)
    session.flush()
    return run.id


def get(session: Session, run_id: int) -> Run | None:
    """Return a run by id, with its snapshot or data set."""
    return session.get(Run, run_id, options=_with_sources())


def get_bare(session: Session, run_id: int) -> Run | None:
    """Return a run by id without its result, which is large, and without what it was trained on."""
    return session.get(Run, run_id, options=[defer(Run.result)])


def listed(
    session: Session,
    *,
    campaign_id: int | None = None,
    dataset_id: int | None = None,
    group_id: str | None = None,
    states: Sequence[str] = (),
    before: int | None = None,
    limit: int = 1000,
) -> list[Run]:
    """Return runs without their results, newest first; those with ids below `before` if it is given."""
    query = sa.select(Run).options(*_with_sources(), defer(Run.result)).order_by(Run.id.desc()).limit(limit)
    if campaign_id is not None:
        query = query.where(Run.campaign_id == campaign_id)
    if dataset_id is not None:
        query = query.where(Run.dataset_id == dataset_id)
    if group_id is not None:
        query = query.where(Run.group_id == group_id)
    if states:
        query = query.where(Run.state.in_(states))
    if before is not None:
        query = query.where(Run.id < before)
    return list(session.scalars(query))


def everything(session: Session) -> list[Run]:
    """Return all runs without their results and what they were trained on, oldest first."""
    return list(session.scalars(sa.select(Run).options(defer(Run.result)).order_by(Run.id)))


def ids_of_campaign(session: Session, campaign_id: int) -> list[int]:
    """Return the ids of a campaign's runs."""
    return list(session.scalars(sa.select(Run.id).where(Run.campaign_id == campaign_id).order_by(Run.id)))


def some(session: Session, run_ids: Iterable[int]) -> list[Run]:
    """Return these runs without their results, in the order of their ids."""
    query = sa.select(Run).options(*_with_sources(), defer(Run.result)).where(Run.id.in_(list(run_ids)))
    return list(session.scalars(query.order_by(Run.id)))


def result_parts(session: Session, run_ids: Iterable[int], *path: str) -> dict[int, Any]:
    """Return one part of the results of these runs by id; None where a result lacks it."""
    part = Run.result[path]
    return {row[0]: row[1] for row in session.execute(sa.select(Run.id, part).where(Run.id.in_(list(run_ids))))}


def twin(
    session: Session,
    *,
    snapshot_id: int | None,
    dataset_id: int | None,
    recipe_hash: str,
    size: int | None,
    order_seed: int | None,
    since: dt.datetime | None = None,
) -> Run | None:
    """Return a done, queued or running run of the same cell; with `since`, not one that began before that."""
    query = sa.select(Run).where(
        Run.snapshot_id == snapshot_id if snapshot_id is not None else Run.snapshot_id.is_(None),
        Run.dataset_id == dataset_id if dataset_id is not None else Run.dataset_id.is_(None),
        Run.recipe_hash == recipe_hash,
        Run.size == size if size is not None else Run.size.is_(None),
        Run.order_seed == order_seed if order_seed is not None else Run.order_seed.is_(None),
        Run.state.in_(("done", "queued", "running")),
    )
    if since is not None:
        query = query.where(sa.or_(Run.started_at.is_(None), Run.started_at >= since))
    order = sa.case((Run.state == "done", 0), (Run.state == "running", 1), else_=2)
    return session.scalars(query.order_by(order, Run.id.desc()).limit(1)).first()


def count_by_encoder(session: Session) -> dict[str, int]:
    """Return how many runs name each encoder."""
    named = sa.select(Run.recipe["encoder"].as_string().label("name")).subquery()
    query = sa.select(named.c.name, sa.func.count()).group_by(named.c.name)
    return {str(row[0]): row[1] for row in session.execute(query)}


def of_encoders(session: Session, names: Sequence[str], *, states: Sequence[str]) -> list[Run]:
    """Return the runs that name one of these encoders, without their results, oldest first."""
    query = sa.select(Run).options(*_with_sources(), defer(Run.result)).order_by(Run.id)
    query = query.where(Run.recipe["encoder"].as_string().in_(names), Run.state.in_(states))
    return list(session.scalars(query))


def update(session: Session, run_id: int, **values: Any) -> bool:
    """Set columns of a run; False when it is gone."""
    statement = sa.update(Run).where(Run.id == run_id).values(**values)
    done = session.execute(statement.execution_options(synchronize_session=False))
    return cast(sa.CursorResult[Any], done).rowcount == 1


def mark_started(session: Session, run_id: int) -> None:
    """Mark a run as running; the time of its first start is kept."""
    started = sa.func.coalesce(Run.started_at, sa.literal(now(), UtcTime()))
    update(session, run_id, state="running", started_at=started)


def finish(session: Session, run_id: int, state: str, *, error: str | None = None) -> bool:
    """End a run that has not ended yet; return whether it has ended now."""
    statement = sa.update(Run).where(Run.id == run_id, Run.state.not_in(FINAL))
    statement = statement.values(state=state, error=error, finished_at=now())
    done = session.execute(statement.execution_options(synchronize_session=False))
    return cast(sa.CursorResult[Any], done).rowcount == 1


def best_done(session: Session, *, campaign_id: int, bare: bool = False) -> Run | None:
    """Return the campaign's run whose checkpoint should score its pool: the best on dev of the newest snapshot.

    Runs on all of a snapshot's sentences come before those on a part of it. `bare`: without its result.
    """
    query = sa.select(Run).where(Run.campaign_id == campaign_id, Run.state == "done", Run.checkpoint.is_not(None))
    whole = sa.case((Run.size.is_(None), 0), else_=1)
    known = sa.case((Run.dev_f1.is_(None), 1), else_=0)
    query = query.order_by(Run.snapshot_id.desc().nulls_last(), whole, known, Run.dev_f1.desc(), Run.id.desc())
    if bare:
        query = query.options(defer(Run.result))
    return session.scalars(query.limit(1)).first()


def add_event(session: Session, run_id: int, values: Mapping[str, Any]) -> int:
    """Add a line to a run's log; return its number."""
    newest = session.scalar(sa.select(sa.func.max(RunEvent.number)).where(RunEvent.run_id == run_id)) or 0
    session.add(RunEvent(run_id=run_id, number=newest + 1, **values))
    session.flush()
    return newest + 1


def events(session: Session, run_id: int, *, after: int = 0, limit: int = 5000) -> list[RunEvent]:
    """Return the log of a run from after line number `after`, in order."""
    query = sa.select(RunEvent).where(RunEvent.run_id == run_id, RunEvent.number > after)
    return list(session.scalars(query.order_by(RunEvent.number).limit(limit)))


def drop_events_after(session: Session, run_id: int, *, step: int) -> None:
    """Delete the measurements beyond a step; a run resumed from there will repeat them."""
    session.execute(sa.delete(RunEvent).where(RunEvent.run_id == run_id, RunEvent.step > step, RunEvent.message == ""))


def _with_sources() -> tuple[Any, ...]:
    return selectinload(Run.snapshot), selectinload(Run.dataset)
