"""Rows for what is shown beside a sentence: whose task it is, its neighbours, and what is marked there."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from db.engine import Session
from db.tables import Annotation, SentenceRow, SpanRow, Task

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
