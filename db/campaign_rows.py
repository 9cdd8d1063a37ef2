"""Rows of campaigns, their members and their sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from db.engine import Session, upsert
from db.tables import Annotation, Campaign, LinkRow, Member, SentenceRow, SpanRow, Task

_CHUNK = 500
_Value = TypeVar("_Value")
_Query = TypeVar("_Query", bound=sa.Select[*tuple[Any, ...]])


def find(session: Session, campaign_id: int) -> Campaign | None:
    """Return the campaign with this id."""
    return session.get(Campaign, campaign_id)


def hold(session: Session, campaign_id: int) -> None:
    """Lock the campaign until this transaction ends; other calls of `hold` wait.

    Rows that refer to the campaign can still be added meanwhile: a submission opens the next stage.
    """
    session.execute(sa.select(Campaign.id).where(Campaign.id == campaign_id).with_for_update(key_share=True))


def find_by_name(session: Session, name: str) -> Campaign | None:
    """Return the campaign with this name."""
    return session.scalar(sa.select(Campaign).where(Campaign.name == name))


def everything(session: Session, *, member_id: int | None = None) -> list[Campaign]:
    """Return all campaigns, or those a person is a member of, newest first."""
    query = sa.select(Campaign).order_by(Campaign.id.desc())
    if member_id is not None:
        query = query.join(Member, Member.campaign_id == Campaign.id).where(Member.user_id == member_id)
    return list(session.scalars(query))


def add(session: Session, **values: Any) -> Campaign:
    """Add a campaign and assign its id."""
    campaign = Campaign(**values)
    session.add(campaign)
    session.flush()
    return campaign


def remove(session: Session, campaign: Campaign) -> None:
    """Delete a campaign with everything in it."""
    session.delete(campaign)
    session.flush()


def add_members(session: Session, campaign_id: int, user_ids: Iterable[int]) -> None:
    """Make people members; existing members stay."""
    rows = [{"campaign_id": campaign_id, "user_id": user_id} for user_id in sorted(set(user_ids))]
    upsert(session, Member, rows, keys=("campaign_id", "user_id"))


def keep_members(session: Session, campaign_id: int, user_ids: Iterable[int]) -> None:
    """Remove every member who is not among `user_ids`."""
    gone = Member.user_id.not_in(set(user_ids))
    session.execute(sa.delete(Member).where(Member.campaign_id == campaign_id, gone))


def names_and_positions(session: Session, campaign_id: int, hashes: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Return name and position of the campaign's sentences with these hashes; names are as they came with the files."""
    names = _of_hashes(session, SentenceRow.external_id, campaign_id, hashes)
    positions = _of_hashes(session, SentenceRow.position, campaign_id, list(names))
    return {key: (name, positions[key]) for key, name in names.items()}


def ids_of(session: Session, campaign_id: int, hashes: Sequence[str]) -> dict[str, int]:
    """Return the ids of the campaign's sentences with these content hashes."""
    return _of_hashes(session, SentenceRow.id, campaign_id, hashes)


def _of_hashes(
    session: Session, column: sa.orm.InstrumentedAttribute[_Value], campaign_id: int, hashes: Sequence[str]
) -> dict[str, _Value]:
    values: dict[str, _Value] = {}
    for first in range(0, len(hashes), _CHUNK):
        query = sa.select(SentenceRow.content_hash, column).where(
            SentenceRow.campaign_id == campaign_id, SentenceRow.content_hash.in_(hashes[first : first + _CHUNK])
        )
        values |= dict(session.execute(query).all())
    return values


def last_position(session: Session, campaign_id: int) -> float:
    """Return the highest position in the queue, -1 in an empty campaign."""
    query = sa.select(sa.func.max(SentenceRow.position)).where(SentenceRow.campaign_id == campaign_id)
    highest = session.scalar(query)
    return -1.0 if highest is None else highest


def add_sentences(session: Session, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert sentences; return their ids in the order of the rows."""
    if not rows:
        return []
    insert = sa.insert(SentenceRow).returning(SentenceRow.id, sort_by_parameter_order=True)
    return list(session.scalars(insert, [dict(row) for row in rows]))


def add_links(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert links; of two over the same tokens, the first is kept."""
    upsert(session, LinkRow, rows, keys=("sentence_id", "start", "end"))


def add_tasks(session: Session, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert tasks; return their ids in the order of the rows."""
    if not rows:
        return []
    insert = sa.insert(Task).returning(Task.id, sort_by_parameter_order=True)
    return list(session.scalars(insert, [dict(row) for row in rows]))


def add_annotations(session: Session, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert annotations without spans; return their ids in the order of the rows."""
    if not rows:
        return []
    insert = sa.insert(Annotation).returning(Annotation.id, sort_by_parameter_order=True)
    return list(session.scalars(insert, [dict(row) for row in rows]))


def add_spans(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert spans of annotations."""
    if rows:
        session.execute(sa.insert(SpanRow), [dict(row) for row in rows])


def task_counts(session: Session, campaign_ids: Sequence[int]) -> dict[tuple[int, str, str], int]:
    """Return the number of tasks by campaign, stage and state."""
    query = (
        sa.select(Task.campaign_id, Task.stage, Task.state, sa.func.count())
        .where(Task.campaign_id.in_(campaign_ids))
        .group_by(Task.campaign_id, Task.stage, Task.state)
    )
    return {(campaign, stage, state): number for campaign, stage, state, number in session.execute(query)}


def pool_gold_counts(session: Session) -> dict[int, int]:
    """Return the number of gold sentences of the pool, which are trained on, by campaign; none for those without."""
    query = (
        sa.select(Task.campaign_id, sa.func.count())
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(Task.stage == "adjudicate", Task.state == "done", SentenceRow.split == "pool")
        .group_by(Task.campaign_id)
    )
    return dict(session.execute(query).all())


def sentence_counts(session: Session, campaign_ids: Sequence[int]) -> dict[tuple[int, str], int]:
    """Return the number of sentences by campaign and split."""
    query = (
        sa.select(SentenceRow.campaign_id, SentenceRow.split, sa.func.count())
        .where(SentenceRow.campaign_id.in_(campaign_ids))
        .group_by(SentenceRow.campaign_id, SentenceRow.split)
    )
    return {(campaign, split): number for campaign, split, number in session.execute(query)}


def sentences_not_begun(session: Session, campaign_id: int, stage: str) -> list[SentenceRow]:
    """Return the sentences whose task at a stage does not exist yet, or is open with no work on it."""
    return list(session.scalars(_not_begun(sa.select(SentenceRow), campaign_id, stage)))


def ids_not_begun(session: Session, campaign_id: int, stage: str, among: Collection[int]) -> set[int]:
    """Return the ids of those sentences among `among` whose task at a stage does not exist yet, or is untouched."""
    query = _not_begun(sa.select(SentenceRow.id), campaign_id, stage)
    if len(among) <= _CHUNK:
        query = query.where(SentenceRow.id.in_(among))
    return set(session.scalars(query)) & set(among)


def _not_begun(query: _Query, campaign_id: int, stage: str) -> _Query:
    begun = sa.exists().where(
        Task.sentence_id == SentenceRow.id,
        Task.stage == stage,
        sa.or_(Task.state != "open", sa.exists().where(Annotation.task_id == Task.id)),
    )
    return query.where(SentenceRow.campaign_id == campaign_id, ~begun)


def types_in_use(session: Session, campaign_id: int) -> set[str]:
    """Return the entity types that the campaign's spans use."""
    query = (
        sa.select(SpanRow.type)
        .join(Annotation, Annotation.id == SpanRow.annotation_id)
        .join(Task, Task.id == Annotation.task_id)
        .join(SentenceRow, SentenceRow.id == Task.sentence_id)
        .where(SentenceRow.campaign_id == campaign_id)
        .distinct()
    )
    return set(session.scalars(query))
