"""Making, changing and removing webhooks: addresses that are refused, secrets shown once, the log."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest
from standardwebhooks import WebhookVerificationError

from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotAllowed, NotFound, WorkbenchError
from db.engine import Store
from db.programs import webhook_rows
from tests.support.builders import make_campaign
from tests.support.webhooks import ALL, receiving, send_all, status
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.settings import Settings
from workbench.webhooks import managing
from workbench.webhooks.managing import MOST_WEBHOOKS, NewSecret

People = dict[str, Actor]
HERE = "http://localhost:9/hooks"


def hook(store: Store, people: People, campaign: int, url: str = HERE) -> NewSecret:
    return managing.make_webhook(store, people["res"], campaign, url=url, events=ALL)


@pytest.mark.parametrize(
    ("url", "kind", "reason"),
    [
        ("http://example.org/", BadInput, "begins with http; a webhook needs https"),
        ("ftp://example.org/", InvalidConfig, "give an http or https URL"),
        ("https://ada:secret@example.org/", InvalidConfig, "carries a user name"),
        ("https://example.org/a b", BadInput, "without blanks"),
        ("https://exämple.org/", BadInput, "only those of ASCII"),
        ("https://example.org/" + "x" * 2000, BadInput, "at most 2000"),
        ("https://no-such-host.invalid/", BadInput, "has no address"),
        ("https://127.0.0.1/", BadInput, "private or reserved"),
        ("https://localhost/", BadInput, "private or reserved"),
        ("https://2130706433/", BadInput, "private or reserved"),
        ("https://[::1]/", BadInput, "private or reserved"),
        ("https://[::ffff:10.0.0.1]/", BadInput, "private or reserved"),
        ("https://169.254.169.254/latest/meta-data/", BadInput, "private or reserved"),
    ],
)
def test_address_is_refused(
    store: Store, people: People, campaign: int, url: str, kind: type[WorkbenchError], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        hook(store, people, campaign, url)
    assert not managing.list_webhooks(store, people["res"], campaign)


def test_nothing_is_looked_up_for_who_may_not_make_one(
    store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("looked up")

    monkeypatch.setattr(managing, "reachable", fail)
    demoted = dataclasses.replace(people["ann1"], role="admin")
    for actor in (people["eva"], demoted):
        with pytest.raises(NotAllowed):
            managing.make_webhook(store, actor, campaign, url="https://example.org/", events=ALL)


def test_secret_is_returned_once(store: Store, people: People, campaign: int, settings: Settings) -> None:
    made = hook(store, people, campaign)
    assert made.secret.startswith("whsec_") and len(made.secret) == len("whsec_") + 44
    (view,) = managing.list_webhooks(store, people["res"], campaign)
    assert view == made.webhook and made.secret not in str(view) and view.created_by == "Res"


def test_new_secret_voids_the_old_one(store: Store, people: People, campaign: int, settings: Settings) -> None:
    with receiving() as receiver:
        made = hook(store, people, campaign, receiver.url)
        managing.send_test(store, people["res"], campaign, made.webhook.id)
        new = managing.renew_secret(store, people["adm"], campaign, made.webhook.id)
        send_all(store, settings)
    (request,) = receiver.requests
    assert request.verified(new.secret) and new.secret != made.secret
    with pytest.raises(WebhookVerificationError):
        request.verified(made.secret)


@pytest.mark.parametrize("events", [[], ["gold.made", "gold.lost"]])
def test_events_are_those_that_exist(
    store: Store, people: People, campaign: int, settings: Settings, events: list[str]
) -> None:
    with pytest.raises(BadInput, match=r"choose from gold\.made, round\.ended, run\.ended, campaign\.finished"):
        managing.make_webhook(store, people["res"], campaign, url=HERE, events=events)


def test_campaign_has_a_limited_number(store: Store, people: People, campaign: int, settings: Settings) -> None:
    for _ in range(MOST_WEBHOOKS):
        hook(store, people, campaign)
    with pytest.raises(Conflict, match="at most 10 webhooks"):
        hook(store, people, campaign)


def test_switching_off_gives_up_what_waits_and_nothing_is_sent(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    res = people["res"]
    with receiving() as receiver:
        made = hook(store, people, campaign, receiver.url)
        line = managing.send_test(store, res, campaign, made.webhook.id)
        view = managing.change_webhook(store, res, campaign, made.webhook.id, active=False)
        assert not view.active and view.off_reason and view.waiting == 0
        assert send_all(store, settings) == 0
        assert managing.list_deliveries(store, res, campaign)[0].state == "given up"
        for call in (
            lambda: managing.redeliver(store, res, campaign, line.id),
            lambda: managing.send_test(store, res, campaign, made.webhook.id),
        ):
            with pytest.raises(Conflict, match="is off"):
                call()
        assert managing.change_webhook(store, res, campaign, made.webhook.id, active=True).off_reason == ""
        managing.redeliver(store, res, campaign, line.id)
        assert send_all(store, settings) == 1
    assert receiver.requests[0].headers["webhook-id"] == line.message_id


def test_switching_on_checks_the_address_again(
    store: Store, people: People, campaign: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hook(store, people, campaign)
    managing.change_webhook(store, people["res"], campaign, made.webhook.id, active=False)
    monkeypatch.setenv("CROSSNER_WEBHOOK_PRIVATE_HOSTS", "")
    with pytest.raises(BadInput, match="private or reserved"):
        managing.change_webhook(store, people["res"], campaign, made.webhook.id, active=True)
    assert not managing.list_webhooks(store, people["res"], campaign)[0].active


def test_removed_webhook_gets_nothing_more(store: Store, people: People, campaign: int, settings: Settings) -> None:
    with receiving() as receiver:
        made = hook(store, people, campaign, receiver.url)
        managing.send_test(store, people["res"], campaign, made.webhook.id)
        managing.remove_webhook(store, people["res"], campaign, made.webhook.id)
        assert send_all(store, settings) == 0
    assert not receiver.requests and not managing.list_deliveries(store, people["res"], campaign)


def test_what_waits_goes_to_the_new_address(store: Store, people: People, campaign: int, settings: Settings) -> None:
    with receiving(status(500)) as old, receiving() as new:
        made = hook(store, people, campaign, old.url)
        managing.send_test(store, people["res"], campaign, made.webhook.id)
        changed = managing.change_webhook(
            store, people["res"], campaign, made.webhook.id, url=new.url, events=["run.ended"]
        )
        send_all(store, settings)
    assert changed.events == ("run.ended",) and not old.requests and len(new.requests) == 1


def test_webhooks_of_another_campaign_are_not_there(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    res, other = people["res"], make_campaign(store, people, name="Other")
    made = hook(store, people, campaign)
    line = managing.send_test(store, res, campaign, made.webhook.id)
    for call in (
        lambda: managing.change_webhook(store, res, other, made.webhook.id, active=False),
        lambda: managing.remove_webhook(store, res, other, made.webhook.id),
        lambda: managing.renew_secret(store, res, other, made.webhook.id),
        lambda: managing.send_test(store, res, other, made.webhook.id),
        lambda: managing.redeliver(store, res, other, line.id),
        lambda: managing.list_deliveries(store, res, other, webhook_id=made.webhook.id),
    ):
        with pytest.raises(NotFound, match="in this campaign"):
            call()


def test_log_is_paged_and_filtered(store: Store, people: People, campaign: int, settings: Settings) -> None:
    res = people["res"]
    made = hook(store, people, campaign)
    ids = [managing.send_test(store, res, campaign, made.webhook.id).id for _ in range(5)]
    first = managing.list_deliveries(store, res, campaign, limit=2)
    rest = managing.list_deliveries(store, res, campaign, before=first[-1].id)
    assert [line.id for line in (*first, *rest)] == ids[::-1]
    assert not managing.list_deliveries(store, res, campaign, state="given up")
    with pytest.raises(BadInput, match="no state 'lost'"):
        managing.list_deliveries(store, res, campaign, state="lost")
    with pytest.raises(BadInput, match="1 to 200"):
        managing.list_deliveries(store, res, campaign, limit=0)


def test_delivery_on_its_way_is_not_sent_a_second_time(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    made = hook(store, people, campaign)
    line = managing.send_test(store, people["res"], campaign, made.webhook.id)
    with store.write() as session:
        assert webhook_rows.claim(session, busy=(), lease=dt.timedelta(minutes=1)) is not None
    with pytest.raises(Conflict, match="is being sent at this moment"):
        managing.redeliver(store, people["res"], campaign, line.id)


def test_archived_campaign_takes_no_webhook_but_loses_one(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    made = hook(store, people, campaign)
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    with pytest.raises(NotAllowed, match="is archived"):
        hook(store, people, campaign)
    managing.remove_webhook(store, people["res"], campaign, made.webhook.id)


def test_deleted_campaign_takes_its_webhooks_along(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    made = hook(store, people, campaign)
    managing.send_test(store, people["res"], campaign, made.webhook.id)
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    campaigns.delete_campaign(store, people["adm"], campaign, home=settings.home)
    with store.read() as session:
        assert not webhook_rows.is_any_due(session, busy=()) and not webhook_rows.of_campaign(session, campaign)
