"""A campaign's webhooks: make, list, change, remove, a new secret, the log, sending again, a test event."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from crossner_core.errors import BadInput, Conflict, NotFound
from db.engine import Session, Store
from db.programs import webhook_rows
from db.programs.webhook_tables import DELIVERY_STATES, Delivery, Webhook
from db.tables import Campaign
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.jobs.context import of_row
from workbench.settings import settings_of
from workbench.webhooks import signing
from workbench.webhooks.addresses import reachable
from workbench.webhooks.events import EVENTS, test_event

STATES = DELIVERY_STATES
MOST_WEBHOOKS = 10
"""Webhooks of one campaign."""
MOST_LINES = 200
"""Deliveries that one call of the log returns."""
_BY_PERSON = "It was switched off."


@dataclass(frozen=True, slots=True)
class WebhookView:
    """A webhook without its secret; `waiting` counts what is still to be sent, `last` is how the last attempt ended."""

    id: int
    url: str
    events: tuple[str, ...]
    active: bool
    off_reason: str
    created_by: str | None
    created_at: dt.datetime
    waiting: int
    last: str


Check = Callable[[WebhookView], object]


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A webhook whose secret was just made; `secret` is returned here and never again."""

    secret: str
    webhook: WebhookView


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """A delivery as the log shows it; `next_at` is when it is tried (again), None once it is settled."""

    id: int
    webhook_id: int
    message_id: str
    type: str
    payload: Mapping[str, Any]
    state: str
    attempts: int
    next_at: dt.datetime | None
    last_status: int | None
    last_error: str
    created_at: dt.datetime
    finished_at: dt.datetime | None


def list_webhooks(store: Store, actor: Actor, campaign_id: int) -> tuple[WebhookView, ...]:
    """Return a campaign's webhooks, oldest first."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        return _views(session, campaign_id)


def get_webhook(store: Store, actor: Actor, campaign_id: int, webhook_id: int) -> WebhookView:
    """Return a webhook of a campaign."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        _find(session, campaign_id, webhook_id)
        return _one_view(session, campaign_id, webhook_id)


def make_webhook(store: Store, actor: Actor, campaign_id: int, *, url: str, events: Sequence[str]) -> NewSecret:
    """Make a webhook that is on, with a secret that is returned once.

    Raises BadInput or InvalidConfig for an address that may not be sent to or an unknown event, Conflict for too many.
    """
    wanted = _checked_events(events)
    address = _checked_url(store, actor, campaign_id, url)
    secret = signing.new_secret()
    with store.write() as session:
        current, _ = _open_campaign(session, actor, campaign_id)
        if len(webhook_rows.of_campaign(session, campaign_id)) >= MOST_WEBHOOKS:
            raise Conflict(f"A campaign has at most {MOST_WEBHOOKS} webhooks; remove one first.")
        row = webhook_rows.add(
            session, campaign_id=campaign_id, url=address, events=wanted, secret=secret, created_by=current.id
        )
        audit.record(session, current, "make_webhook", _about(row), campaign_id, events=wanted, host=_host(address))
        return NewSecret(secret, _one_view(session, campaign_id, row.id))


def change_webhook(
    store: Store,
    actor: Actor,
    campaign_id: int,
    webhook_id: int,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    active: bool | None = None,
    check: Check = lambda view: None,
) -> WebhookView:
    """Change what is given: the address, the events, or whether it is on. What waits goes to the new address.

    Switching it off gives up what waits. Switching it on checks its address again. `check` gets the webhook as it is
    before the change, while nobody else can change it, and may raise.
    """
    wanted = None if events is None else _checked_events(events)
    if url is None and active:
        with store.read() as session:
            enter(session, actor, campaign_id, *KEEPERS)
            url = _find(session, campaign_id, webhook_id).url
    address = None if url is None else _checked_url(store, actor, campaign_id, url)
    with store.write() as session:
        current, _ = _open_campaign(session, actor, campaign_id)
        row = _find(session, campaign_id, webhook_id, lock=True)
        check(_one_view(session, campaign_id, webhook_id))
        before = _recorded(row)
        if address is not None:
            row.url = address
        if wanted is not None:
            row.events = wanted
        if active:
            row.active, row.off_reason = True, ""
        session.flush()
        if active is False and row.active:
            webhook_rows.switch_off(session, webhook_id, _BY_PERSON)
            session.expire_all()
        now_is = _recorded(_find(session, campaign_id, webhook_id))
        audit.record(session, current, "change_webhook", _about(row), campaign_id, **audit.changed(before, now_is))
        return _one_view(session, campaign_id, webhook_id)


def remove_webhook(
    store: Store, actor: Actor, campaign_id: int, webhook_id: int, *, check: Check = lambda view: None
) -> None:
    """Delete a webhook with its log; nothing more is sent to it, but for what is on its way at this moment.

    `check` as in `change_webhook`.
    """
    require(actor, *KEEPERS)
    with store.write() as session:
        current, _ = enter(session, actor, campaign_id, *KEEPERS)
        row = _find(session, campaign_id, webhook_id, lock=True)
        check(_one_view(session, campaign_id, webhook_id))
        audit.record(session, current, "remove_webhook", _about(row), campaign_id, host=_host(row.url))
        webhook_rows.remove(session, row)


def renew_secret(store: Store, actor: Actor, campaign_id: int, webhook_id: int) -> NewSecret:
    """Replace a webhook's secret, which is returned once; every later attempt is signed with it."""
    require(actor, *KEEPERS)
    secret = signing.new_secret()
    with store.write() as session:
        current, _ = _open_campaign(session, actor, campaign_id)
        row = _find(session, campaign_id, webhook_id)
        row.secret = secret
        audit.record(session, current, "renew_webhook_secret", _about(row), campaign_id)
        session.flush()
        return NewSecret(secret, _one_view(session, campaign_id, webhook_id))


def list_deliveries(
    store: Store,
    actor: Actor,
    campaign_id: int,
    *,
    webhook_id: int | None = None,
    state: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> tuple[DeliveryView, ...]:
    """Return the log of a campaign's webhooks, newest first; those with ids below `before` if it is given."""
    require(actor, *KEEPERS)
    if state is not None and state not in STATES:
        raise BadInput(f"There is no state {state!r} of a delivery; choose one of {', '.join(STATES)}.")
    if not 1 <= limit <= MOST_LINES:
        raise BadInput(f"The log gives 1 to {MOST_LINES} deliveries at a time, not {limit}.")
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        if webhook_id is not None:
            _find(session, campaign_id, webhook_id)
        states = () if state is None else (state,)
        rows = webhook_rows.deliveries(
            session, campaign_id, webhook_id=webhook_id, states=states, before=before, limit=limit
        )
        return tuple(_delivery(row) for row in rows)


def get_delivery(store: Store, actor: Actor, campaign_id: int, delivery_id: int) -> DeliveryView:
    """Return a delivery of a campaign's webhooks."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        return _delivery(_find_delivery(session, campaign_id, delivery_id)[0])


def redeliver(store: Store, actor: Actor, campaign_id: int, delivery_id: int) -> DeliveryView:
    """Send a delivery again at once, under the same id; one that waits for its next attempt is not held back longer.

    Raises Conflict while it is being sent or its webhook is off.
    """
    require(actor, *KEEPERS)
    with store.write() as session:
        current, _ = _open_campaign(session, actor, campaign_id)
        row, webhook = _find_delivery(session, campaign_id, delivery_id, lock=True)
        _refuse_off(webhook)
        if row.claimed_until is not None and row.claimed_until > now():
            raise Conflict(f"Delivery {delivery_id} is being sent at this moment; look at the log again in a minute.")
        row.state, row.attempts, row.next_at, row.finished_at, row.claimed_until = "waiting", 0, now(), None, None
        session.flush()
        audit.record(session, current, "redeliver", ("delivery", row.id), campaign_id, webhook=webhook.id)
        return _delivery(row)


def send_test(store: Store, actor: Actor, campaign_id: int, webhook_id: int) -> DeliveryView:
    """Have the worker send a test event to a webhook; the log shows what becomes of it."""
    require(actor, *KEEPERS)
    with store.write() as session:
        current, _ = _open_campaign(session, actor, campaign_id)
        webhook = _find(session, campaign_id, webhook_id)
        _refuse_off(webhook)
        audit.record(session, current, "test_webhook", _about(webhook), campaign_id)
        return _delivery(test_event(session, webhook))


def _open_campaign(session: Session, actor: Actor, campaign_id: int) -> tuple[Actor, Campaign]:
    current, campaign = enter(session, actor, campaign_id, *KEEPERS)
    refuse_archived(campaign)
    return current, campaign


def _about(webhook: Webhook) -> tuple[str, object]:
    return ("webhook", webhook.id)


def _host(url: str) -> str:
    """Return what the audit trail says of an address: its path may hold a receiver's secret."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _recorded(webhook: Webhook) -> dict[str, Any]:
    return {"host": _host(webhook.url), "events": list(webhook.events), "active": webhook.active}


def _checked_url(store: Store, actor: Actor, campaign_id: int, url: str) -> str:
    """Return an address that may be sent to; its host is looked up outside of any transaction, for keepers alone."""
    require(actor, *KEEPERS)
    with store.read() as session:
        _open_campaign(session, actor, campaign_id)
    tidy = url.strip()
    reachable(tidy, settings_of(store))
    return tidy


def _checked_events(events: Sequence[str]) -> list[str]:
    if unknown := [name for name in events if name not in EVENTS]:
        raise BadInput(f"There is no event {unknown[0]!r}; choose from {', '.join(EVENTS)}.")
    if not events:
        raise BadInput(f"A webhook needs at least one event; choose from {', '.join(EVENTS)}.")
    return [name for name in EVENTS if name in events]


def _find(session: Session, campaign_id: int, webhook_id: int, *, lock: bool = False) -> Webhook:
    row = webhook_rows.find(session, campaign_id, webhook_id, lock=lock)
    if row is None:
        raise NotFound(f"There is no webhook {webhook_id} in this campaign; the list shows those it has.")
    return row


def _find_delivery(
    session: Session, campaign_id: int, delivery_id: int, *, lock: bool = False
) -> tuple[Delivery, Webhook]:
    pair = webhook_rows.find_delivery(session, campaign_id, delivery_id, lock=lock)
    if pair is None:
        raise NotFound(f"There is no delivery {delivery_id} in this campaign; the log lists those of 30 days.")
    return pair


def _refuse_off(webhook: Webhook) -> None:
    if not webhook.active:
        raise Conflict(f"The webhook {webhook.id} is off, so nothing is sent to it; switch it on first.")


def _one_view(session: Session, campaign_id: int, webhook_id: int) -> WebhookView:
    return next(view for view in _views(session, campaign_id) if view.id == webhook_id)


def _views(session: Session, campaign_id: int) -> tuple[WebhookView, ...]:
    waiting, newest = webhook_rows.count_waiting(session, campaign_id), webhook_rows.newest(session, campaign_id)
    return tuple(
        of_row(
            WebhookView,
            row,
            events=tuple(row.events),
            created_by=name,
            waiting=waiting.get(row.id, 0),
            last=_last(newest.get(row.id)),
        )
        for row, name in webhook_rows.of_campaign(session, campaign_id)
    )


def _last(row: Delivery | None) -> str:
    if row is None:
        return "nothing sent yet"
    return f"{row.type}: {row.state}" + (f", {row.last_error}" if row.last_error else "")


def _delivery(row: Delivery) -> DeliveryView:
    return of_row(DeliveryView, row)
