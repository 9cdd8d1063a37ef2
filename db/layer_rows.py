"""Rows of whole layers of a campaign, for snapshots, export and figures."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import selectinload

from db.engine import Session
from db.tables import Annotation, LinkRow, SentenceRow, SuggestionRow, Task


def sentences(session: Session, campaign_id: int, *, preannotated: bool | None = None) -> list[SentenceRow]:
    """Return the sentences in queue order: all, or only those that have (have not) been pre-annotated."""
    query = sa.select(SentenceRow).where(SentenceRow.campaign_id == campaign_id)
    if preannotated is not None:
        reached = SentenceRow.preannotated_at.is_not(None)
        query = query.where(reached if preannotated else ~reached)
    return list(session.scalars(query.order_by(SentenceRow.position, SentenceRow.id)))


@dataclass(frozen=True, slots=True)
class SentenceMarks:
    """What a campaign's figures need of a sentence: its text would take most of the time to read."""

    id: int
    preannotated: bool
    control: bool
    blind: bool


def marks(session: Session, campaign_id: int) -> list[SentenceMarks]:
    """Return the marks of all sentences of a campaign, in queue order."""
    query = sa.select(
        SentenceRow.id, SentenceRow.preannotated_at.is_not(None), SentenceRow.control, SentenceRow.blind
    ).where(SentenceRow.campaign_id == campaign_id)
    rows = session.execute(query.order_by(SentenceRow.position, SentenceRow.id))
    return [SentenceMarks(id, bool(preannotated), control, blind) for id, preannotated, control, blind in rows]


def texts(session: Session, campaign_id: int, *, limit: int) -> list[tuple[str, list[list[int]]]]:
    """Return text and token offsets of a campaign's first sentences, in queue order."""
    query = sa.select(SentenceRow.text, SentenceRow.tokens).where(SentenceRow.campaign_id == campaign_id)
    rows = session.execute(query.order_by(SentenceRow.position, SentenceRow.id).limit(limit))
    return [(text, tokens) for text, tokens in rows]


def link_counts(session: Session, campaign_id: int) -> dict[int, int]:
    """Return how many links each sentence of a campaign has, by id; one without is left out."""
    query = (
        sa.select(LinkRow.sentence_id, sa.func.count())
        .join(SentenceRow, SentenceRow.id == LinkRow.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id)
        .group_by(LinkRow.sentence_id)
    )
    return {sentence_id: int(count) for sentence_id, count in session.execute(query)}


def last_preannotated(session: Session, campaign_id: int) -> dt.datetime | None:
    """Return when a sentence of a campaign was last pre-annotated; None if none was."""
    query = sa.select(sa.func.max(SentenceRow.preannotated_at)).where(SentenceRow.campaign_id == campaign_id)
    return session.scalar(query)


def count_preannotated_gold(session: Session, campaign_id: int, *, splits: Collection[str]) -> int:
    """Count the adjudicated sentences of some splits that have been pre-annotated."""
    query = (
        sa.select(sa.func.count())
        .select_from(SentenceRow)
        .join(Task, Task.sentence_id == SentenceRow.id)
        .where(
            SentenceRow.campaign_id == campaign_id,
            SentenceRow.split.in_(splits),
            SentenceRow.preannotated_at.is_not(None),
            Task.stage == "adjudicate",
            Task.state == "done",
        )
    )
    return session.scalar(query) or 0


def submitted(session: Session, campaign_id: int, stage: str) -> list[tuple[SentenceRow, Annotation]]:
    """Return the submitted work of a finished stage with its sentence and all its parts, in the order of the queue."""
    query = (
        sa.select(SentenceRow, Annotation)
        .join(Task, Task.sentence_id == SentenceRow.id)
        .join(Annotation, Annotation.task_id == Task.id)
        .where(*_is_submitted(campaign_id, stage))
        .order_by(SentenceRow.position, SentenceRow.id)
        .options(
            selectinload(Annotation.spans),
            selectinload(Annotation.flags),
            selectinload(Annotation.rejected),
            selectinload(Annotation.decisions),
        )
    )
    return [(row, annotation) for row, annotation in session.execute(query)]


def _is_submitted(campaign_id: int, stage: str) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of submitted work of a finished stage."""
    in_stage = (SentenceRow.campaign_id == campaign_id, Task.stage == stage)
    return (*in_stage, Task.state == "done", Annotation.state == "submitted")


def marks_of_work(session: Session, campaign_id: int, stage: str) -> str:
    """Return a hash of which work `submitted` would return, and of which revision, in its order."""
    query = (
        sa.select(SentenceRow.id, SentenceRow.split, Annotation.id, Annotation.revision, Annotation.updated_at)
        .add_columns(Annotation.submitted_at)
        .join(Task, Task.sentence_id == SentenceRow.id)
        .join(Annotation, Annotation.task_id == Task.id)
        .where(*_is_submitted(campaign_id, stage))
        .order_by(SentenceRow.position, SentenceRow.id)
    )
    digest = hashlib.sha256()
    for row in session.execute(query).yield_per(10_000):
        digest.update(f"{tuple(map(str, row))}\n".encode())
    return digest.hexdigest()


def gold_splits(session: Session, campaign_id: int) -> set[str]:
    """Return the splits of a campaign in which a sentence has been adjudicated."""
    query = (
        sa.select(SentenceRow.split)
        .join(Task, Task.sentence_id == SentenceRow.id)
        .where(SentenceRow.campaign_id == campaign_id, Task.stage == "adjudicate", Task.state == "done")
    )
    return set(session.scalars(query.distinct()))


def links(session: Session, campaign_id: int) -> dict[int, list[LinkRow]]:
    """Return the links of a campaign by sentence id, in the order of the text."""
    query = (
        sa.select(LinkRow)
        .join(SentenceRow, SentenceRow.id == LinkRow.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id)
        .order_by(LinkRow.sentence_id, LinkRow.start)
    )
    by_sentence: dict[int, list[LinkRow]] = {}
    for link in session.scalars(query):
        by_sentence.setdefault(link.sentence_id, []).append(link)
    return by_sentence


def suggestions(session: Session, campaign_id: int) -> dict[int, list[SuggestionRow]]:
    """Return the suggestions of a campaign by sentence id, in the order of the text."""
    query = (
        sa.select(SuggestionRow)
        .join(SentenceRow, SentenceRow.id == SuggestionRow.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id)
        .order_by(SuggestionRow.sentence_id, SuggestionRow.start)
    )
    by_sentence: dict[int, list[SuggestionRow]] = {}
    for suggestion in session.scalars(query):
        by_sentence.setdefault(suggestion.sentence_id, []).append(suggestion)
    return by_sentence


def suggestion_sources(session: Session, campaign_id: int) -> list[str]:
    """Return the distinct sources of a campaign's suggestions."""
    query = sa.select(SuggestionRow.source).join(SentenceRow, SentenceRow.id == SuggestionRow.sentence_id)
    return list(session.scalars(query.where(SentenceRow.campaign_id == campaign_id).distinct()))


def active_seconds(session: Session, campaign_id: int) -> dict[str, float]:
    """Return the active seconds spent on each sentence over all stages, by content hash.

    Sentences that nobody worked on, such as those imported with their gold, are left out.
    """
    query = (
        sa.select(SentenceRow.content_hash, sa.func.sum(Annotation.active_ms))
        .join(Task, Task.sentence_id == SentenceRow.id)
        .join(Annotation, Annotation.task_id == Task.id)
        .where(SentenceRow.campaign_id == campaign_id, Annotation.state == "submitted", Annotation.origin == "person")
        .group_by(SentenceRow.content_hash)
    )
    return {row[0]: row[1] / 1000 for row in session.execute(query)}


def skips_by_person(session: Session, campaign_id: int) -> dict[int, int]:
    """Return how many tasks each person has skipped, by user id."""
    query = (
        sa.select(Annotation.user_id, sa.func.count())
        .join(Task, Task.id == Annotation.task_id)
        .where(Task.campaign_id == campaign_id, Annotation.state == "skipped")
        .group_by(Annotation.user_id)
    )
    return dict(session.execute(query).all())


def submitted_by(
    session: Session, campaign_id: int, user_id: int, *, newest: int | None = None
) -> list[tuple[SentenceRow, str, Annotation]]:
    """Return what a person has submitted in a campaign: the sentence, the stage and the work with its spans.

    With `newest` only that many, the newest first.
    """
    query = (
        sa.select(SentenceRow, Task.stage, Annotation)
        .join(Task, Task.sentence_id == SentenceRow.id)
        .join(Annotation, Annotation.task_id == Task.id)
        .where(
            Task.campaign_id == campaign_id,
            Annotation.user_id == user_id,
            Annotation.state == "submitted",
            Annotation.origin == "person",
        )
        .options(selectinload(Annotation.spans), selectinload(Annotation.task))
    )
    if newest is not None:
        query = query.order_by(Annotation.submitted_at.desc(), Annotation.id.desc()).limit(newest)
    return [(row, stage, annotation) for row, stage, annotation in session.execute(query)]


def effort_since(session: Session, campaign_id: int, since: dt.datetime) -> list[tuple[str, int, int, int]]:
    """Return (stage, user id, sentences, active milliseconds) of what people have submitted since then."""
    query = (
        sa.select(Task.stage, Annotation.user_id, sa.func.count(), sa.func.sum(Annotation.active_ms))
        .join(Annotation, Annotation.task_id == Task.id)
        .where(
            Task.campaign_id == campaign_id,
            Annotation.state == "submitted",
            Annotation.origin == "person",
            Annotation.submitted_at >= since,
        )
        .group_by(Task.stage, Annotation.user_id)
    )
    return [(stage, user_id, number, int(spent)) for stage, user_id, number, spent in session.execute(query)]
