"""The events of a campaign: each becomes a delivery to every webhook that wants it, in its own transaction."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from db.engine import Session
from db.programs import webhook_rows
from db.programs.webhook_tables import Delivery, Webhook
from db.training_tables import Round, Run
from db.types import now

GOLD, ROUND, RUN, FINISHED = "gold.made", "round.ended", "run.ended", "campaign.finished"
EVENTS: Mapping[str, str] = {
    GOLD: "sentences became gold, at most one event a minute",
    ROUND: "a round ended: done, failed or cancelled",
    RUN: "a run ended: done, failed or cancelled; not the cells of a learning curve",
    FINISHED: "the last task of the campaign is done",
}
"""What a webhook can ask for, and what it means."""
TEST = "webhook.test"
"""Sent on request, whatever a webhook asks for."""
COLLECTED_FOR = dt.timedelta(seconds=60)
"""Gold made in this time after the first is one event."""
MOST_SENTENCES = 200
"""Sentences in one event."""


def gold_made(session: Session, campaign_id: int, sentence_id: int) -> None:
    """Record that a sentence became gold (again), and that the campaign is finished if its last task is done.

    Who makes gold at the same time waits for this transaction, so that the last of them sees that nothing is left.
    """
    if not any({GOLD, FINISHED} & set(webhook.events) for webhook in webhook_rows.active(session, campaign_id)):
        return
    webhooks = webhook_rows.active(session, campaign_id, lock=True)
    for webhook in _wanting(webhooks, GOLD):
        _collect(session, webhook, sentence_id)
    finishing = list(_wanting(webhooks, FINISHED))
    if finishing and not webhook_rows.unfinished_tasks(session, campaign_id):
        count = webhook_rows.count_gold(session, campaign_id)
        _deliver(session, finishing, FINISHED, {"campaign": campaign_id, "gold": count})


def round_ended(session: Session, round_: Round) -> None:
    """Record that a round ended, with the state it has now."""
    webhooks = list(_wanting(webhook_rows.active(session, round_.campaign_id), ROUND))
    data = {"campaign": round_.campaign_id, "round": round_.id, "state": round_.state, "run": round_.run_id}
    _deliver(session, webhooks, ROUND, {**data, "scored": round_.scored, "ordered": round_.ordered})


def run_ended(session: Session, run: Run, state: str) -> None:
    """Record that a run ended; runs on data sets have no campaign, and cells of a learning curve are left out."""
    if run.campaign_id is None or run.group_id is not None:
        return
    webhooks = list(_wanting(webhook_rows.active(session, run.campaign_id), RUN))
    _deliver(session, webhooks, RUN, {"campaign": run.campaign_id, "run": run.id, "state": state})


def test_event(session: Session, webhook: Webhook) -> Delivery:
    """Add an event by which a person sees whether a webhook works."""
    (delivery,) = _deliver(session, [webhook], TEST, {"campaign": webhook.campaign_id, "webhook": webhook.id})
    return delivery


def _wanting(webhooks: Iterable[Webhook], type: str) -> Iterable[Webhook]:
    return (webhook for webhook in webhooks if type in webhook.events)


def _collect(session: Session, webhook: Webhook, sentence_id: int) -> None:
    """Put a sentence into the event that still collects, or begin a new one."""
    open_one = webhook_rows.collecting(session, webhook.id, GOLD)
    if open_one is not None:
        payload = open_one.payload
        sentences = payload["data"]["sentences"]
        if sentence_id in sentences:
            return
        if len(sentences) < MOST_SENTENCES:
            open_one.payload = {**payload, "data": _gold(webhook.campaign_id, [*sentences, sentence_id])}
            return
        open_one.next_at = now()
        session.flush()
    _deliver(session, [webhook], GOLD, _gold(webhook.campaign_id, [sentence_id]), after=COLLECTED_FOR)


def _gold(campaign_id: int, sentences: list[int]) -> dict[str, Any]:
    return {"campaign": campaign_id, "sentences": sentences, "count": len(sentences)}


def _deliver(
    session: Session,
    webhooks: Iterable[Webhook],
    type: str,
    data: Mapping[str, Any],
    *,
    after: dt.timedelta = dt.timedelta(),
) -> list[Delivery]:
    message_id, happened = f"msg_{uuid.uuid4().hex}", now()
    payload = {"type": type, "timestamp": happened.isoformat(timespec="milliseconds"), "data": dict(data)}
    return [
        webhook_rows.add_delivery(
            session, webhook_id=webhook.id, message_id=message_id, type=type, payload=payload, next_at=happened + after
        )
        for webhook in webhooks
    ]
