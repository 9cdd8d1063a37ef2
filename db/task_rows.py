"""Rows of tasks: whose turn it is, what is free, and what waits for an answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from db.engine import Session, lock_rows
from db.tables import Annotation, Answer, Question, SentenceRow, Task, User


def find(session: Session, task_id: int) -> Task | None:
    """Return a task, locked until the transaction ends where the database locks rows."""
    return session.get(Task, task_id, with_for_update=True)


def of_sentences(session: Session, sentence_ids: Iterable[int], stage: str) -> dict[int, Task]:
    """Return the tasks of a stage by sentence id."""
    query = sa.select(Task).where(Task.sentence_id.in_(set(sentence_ids)), Task.stage == stage)
    return {task.sentence_id: task for task in session.scalars(query)}


def of_sentence(session: Session, sentence_id: int) -> dict[str, Task]:
    """Return the tasks of a sentence by stage."""
    return {task.stage: task for task in session.scalars(sa.select(Task).where(Task.sentence_id == sentence_id))}


def held(session: Session, *, campaign_id: int, user_id: int, stage: str) -> list[tuple[int, dt.datetime]]:
    """Return (task id, lease end) of what is leased to a person, in the order it was handed out.

    Leases are given and renewed in that order, a little apart, so their ends keep it. A lease that has run out is still
    the person's as long as nobody else has taken it.
    """
    query = (
        sa.select(Task.id, Task.lease_expires)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id, Task.leased_to == user_id, Task.stage == stage)
        .order_by(Task.lease_expires, Task.id)
    )
    return [(task_id, expires) for task_id, expires in session.execute(query) if expires is not None]


def unanswered(session: Session, task_ids: Sequence[int], *, annotators: int = 2) -> set[int]:
    """Return the tasks with an open question that fewer than `annotators` people have answered."""
    if not task_ids:
        return set()
    query = (
        sa.select(Question.task_id)
        .outerjoin(Answer, Answer.question_id == Question.id)
        .where(Question.task_id.in_(task_ids), Question.closed_at.is_(None))
        .group_by(Question.id, Question.task_id)
        .having(sa.func.count(Answer.id) < annotators)
    )
    return set(session.scalars(query))


def _available(*, campaign_id: int, user_id: int, stage: str, now: dt.datetime) -> tuple[sa.ColumnElement[bool], ...]:
    """Say which (Task, SentenceRow) a person may be given: free, not seen by them at another stage, not skipped."""
    other = aliased(Task)
    touched = (
        sa.select(sa.literal(1))
        .select_from(other)
        .join(Annotation, Annotation.task_id == other.id)
        .where(
            other.sentence_id == Task.sentence_id,
            Annotation.user_id == user_id,
            Annotation.origin == "person",
            sa.or_(
                sa.and_(other.stage != stage, Annotation.state != "skipped"),
                sa.and_(other.stage == stage, Annotation.state == "skipped"),
            ),
        )
    )
    asked_by_other = (
        sa.select(sa.literal(1))
        .select_from(Question)
        .join(User, User.id == Question.asked_by)
        .where(
            Question.task_id == Task.id,
            Question.closed_at.is_(None),
            Question.asked_by != user_id,
            User.active.is_(True),
        )
    )
    conditions: tuple[sa.ColumnElement[bool], ...] = (
        SentenceRow.campaign_id == campaign_id,
        Task.stage == stage,
        Task.state.in_(("open", "leased")),
        sa.or_(Task.state == "open", sa.and_(Task.leased_to != user_id, Task.lease_expires < now)),
        ~touched.exists(),
    )
    return (*conditions, ~asked_by_other.exists()) if stage == "adjudicate" else conditions


def free(
    session: Session, *, campaign_id: int, user_id: int, stage: str, now: dt.datetime, count: int, lock: bool = False
) -> list[int]:
    """Return the next tasks a person may be given, in the order of the queue."""
    query = (
        sa.select(Task.id)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(*_available(campaign_id=campaign_id, user_id=user_id, stage=stage, now=now))
        .order_by(SentenceRow.position, SentenceRow.id)
        .limit(count)
    )
    return list(session.scalars(lock_rows(query) if lock else query))


def count_free(session: Session, *, campaign_id: int, user_id: int, stage: str, now: dt.datetime) -> int:
    """Return how many tasks a person could still be given."""
    query = (
        sa.select(sa.func.count())
        .select_from(Task)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(*_available(campaign_id=campaign_id, user_id=user_id, stage=stage, now=now))
    )
    return session.scalar(query) or 0


def lease(session: Session, task_ids: Sequence[int], *, user_id: int, until: dt.datetime) -> None:
    """Lease tasks to a person, or renew the lease; the order of the ids is kept in the ends of the leases."""
    for number, task_id in enumerate(task_ids):
        session.execute(
            sa.update(Task)
            .where(Task.id == task_id)
            .values(state="leased", leased_to=user_id, lease_expires=until + dt.timedelta(milliseconds=number))
        )


def release(task: Task, *, state: str = "open") -> None:
    """Take the lease off a task."""
    task.state, task.leased_to, task.lease_expires = state, None, None


def finish(task: Task, *, user_id: int, at: dt.datetime) -> None:
    """Mark a task as done by a person."""
    release(task, state="done")
    task.done_by, task.done_at = user_id, at


def give_back(task: Task, *, user_id: int, until: dt.datetime) -> None:
    """Lease a task that was done, skipped or free to a person again."""
    task.state, task.leased_to, task.lease_expires = "leased", user_id, until
    task.done_by, task.done_at = None, None


def open_stage(session: Session, sentence_id: int, stage: str) -> None:
    """Make sure that the sentence has a task of this stage."""
    if stage not in of_sentence(session, sentence_id):
        session.add(Task(sentence_id=sentence_id, stage=stage))
        session.flush()


def has_begun(session: Session, task: Task) -> bool:
    """Say whether anybody has the task, has worked on it, or has asked about it."""
    if task.state != "open":
        return True
    worked = sa.select(sa.exists().where(Annotation.task_id == task.id))
    asked = sa.select(sa.exists().where(Question.task_id == task.id))
    return bool(session.scalar(worked)) or bool(session.scalar(asked))


def remove(session: Session, task: Task) -> None:
    """Delete a task that nobody has begun."""
    session.delete(task)
    session.flush()


def done_by(session: Session, *, campaign_id: int, user_id: int, stage: str) -> int:
    """Return how many tasks of a stage a person has done."""
    query = (
        sa.select(sa.func.count())
        .select_from(Task)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id, Task.done_by == user_id, Task.stage == stage)
    )
    return session.scalar(query) or 0


def parked(session: Session, campaign_id: int) -> list[tuple[Task, SentenceRow]]:
    """Return the tasks set aside, in the order of the queue."""
    query = (
        sa.select(Task, SentenceRow)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id, Task.state == "parked")
        .order_by(SentenceRow.position, SentenceRow.id)
    )
    return [(task, sentence) for task, sentence in session.execute(query)]


def release_untouched(session: Session, *, campaign_id: int, user_id: int, stage: str) -> int:
    """Take the lease off a person's tasks that they have no work on; return how many."""
    ids = [task_id for task_id, _ in held(session, campaign_id=campaign_id, user_id=user_id, stage=stage)]
    worked = sa.select(Annotation.task_id).where(Annotation.user_id == user_id, Annotation.task_id.in_(ids))
    asked = sa.select(Question.task_id).where(Question.task_id.in_(ids), Question.closed_at.is_(None))
    untouched = set(ids) - set(session.scalars(worked)) - set(session.scalars(asked))
    if untouched:
        session.execute(
            sa.update(Task).where(Task.id.in_(untouched)).values(state="open", leased_to=None, lease_expires=None)
        )
    return len(untouched)
