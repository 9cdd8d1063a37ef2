"""Rows of people, as far as the role check and campaigns need them."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from db.engine import Session
from db.tables import Campaign, Member, User

_PERSON = sa.select(User).where(User.id == sa.bindparam("id"))
_MEMBER = (
    sa.select(User, Campaign)
    .join(Member, Member.user_id == User.id)
    .join(Campaign, Campaign.id == Member.campaign_id)
    .where(User.id == sa.bindparam("user_id"), Campaign.id == sa.bindparam("campaign_id"))
)
_MEMBER_HELD = _MEMBER.with_for_update(of=Member)
# Asked by every use case, so they are made once.


def find(session: Session, user_id: int) -> User | None:
    """Return the person with this id as the store has it now."""
    return session.scalar(_PERSON, {"id": user_id})


def in_campaign(
    session: Session, *, campaign_id: int, user_id: int, lock: bool = False
) -> tuple[User, Campaign] | None:
    """Return a campaign's member and the campaign, as the store has them now; None for somebody who is no member.

    With `lock` the membership is locked until the transaction ends, and other calls with `lock` wait.
    """
    values = {"campaign_id": campaign_id, "user_id": user_id}
    row = session.execute(_MEMBER_HELD if lock else _MEMBER, values).one_or_none()
    return None if row is None else (row[0], row[1])


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
