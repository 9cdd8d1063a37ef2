"""Rows of annotations: one person's work on one task, its submitted versions, and the events that wrote it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import selectinload

from db.engine import Session
from db.tables import (
    Annotation,
    AnnotationVersion,
    AppliedEvent,
    Decision,
    FlagRow,
    LinkRow,
    RejectedRow,
    SentenceRow,
    SpanRow,
    SuggestionRow,
    Task,
    User,
)
from db.types import now

Filled = frozenset[type[Any]]
"""Tables of an annotation's parts that hold a row of it."""

# Queries that every save asks are made once: making one takes as long as running it.
_OF_CLIENT = (
    sa.select(AppliedEvent.seq)
    .where(AppliedEvent.client == sa.bindparam("client"), AppliedEvent.user_id == sa.bindparam("user_id"))
    .order_by(AppliedEvent.seq.desc())
    .limit(1)
)
_AUTHOR = sa.select(AppliedEvent.user_id).where(AppliedEvent.key == sa.bindparam("key"))
_SEEN = sa.select(_AUTHOR.scalar_subquery(), _OF_CLIENT.scalar_subquery())
_TABLES_OF_PARTS: tuple[type[Any], ...] = (SpanRow, FlagRow, RejectedRow, Decision)
_FILLED = [sa.exists().where(table.annotation_id == Annotation.id) for table in _TABLES_OF_PARTS]
_WORK = sa.select(Annotation, *_FILLED).where(
    Annotation.task_id == sa.bindparam("task_id"), Annotation.user_id == sa.bindparam("user_id")
)
_FILLED_OF = sa.select(*_FILLED).where(Annotation.id == sa.bindparam("of"))
_SENTENCES = (
    sa.select(Task.id, SentenceRow)
    .join(SentenceRow, SentenceRow.id == Task.sentence_id)
    .where(Task.id.in_(sa.bindparam("task_ids", expanding=True)))
)
_OF_SENTENCES: sa.BindParameter[Any] = sa.bindparam("sentence_ids", expanding=True)
_LINKS = sa.select(LinkRow).where(LinkRow.sentence_id.in_(_OF_SENTENCES)).order_by(LinkRow.start)
_SUGGESTIONS = (
    sa.select(SuggestionRow).where(SuggestionRow.sentence_id.in_(_OF_SENTENCES)).order_by(SuggestionRow.start)
)
_NOTE = sa.insert(cast(sa.Table, AppliedEvent.__table__))
_CLEARING: dict[type[Any], Any] = {
    table: sa.delete(cast(sa.Table, table.__table__)).where(table.annotation_id == sa.bindparam("of"))
    for table in _TABLES_OF_PARTS
}
_SPANS = cast(sa.Table, SpanRow.__table__)
_CLEARING[SpanRow] = _CLEARING[SpanRow].returning(_SPANS.c.surface, _SPANS.c.type, _SPANS.c.elsewhere)
_HIGHEST = (
    sa.select(sa.func.max(AnnotationVersion.revision))
    .where(AnnotationVersion.annotation_id == sa.bindparam("of"))
    .scalar_subquery()
)
_KEEP = sa.insert(AnnotationVersion).values(
    annotation_id=sa.bindparam("of"),
    revision=sa.case((_HIGHEST >= sa.bindparam("revision"), _HIGHEST + 1), else_=sa.bindparam("revision")),  # noqa: SIM300
    work=sa.bindparam("work"),
)
_MOST_MARKS = 200
_NEWEST_MARKS = (
    sa.select(SpanRow.type, Task.sentence_id, Task.stage)
    .join(Annotation, Annotation.id == SpanRow.annotation_id)
    .join(Task, Task.id == Annotation.task_id)
    .where(
        SpanRow.surface == sa.bindparam("surface"),
        Task.campaign_id == sa.bindparam("campaign_id"),
        Task.sentence_id != sa.bindparam("but"),
        Annotation.state == "submitted",
    )
    .order_by(SpanRow.id.desc())
    .limit(_MOST_MARKS)
)
_PARTS = (Annotation.spans, Annotation.flags, Annotation.rejected, Annotation.decisions)
_MINE = (
    sa.select(Annotation)
    .where(
        Annotation.task_id.in_(sa.bindparam("task_ids", expanding=True)),
        Annotation.user_id == sa.bindparam("user_id"),
    )
    .options(*(selectinload(part) for part in _PARTS))
)


def find(session: Session, *, task_id: int, user_id: int) -> Annotation | None:
    """Return a person's work on a task."""
    return with_filled(session, task_id=task_id, user_id=user_id)[0]


def with_filled(session: Session, *, task_id: int, user_id: int) -> tuple[Annotation | None, Filled]:
    """Return a person's work on a task, and which of its parts are not empty."""
    row = session.execute(_WORK, {"task_id": task_id, "user_id": user_id}).one_or_none()
    return (None, frozenset()) if row is None else (row[0], _filled(row[1:]))


def _filled(flags: Iterable[bool]) -> Filled:
    return frozenset(table for table, flag in zip(_TABLES_OF_PARTS, flags, strict=True) if flag)


def mine(session: Session, task_ids: Sequence[int], *, user_id: int) -> dict[int, Annotation]:
    """Return a person's work by task id, with all its parts."""
    values = {"task_ids": list(task_ids), "user_id": user_id}
    return {annotation.task_id: annotation for annotation in session.scalars(_MINE, values)}


def submitted(session: Session, sentence_ids: Sequence[int], stage: str) -> dict[int, Annotation]:
    """Return the submitted work of a finished stage by sentence id, with its spans and flags."""
    query = (
        sa.select(Task.sentence_id, Annotation)
        .join(Task, Task.id == Annotation.task_id)
        .where(
            Task.sentence_id.in_(sentence_ids),
            Task.stage == stage,
            Task.state == "done",
            Annotation.state == "submitted",
        )
        .options(selectinload(Annotation.spans), selectinload(Annotation.flags))
    )
    return dict(session.execute(query).all())


def imported(session: Session, sentence_ids: Sequence[int]) -> dict[int, Annotation]:
    """Return imported gold by sentence id, whether it still stands or an expert has reopened it."""
    query = (
        sa.select(Task.sentence_id, Annotation)
        .join(Task, Task.id == Annotation.task_id)
        .where(Task.sentence_id.in_(sentence_ids), Task.stage == "adjudicate", Annotation.origin == "import")
        .options(selectinload(Annotation.spans), selectinload(Annotation.flags))
    )
    return dict(session.execute(query).all())


def standing(session: Session, task_id: int) -> Annotation | None:
    """Return the submitted work of a task."""
    return session.scalar(sa.select(Annotation).where(Annotation.task_id == task_id, Annotation.state == "submitted"))


def of_task(session: Session, task_id: int) -> list[tuple[Annotation, User]]:
    """Return everybody's work on a task, each with its author."""
    query = (
        sa.select(Annotation, User)
        .join(User, User.id == Annotation.user_id)
        .where(Annotation.task_id == task_id)
        .order_by(Annotation.id)
    )
    return [(annotation, user) for annotation, user in session.execute(query)]


def skips(session: Session, task_ids: Sequence[int]) -> list[tuple[int, int, str]]:
    """Return (task id, user id, reason) of every skip of these tasks."""
    query = (
        sa.select(Annotation.task_id, Annotation.user_id, Annotation.skip_reason)
        .where(Annotation.task_id.in_(task_ids), Annotation.state == "skipped")
        .order_by(Annotation.updated_at)
    )
    return [(task_id, user_id, reason or "") for task_id, user_id, reason in session.execute(query)]


def workers_of(session: Session, sentence_id: int) -> dict[int, set[str]]:
    """Return the stages at which each person has worked on a sentence, by user id; skips are left out."""
    query = (
        sa.select(Annotation.user_id, Task.stage)
        .join(Task, Task.id == Annotation.task_id)
        .where(Task.sentence_id == sentence_id, Annotation.state != "skipped", Annotation.origin == "person")
    )
    stages: dict[int, set[str]] = {}
    for user_id, stage in session.execute(query):
        stages.setdefault(user_id, set()).add(stage)
    return stages


def marked_elsewhere(
    session: Session, campaign_id: int, surfaces: Collection[str], *, but: int
) -> dict[tuple[str, str], tuple[int, int]]:
    """Return how many sentences of a campaign, but one, have each of these texts marked, by text and type.

    The second number counts those of them in which a check or gold has it. Of a text that is marked often only the
    newest marks are counted.
    """
    marked: dict[tuple[str, str], set[int]] = {}
    checked: dict[tuple[str, str], set[int]] = {}
    for surface in sorted(surfaces):
        values = {"surface": surface, "campaign_id": campaign_id, "but": but}
        for kind, sentence_id, stage in session.execute(_NEWEST_MARKS, values):
            marked.setdefault((surface, kind), set()).add(sentence_id)
            if stage != "annotate":
                checked.setdefault((surface, kind), set()).add(sentence_id)
    return {key: (len(ids), len(checked.get(key, ()))) for key, ids in marked.items()}


def add(session: Session, *, task_id: int, user_id: int, **values: Any) -> Annotation:
    """Add somebody's work on a task, still empty."""
    annotation = Annotation(task_id=task_id, user_id=user_id, **values)
    session.add(annotation)
    session.flush()
    return annotation


def replace_parts(
    session: Session,
    annotation: Annotation,
    *,
    spans: Iterable[Mapping[str, Any]],
    flags: Iterable[Mapping[str, Any]] = (),
    rejected: Iterable[Mapping[str, Any]] = (),
    decisions: Iterable[Mapping[str, Any]] = (),
    filled: Filled | None = None,
) -> frozenset[tuple[str, str]]:
    """Replace the annotation's spans, flags, rejected suggestions and decisions with these.

    `filled` names the parts that are not empty now, where the caller has looked. Returns words and type of each
    replaced span that was proposed elsewhere.
    """
    parts: tuple[tuple[type[Any], Iterable[Mapping[str, Any]]], ...] = (
        (SpanRow, spans),
        (FlagRow, flags),
        (RejectedRow, rejected),
        (Decision, decisions),
    )
    if filled is None:
        filled = _filled(session.execute(_FILLED_OF, {"of": annotation.id}).one())
    proposed: frozenset[tuple[str, str]] = frozenset()
    for table, rows in parts:  # by the tables: what the session holds of them expires below
        if table in filled:
            cleared = session.execute(_CLEARING[table], {"of": annotation.id})
            if table is SpanRow:
                proposed = frozenset((surface, kind) for surface, kind, elsewhere in cleared if elsewhere)
        values = [{**row, "annotation_id": annotation.id} for row in rows]
        if values:  # a driver takes longer over a list, even of one
            session.execute(sa.insert(table.__table__), values if len(values) > 1 else values[0])
    session.expire(annotation, ["spans", "flags", "rejected", "decisions"])
    return proposed


def keep_version(session: Session, annotation: Annotation, work: Mapping[str, Any], *, revision: int) -> None:
    """Keep a version of the work under its revision, or under the next free number."""
    session.execute(_KEEP, {"of": annotation.id, "revision": revision, "work": dict(work)})


def versions(session: Session, annotation_id: int) -> list[AnnotationVersion]:
    """Return the kept versions, the oldest first."""
    query = sa.select(AnnotationVersion).where(AnnotationVersion.annotation_id == annotation_id)
    return list(session.scalars(query.order_by(AnnotationVersion.revision)))


def seen(session: Session, *, key: str, client: str, user_id: int) -> tuple[int | None, int | None]:
    """Return whose applied event has this key, and the client's highest number as `highest_seq` returns it."""
    author, highest = session.execute(_SEEN, {"key": key, "client": client, "user_id": user_id}).one()
    return author, highest


def note_event(session: Session, *, key: str, user_id: int, client: str, seq: int, highest: int | None) -> None:
    """Record an event as applied; a number the client has used before (a copied tab) gets a client name of its own.

    `highest` is the client's highest number so far, as `highest_seq` returns it.
    """
    name = client
    if highest is None or seq <= highest:  # of somebody else's client there is no highest
        taken = sa.select(AppliedEvent.key).where(AppliedEvent.client == client, AppliedEvent.seq == seq)
        name = client if session.scalar(taken) is None else f"{client}#{key}"
    session.execute(_NOTE, {"key": key, "user_id": user_id, "client": name, "seq": seq, "at": now()})


def highest_seq(session: Session, *, client: str, user_id: int) -> int | None:
    """Return the highest number of a client's applied events; found at the end of an index, however many they are."""
    return session.scalar(_OF_CLIENT, {"client": client, "user_id": user_id})


def sentences_of_tasks(session: Session, task_ids: Sequence[int]) -> dict[int, SentenceRow]:
    """Return the sentences by task id."""
    return dict(session.execute(_SENTENCES, {"task_ids": list(task_ids)}).all())


def links_of(session: Session, sentence_ids: Sequence[int]) -> dict[int, list[LinkRow]]:
    """Return the links by sentence id, in the order of the text."""
    by_sentence: dict[int, list[LinkRow]] = {}
    for link in session.scalars(_LINKS, {"sentence_ids": list(sentence_ids)}):
        by_sentence.setdefault(link.sentence_id, []).append(link)
    return by_sentence


def suggestions_of(session: Session, sentence_ids: Sequence[int]) -> dict[int, list[SuggestionRow]]:
    """Return the suggestions by sentence id, in the order of the text."""
    by_sentence: dict[int, list[SuggestionRow]] = {}
    for suggestion in session.scalars(_SUGGESTIONS, {"sentence_ids": list(sentence_ids)}):
        by_sentence.setdefault(suggestion.sentence_id, []).append(suggestion)
    return by_sentence
