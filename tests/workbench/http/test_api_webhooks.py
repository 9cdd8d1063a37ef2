"""Webhooks by the API: the same use cases as on the page, over a socket, and what a receiver then gets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from db.engine import Store
from tests.support.api import client_of, refused, serving, settings_for
from tests.support.builders import make_campaign
from tests.support.webhooks import ALL, receiving, send_all, status
from workbench.accounts.actors import Actor
from workbench.client import Client
from workbench.reports import audit_trail
from workbench.reports.audit_trail import Asked
from workbench.settings import Settings

People = dict[str, Actor]


@pytest.fixture
def settings(store: Store, tmp_path: Path) -> Settings:
    return settings_for(store, tmp_path, webhook_private_hosts="localhost", webhook_plain_http=True)


@pytest.fixture
def api(settings: Settings, store: Store, people: People) -> Iterator[Client]:
    with serving(settings) as url, client_of(url, store, people["res"], "write") as client:
        yield client


def test_webhook_is_made_tested_and_read_in_the_log(
    api: Client, store: Store, settings: Settings, campaign: int
) -> None:
    hooks = f"/campaigns/{campaign}/webhooks"
    with receiving() as receiver:
        made = api.post(hooks, {"url": receiver.url, "events": ["gold.made"]})
        assert made["secret"].startswith("whsec_") and made["active"] and made["events"] == ["gold.made"]
        sent = api.post(f"{hooks}/{made['id']}/test")
        assert (sent["state"], sent["type"]) == ("waiting", "webhook.test")
        assert api.get(hooks)["items"][0]["waiting"] == 1
        assert send_all(store, settings) == 1
        assert receiver.requests[0].verified(made["secret"])["data"] == {"campaign": campaign, "webhook": made["id"]}
        (line,) = api.items(f"/campaigns/{campaign}/deliveries", webhook=made["id"], state="delivered")
        assert (line["id"], line["last_status"], line["payload"]["type"]) == (sent["id"], 204, "webhook.test")
        assert api.get(f"/campaigns/{campaign}/deliveries/{sent['id']}") == line
        assert api.get(hooks)["items"][0]["last"] == "webhook.test: delivered"


def test_delivery_that_failed_is_sent_again_under_its_message_id(
    api: Client, store: Store, settings: Settings, campaign: int
) -> None:
    log = f"/campaigns/{campaign}/deliveries"
    with receiving(status(500, 204)) as receiver:
        made = api.post(f"/campaigns/{campaign}/webhooks", {"url": receiver.url})
        api.post(f"/campaigns/{campaign}/webhooks/{made['id']}/test")
        send_all(store, settings)
        (line,) = api.items(log)
        assert (line["state"], line["last_status"], line["attempts"]) == ("failed", 500, 1) and line["next_at"]
        again = api.post(f"{log}/{line['id']}/redeliver")
        assert (again["state"], again["message_id"]) == ("waiting", line["message_id"])
        send_all(store, settings)
        assert [item["state"] for item in api.items(log)] == ["delivered"]
        assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


def test_log_comes_in_pages_and_ends(api: Client, campaign: int) -> None:
    hook = api.post(f"/campaigns/{campaign}/webhooks", {"url": "http://localhost:9/"})["id"]
    numbers = [api.post(f"/campaigns/{campaign}/webhooks/{hook}/test")["id"] for _ in range(4)]
    first = api.get(f"/campaigns/{campaign}/deliveries", limit=2)
    second = api.get(f"/campaigns/{campaign}/deliveries", limit=2, cursor=first["next"])
    assert [item["id"] for item in first["items"] + second["items"]] == numbers[::-1] and second["next"] is None


def test_secret_is_answered_once_and_replaced(api: Client, store: Store, settings: Settings, campaign: int) -> None:
    hooks = f"/campaigns/{campaign}/webhooks"
    with receiving() as receiver:
        made = api.post(hooks, {"url": receiver.url})
        one = f"{hooks}/{made['id']}"
        for answer in (api.get(hooks), api.get(one), api.request("PATCH", one, body={"events": ["run.ended"]})):
            assert "secret" not in str(answer)
        new = api.post(f"{one}/secret")["secret"]
        assert new != made["secret"]
        api.post(f"{one}/test")
        send_all(store, settings)
        assert receiver.requests[0].verified(new)["type"] == "webhook.test"


def test_key_makes_one_webhook_however_often_it_is_sent(api: Client, campaign: int) -> None:
    hooks, body = f"/campaigns/{campaign}/webhooks", {"url": "http://localhost:9/"}
    first, again = (api.request("POST", hooks, body=body, key="k") for _ in range(2))
    assert first == again and len(api.get(hooks)["items"]) == 1


def test_change_keeps_what_is_left_out_and_removal_ends_it(
    api: Client, store: Store, people: People, campaign: int
) -> None:
    hooks = f"/campaigns/{campaign}/webhooks"
    made = api.post(hooks, {"url": "http://localhost:9/path-with-a-secret"})
    one = f"{hooks}/{made['id']}"
    assert made["events"] == list(ALL)
    changed = api.request("PATCH", one, body={"active": False})
    assert (changed["active"], changed["off_reason"]) == (False, "It was switched off.")
    assert changed["url"] == made["url"] and changed["events"] == made["events"]
    assert refused(api, "POST", f"{one}/test").status == 409
    assert api.request("PATCH", one, body={"active": True, "events": ["run.ended"]})["events"] == ["run.ended"]
    assert api.request("DELETE", one) == b""
    assert refused(api, "GET", one).status == refused(api, "DELETE", one).status == 404
    entries = audit_trail.search(store, people["adm"], Asked(campaign_id=campaign)).entries
    mine = [entry for entry in entries if "webhook" in entry.action]
    assert [entry.action for entry in mine] == ["remove_webhook", "change_webhook", "change_webhook", "make_webhook"]
    assert {entry.via for entry in mine} == {"api"} and "path-with-a-secret" not in str(mine)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "url is missing"),
        ({"url": "http://127.0.0.1/"}, "private or reserved"),
        ({"url": "ftp://localhost/"}, "give an http or https URL"),
        ({"url": "http://localhost/", "events": ["gold.lost"]}, "There is no event 'gold.lost'; choose from gold.made"),
        ({"url": "http://localhost/", "events": []}, "events"),
        ({"url": "http://localhost/", "secret": "whsec_AAAA"}, "secret is no key of the body"),
        ({"url": 5}, "url must be a text"),
    ],
)
def test_wrong_webhook_is_explained_and_none_is_made(
    api: Client, campaign: int, body: dict[str, Any], words: str
) -> None:
    problem = refused(api, "POST", f"/campaigns/{campaign}/webhooks", body)
    assert problem.status == 400 and words in problem.detail
    assert api.get(f"/campaigns/{campaign}/webhooks") == {"items": []}


def test_webhook_and_delivery_of_another_campaign_are_hidden(
    api: Client, store: Store, people: People, campaign: int
) -> None:
    other = make_campaign(store, people, name="other")
    made = api.post(f"/campaigns/{campaign}/webhooks", {"url": "http://localhost:9/"})
    sent = api.post(f"/campaigns/{campaign}/webhooks/{made['id']}/test")
    for method, path in (
        ("GET", f"webhooks/{made['id']}"),
        ("DELETE", f"webhooks/{made['id']}"),
        ("POST", f"webhooks/{made['id']}/secret"),
        ("GET", f"deliveries/{sent['id']}"),
        ("POST", f"deliveries/{sent['id']}/redeliver"),
    ):
        assert refused(api, method, f"/campaigns/{other}/{path}").status == 404


def test_secret_is_nowhere_but_in_the_webhook_and_the_kept_answer(api: Client, store: Store, campaign: int) -> None:
    """An answer that is kept for its idempotency key is left out of backups, as tokens are."""
    secret = api.post(f"/campaigns/{campaign}/webhooks", {"url": "http://localhost:9/"})["secret"]
    assert store.url.database is not None
    with closing(sqlite3.connect(store.url.database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        holding = {
            name for name in tables if any(secret in str(row) for row in connection.execute(f'SELECT * FROM "{name}"'))
        }
    assert holding == {"webhook", "api_reply"}
