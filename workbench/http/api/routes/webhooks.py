"""Webhooks of a campaign: where its events are sent, and the log of what was sent."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from workbench.accounts.roles import KEEPERS
from workbench.http.api.declared import Answer, Body, Call, Id, Inputs, Page, PageInputs, cursor_of, number_in, route
from workbench.webhooks import managing
from workbench.webhooks.events import EVENTS

State = Literal["waiting", "failed", "delivered", "given up"]
Address = Annotated[str, Field(min_length=1, max_length=2_000)]
Event = Annotated[str, Field(max_length=100, json_schema_extra={"enum": list(EVENTS)})]
_MEANING = "; ".join(f"{name}: {meaning}" for name, meaning in EVENTS.items())


class Webhook(Answer):
    """An address that events of a campaign are sent to."""

    id: int
    url: str
    events: list[str]
    active: bool
    off_reason: str
    """Why it is off; empty while it is on."""
    created_by: str | None
    created_at: dt.datetime


class ListedWebhook(Webhook):
    """A webhook with the state of what it is sent."""

    waiting: int
    """Deliveries that are still to be sent."""
    last: str
    """How the last attempt ended."""


class Webhooks(Answer):
    """All webhooks of a campaign, oldest first."""

    items: list[ListedWebhook]


class WebhookWithSecret(Webhook):
    """A webhook whose secret was just made."""

    secret: str
    """What it signs with; no other answer has it."""


class Delivery(Answer):
    """An event on its way to a webhook, or sent."""

    id: int
    webhook_id: int
    message_id: str
    """Sent as `webhook-id`, the same at each attempt."""
    type: str
    payload: dict[str, Any]
    state: State
    """`failed` is tried again at `next_at`, `given up` is not."""
    attempts: int
    next_at: dt.datetime | None
    last_status: int | None
    """The HTTP status of the last answer; null where none came."""
    last_error: str
    created_at: dt.datetime
    finished_at: dt.datetime | None


class NewWebhook(Body):
    """A webhook to make."""

    url: Address
    """Where events are sent: https, and a host with public IP addresses, unless the server's settings allow more."""
    events: Annotated[list[Event], Field(min_length=1, max_length=100)] = Field(
        default=list(EVENTS), description=f"Events that it is sent. {_MEANING}."
    )


class WebhookChange(Body):
    """What is to be changed of a webhook; what is left out stays as it is."""

    url: Address | None = None
    """What waits goes there, too."""
    events: Annotated[list[Event], Field(min_length=1, max_length=100)] | None = None
    active: bool | None = None
    """False gives up what waits."""


class OneCampaign(Inputs):
    """A campaign."""

    campaign: Id


class OneWebhook(Inputs):
    """A webhook of a campaign."""

    campaign: Id
    webhook: Id


class OneDelivery(Inputs):
    """A delivery of a campaign's webhooks."""

    campaign: Id
    delivery: Id


class DeliveriesAsked(PageInputs):
    """Which deliveries of a campaign; conditions that are left out do not narrow it."""

    campaign: Id
    webhook: Id | None = None
    state: State | None = None


_ALL = "/campaigns/{campaign}/webhooks"
_WEBHOOK = _ALL + "/{webhook}"
_LOG = "/campaigns/{campaign}/deliveries"


@route("GET", _ALL, scope="read", roles=KEEPERS, use=managing.list_webhooks)
def list_webhooks(call: Call, inputs: OneCampaign) -> Webhooks:
    """List the webhooks of a campaign, without their secrets."""
    views = managing.list_webhooks(call.store, call.actor, inputs.campaign)
    return Webhooks(items=[ListedWebhook.model_validate(view) for view in views])


@route("POST", _ALL, scope="write", roles=KEEPERS, use=managing.make_webhook, status=201, creates=True)
def make_webhook(call: Call, inputs: OneCampaign, body: NewWebhook) -> WebhookWithSecret:
    """Make a webhook that is on. Only this answer has its secret."""
    made = managing.make_webhook(call.store, call.actor, inputs.campaign, url=body.url, events=body.events)
    return _with_secret(made)


@route("GET", _WEBHOOK, scope="read", roles=KEEPERS, use=managing.get_webhook)
def get_webhook(call: Call, inputs: OneWebhook) -> Webhook:
    """Get a webhook; what was sent to it is in the list and in the log."""
    return Webhook.model_validate(managing.get_webhook(call.store, call.actor, inputs.campaign, inputs.webhook))


@route("PATCH", _WEBHOOK, scope="write", roles=KEEPERS, use=managing.change_webhook, matches=True)
def change_webhook(call: Call, inputs: OneWebhook, body: WebhookChange) -> Webhook:
    """Change the address or the events of a webhook, or switch it on or off."""
    view = managing.change_webhook(
        call.store,
        call.actor,
        inputs.campaign,
        inputs.webhook,
        url=body.url,
        events=body.events,
        active=body.active,
        check=lambda view: call.refuse_changed(Webhook.model_validate(view)),
    )
    return Webhook.model_validate(view)


@route("DELETE", _WEBHOOK, scope="write", roles=KEEPERS, use=managing.remove_webhook, status=204, matches=True)
def remove_webhook(call: Call, inputs: OneWebhook) -> None:
    """Delete a webhook with its log."""
    managing.remove_webhook(
        call.store,
        call.actor,
        inputs.campaign,
        inputs.webhook,
        check=lambda view: call.refuse_changed(Webhook.model_validate(view)),
    )


@route("POST", _WEBHOOK + "/secret", scope="write", roles=KEEPERS, use=managing.renew_secret)
def renew_webhook_secret(call: Call, inputs: OneWebhook) -> WebhookWithSecret:
    """Replace the secret of a webhook. Only this answer has the new one, and every later attempt is signed with it."""
    return _with_secret(managing.renew_secret(call.store, call.actor, inputs.campaign, inputs.webhook))


@route("POST", _WEBHOOK + "/test", scope="write", roles=KEEPERS, use=managing.send_test, status=201, creates=True)
def send_test_event(call: Call, inputs: OneWebhook) -> Delivery:
    """Have the worker send a test event to a webhook; the log shows what becomes of it."""
    return Delivery.model_validate(managing.send_test(call.store, call.actor, inputs.campaign, inputs.webhook))


@route("GET", _LOG, scope="read", roles=KEEPERS, use=managing.list_deliveries)
def list_deliveries(call: Call, inputs: DeliveriesAsked) -> Page[Delivery]:
    """List the deliveries of the last 30 days, newest first."""
    matching = partial(
        managing.list_deliveries,
        call.store,
        call.actor,
        inputs.campaign,
        webhook_id=inputs.webhook,
        state=inputs.state,
    )
    rows = matching(before=number_in(inputs.cursor) or None, limit=inputs.limit)
    goes_on = len(rows) == inputs.limit and matching(before=rows[-1].id, limit=1)
    return Page(items=[Delivery.model_validate(row) for row in rows], next=cursor_of(rows[-1].id) if goes_on else None)


@route("GET", _LOG + "/{delivery}", scope="read", roles=KEEPERS, use=managing.get_delivery)
def get_delivery(call: Call, inputs: OneDelivery) -> Delivery:
    """Get a delivery: its event, its attempts, and the last answer."""
    return Delivery.model_validate(managing.get_delivery(call.store, call.actor, inputs.campaign, inputs.delivery))


@route("POST", _LOG + "/{delivery}/redeliver", scope="write", roles=KEEPERS, use=managing.redeliver)
def redeliver(call: Call, inputs: OneDelivery) -> Delivery:
    """Send a delivery again at once, under its old message id."""
    return Delivery.model_validate(managing.redeliver(call.store, call.actor, inputs.campaign, inputs.delivery))


def _with_secret(made: managing.NewSecret) -> WebhookWithSecret:
    return WebhookWithSecret(**Webhook.model_validate(made.webhook).model_dump(), secret=made.secret)
