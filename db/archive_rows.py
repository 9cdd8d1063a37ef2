"""Read a campaign's sentences with everything people and machines added, and write them into a new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, StatementError
from sqlalchemy.orm import selectinload

from crossner_core.errors import BadInput
from db.engine import Session
from db.tables import Annotation, AnnotationVersion, Question, SentenceRow, Task, User

_CHUNK = 400


def sentences(session: Session, campaign_id: int) -> Iterable[tuple[SentenceRow, list[Task]]]:
    """Yield sentences in import order, with their tasks and everything attached to them."""
    ids = list(
        session.scalars(
            sa.select(SentenceRow.id).where(SentenceRow.campaign_id == campaign_id).order_by(SentenceRow.id)
        )
    )
    for first in range(0, len(ids), _CHUNK):
        part = ids[first : first + _CHUNK]
        query = sa.select(SentenceRow).where(SentenceRow.id.in_(part)).order_by(SentenceRow.id)
        rows = list(
            session.scalars(query.options(selectinload(SentenceRow.links), selectinload(SentenceRow.suggestions)))
        )
        tasks: dict[int, list[Task]] = {}
        for task in session.scalars(_tasks(part)):
            tasks.setdefault(task.sentence_id, []).append(task)
        for row in rows:
            yield row, tasks.get(row.id, [])


def versions(session: Session, campaign_id: int) -> dict[int, list[AnnotationVersion]]:
    """Return the kept versions of a campaign's annotations, by annotation id."""
    query = sa.select(AnnotationVersion).join(Annotation, Annotation.id == AnnotationVersion.annotation_id)
    query = query.join(Task, Task.id == Annotation.task_id).join(SentenceRow, SentenceRow.id == Task.sentence_id)
    query = query.where(SentenceRow.campaign_id == campaign_id).order_by(AnnotationVersion.revision)
    by_annotation: dict[int, list[AnnotationVersion]] = {}
    for row in session.scalars(query):
        by_annotation.setdefault(row.annotation_id, []).append(row)
    return by_annotation


def questions(session: Session, campaign_id: int) -> dict[int, list[Question]]:
    """Return the questions of a campaign with their answers, by task id."""
    query = sa.select(Question).join(Task, Task.id == Question.task_id)
    query = query.join(SentenceRow, SentenceRow.id == Task.sentence_id).where(SentenceRow.campaign_id == campaign_id)
    by_task: dict[int, list[Question]] = {}
    for row in session.scalars(query.options(selectinload(Question.answers)).order_by(Question.id)):
        by_task.setdefault(row.task_id, []).append(row)
    return by_task


def people(session: Session, names: Sequence[str]) -> dict[str, User]:
    """Return the accounts of these names, by name."""
    return {user.name: user for user in session.scalars(sa.select(User).where(User.name.in_(names)))}


def names(session: Session) -> dict[int, str]:
    """Return the name of every account, by id."""
    return {row[0]: row[1] for row in session.execute(sa.select(User.id, User.name))}


def add(session: Session, row: Any) -> None:
    """Write a row with everything attached to it; raise BadInput if it violates a constraint of the store."""
    session.add(row)
    flush(session)


def flush(session: Session) -> None:
    """Flush pending rows; raise BadInput if one violates a constraint of the store."""
    try:
        session.flush()
    except OperationalError:
        raise
    except StatementError as error:
        raise BadInput(f"The archive violates a rule of the store: {error.orig}. Nothing was imported.") from error


def values(row: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return columns of a row as a mapping."""
    return {name: getattr(row, name) for name in columns}


def _tasks(sentence_ids: Sequence[int]) -> sa.Select[Task]:
    work = selectinload(Task.annotations)
    parts = (Annotation.spans, Annotation.flags, Annotation.rejected, Annotation.decisions)
    query = sa.select(Task).where(Task.sentence_id.in_(sentence_ids)).order_by(Task.id)
    return query.options(*(work.selectinload(part) for part in parts))
