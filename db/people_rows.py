"""Rows of people, as far as the role check and campaigns need them."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from db.engine import Session
from db.tables import Member, User

_PERSON = sa.select(User).where(User.id == sa.bindparam("id"))
"""Asked by every use case, so it is made once."""


def find(session: Session, user_id: int) -> User | None:
    """Return the person with this id as the store has it now."""
    return session.scalar(_PERSON, {"id": user_id})


def by_ids(session: Session, ids: Iterable[int]) -> dict[int, User]:
    """Return the people with these ids, by id."""
    users = session.scalars(sa.select(User).where(User.id.in_(set(ids))))
    return {user.id: user for user in users}


def count_by_role(session: Session) -> dict[str, int]:
    """Return the number of open accounts by role."""
    query = sa.select(User.role, sa.func.count()).where(User.active.is_(True)).group_by(User.role)
    return dict(session.execute(query).all())


def members(session: Session, campaign_id: int) -> list[User]:
    """Return the members of a campaign, by name."""
    query = sa.select(User).join(Member, Member.user_id == User.id).where(Member.campaign_id == campaign_id)
    return list(session.scalars(query.order_by(User.name)))


def is_member(session: Session, *, campaign_id: int, user_id: int) -> bool:
    """Return whether the person is a member of the campaign."""
    return session.get(Member, (campaign_id, user_id)) is not None


def hold_member(session: Session, *, campaign_id: int, user_id: int) -> bool:
    """Do as `is_member`, and lock a member until the transaction ends; other calls of `hold_member` wait."""
    return session.get(Member, (campaign_id, user_id), with_for_update=True) is not None
