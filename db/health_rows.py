"""Rows that contradict each other, for the doctor: what a store as a whole must hold, whoever wrote it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import aliased, selectinload

from db.engine import Session
from db.label_review_tables import FindingRow
from db.tables import (
    Annotation,
    Campaign,
    FlagRow,
    LinkRow,
    Member,
    RejectedRow,
    SentenceRow,
    SuggestionRow,
    Task,
    User,
)
from db.training_tables import Dataset, DatasetSplit, Job, Round, Run, Snapshot
from db.types import Base, UtcTime, now

_CHUNK = 500
_OPEN = ("queued", "running")
# Ends of leases and sessions, and when something is sent again, which lie ahead as a rule.
_AHEAD = ("lease_expires", "expires_at", "next_at", "claimed_until")
# Rows that only follow from others, so that nobody's work goes with them; children before their owners.
TRACES = (
    "link", "suggestion", "campaign_member", "provider_session", "identity", "login_session", "api_reply", "api_token",
    "run_event", "job_line", "webhook_delivery", "webhook",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dangling:
    """Rows of a table whose `column` refers to a row of `target` that does not exist."""

    table: str
    column: str
    target: str
    count: int

    @property
    def is_trace(self) -> bool:
        """Whether nobody's work is lost with them."""
        return self.table in TRACES


def sentences(session: Session) -> Iterator[list[SentenceRow]]:
    """Yield all sentences by chunks, in the order of their ids."""
    last = 0
    while rows := list(
        session.scalars(sa.select(SentenceRow).where(SentenceRow.id > last).order_by(SentenceRow.id).limit(_CHUNK))
    ):
        yield rows
        last = rows[-1].id
        session.expunge_all()


def annotations_of(session: Session, sentence_ids: Sequence[int]) -> dict[int, list[Annotation]]:
    """Return all annotations of these sentences, whatever their state, by sentence id."""
    query = sa.select(Task.sentence_id, Annotation).join(Annotation, Annotation.task_id == Task.id)
    query = query.options(selectinload(Annotation.spans))
    grouped: dict[int, list[Annotation]] = {}
    for sentence_id, annotation in session.execute(query.where(Task.sentence_id.in_(sentence_ids))):
        grouped.setdefault(sentence_id, []).append(annotation)
    return grouped


def marks_of(session: Session, sentence_ids: Sequence[int]) -> list[tuple[int, str, int, int, int]]:
    """Return (sentence id, table, row id, start, end) of marks that have no surface: links, suggestions and others."""
    queries = [
        sa.select(table.sentence_id, sa.literal(table.__tablename__), table.id, table.start, table.end).where(
            table.sentence_id.in_(sentence_ids)
        )
        for table in (LinkRow, SuggestionRow, FindingRow)
    ]
    queries += [
        sa.select(Task.sentence_id, sa.literal(table.__tablename__), table.id, table.start, table.end)
        .join(Annotation, Annotation.id == table.annotation_id)
        .join(Task, Task.id == Annotation.task_id)
        .where(Task.sentence_id.in_(sentence_ids))
        for table in (FlagRow, RejectedRow)
    ]
    return [
        (owner, table, id_, start, end) for query in queries for owner, table, id_, start, end in session.execute(query)
    ]


def without_task(session: Session) -> list[int]:
    """Return the ids of sentences that no stage has a task for."""
    query = sa.select(SentenceRow.id).where(~sa.exists().where(Task.sentence_id == SentenceRow.id))
    return list(session.scalars(query.order_by(SentenceRow.id)))


def add_task(session: Session, sentence_id: int, stage: str) -> None:
    """Add an open task; its campaign and position are its sentence's."""
    session.add(Task(sentence_id=sentence_id, stage=stage))


def without_next(session: Session, stage: str, following: str) -> list[tuple[int, int]]:
    """Return (task id, sentence id) of done tasks of a stage whose sentence has no task of the following one."""
    other = aliased(Task)
    missing = ~sa.exists().where(other.sentence_id == Task.sentence_id, other.stage == following)
    query = sa.select(Task.id, Task.sentence_id).where(Task.stage == stage, Task.state == "done", missing)
    return [(task_id, sentence_id) for task_id, sentence_id in session.execute(query.order_by(Task.id))]


def ahead_of(session: Session, stage: str, earlier: str) -> list[tuple[int, int]]:
    """Return (task id, sentence id) of tasks of a stage although the earlier one is not done; imported gold may be."""
    other = aliased(Task)
    ready = sa.exists().where(other.sentence_id == Task.sentence_id, other.stage == earlier, other.state == "done")
    imported = sa.exists().where(Annotation.task_id == Task.id, Annotation.origin == "import")
    query = sa.select(Task.id, Task.sentence_id).where(Task.stage == stage, ~ready, ~imported)
    return [(task_id, sentence_id) for task_id, sentence_id in session.execute(query.order_by(Task.id))]


def misplaced(session: Session) -> list[Task]:
    """Return tasks whose campaign or position is not their sentence's."""
    differs = sa.or_(Task.campaign_id != SentenceRow.campaign_id, Task.position != SentenceRow.position)
    query = sa.select(Task).join(SentenceRow, SentenceRow.id == Task.sentence_id).where(differs)
    return list(session.scalars(query.order_by(Task.id)))


def done_without_work(session: Session) -> list[Task]:
    """Return done tasks without the submitted work of the person who did them."""
    work = sa.exists().where(
        Annotation.task_id == Task.id, Annotation.user_id == Task.done_by, Annotation.state == "submitted"
    )
    return list(session.scalars(sa.select(Task).where(Task.state == "done", ~work).order_by(Task.id)))


def work_without_done(session: Session) -> list[Task]:
    """Return tasks with submitted work that are not done."""
    work = sa.exists().where(Annotation.task_id == Task.id, Annotation.state == "submitted")
    return list(session.scalars(sa.select(Task).where(Task.state != "done", work).order_by(Task.id)))


def leases(session: Session) -> list[tuple[Task, Campaign, User | None, bool]]:
    """Return tasks with any part of a lease, each with its campaign, its person and whether they are a member."""
    member = sa.exists().where(Member.campaign_id == Task.campaign_id, Member.user_id == Task.leased_to)
    query = (
        sa.select(Task, Campaign, User, member)
        .join(Campaign, Campaign.id == Task.campaign_id)
        .outerjoin(User, User.id == Task.leased_to)
        .where(sa.or_(Task.state == "leased", Task.leased_to.is_not(None), Task.lease_expires.is_not(None)))
        .order_by(Task.id)
    )
    return [(task, campaign, user, bool(is_member)) for task, campaign, user, is_member in session.execute(query)]


def gold_tasks(session: Session) -> Iterator[list[tuple[Task, Annotation]]]:
    """Yield, by chunks, done adjudications by a person, each with its submitted work."""
    query = sa.select(Task, Annotation).join(Annotation, Annotation.task_id == Task.id)
    query = query.where(
        Task.stage == "adjudicate", Task.state == "done", Annotation.state == "submitted", Annotation.origin == "person"
    )
    parts = (Annotation.spans, Annotation.flags, Annotation.rejected, Annotation.decisions)
    query = query.options(*map(selectinload, parts))
    last = 0
    while rows := session.execute(query.where(Task.id > last).order_by(Task.id).limit(_CHUNK)).all():
        yield [(task, annotation) for task, annotation in rows]
        last = rows[-1][0].id
        session.expunge_all()


def snapshot_ids(session: Session) -> list[int]:
    """Return the ids of all snapshots."""
    return list(session.scalars(sa.select(Snapshot.id).order_by(Snapshot.id)))


def splits(session: Session) -> Iterator[tuple[str, list[str], DatasetSplit]]:
    """Yield the splits of all data sets, each after its data set's name and types."""
    query = sa.select(Dataset.name, Dataset.types, DatasetSplit).join(Dataset, Dataset.id == DatasetSplit.dataset_id)
    for id_ in session.scalars(sa.select(DatasetSplit.id).order_by(DatasetSplit.id)).all():
        yield from ((name, types, split) for name, types, split in session.execute(query.where(DatasetSplit.id == id_)))
        session.expunge_all()


def unknown_runs(session: Session) -> list[tuple[int, int]]:
    """Return (run id, number of suggestions) of suggestions whose run does not exist."""
    missing = ~sa.exists().where(Run.id == SuggestionRow.run_id)
    query = sa.select(SuggestionRow.run_id, sa.func.count()).where(SuggestionRow.run_id.is_not(None), missing)
    rows = session.execute(query.group_by(SuggestionRow.run_id).order_by(SuggestionRow.run_id))
    return [(run_id, count) for run_id, count in rows if run_id is not None]


def suggestion_sources(session: Session) -> list[tuple[str, int]]:
    """Return (source, number of suggestions)."""
    query = sa.select(SuggestionRow.source, sa.func.count()).group_by(SuggestionRow.source)
    return [(source, count) for source, count in session.execute(query.order_by(SuggestionRow.source))]


def dangling(session: Session) -> list[Dangling]:
    """Return rows that refer to a row that does not exist, by foreign key."""
    lost = []
    for table in Base.metadata.sorted_tables:
        for key in sorted(table.foreign_keys, key=lambda key: key.parent.name):
            count = session.scalar(sa.select(sa.func.count()).select_from(table).where(_is_dangling(key)))
            if count:
                lost.append(Dangling(table.name, key.parent.name, key.column.table.name, count))
    return lost


def remove_dangling(session: Session, tables: Sequence[str]) -> None:
    """Delete the rows of these tables that refer to a row that does not exist."""
    for name in tables:
        table = Base.metadata.tables[name]
        for key in table.foreign_keys:
            session.execute(sa.delete(table).where(_is_dangling(key)))


def _is_dangling(key: sa.ForeignKey) -> sa.ColumnElement[bool]:
    target = key.column.table.alias("target")
    exists = sa.exists().where(target.c[key.column.name] == key.parent)
    return sa.and_(key.parent.is_not(None), ~exists)


def runs_without_job(session: Session) -> list[Run]:
    """Return queued or running runs that no queued or running job is for."""
    job = sa.exists().where(Job.run_id == Run.id, Job.state.in_(_OPEN))
    return list(session.scalars(sa.select(Run).where(Run.state.in_(_OPEN), ~job).order_by(Run.id)))


def open_jobs(session: Session) -> list[Job]:
    """Return the queued and running jobs."""
    return list(session.scalars(sa.select(Job).where(Job.state.in_(_OPEN)).order_by(Job.id)))


def open_rounds(session: Session) -> list[Round]:
    """Return the queued and running rounds."""
    return list(session.scalars(sa.select(Round).where(Round.state.in_(_OPEN)).order_by(Round.id)))


def times_ahead(session: Session, tolerance: dt.timedelta) -> list[tuple[str, str, int, dt.datetime]]:
    """Return (table, column, count, latest) of times that lie in the future by more than the tolerance."""
    later, ahead = now() + tolerance, []
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if not isinstance(column.type, UtcTime) or column.name in _AHEAD:
                continue
            query = sa.select(sa.func.count(), sa.func.max(column, type_=UtcTime())).where(column > later)
            count, latest = session.execute(query).one()
            if count:
                ahead.append((table.name, column.name, count, latest))
    return ahead
