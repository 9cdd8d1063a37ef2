"""Which document each sentence of a campaign is of, how far its sentences have come, and who has worked on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import selectinload

from crossner_core.schema import LAYOUT_KEY
from db.engine import Session
from db.tables import Annotation, LinkRow, SentenceRow, Task, User

_CHUNK = 500
_STAGES = ("annotate", "check")


@dataclass(frozen=True, slots=True)
class Step:
    """A task of a sentence; `is_begun`: somebody has it, or has worked on it."""

    stage: str
    state: str
    is_begun: bool


def names(session: Session, campaign_id: int) -> list[tuple[int, str | None]]:
    """Return the sentences' ids with the name of their file, else of their document, in the order they came in."""
    kept = SentenceRow.meta[LAYOUT_KEY]
    name = sa.func.coalesce(kept["file"]["name"].as_string(), kept["document"]["name"].as_string())
    query = sa.select(SentenceRow.id, name).where(SentenceRow.campaign_id == campaign_id).order_by(SentenceRow.id)
    return [(id, text) for id, text in session.execute(query)]


def steps(session: Session, campaign_id: int) -> dict[int, list[Step]]:
    """Return the tasks of a campaign by sentence."""
    worked = sa.exists().where(Annotation.task_id == Task.id)
    query = sa.select(Task.sentence_id, Task.stage, Task.state, worked).where(Task.campaign_id == campaign_id)
    by_sentence: dict[int, list[Step]] = {}
    for sentence_id, stage, state, is_worked in session.execute(query):
        by_sentence.setdefault(sentence_id, []).append(Step(stage, state, state != "open" or bool(is_worked)))
    return by_sentence


def sentences(session: Session, sentence_ids: Sequence[int]) -> list[tuple[SentenceRow, list[LinkRow]]]:
    """Return sentences in the order they came in, with their links."""
    rows: list[SentenceRow] = []
    for chunk in _chunks(sentence_ids):
        query = sa.select(SentenceRow).where(SentenceRow.id.in_(chunk)).options(selectinload(SentenceRow.links))
        rows += session.scalars(query)
    return [(row, row.links) for row in sorted(rows, key=lambda row: row.id)]


def submitted(
    session: Session, sentence_ids: Sequence[int], stages: Sequence[str], *, user_id: int | None = None
) -> dict[int, Annotation]:
    """Return submitted work at some stages by sentence id, of one person if they are named."""
    works: dict[int, Annotation] = {}
    for chunk in _chunks(sentence_ids):
        query = (
            sa.select(Task.sentence_id, Annotation)
            .join(Annotation, Annotation.task_id == Task.id)
            .where(Task.sentence_id.in_(chunk), Task.stage.in_(stages), Task.state == "done")
            .where(Annotation.state == "submitted")
            .options(selectinload(Annotation.spans))
        )
        if user_id is not None:
            query = query.where(Annotation.user_id == user_id)
        works |= dict(session.execute(query).all())
    return works


def workers(session: Session, sentence_ids: Sequence[int]) -> dict[str, tuple[int, dt.datetime]]:
    """Return by account name how many of these sentences a person has annotated or checked, and when last."""
    by_name: dict[str, tuple[int, dt.datetime]] = {}
    for chunk in _chunks(sentence_ids):
        query = (
            sa.select(User.name, sa.func.count(), sa.func.max(Annotation.updated_at))
            .join(Annotation, Annotation.user_id == User.id)
            .join(Task, Task.id == Annotation.task_id)
            .where(Task.sentence_id.in_(chunk), Task.stage.in_(_STAGES), Task.state == "done")
            .where(Annotation.state == "submitted")
            .group_by(User.name)
        )
        for name, count, when in session.execute(query):
            number, last = by_name.get(name, (0, when))
            by_name[name] = (number + count, max(last, when))
    return by_name


def remove(session: Session, sentence_ids: Sequence[int]) -> None:
    """Delete sentences with all that belongs to them."""
    for chunk in _chunks(sentence_ids):
        session.execute(sa.delete(SentenceRow).where(SentenceRow.id.in_(chunk)))
    session.expire_all()


def _chunks(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK)]
