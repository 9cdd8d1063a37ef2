"""Rows for what is shown beside a sentence: its neighbours and what is marked there, examples of gold, decisions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import selectinload

from db.engine import Session
from db.label_review_rows import is_left_out
from db.tables import Annotation, Decision, Question, SentenceRow, SpanRow, Task

_IDS: sa.BindParameter[int] = sa.bindparam("ids", expanding=True)
_OWN = (
    sa.select(Task.id, SentenceRow)
    .join(SentenceRow, SentenceRow.id == Task.sentence_id)
    .where(
        Task.id.in_(_IDS),
        Task.campaign_id == sa.bindparam("campaign_id"),
        Task.stage == sa.bindparam("stage"),
        sa.or_(Task.leased_to == sa.bindparam("user_id"), Task.done_by == sa.bindparam("user_id")),
    )
)
_NEAR = (
    # `+ 0` keeps the database from scanning the whole campaign instead of looking up the ids.
    sa.select(SentenceRow)
    .where(SentenceRow.id.in_(_IDS), SentenceRow.campaign_id + 0 == sa.bindparam("campaign_id"))
    .order_by(SentenceRow.id)
)
_GOLD = sa.and_(Task.stage == "adjudicate", Task.state == "done", SentenceRow.split != "test")
_MARKED = (
    sa.select(Task.sentence_id, Task.stage, SpanRow.start, SpanRow.end, SpanRow.type)
    .join(SentenceRow, SentenceRow.id == Task.sentence_id)
    .join(Annotation, Annotation.task_id == Task.id)
    .outerjoin(SpanRow, SpanRow.annotation_id == Annotation.id)
    .where(
        Task.sentence_id.in_(_IDS),
        Annotation.state == "submitted",
        sa.or_(_GOLD, Annotation.user_id == sa.bindparam("user_id")),
    )
    .order_by(Task.sentence_id, SpanRow.start)
)

_LINKED_BEFORE = (
    sa.select(SpanRow.entity, sa.func.count(sa.distinct(Task.sentence_id)))
    .join(Annotation, Annotation.id == SpanRow.annotation_id)
    .join(Task, Task.id == Annotation.task_id)
    .join(SentenceRow, SentenceRow.id == Task.sentence_id)
    .where(
        SpanRow.surface == sa.bindparam("surface"),
        SpanRow.entity.is_not(None),
        Task.campaign_id == sa.bindparam("campaign_id"),
        Task.sentence_id != sa.bindparam("but"),
        Annotation.state == "submitted",
        sa.or_(_GOLD, Annotation.user_id == sa.bindparam("user_id")),
    )
    .group_by(SpanRow.entity)
)

Mark = tuple[int, int, str]
"""Token offsets `[start, end)` and type."""


def own(
    session: Session, *, campaign_id: int, stage: str, task_ids: Sequence[int], user_id: int
) -> dict[int, SentenceRow]:
    """Return the sentences by task id, of those tasks that are a person's: leased to them, or done by them."""
    values = {"ids": list(task_ids), "campaign_id": campaign_id, "stage": stage, "user_id": user_id}
    return dict(session.execute(_OWN, values).all())


def near(session: Session, campaign_id: int, sentence_ids: Sequence[int], reach: int) -> list[SentenceRow]:
    """Return the campaign's sentences that were added up to `reach` places before or after these, in that order."""
    ids = {id_ + step for id_ in sentence_ids for step in range(-reach, reach + 1)}
    return list(session.scalars(_NEAR, {"ids": sorted(ids), "campaign_id": campaign_id}))


def marked(session: Session, sentence_ids: Sequence[int], *, user_id: int) -> dict[int, list[Mark]]:
    """Return by sentence id the spans a person may see beside another sentence: gold, else what they submitted.

    Gold of the test split is left out. A sentence in which nothing is marked has an empty list, one that is not
    finished is absent.
    """
    stages: dict[int, dict[str, list[Mark]]] = {}
    for sentence_id, stage, start, end, kind in session.execute(
        _MARKED, {"ids": list(sentence_ids), "user_id": user_id}
    ):
        spans = stages.setdefault(sentence_id, {}).setdefault(stage, [])
        if start is not None:
            spans.append((start, end, kind))
    return {id_: by_stage.get("adjudicate", next(iter(by_stage.values()))) for id_, by_stage in stages.items()}


def linked_before(session: Session, campaign_id: int, surface: str, *, but: int, user_id: int) -> dict[str, int]:
    """Return to which entities the same words were linked, and in how many sentences other than one.

    Only gold outside the test split counts, and what the person submitted.
    """
    values = {"campaign_id": campaign_id, "surface": surface, "but": but, "user_id": user_id}
    return {str(entity): count for entity, count in session.execute(_LINKED_BEFORE, values)}


def gold_reached(session: Session, campaign_id: int) -> tuple[int, dt.datetime | None]:
    """Return how many sentences are gold, and since when the newest one is."""
    query = sa.select(sa.func.count(), sa.func.max(Task.done_at)).where(
        Task.campaign_id == campaign_id, Task.stage == "adjudicate", Task.state == "done"
    )
    count, newest = session.execute(query).one()
    return count, newest


def _of_gold(query: sa.Select[*tuple[Any, ...]], campaign_id: int) -> sa.Select[*tuple[Any, ...]]:
    """Narrow a query on annotations to gold outside the test split that nobody left out of training."""
    return (
        query.join(Task, Task.id == Annotation.task_id)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id, _GOLD, Annotation.state == "submitted", ~is_left_out())
    )


def names_in_gold(session: Session, campaign_id: int) -> list[tuple[str, str, int]]:
    """Return (type, name, newest annotation) of each name of each type in gold outside the test split, newest first."""
    newest = sa.func.max(Annotation.id)
    query = sa.select(SpanRow.type, SpanRow.surface, newest).join(Annotation, Annotation.id == SpanRow.annotation_id)
    query = (
        _of_gold(query, campaign_id).group_by(SpanRow.type, SpanRow.surface).order_by(newest.desc(), SpanRow.surface)
    )
    return [(kind, surface, id_) for kind, surface, id_ in session.execute(query)]


def with_sentences(session: Session, annotation_ids: Sequence[int]) -> dict[int, tuple[SentenceRow, Annotation]]:
    """Return annotations, with their spans, and their sentences by annotation id."""
    query = (
        sa.select(SentenceRow, Annotation)
        .join(Task, Task.id == Annotation.task_id)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(Annotation.id.in_(annotation_ids))
        .options(selectinload(Annotation.spans))
    )
    return {annotation.id: (row, annotation) for row, annotation in session.execute(query)}


def hard_cases(session: Session, campaign_id: int, *, most: int) -> list[tuple[SentenceRow, Annotation]]:
    """Return gold outside the test split that an expert explained, newest first, with spans and decisions.

    That is: they marked it as an example, asked about it, or settled a disagreement and left a comment.
    """
    asked = sa.exists().where(Question.task_id == Task.id)
    disagreed = sa.exists().where(Decision.annotation_id == Annotation.id, Decision.kind != "agree")
    query = _of_gold(sa.select(SentenceRow, Annotation).select_from(Annotation), campaign_id)
    query = query.where(sa.or_(Annotation.example, asked, sa.and_(Annotation.comment != "", disagreed)))
    query = query.order_by(Annotation.submitted_at.desc(), Annotation.id.desc()).limit(most)
    parts = (selectinload(Annotation.spans), selectinload(Annotation.decisions))
    return [(row, annotation) for row, annotation in session.execute(query.options(*parts))]
