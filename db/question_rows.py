"""Rows of questions that experts ask about sentences, and of the answers."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from db.engine import Session, upsert
from db.tables import LABELLERS, Answer, Member, Question, SentenceRow, Task, User
from db.types import now

Thread = tuple[Question, User, list[tuple[Answer, User]]]


_OWN = aliased(Task)


def _asked(own: type[Task], asks: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a question asks whoever did the task `own` of its sentence."""
    return sa.or_(
        sa.and_(own.stage == "annotate", asks != "second"),
        sa.and_(own.stage == "check", asks != "first"),
    )


_CAN_ANSWER = (
    sa.exists()
    .where(Member.user_id == _OWN.done_by, Member.campaign_id == _OWN.campaign_id, User.id == Member.user_id)
    .where(User.active.is_(True), User.role.in_(LABELLERS))
    .correlate(_OWN)
)
_HAS_ANSWERED = (
    sa.exists().where(Answer.question_id == Question.id, Answer.user_id == _OWN.done_by).correlate(Question, _OWN)
)
AWAITED = (
    sa.exists()
    .where(_OWN.sentence_id == Task.sentence_id, _asked(_OWN, Question.__table__.c.asks), _CAN_ANSWER, ~_HAS_ANSWERED)
    .correlate(Question, Task)
)
"""The condition that somebody who is asked has not answered yet, for a question joined with its task.

Whoever has left the campaign or imported the layer without labelling here cannot answer, so nobody waits for them.
"""


def people_asked(session: Session, sentence_id: int, asks: str) -> set[int]:
    """Return who would be asked about a sentence and can answer."""
    query = sa.select(_OWN.done_by).where(_OWN.sentence_id == sentence_id, _asked(_OWN, sa.literal(asks)), _CAN_ANSWER)
    return {user_id for user_id in session.scalars(query) if user_id is not None}


def find(session: Session, question_id: int) -> Question | None:
    """Return the question with this id."""
    return session.get(Question, question_id)


def add(session: Session, *, task_id: int, user_id: int, text: str, asks: str) -> Question:
    """Add a question and assign its id."""
    question = Question(task_id=task_id, asked_by=user_id, text=text, asks=asks)
    session.add(question)
    session.flush()
    return question


def answer(session: Session, *, question_id: int, user_id: int, text: str) -> None:
    """Add a person's answer, replacing any earlier one of theirs."""
    row = {"question_id": question_id, "user_id": user_id, "text": text, "answered_at": now()}
    upsert(session, Answer, [row], keys=("question_id", "user_id"), update=("text", "answered_at"))


def close_all(session: Session, task_id: int) -> None:
    """Close every open question about a task."""
    still_open = sa.update(Question).where(Question.task_id == task_id, Question.closed_at.is_(None))
    session.execute(still_open.values(closed_at=now()))


def of_tasks(session: Session, task_ids: Sequence[int]) -> list[Thread]:
    """Return the questions about tasks, each with who asked it and its answers, oldest first."""
    return _threads(session, Question.task_id.in_(task_ids))


def asked_by(session: Session, *, campaign_id: int, user_id: int) -> list[Thread]:
    """Return a person's questions in a campaign, the oldest first."""
    return _threads(session, Question.asked_by == user_id, _in_campaign(campaign_id))


def open_in(session: Session, campaign_id: int) -> list[Thread]:
    """Return the open questions of a campaign, whoever asked them, the oldest first."""
    return _threads(session, Question.closed_at.is_(None), _in_campaign(campaign_id))


def put_to(session: Session, *, campaign_id: int, user_id: int) -> list[Thread]:
    """Return the questions that ask a person about a sentence they annotated or checked, the oldest first."""
    own, about = aliased(Task), aliased(Task)
    theirs = sa.exists().where(
        about.id == Question.task_id,
        own.sentence_id == about.sentence_id,
        _asked(own, Question.__table__.c.asks),
        own.done_by == user_id,
    )
    return _threads(session, theirs, _in_campaign(campaign_id))


def awaited(session: Session, task_ids: Sequence[int]) -> list[tuple[Question, User]]:
    """Return the open questions about tasks that wait for an answer, each with who asked it, the oldest first."""
    if not task_ids:
        return []
    query = sa.select(Question, User).join(Task, Task.id == Question.task_id).join(User, User.id == Question.asked_by)
    query = query.where(Question.task_id.in_(task_ids), Question.closed_at.is_(None), AWAITED).order_by(Question.id)
    return [(question, asker) for question, asker in session.execute(query)]


def _in_campaign(campaign_id: int) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        Task.id == Question.task_id, SentenceRow.id == Task.sentence_id, SentenceRow.campaign_id == campaign_id
    )


def _threads(session: Session, *conditions: sa.ColumnElement[bool]) -> list[Thread]:
    query = sa.select(Question, User).join(User, User.id == Question.asked_by).where(*conditions)
    asked = {question.id: (question, user) for question, user in session.execute(query.order_by(Question.id))}
    if not asked:
        return []
    answers = (
        sa.select(Answer, User)
        .join(User, User.id == Answer.user_id)
        .where(Answer.question_id.in_(asked))
        .order_by(Answer.answered_at)
    )
    threads: dict[int, Thread] = {id_: (question, user, []) for id_, (question, user) in asked.items()}
    for given, person in session.execute(answers):
        threads[given.question_id][2].append((given, person))
    return list(threads.values())
