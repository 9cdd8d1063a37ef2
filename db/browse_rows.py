"""Rows for browsing a campaign's sentences: the place of each, and all layers of one."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import selectinload

from db.engine import Session
from db.tables import Annotation, LinkRow, SentenceRow, SuggestionRow, Task


def _has(*conditions: Any) -> sa.Exists:
    return sa.exists().where(Task.sentence_id == SentenceRow.id, *conditions)


PLACE = sa.case(
    (_has(Task.state == "parked"), "parked"),
    (_has(Task.stage == "annotate", Task.state != "done"), "annotate"),
    (_has(Task.stage == "check", Task.state != "done"), "check"),
    (_has(Task.stage == "adjudicate", Task.state == "done"), "gold"),
    else_="adjudicate",
)
"""Where a sentence stands, for queries over sentences."""


def one(session: Session, campaign_id: int, sentence_id: int) -> tuple[SentenceRow, str] | None:
    """Return a sentence of the campaign with its links and suggestions, and its place."""
    query = (
        sa.select(SentenceRow, PLACE)
        .where(SentenceRow.campaign_id == campaign_id, SentenceRow.id == sentence_id)
        .options(selectinload(SentenceRow.links), selectinload(SentenceRow.suggestions))
    )
    row = session.execute(query).first()
    return None if row is None else (row[0], row[1])


def work_on(session: Session, sentence_id: int) -> list[tuple[str, Annotation]]:
    """Return all work on a sentence with its stage, oldest first."""
    query = (
        sa.select(Task.stage, Annotation)
        .join(Task, Task.id == Annotation.task_id)
        .where(Task.sentence_id == sentence_id)
        .order_by(Annotation.id)
        .options(selectinload(Annotation.spans), selectinload(Annotation.flags), selectinload(Annotation.user))
    )
    return [(stage, annotation) for stage, annotation in session.execute(query)]


def layer_counts(session: Session, campaign_id: int) -> dict[str, int]:
    """Return the number of sentences with finished work by stage, and with suggestions under `suggestions`."""
    finished = (
        sa.select(Task.stage, sa.func.count())
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .join(Annotation, Annotation.task_id == Task.id)
        .where(SentenceRow.campaign_id == campaign_id, Task.state == "done", Annotation.state == "submitted")
        .group_by(Task.stage)
    )
    counts = {row[0]: row[1] for row in session.execute(finished)}
    reached = sa.select(sa.func.count()).select_from(SentenceRow)
    reached = reached.where(SentenceRow.campaign_id == campaign_id, SentenceRow.preannotated_at.is_not(None))
    return counts | {"suggestions": session.scalar(reached) or 0}


def part_counts(session: Session, sentence_ids: list[int]) -> dict[int, tuple[int, int]]:
    """Return the number of links and of suggestions by sentence."""
    counts = []
    for table in (LinkRow, SuggestionRow):
        query = sa.select(table.sentence_id, sa.func.count()).where(table.sentence_id.in_(sentence_ids))
        counts.append({row[0]: row[1] for row in session.execute(query.group_by(table.sentence_id))})
    return {id_: (counts[0].get(id_, 0), counts[1].get(id_, 0)) for id_ in sentence_ids}
