"""Rows of rounds, and the positions of sentences in a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from db.engine import Session
from db.label_review_rows import is_left_out
from db.tables import Annotation, Campaign, SentenceRow, Task
from db.training_tables import Job, Round, Run, Snapshot

_UNDER_WAY = ("queued", "running")


def add(session: Session, **values: Any) -> int:
    """Add a round; return its id."""
    round_ = Round(**values)
    session.add(round_)
    session.flush()
    return round_.id


def get(session: Session, round_id: int) -> Round | None:
    """Return a round by id."""
    return session.get(Round, round_id)


def listed(session: Session, campaign_id: int, *, limit: int = 100) -> list[Round]:
    """Return a campaign's rounds, newest first."""
    query = sa.select(Round).where(Round.campaign_id == campaign_id).order_by(Round.id.desc()).limit(limit)
    return list(session.scalars(query))


def newest_automatic(session: Session, campaign_id: int) -> Round | None:
    """Return the newest automatic round, if there is one."""
    query = sa.select(Round).where(Round.campaign_id == campaign_id, Round.automatic)
    return session.scalars(query.order_by(Round.id.desc()).limit(1)).first()


def runs_of(session: Session, campaign_id: int) -> dict[int, Round]:
    """Return the rounds of a campaign that started a run by themselves, by the run."""
    query = (
        sa.select(Run.id, Round)
        .join(Run, Run.id == Round.run_id)
        .where(Round.campaign_id == campaign_id, Round.automatic, Run.created_by.is_(None), Run.group_id.is_(None))
    )
    return dict(session.execute(query).all())


def under_way(session: Session, campaign_id: int) -> Round | None:
    """Return the queued or running round, if there is one."""
    query = sa.select(Round).where(Round.campaign_id == campaign_id, Round.state.in_(_UNDER_WAY))
    return session.scalars(query.order_by(Round.id).limit(1)).first()


def run_state(session: Session, run_id: int) -> str | None:
    """Return the state of a run; None if it is gone."""
    return session.scalar(sa.select(Run.state).where(Run.id == run_id))


def job_of(session: Session, round_: Round) -> Job | None:
    """Return the newest job of a round."""
    query = sa.select(Job).where(Job.kind == "turn", Job.campaign_id == round_.campaign_id).order_by(Job.id.desc())
    return next((job for job in session.scalars(query) if job.payload.get("turn_id") == round_.id), None)


def automatic_campaigns(session: Session) -> list[Campaign]:
    """Return the campaigns that retrain automatically or order their queue, and those with an unfinished round.

    A round under way continues even if its campaign was archived, or changed its rules, meanwhile.
    """
    chosen = sa.and_(sa.or_(Campaign.retrain_every > 0, Campaign.strategy != ""), Campaign.archived.is_(False))
    begun = sa.exists().where(Round.campaign_id == Campaign.id, Round.state.in_(_UNDER_WAY))
    return list(session.scalars(sa.select(Campaign).where(chosen | begun).order_by(Campaign.id)))


def gold_in_pool(session: Session, campaign_id: int) -> int:
    """Count the gold sentences of the pool that training may use; those left out are not counted."""
    query = (
        sa.select(sa.func.count())
        .select_from(Task)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(*_gold(campaign_id), ~is_left_out())
    )
    return session.scalar(query) or 0


def _gold(campaign_id: int) -> tuple[sa.ColumnElement[bool], ...]:
    here = (SentenceRow.campaign_id == campaign_id, SentenceRow.split == "pool")
    return (*here, Task.stage == "adjudicate", Task.state == "done")


def gold_of_newest_run(session: Session, campaign_id: int) -> int:
    """Return how many pool sentences the newest run on a whole snapshot trains on; 0 without one."""
    query = (
        sa.select(Snapshot.counts)
        .join(Run, Run.snapshot_id == Snapshot.id)
        .where(Run.campaign_id == campaign_id, Run.size.is_(None), Run.state.in_((*_UNDER_WAY, "done")))
        .order_by(Run.id.desc())
        .limit(1)
    )
    counts = session.scalar(query)
    return int(counts["pool"]) if counts else 0


def movable(session: Session, campaign_id: int, *, limit: int | None = None) -> list[SentenceRow]:
    """Return the pool's sentences that are neither leased nor begun, in queue order."""
    query = sa.select(SentenceRow).join(Task, Task.sentence_id == SentenceRow.id).where(*_movable(campaign_id))
    return list(session.scalars(query.order_by(SentenceRow.position, SentenceRow.id).limit(limit)))


def count_movable(session: Session, campaign_id: int) -> int:
    """Count the pool's sentences that are neither leased nor begun."""
    query = sa.select(sa.func.count()).select_from(SentenceRow).join(Task, Task.sentence_id == SentenceRow.id)
    return session.scalar(query.where(*_movable(campaign_id))) or 0


def _movable(campaign_id: int) -> tuple[sa.ColumnElement[bool], ...]:
    worked = sa.exists().where(Annotation.task_id == Task.id)
    here = (SentenceRow.campaign_id == campaign_id, SentenceRow.split == "pool")
    return (*here, Task.stage == "annotate", Task.state == "open", ~worked)


def place(session: Session, order: Sequence[tuple[int, str]]) -> int:
    """Reorder these sentences, given as (id, why it is there), among themselves; return how many could be moved.

    They exchange their present positions, so sentences handed out meanwhile stay where they are.
    """
    ids = [sentence_id for sentence_id, _ in order]
    if not ids:
        return 0
    campaign_id = session.scalar(sa.select(SentenceRow.campaign_id).where(SentenceRow.id == ids[0]))
    now = sa.select(SentenceRow.id, SentenceRow.position).join(Task, Task.sentence_id == SentenceRow.id)
    still = {row.id: row.position for row in session.execute(now.where(*_movable(campaign_id or 0)))}
    kept = [(sentence_id, why) for sentence_id, why in order if sentence_id in still]
    places = sorted(still[sentence_id] for sentence_id, _ in kept)
    rows = [
        {"id": sentence_id, "position": position, "chosen_by": why}
        for (sentence_id, why), position in zip(kept, places, strict=True)
    ]
    if rows:
        session.execute(sa.update(SentenceRow), rows)
        session.execute(_TASKS, [{"of": row["id"], "to": row["position"]} for row in rows])
    return len(rows)


_TASKS = (
    sa.update(Task.__table__)  # type: ignore[arg-type]
    .where(sa.column("sentence_id") == sa.bindparam("of"))
    .values(position=sa.bindparam("to"))
)


def chosen_by(session: Session, campaign_id: int) -> Mapping[str | None, int]:
    """Count the gold sentences of the pool by what placed them in the queue."""
    query = (
        sa.select(SentenceRow.chosen_by, sa.func.count())
        .join(Task, Task.sentence_id == SentenceRow.id)
        .where(*_gold(campaign_id))
        .group_by(SentenceRow.chosen_by)
    )
    return {row[0]: row[1] for row in session.execute(query)}
