"""Rows of tasks: whose turn it is, what is free, and what waits for an answer."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from db.engine import Session, lock_rows, upsert
from db.question_rows import AWAITED
from db.tables import Annotation, Member, Question, SentenceRow, Task, User

_Value = Any
"""A value of a column, or the parameter by which a query that is made once gets it."""
_OTHER = aliased(Task)
"""Alias for another task of the same sentence; made once, as making it would take half of a statement's time."""


_HELD = (
    sa.select(Task.id, Task.lease_expires)
    .where(
        Task.leased_to == sa.bindparam("user_id"),
        Task.campaign_id == sa.bindparam("campaign_id"),
        Task.stage == sa.bindparam("stage"),
    )
    .order_by(Task.id)  # locks are taken in this order
)
_HELD_LOCKED = _HELD.with_for_update()
_WITH_SENTENCE = (
    sa.select(Task, SentenceRow)
    .join(SentenceRow, SentenceRow.id == Task.sentence_id)
    .where(Task.id == sa.bindparam("task_id"))
    .with_for_update(of=Task)
)


def find(session: Session, task_id: int) -> Task | None:
    """Return a task, locked until the transaction ends where the database locks rows."""
    return session.get(Task, task_id, with_for_update=True)


def with_sentence(session: Session, task_id: int) -> tuple[Task | None, SentenceRow | None]:
    """Return a task, locked as by `find`, and its sentence."""
    row = session.execute(_WITH_SENTENCE, {"task_id": task_id}).one_or_none()
    return (None, None) if row is None else (row[0], row[1])


def sentence_at(session: Session, task_id: int, *, campaign_id: int, stage: str) -> SentenceRow | None:
    """Return the sentence of a task, None if the task is of another campaign or stage."""
    query = sa.select(SentenceRow).join(Task, Task.sentence_id == SentenceRow.id)
    return session.scalar(query.where(Task.id == task_id, Task.campaign_id == campaign_id, Task.stage == stage))


def of_sentence(session: Session, sentence_id: int) -> dict[str, Task]:
    """Return the tasks of a sentence by stage."""
    return {task.stage: task for task in session.scalars(sa.select(Task).where(Task.sentence_id == sentence_id))}


def held(
    session: Session, *, campaign_id: int, user_id: int, stage: str, lock: bool = False
) -> list[tuple[int, dt.datetime]]:
    """Return (task id, lease end) of what is leased to a person, in the order it was handed out.

    Leases are given and renewed in that order, slightly apart, so their ends preserve it. An expired lease is still
    the person's until somebody else takes the task. With `lock` this stays so until the transaction ends: callers that
    write to these tasks need it, or another lease or a submission may come in between.
    """
    values = {"user_id": user_id, "campaign_id": campaign_id, "stage": stage}
    rows = session.execute(_HELD_LOCKED if lock else _HELD, values)
    leased = [(task_id, expires) for task_id, expires in rows if expires is not None]
    return sorted(leased, key=lambda pair: (pair[1], pair[0]))


def _touched(user_id: _Value, stage: _Value) -> sa.ColumnElement[bool]:
    """Return the condition that a person worked on the task's sentence at another stage, or skipped the task."""
    other = _OTHER
    work = (
        sa.select(sa.literal(1))
        .select_from(other)
        .join(Annotation, Annotation.task_id == other.id)
        # `+ 0` keeps the database from scanning all of the person's work for every task.
        .where(other.sentence_id == Task.sentence_id, Annotation.user_id + 0 == user_id, _bars(other, stage))
    )
    return work.exists()


def _bars(other: type[Task], stage: _Value) -> sa.ColumnElement[bool]:
    """Return the condition that work on the task `other` bars its author from the sentence at a stage."""
    elsewhere = sa.and_(other.stage != stage, Annotation.state != "skipped", Annotation.origin == "person")
    return sa.or_(elsewhere, sa.and_(other.stage == stage, Annotation.state == "skipped"))


def _asked_by_other(user_id: _Value) -> sa.ColumnElement[bool]:
    """Return the condition that another expert of the campaign waits for answers to a question about the task.

    An asker who has left the campaign, is no longer an expert or has a closed account does not count. Once all it
    asks have answered nobody waits: the task is the asker's as long as their lease, like any other.
    """
    asked = sa.select(sa.literal(1)).select_from(Question).join(User, User.id == Question.asked_by)
    asked = asked.join(Member, sa.and_(Member.user_id == User.id, Member.campaign_id == Task.campaign_id))
    others = (Question.asked_by != user_id, User.active.is_(True), User.role == "expert")
    return asked.where(Question.task_id == Task.id, Question.closed_at.is_(None), *others, AWAITED).exists()


def _unheld(user_id: _Value, now: _Value) -> tuple[tuple[sa.ColumnElement[bool], ...], ...]:
    """Return the two ways a task can be free: open, or leased to somebody else whose lease has expired."""
    expired = (Task.state == "leased", Task.leased_to != user_id, Task.lease_expires < now)
    return (Task.state == "open",), expired


def free(
    session: Session, *, campaign_id: int, user_id: int, stage: str, now: dt.datetime, count: int, lock: bool = False
) -> list[int]:
    """Return the next tasks a person may be given, in the order of the queue."""
    candidates: list[tuple[float, int, int]] = []
    values = {"campaign_id": campaign_id, "user_id": user_id, "stage": stage, "now": now, "count": count}
    for query in _free_queries(stage == "adjudicate", lock):
        candidates += [
            (position, sentence_id, task_id) for position, sentence_id, task_id in session.execute(query, values)
        ]
    return [task_id for _, _, task_id in sorted(candidates)[:count]]


@cache
def _free_queries(adjudicating: bool, lock: bool) -> tuple[sa.Executable, ...]:
    """Make the queries of `free`; once, as making them takes longer than running them."""
    parameters: list[_Value] = [sa.bindparam(name) for name in ("campaign_id", "user_id", "stage", "now")]
    campaign_id, user_id, stage, now = parameters
    queries = []
    for unheld in _unheld(user_id, now):
        query = sa.select(Task.position, Task.sentence_id, Task.id).where(
            Task.campaign_id == campaign_id, Task.stage == stage, *unheld, ~_touched(user_id, stage)
        )
        if adjudicating:
            query = query.where(~_asked_by_other(user_id))
        query = query.order_by(Task.position, Task.sentence_id).limit(sa.bindparam("count", type_=sa.Integer))
        queries.append(lock_rows(query) if lock else query)  # type: ignore[arg-type]
    return tuple(queries)


def count_free(
    session: Session, *, campaign_id: int, user_id: int, stages: Sequence[str], now: dt.datetime
) -> Counter[str]:
    """Return by stage how many tasks a person could still be given.

    Tasks whose question another expert waits for count too.
    """
    total: Counter[str] = Counter()
    for unheld in _unheld(user_id, now):
        here = (Task.campaign_id == campaign_id, Task.stage.in_(stages), *unheld)
        other = _OTHER
        barred = (
            sa.select(Task.stage, sa.func.count(Task.id.distinct()))
            .select_from(Annotation)
            .join(other, other.id == Annotation.task_id)
            .join(Task, Task.sentence_id == other.sentence_id)
            .where(Annotation.user_id == user_id, _bars(other, Task.stage), *here)
        )
        total.update(_by_stage(session, sa.select(Task.stage, sa.func.count()).where(*here)))
        total.subtract(_by_stage(session, barred))
    return total


def count_held(session: Session, *, campaign_id: int, user_id: int, stages: Sequence[str]) -> Mapping[str, int]:
    """Return by stage how many tasks are leased to a person; `held` says which."""
    mine = (Task.leased_to == user_id, Task.campaign_id == campaign_id, Task.stage.in_(stages))
    return _by_stage(session, sa.select(Task.stage, sa.func.count()).where(*mine, Task.lease_expires.is_not(None)))


def _by_stage(session: Session, query: sa.Select[str, int]) -> dict[str, int]:
    return dict(session.execute(query.group_by(Task.stage)).all())


def lease(session: Session, task_ids: Sequence[int], *, user_id: int, until: dt.datetime) -> None:
    """Lease tasks to a person, or renew the lease; the ends of the leases preserve the order of the ids."""
    values = [
        {
            "id": task_id,
            "state": "leased",
            "leased_to": user_id,
            "lease_expires": until + dt.timedelta(milliseconds=number),
        }
        for number, task_id in enumerate(task_ids)
    ]
    if values:
        session.execute(sa.update(Task), values)


def release(task: Task, *, state: str = "open") -> None:
    """Release the lease on a task."""
    task.state, task.leased_to, task.lease_expires = state, None, None


def finish(task: Task, *, user_id: int, at: dt.datetime) -> None:
    """Mark a task as done by a person."""
    release(task, state="done")
    task.done_by, task.done_at = user_id, at


def give_back(task: Task, *, user_id: int, until: dt.datetime) -> None:
    """Lease a done, skipped or free task to a person again."""
    task.state, task.leased_to, task.lease_expires = "leased", user_id, until
    task.done_by, task.done_at = None, None


def open_stage(session: Session, task: Task, stage: str) -> None:
    """Make sure that the sentence of a task has a task of this stage, too."""
    place = {"sentence_id": task.sentence_id, "campaign_id": task.campaign_id, "position": task.position}
    upsert(session, Task, [{**place, "stage": stage}], keys=("sentence_id", "stage"))


def has_begun(session: Session, task: Task) -> bool:
    """Return whether anybody has the task, has worked on it, or has asked about it."""
    return bool(session.scalar(sa.select(sa.exists().where(Task.id == task.id, _begun()))))


def begun(session: Session, sentence_ids: Iterable[int]) -> set[tuple[int, str]]:
    """Return (sentence id, stage) of these sentences' tasks that somebody has begun, as `has_begun` defines it."""
    query = sa.select(Task.sentence_id, Task.stage).where(Task.sentence_id.in_(set(sentence_ids)), _begun())
    return {(sentence_id, stage) for sentence_id, stage in session.execute(query)}


def _begun() -> sa.ColumnElement[bool]:
    """Return the condition that somebody has the task, has worked on it, or has asked about it."""
    worked = sa.select(sa.literal(1)).where(Annotation.task_id == Task.id).exists()
    asked = sa.select(sa.literal(1)).where(Question.task_id == Task.id).exists()
    return sa.or_(Task.state != "open", worked, asked)


def remove(session: Session, task: Task) -> None:
    """Delete a task that nobody has begun."""
    session.delete(task)
    session.flush()


def count_done(session: Session, *, campaign_id: int, user_id: int, stages: Sequence[str]) -> Mapping[str, int]:
    """Return by stage how many tasks a person has done."""
    mine = (Task.done_by == user_id, Task.campaign_id == campaign_id, Task.stage.in_(stages))
    return _by_stage(session, sa.select(Task.stage, sa.func.count()).where(*mine))


def parked(session: Session, campaign_id: int) -> list[tuple[Task, SentenceRow]]:
    """Return the parked tasks, in queue order."""
    query = (
        sa.select(Task, SentenceRow)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(Task.campaign_id == campaign_id, Task.state == "parked")
        .order_by(SentenceRow.position, SentenceRow.id)
    )
    return [(task, sentence) for task, sentence in session.execute(query)]


def release_untouched(session: Session, *, campaign_id: int, user_id: int, stage: str) -> int:
    """Release a person's leases on tasks that they have no work on; return how many."""
    ids = [task_id for task_id, _ in held(session, campaign_id=campaign_id, user_id=user_id, stage=stage, lock=True)]
    worked = sa.select(Annotation.task_id).where(Annotation.user_id == user_id, Annotation.task_id.in_(ids))
    asked = sa.select(Question.task_id).where(Question.task_id.in_(ids), Question.closed_at.is_(None))
    untouched = set(ids) - set(session.scalars(worked)) - set(session.scalars(asked))
    if untouched:
        session.execute(
            sa.update(Task).where(Task.id.in_(untouched)).values(state="open", leased_to=None, lease_expires=None)
        )
    return len(untouched)


def listed(
    session: Session, campaign_id: int, *, stage: str | None, state: str | None, after: int, limit: int
) -> list[tuple[Task, str, str | None, str | None]]:
    """Return a campaign's tasks with ids above `after`: with the sentence's own id, its holder, and who did it."""
    holder, doer = aliased(User), aliased(User)
    query = (
        sa.select(Task, SentenceRow.external_id, holder.display_name, doer.display_name)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .outerjoin(holder, holder.id == Task.leased_to)
        .outerjoin(doer, doer.id == Task.done_by)
        .where(Task.campaign_id == campaign_id, Task.id > after)
    )
    if stage is not None:
        query = query.where(Task.stage == stage)
    if state is not None:
        query = query.where(Task.state == state)
    rows = session.execute(query.order_by(Task.id).limit(limit))
    return [(task, external_id, held_by, done_by) for task, external_id, held_by, done_by in rows]
