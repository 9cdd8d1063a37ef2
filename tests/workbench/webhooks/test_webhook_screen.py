"""Webhooks on the page Campaigns: made, tested, sent again, switched off, removed."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from db.engine import Store
from tests.support.screens import healthy, open_screen, press, words
from tests.support.webhooks import receiving, send_all, status
from workbench.accounts.actors import Actor
from workbench.settings import Settings
from workbench.webhooks import managing

People = dict[str, Actor]


def opened(monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor) -> AppTest:
    test = open_screen(monkeypatch, store, "campaigns", actor)
    next(each for each in test.segmented_control if each.key == "campaigns:part").set_value("Webhooks")
    return healthy(test.run())


def test_a_researcher_makes_a_webhook_and_follows_its_deliveries(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, settings: Settings
) -> None:
    res = people["res"]
    with receiving(status(500, 200)) as receiver:
        test = opened(monkeypatch, store, res)
        assert "This campaign has no webhook, so nothing is sent." in words(test)
        test.text_input(key=f"webhooks:url:{campaign}").set_value(receiver.url)
        test = press(test, "Make the webhook")
        (view,) = managing.list_webhooks(store, res, campaign)
        (secret,) = [code.value for code in test.code if code.value.startswith("whsec_")]
        assert "is shown once" in words(test) and secret.startswith("whsec_")
        assert view.url == receiver.url and len(view.events) == 4
        test = press(test, "Send a test event")
        assert secret not in words(test)
        send_all(store, settings)
        test = press(test, "Look again")
        log = test.dataframe[-1].value
        assert log["State"].tolist() == ["failed"] and log["Answer"].tolist() == ["it answers 500"]
        press(test, "Send again")
        send_all(store, settings)
    assert len(receiver.requests) == 2 and receiver.requests[1].verified(secret)["type"] == "webhook.test"
    test = press(healthy(test.run()), "Switch off")
    assert not managing.list_webhooks(store, res, campaign)[0].active
    press(test, "Remove the webhook")
    assert not managing.list_webhooks(store, res, campaign)


def test_refused_address_is_shown_as_an_error(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, settings: Settings
) -> None:
    test = opened(monkeypatch, store, people["res"])
    test.text_input(key=f"webhooks:url:{campaign}").set_value("http://169.254.169.254/latest")
    test = press(test, "Make the webhook")
    assert any("private or reserved address" in error.value for error in test.error)
    assert not managing.list_webhooks(store, people["res"], campaign)
