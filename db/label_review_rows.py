"""Rows of label review: each review replaces the open findings, decided ones stay."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from db.engine import Session
from db.label_review_tables import FindingRow
from db.tables import SentenceRow, Task, User
from db.types import now


def replace_open(
    session: Session, *, campaign_id: int, found_by: str, rows: Iterable[Mapping[str, Any]]
) -> tuple[int, int]:
    """Replace a check's open findings; return how many were added, and how many were left out as already decided.

    An open finding with reverted decisions stays, for its history.

    A finding is left out if a decided one of the same check touches its tokens and was about the same gold.
    """
    session.execute(
        sa.delete(FindingRow).where(
            FindingRow.campaign_id == campaign_id,
            FindingRow.found_by == found_by,
            FindingRow.state == "open",
            sa.cast(FindingRow.history, sa.Text) == "[]",
        )
    )
    return add(session, campaign_id=campaign_id, found_by=found_by, rows=rows)


def add(session: Session, *, campaign_id: int, found_by: str, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Add findings that are neither open nor decided already; return how many were added and left out."""
    known: dict[tuple[int, int | None], list[FindingRow]] = {}
    for row in of_check(session, campaign_id=campaign_id, found_by=found_by):
        known.setdefault((row.sentence_id, row.other_id), []).append(row)
    values, left_out = [], 0
    for new in rows:
        same_place = known.get((new["sentence_id"], new["other_id"]), [])
        if any(_same(row, new) for row in same_place):
            left_out += 1
        else:
            values.append({**new, "campaign_id": campaign_id, "found_by": found_by})
    if values:
        session.execute(sa.insert(FindingRow), values)
    return len(values), left_out


def of_check(session: Session, *, campaign_id: int, found_by: str, state: str | None = None) -> list[FindingRow]:
    """Return a check's findings, the most doubtful first."""
    query = sa.select(FindingRow).where(FindingRow.campaign_id == campaign_id, FindingRow.found_by == found_by)
    if state is not None:
        query = query.where(FindingRow.state == state)
    return list(session.scalars(query.order_by(FindingRow.score.desc(), FindingRow.id)))


def find(session: Session, finding_id: int) -> FindingRow | None:
    """Return a finding, locked until the transaction ends where the database locks rows."""
    return session.get(FindingRow, finding_id, with_for_update=True)


def decide(
    row: FindingRow, *, state: str, user_id: int, name: str, split: str, left_out_id: int | None = None, key: str = ""
) -> None:
    """Record a decision, who made it, when and in which split; `left_out_id` is the sentence left out, if any."""
    row.state, row.decided_by, row.decided_at, row.left_out_id = state, user_id, now(), left_out_id
    _log(row, state, name, split, key)


def reopen(row: FindingRow, *, name: str, split: str, key: str = "") -> None:
    """Reopen a decided finding, and record who reverted the decision."""
    row.state, row.decided_by, row.decided_at, row.left_out_id = "open", None, None, None
    _log(row, "reverted", name, split, key)


def is_known(row: FindingRow, key: str) -> bool:
    """Return whether what a browser sends under this key was done before."""
    return bool(key) and any(entry.get("key") == key for entry in row.history)


def _log(row: FindingRow, state: str, name: str, split: str, key: str) -> None:
    entry = {"state": state, "by": name, "at": now().isoformat(), "split": split} | ({"key": key} if key else {})
    # A new list: SQLAlchemy sees no change within the old one.
    row.history = [*row.history, entry]


def moments(session: Session, *, campaign_id: int, user_id: int, limit: int) -> list[dt.datetime]:
    """Return when a person made their last decisions in a campaign, newest first."""
    query = sa.select(FindingRow.decided_at).where(
        FindingRow.campaign_id == campaign_id, FindingRow.decided_by == user_id, FindingRow.decided_at.is_not(None)
    )
    rows = session.scalars(query.order_by(FindingRow.decided_at.desc(), FindingRow.id.desc()).limit(limit))
    return [moment for moment in rows if moment is not None]


def decided(session: Session, campaign_id: int) -> list[tuple[FindingRow, User]]:
    """Return the decided findings, each with who decided it, newest first."""
    query = (
        sa.select(FindingRow, User)
        .join(User, User.id == FindingRow.decided_by)
        .where(FindingRow.campaign_id == campaign_id, FindingRow.state != "open")
        .order_by(FindingRow.decided_at.desc(), FindingRow.id.desc())
    )
    return [(row, user) for row, user in session.execute(query)]


def left_out(session: Session, campaign_id: int) -> dict[int, dt.datetime]:
    """Return the ids of the sentences that were left out, each with the time of the decision."""
    query = (
        sa.select(FindingRow.left_out_id, sa.func.min(FindingRow.decided_at))
        .where(FindingRow.campaign_id == campaign_id, FindingRow.left_out_id.is_not(None))
        .group_by(FindingRow.left_out_id)
    )
    return {id_: since for id_, since in session.execute(query) if id_ is not None and since is not None}


def is_left_out() -> sa.ColumnElement[bool]:
    """Return the condition that the sentence of a query was left out."""
    return sa.exists().where(FindingRow.left_out_id == SentenceRow.id)


def count_to_train_on(session: Session, campaign_id: int) -> int:
    """Count the pool sentences with gold that were not left out."""
    query = (
        sa.select(sa.func.count())
        .select_from(SentenceRow)
        .join(Task, Task.sentence_id == SentenceRow.id)
        .where(SentenceRow.campaign_id == campaign_id, SentenceRow.split == "pool")
        .where(Task.stage == "adjudicate", Task.state == "done", ~is_left_out())
    )
    return session.scalar(query) or 0


def left_out_gold(session: Session, campaign_ids: Sequence[int]) -> dict[int, int]:
    """Return how many sentences with gold were left out, by campaign."""
    query = (
        sa.select(SentenceRow.campaign_id, sa.func.count())
        .join(Task, Task.sentence_id == SentenceRow.id)
        .where(SentenceRow.campaign_id.in_(campaign_ids), Task.stage == "adjudicate", Task.state == "done")
        .where(is_left_out())
        .group_by(SentenceRow.campaign_id)
    )
    return dict(session.execute(query).all())


def who_left_out(session: Session, sentence_id: int) -> tuple[FindingRow, User] | None:
    """Return the first decision that left a sentence out, and who made it; None if there is none."""
    query = sa.select(FindingRow, User).join(User, User.id == FindingRow.decided_by)
    query = query.where(FindingRow.left_out_id == sentence_id).order_by(FindingRow.decided_at, FindingRow.id)
    row = session.execute(query).first()
    return None if row is None else (row[0], row[1])


def sentences(session: Session, sentence_ids: Sequence[int]) -> list[SentenceRow]:
    """Return sentences by id."""
    return list(session.scalars(sa.select(SentenceRow).where(SentenceRow.id.in_(set(sentence_ids)))))


def _same(row: FindingRow, new: Mapping[str, Any]) -> bool:
    """Return whether both are about the same gold at touching tokens, compared with the same other gold."""
    touch = row.start < new["end"] and new["start"] < row.end
    return touch and row.there == new["there"] and row.other_there == new["other_there"]
