"""Rows of suggestions of identical words: where they may go, and what stands there already."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from typing import cast

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from db.engine import Session
from db.tables import Annotation, RejectedRow, SentenceRow, SpanRow, SuggestionRow, Task

_CHUNK = 400
Place = tuple[int, int]
_REMOVING = sa.delete(cast(sa.Table, SuggestionRow.__table__)).where(
    SuggestionRow.sentence_id == sa.bindparam("of"),
    SuggestionRow.source == sa.bindparam("by"),
    SuggestionRow.start == sa.bindparam("from"),
    SuggestionRow.end == sa.bindparam("to"),
    SuggestionRow.type == sa.bindparam("kind"),
)


def open_sentences_with(
    session: Session, campaign_id: int, text: str, *, user_id: int, time: dt.datetime, apart_from: int
) -> list[SentenceRow]:
    """Return sentences that hold a text, in any case, and wait for annotator 1, but one.

    They are at no later stage, no controls, and in the hands of nobody but this person.
    """
    later = aliased(Task)
    free = sa.or_(Task.state == "open", Task.leased_to == user_id, Task.lease_expires < time)
    query = (
        sa.select(SentenceRow)
        .join(Task, Task.sentence_id == SentenceRow.id)
        .where(
            Task.campaign_id == campaign_id,
            Task.stage == "annotate",
            Task.state.in_(("open", "leased")),
            free,
            ~sa.exists().where(later.sentence_id == SentenceRow.id, later.stage != "annotate"),
            ~SentenceRow.control,
            SentenceRow.id != apart_from,
            SentenceRow.text.contains(text, autoescape=True),
        )
        .order_by(SentenceRow.id)
    )
    return list(session.scalars(query))


def decided_places(session: Session, sentence_ids: Collection[int]) -> dict[int, list[Place]]:
    """Return the places that anybody has marked, or has rejected a suggestion at, by sentence id."""
    places: dict[int, list[Place]] = {}
    ids = list(sentence_ids)
    for first in range(0, len(ids), _CHUNK):
        for table in (SpanRow, RejectedRow):
            query = (
                sa.select(Task.sentence_id, table.start, table.end)
                .join(Annotation, Annotation.id == table.annotation_id)
                .join(Task, Task.id == Annotation.task_id)
                .where(Task.sentence_id.in_(ids[first : first + _CHUNK]))
            )
            for sentence_id, start, end in session.execute(query):
                places.setdefault(sentence_id, []).append((start, end))
    return places


def is_proposed(session: Session, campaign_id: int, *, surface: str, type: str) -> bool:
    """Return whether any span of these words and this type is still to be proposed in other sentences."""
    query = (
        sa.select(SpanRow.id)
        .join(Annotation, Annotation.id == SpanRow.annotation_id)
        .join(Task, Task.id == Annotation.task_id)
        .where(
            Task.campaign_id == campaign_id,
            Annotation.state.in_(("draft", "submitted")),
            SpanRow.elsewhere,
            SpanRow.surface == surface,
            SpanRow.type == type,
        )
    )
    return session.scalar(query.limit(1)) is not None


def remove(session: Session, source: str, type: str, places: Iterable[tuple[int, int, int]]) -> None:
    """Delete a source's suggestions of a type at these places, each a sentence id and tokens `[start, end)`."""
    values = [{"of": id_, "from": start, "to": end, "by": source, "kind": type} for id_, start, end in places]
    if values:
        session.connection().execute(_REMOVING, values)
