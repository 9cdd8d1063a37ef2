"""Rows of webhooks and their deliveries: made with the event, claimed by a worker, settled after each attempt."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy.orm import undefer

from db.engine import Session, lock_rows
from db.programs.webhook_tables import Delivery, Webhook
from db.tables import Task, User
from db.types import now

OPEN = ("waiting", "failed")


class Due(NamedTuple):
    """A delivery that was claimed, with what is needed to send it outside of any transaction."""

    id: int
    webhook_id: int
    message_id: str
    payload: Mapping[str, Any]
    attempts: int
    """This attempt included."""
    claimed_until: dt.datetime
    url: str
    secret: str


_ACTIVE = (
    sa.select(Webhook)
    .where(Webhook.campaign_id == sa.bindparam("campaign_id"), Webhook.active.is_(True))
    .order_by(Webhook.id)
)
_ACTIVE_LOCKED = _ACTIVE.with_for_update(key_share=True).execution_options(populate_existing=True)


def active(session: Session, campaign_id: int, *, lock: bool = False) -> list[Webhook]:
    """Return a campaign's webhooks that are on; with `lock` others that ask so wait until the transaction ends."""
    return list(session.scalars(_ACTIVE_LOCKED if lock else _ACTIVE, {"campaign_id": campaign_id}))


def of_campaign(session: Session, campaign_id: int) -> list[tuple[Webhook, str | None]]:
    """Return a campaign's webhooks, oldest first, each with the name of who made it."""
    query = sa.select(Webhook, User.display_name).join(User, User.id == Webhook.created_by, isouter=True)
    rows = session.execute(query.where(Webhook.campaign_id == campaign_id).order_by(Webhook.id))
    return [(row[0], row[1]) for row in rows]


def add(session: Session, **values: Any) -> Webhook:
    """Add a webhook."""
    row = Webhook(**values)
    session.add(row)
    session.flush()
    return row


def find(session: Session, campaign_id: int, webhook_id: int, *, lock: bool = False) -> Webhook | None:
    """Return a webhook of a campaign; with `lock` it is held until the transaction ends."""
    query = sa.select(Webhook).where(Webhook.id == webhook_id, Webhook.campaign_id == campaign_id)
    return session.scalar(query.with_for_update(key_share=True) if lock else query)


def remove(session: Session, webhook: Webhook) -> None:
    """Delete a webhook with its deliveries."""
    session.execute(sa.delete(Delivery).where(Delivery.webhook_id == webhook.id))
    session.delete(webhook)


def switch_off(session: Session, webhook_id: int, why: str) -> None:
    """Switch a webhook off and give up what waits for it."""
    _update(session, Webhook, Webhook.id == webhook_id, active=False, off_reason=why)
    _give_up(session, Delivery.webhook_id == webhook_id, why)


def switch_off_all(session: Session, why: str) -> None:
    """Switch off every webhook of the store that is on, and give up what waits."""
    _update(session, Webhook, Webhook.active.is_(True), active=False, off_reason=why)
    _give_up(session, sa.true(), why)


def _give_up(session: Session, where: sa.ColumnElement[bool], why: str) -> None:
    still = sa.and_(where, Delivery.state.in_(OPEN))
    ended = {"state": "given up", "next_at": None, "claimed_until": None, "finished_at": now()}
    _update(session, Delivery, still, last_error=why, **ended)


def add_delivery(session: Session, **values: Any) -> Delivery:
    """Add a delivery."""
    row = Delivery(**values)
    session.add(row)
    session.flush()
    return row


def collecting(session: Session, webhook_id: int, type: str) -> Delivery | None:
    """Return the delivery of a type that is not due yet and was never sent, so that more can be put into it."""
    query = sa.select(Delivery).where(
        Delivery.webhook_id == webhook_id,
        Delivery.type == type,
        Delivery.state == "waiting",
        Delivery.attempts == 0,
        Delivery.next_at > now(),
    )
    return session.scalars(query.order_by(Delivery.id.desc()).limit(1).with_for_update()).first()


def unfinished_tasks(session: Session, campaign_id: int) -> bool:
    """Return whether any task of a campaign is not done, those set aside included."""
    query = sa.select(Task.id).where(Task.campaign_id == campaign_id, Task.state != "done")
    return session.scalar(query.limit(1)) is not None


def count_gold(session: Session, campaign_id: int) -> int:
    """Count a campaign's gold sentences."""
    query = sa.select(sa.func.count()).select_from(Task).where(Task.campaign_id == campaign_id)
    return session.scalar(query.where(Task.stage == "adjudicate", Task.state == "done")) or 0


def is_any_due(session: Session, *, busy: Collection[int]) -> bool:
    """Return whether a delivery is due to a webhook that is not `busy`."""
    return session.scalar(sa.select(Delivery.id).where(*_due(), Delivery.webhook_id.not_in(busy)).limit(1)) is not None


def claim(session: Session, *, busy: Collection[int], lease: dt.timedelta) -> Due | None:
    """Claim the delivery that has been due for longest, of a webhook that is not `busy`; None if there is none."""
    query = sa.select(Delivery.id).where(*_due(), Delivery.webhook_id.not_in(busy))
    delivery_id = session.scalar(lock_rows(query.order_by(Delivery.next_at, Delivery.id).limit(1)))
    if delivery_id is None:
        return None
    until = now() + lease
    taken = _update(
        session,
        Delivery,
        sa.and_(Delivery.id == delivery_id, *_due()),
        claimed_until=until,
        attempts=Delivery.attempts + 1,
    )
    if not taken:
        return None
    row = session.get_one(Delivery, delivery_id, populate_existing=True)
    webhook = session.get_one(Webhook, row.webhook_id, options=[undefer(Webhook.secret)])
    return Due(row.id, row.webhook_id, row.message_id, row.payload, row.attempts, until, webhook.url, webhook.secret)


def _due() -> tuple[sa.ColumnElement[bool], ...]:
    unclaimed = Delivery.claimed_until.is_(None) | (Delivery.claimed_until < now())
    return (Delivery.state.in_(OPEN), Delivery.next_at <= now(), unclaimed)


def settle(session: Session, due: Due, **values: Any) -> bool:
    """Record how an attempt ended; False if the claim was lost or the delivery given up meanwhile."""
    held = sa.and_(Delivery.id == due.id, Delivery.claimed_until == due.claimed_until)
    return _update(session, Delivery, held, claimed_until=None, **values)


def deliveries(
    session: Session,
    campaign_id: int,
    *,
    webhook_id: int | None = None,
    states: Sequence[str] = (),
    before: int | None = None,
    limit: int = 50,
) -> list[Delivery]:
    """Return the deliveries of a campaign, newest first; those with ids below `before` if it is given."""
    query = sa.select(Delivery).join(Webhook, Webhook.id == Delivery.webhook_id)
    query = query.where(Webhook.campaign_id == campaign_id).order_by(Delivery.id.desc()).limit(limit)
    if webhook_id is not None:
        query = query.where(Delivery.webhook_id == webhook_id)
    if states:
        query = query.where(Delivery.state.in_(states))
    if before is not None:
        query = query.where(Delivery.id < before)
    return list(session.scalars(query))


def find_delivery(
    session: Session, campaign_id: int, delivery_id: int, *, lock: bool = False
) -> tuple[Delivery, Webhook] | None:
    """Return a delivery of a campaign with its webhook; with `lock` it is held until the transaction ends."""
    query = sa.select(Delivery, Webhook).join(Webhook, Webhook.id == Delivery.webhook_id)
    query = query.where(Delivery.id == delivery_id, Webhook.campaign_id == campaign_id)
    row = session.execute(query.with_for_update(of=Delivery) if lock else query).one_or_none()
    return None if row is None else (row[0], row[1])


def count_waiting(session: Session, campaign_id: int) -> dict[int, int]:
    """Return how many deliveries wait or will be tried again, by webhook."""
    query = sa.select(Delivery.webhook_id, sa.func.count()).join(Webhook, Webhook.id == Delivery.webhook_id)
    query = query.where(Webhook.campaign_id == campaign_id, Delivery.state.in_(OPEN)).group_by(Delivery.webhook_id)
    return dict(session.execute(query).all())


def newest(session: Session, campaign_id: int) -> dict[int, Delivery]:
    """Return the delivery last settled or tried of each webhook of a campaign."""
    last = (
        sa.select(sa.func.max(Delivery.id))
        .join(Webhook, Webhook.id == Delivery.webhook_id)
        .where(Webhook.campaign_id == campaign_id, Delivery.attempts > 0)
        .group_by(Delivery.webhook_id)
    )
    return {row.webhook_id: row for row in session.scalars(sa.select(Delivery).where(Delivery.id.in_(last)))}


def forget_settled(session: Session, *, before: dt.datetime) -> int:
    """Delete deliveries that were delivered or given up before a time; return how many."""
    statement = sa.delete(Delivery).where(Delivery.finished_at < before, Delivery.state.not_in(OPEN))
    done = session.execute(statement.execution_options(synchronize_session=False))
    return cast(sa.CursorResult[Any], done).rowcount


def _update(session: Session, table: type[Any], where: sa.ColumnElement[bool], **values: Any) -> bool:
    statement = sa.update(table).where(where).values(**values).execution_options(synchronize_session=False)
    return cast(sa.CursorResult[Any], session.execute(statement)).rowcount > 0
