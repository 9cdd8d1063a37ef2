"""Rows of the audit trail: its own entries, and the submitted work that the layers keep."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from db.audit.tables import AuditEntry
from db.engine import Session
from db.tables import Annotation, AnnotationVersion, Campaign, SentenceRow, Task, User

SUBMIT = "submit"
"""The action of submitted work, which is read from its kept versions: an entry of its own would cost every save."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions of a search; those that are None do not narrow it. Times are half-open: `[since, until)`."""

    actor: str | None = None
    action: str | None = None
    campaign_id: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    text: str = ""
    every: bool = True
    """Whether entries that belong to no campaign that is there are wanted, too."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry stands: newest first; of the same moment, entries before submitted work, then by number."""

    moment: dt.datetime
    is_entry: bool
    number: int


@dataclass(frozen=True, slots=True)
class Line:
    """An entry as it was written, or submitted work as one; `details` is JSON."""

    place: Place
    actor_id: int | None
    actor_name: str
    via: str
    token_id: int | None
    action: str
    campaign_id: int | None
    campaign: str | None
    subject_kind: str
    subject: str
    details: str


def add(session: Session, **values: Any) -> None:
    """Add an entry, which is written with the transaction."""
    session.add(AuditEntry(**values))


def forget(session: Session, before: dt.datetime) -> int:
    """Delete the entries of before a time; return how many."""
    gone = session.execute(sa.delete(AuditEntry).where(AuditEntry.done_at < before))
    return int(gone.rowcount)  # type: ignore[attr-defined]


def actions(session: Session) -> list[str]:
    """Return the actions that were recorded, and submitting."""
    return sorted({*session.scalars(sa.select(AuditEntry.action).distinct()), SUBMIT})


def search(session: Session, wanted: Wanted, *, after: Place | None, limit: int) -> list[Line]:
    """Return what matches and stands after a place, newest first."""
    lines = _entries(session, wanted, after, limit)
    if wanted.action in (None, SUBMIT):
        lines += _submitted(session, wanted, after, limit)
    lines.sort(key=lambda line: (line.place.moment, line.place.is_entry, line.place.number), reverse=True)
    return lines[:limit]


_CAMPAIGN = sa.and_(Campaign.id == AuditEntry.campaign_id, AuditEntry.done_at >= Campaign.created_at)
"""SQLite gives the number of a deleted campaign again: its entries are not the new one's."""


def _entries(session: Session, wanted: Wanted, after: Place | None, limit: int) -> list[Line]:
    query = sa.select(AuditEntry, Campaign.name).join(Campaign, _CAMPAIGN, isouter=wanted.every)
    query = query.where(*_times(AuditEntry.done_at, wanted))
    if wanted.actor is not None:
        query = query.where(AuditEntry.actor_name == wanted.actor)
    if wanted.action is not None:
        query = query.where(AuditEntry.action == wanted.action)
    if wanted.campaign_id is not None:
        query = query.where(AuditEntry.campaign_id == wanted.campaign_id, Campaign.id.is_not(None))
    if wanted.text:
        columns = (AuditEntry.actor_name, AuditEntry.action, AuditEntry.subject_kind, AuditEntry.subject,
                   AuditEntry.details, Campaign.name)  # fmt: skip
        query = query.where(_contains(columns, wanted.text))
    if after is not None:
        rest = AuditEntry.id < after.number if after.is_entry else sa.false()
        query = query.where(
            sa.or_(AuditEntry.done_at < after.moment, sa.and_(AuditEntry.done_at == after.moment, rest))
        )
    rows = session.execute(query.order_by(AuditEntry.done_at.desc(), AuditEntry.id.desc()).limit(limit))
    return [
        Line(
            Place(row.done_at, True, row.id), row.actor_id, row.actor_name, row.via, row.token_id, row.action,
            row.campaign_id, name, row.subject_kind, row.subject, row.details,
        )
        for row, name in rows
    ]  # fmt: skip


def _submitted(session: Session, wanted: Wanted, after: Place | None, limit: int) -> list[Line]:
    """Return versions that people submitted here: not what was imported, and not work that came too late."""
    version = AnnotationVersion
    columns = (User.id, User.name, Task.campaign_id, Campaign.name, Task.stage, SentenceRow.external_id)
    query = (
        sa.select(version.id, version.submitted_at, version.revision, Annotation.id, *columns)
        .join(Annotation, Annotation.id == version.annotation_id)
        .join(User, User.id == Annotation.user_id)
        .join(Task, Task.id == Annotation.task_id)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .join(Campaign, Campaign.id == Task.campaign_id)
        .where(Annotation.origin == "person", version.work["late"].as_string().is_(None))
        .where(version.submitted_at >= Campaign.created_at, *_times(version.submitted_at, wanted))
    )
    if wanted.actor is not None:
        query = query.where(User.name == wanted.actor)
    if wanted.campaign_id is not None:
        query = query.where(Task.campaign_id == wanted.campaign_id)
    if wanted.text:
        query = query.where(
            _contains((User.name, Task.stage, SentenceRow.external_id, Campaign.name, sa.literal(SUBMIT)), wanted.text)
        )
    if after is not None:
        rest = sa.true() if after.is_entry else version.id < after.number
        query = query.where(
            sa.or_(version.submitted_at < after.moment, sa.and_(version.submitted_at == after.moment, rest))
        )
    rows = session.execute(query.order_by(version.submitted_at.desc(), version.id.desc()).limit(limit))
    return [
        Line(
            Place(moment, False, number), user_id, name, "page", None, SUBMIT, campaign_id, campaign,
            "sentence", sentence,
            f'{{"stage": "{stage}", "annotation": {annotation}, "revision": {revision}}}',
        )
        for number, moment, revision, annotation, user_id, name, campaign_id, campaign, stage, sentence in rows
    ]  # fmt: skip


def _times(column: Any, wanted: Wanted) -> list[sa.ColumnElement[bool]]:
    since = [column >= wanted.since] if wanted.since is not None else []
    return since + ([column < wanted.until] if wanted.until is not None else [])


def _contains(columns: Sequence[Any], text: str) -> sa.ColumnElement[bool]:
    """Match a part of any column; the case of ASCII letters does not matter."""
    part = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    wanted = sa.func.lower(sa.literal(f"%{part}%"))
    return sa.or_(*(sa.func.lower(column).like(wanted, escape="\\") for column in columns))
