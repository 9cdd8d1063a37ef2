"""Tags of answers: what a program has is not sent again, and a change is not made on what it has not seen."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.testclient import TestClient

from crossner_core.schema import Span
from db.engine import Store
from db.tables import Annotation, SentenceRow, Task
from tests.support.api import secret_of, settings_for
from tests.support.builders import make_gold, make_person
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import exchange, layers, snapshots
from workbench.http.api.declared import ROOT, routes
from workbench.http.api.serving import Api
from workbench.http.gate import Gate
from workbench.labelling.correcting import change_gold
from workbench.labelling.steps import reopen
from workbench.reports import audit_trail
from workbench.reports.audit_trail import Asked
from workbench.runs import adaptation

People = dict[str, Actor]
LATER = dt.datetime(2031, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def server(store: Store, tmp_path: Path, people: People, campaign: int) -> Iterator[TestClient]:
    """A server on a campaign with gold, a snapshot and a run."""
    make_gold(store, people, campaign)
    snapshot = snapshots.freeze(store, people["res"], campaign)
    adaptation.start_run(store, people["res"], snapshot_id=snapshot.id, recipe={})
    settings = settings_for(store, tmp_path, webhook_private_hosts="192.0.2.1")
    with TestClient(Gate(Starlette(routes=Api(settings).routes()), settings=settings)) as made:
        made.headers["authorization"] = f"Bearer {secret_of(store, people['adm'])}"
        yield made


def get(server: TestClient, path: str, tag: str | None = None) -> Any:
    return server.get(ROOT + path, headers={"if-none-match": tag} if tag else {})


READ = (
    "/campaigns/1/sentences", "/campaigns/1/sentences/1", "/campaigns/1/layers", "/campaigns/1/layers/gold",
    "/campaigns/1/layers/first?limit=2", "/campaigns/1/layers/suggestions", "/campaigns/1/layers/gold/export",
    "/campaigns/1/layers/sentences/export?format=conll", "/campaigns/1/layers/gold/export?format=brat",
    "/campaigns/1/snapshots", "/runs", "/runs/1", "/runs/1/events", "/curves", "/campaigns/1/settings",
    "/campaigns/1/tasks", "/campaigns/1", "/domains", "/me",
)  # fmt: skip


@pytest.mark.parametrize("path", READ)
def test_answer_that_still_holds_is_not_sent_again(server: TestClient, path: str) -> None:
    first = get(server, path)
    tag = first.headers["etag"]
    assert first.status_code == 200 and first.content
    for known in (tag, f'"other", {tag}', "*", tag.removeprefix("W/")):
        again = get(server, path, known)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), known
        assert again.headers["cache-control"] == "no-store"
    other = get(server, path, '"other", W/"another"')
    assert (other.status_code, other.content, other.headers["etag"]) == (200, first.content, tag)


def test_answers_of_other_parameters_have_other_tags(server: TestClient) -> None:
    tags = {get(server, f"/campaigns/1/sentences?limit={limit}").headers["etag"] for limit in (1, 2, 3)}
    assert len(tags) == 3


@pytest.mark.parametrize(
    "value", ["abc", '"abc', "W/abc", '"a" "b"', '"a",', "", 'w/"a"', '"a b"', '"' + "a" * 5000 + '"']
)
def test_condition_without_tags_is_explained(server: TestClient, value: str) -> None:
    answer = server.get(f"{ROOT}/me", headers={"if-none-match": value})
    assert answer.status_code == 400 and "quotation marks" in answer.json()["detail"]


def test_condition_that_a_route_does_not_take_is_refused(server: TestClient) -> None:
    answer = server.post(f"{ROOT}/campaigns", headers={"if-match": '"a"'}, json={"name": "New", "domain": "music"})
    assert answer.status_code == 400 and "takes no header If-Match" in answer.json()["detail"]
    assert len(get(server, "/campaigns").json()["items"]) == 1
    assert "it takes If-None-Match" in server.get(f"{ROOT}/me", headers={"if-match": "*"}).json()["detail"]


def _correct(store: Store, people: People, campaign: int) -> None:
    with store.write() as session:
        current, entered = enter(session, people["eva"], campaign, "expert")
        task = session.scalars(sa.select(Task).where(Task.stage == "adjudicate").order_by(Task.id)).first()
        assert task is not None
        change_gold(session, entered, current, task, [Span(0, 1, "band")])


def _reopen(store: Store, people: People, campaign: int) -> None:
    with store.read() as session:
        task_id = session.scalar(sa.select(Task.id).where(Task.stage == "adjudicate").order_by(Task.id))
    assert task_id is not None
    reopen(store, people["eva"], task_id)


def _more_gold(store: Store, people: People, campaign: int) -> None:
    line = (
        b'{"text": "Mara sang.", "tokens": ["Mara", "sang", "."], "entities": [{"start": 0, "end": 4, "type": "band"}]}'
    )
    added = exchange.import_files(
        store, people["res"], campaign, [("g.jsonl", line)], annotation="gold", preannotate=False
    )
    assert added.gold == 1


def _other_split(store: Store, people: People, campaign: int) -> None:
    with store.write() as session:
        session.execute(sa.update(SentenceRow).where(SentenceRow.id == 1).values(split="test"))


@pytest.mark.parametrize("change", [_correct, _reopen, _more_gold, _other_split])
@pytest.mark.parametrize("path", ["/campaigns/1/layers/gold", "/campaigns/1/layers/gold/export"])
def test_tag_of_gold_changes_with_the_gold(
    server: TestClient, store: Store, people: People, campaign: int, path: str, change: Callable[..., None]
) -> None:
    before = get(server, path)
    change(store, people, campaign)
    after = get(server, path, before.headers["etag"])
    assert after.status_code == 200 and after.headers["etag"] != before.headers["etag"]
    assert after.content != before.content or change is _other_split
    assert get(server, path, after.headers["etag"]).status_code == 304


def test_tag_of_first_layer_changes_with_the_order_of_the_queue(server: TestClient, store: Store) -> None:
    before = get(server, "/campaigns/1/layers/first")
    with store.write() as session:
        session.execute(sa.update(SentenceRow).where(SentenceRow.id == 1).values(position=1e6))
    after = get(server, "/campaigns/1/layers/first", before.headers["etag"])
    assert after.status_code == 200 and after.content != before.content


def test_tag_of_an_export_changes_with_the_layers_that_go_with_it(server: TestClient, store: Store) -> None:
    alone, both = "/campaigns/1/layers/gold/export", "/campaigns/1/layers/gold/export?besides=first"
    before = {path: get(server, path).headers["etag"] for path in (alone, both)}
    named = get(server, f"{both}&with_names=true").headers["etag"]
    with store.write() as session:
        of_first = sa.select(Task.id).where(Task.stage == "annotate")
        session.execute(sa.update(Annotation).where(Annotation.task_id.in_(of_first)).values(submitted_at=LATER))
    assert get(server, alone, before[alone]).status_code == 304
    assert get(server, both, before[both]).status_code == 200
    assert not named.startswith("W/") and get(server, f"{both}&with_names=true", named).status_code == 200


def test_layer_that_is_known_is_neither_read_nor_in_the_audit_trail(
    server: TestClient, store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {path: get(server, path).headers["etag"] for path in READ if "/layers/gold" in path}
    asked = Asked(campaign_id=campaign)
    before = audit_trail.search(store, people["adm"], asked).entries

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(layers, "layer", fail)
    monkeypatch.setattr(exchange, "export_files", fail)
    for path, tag in tags.items():
        assert get(server, path, tag).status_code == 304
    assert audit_trail.search(store, people["adm"], asked).entries == before


@pytest.mark.parametrize("name, status", [("ann1", 403), ("eva", 403), ("out", 404)])
def test_nobody_learns_from_a_condition_what_they_may_not_read(
    server: TestClient, store: Store, people: People, campaign: int, name: str, status: int
) -> None:
    person = people[name] if name in people else make_person(store, name, "expert")
    server.headers["authorization"] = f"Bearer {secret_of(store, person)}"
    path = "/campaigns/1/layers/gold/export" if name != "out" else "/campaigns/1/layers/gold"
    assert get(server, path, "*").status_code == status


# If-Match

SETTINGS = f"{ROOT}/campaigns/1/settings"


@pytest.fixture
def webhook(server: TestClient) -> str:
    made = server.post(f"{ROOT}/campaigns/1/webhooks", json={"url": "https://192.0.2.1/"})
    return f"{ROOT}/campaigns/1/webhooks/{made.json()['id']}"


def changes(server: TestClient, path: str, body: dict[str, Any], tag: str) -> Any:
    return server.patch(path, json=body, headers={"if-match": tag})


BODIES = {
    SETTINGS: ({"settings": {"hint_below": 0.6}}, {"name": "Other"}),
    "webhook": ({"events": ["run.ended"]}, {"active": False}),
}


@pytest.mark.parametrize("what", list(BODIES))
def test_second_change_on_what_was_read_before_the_first_is_refused(
    server: TestClient, webhook: str, what: str
) -> None:
    path = webhook if what == "webhook" else what
    first, second = BODIES[what]
    tag = server.get(path).headers["etag"]
    done = changes(server, path, first, tag)
    assert done.status_code == 200 and done.headers["etag"] == server.get(path).headers["etag"] != tag
    refused = changes(server, path, second, tag)
    assert (refused.status_code, refused.json()["type"]) == (412, f"{ROOT}/#problem-changed")
    assert "It has changed since you read it" in refused.json()["detail"]
    assert server.get(path).json() == done.json()
    assert changes(server, path, second, done.headers["etag"]).status_code == 200
    assert changes(server, path, first, "*").status_code == server.patch(path, json=second).status_code == 200


def test_removal_of_a_webhook_that_has_changed_is_refused(server: TestClient, webhook: str) -> None:
    tag = server.get(webhook).headers["etag"]
    changes(server, webhook, {"active": False}, tag)
    assert server.delete(webhook, headers={"if-match": tag}).status_code == 412
    assert server.delete(webhook, headers={"if-match": f"W/{server.get(webhook).headers['etag']}"}).status_code == 412
    assert server.delete(webhook, headers={"if-match": server.get(webhook).headers["etag"]}).status_code == 204


def test_what_is_sent_to_a_webhook_does_not_change_its_tag(server: TestClient, webhook: str) -> None:
    tag = server.get(webhook).headers["etag"]
    assert server.post(f"{webhook}/test").status_code == 201
    assert changes(server, webhook, {"events": ["run.ended"]}, tag).status_code == 200


def test_of_changes_at_the_same_time_one_is_made(server: TestClient, store: Store, people: People) -> None:
    tag = server.get(SETTINGS).headers["etag"]
    start, statuses = threading.Barrier(4), []

    def change(number: int) -> None:
        start.wait()
        body = {"settings": {"hint_below": number / 100}}  # none is what it is before
        statuses.append(changes(server, SETTINGS, body, tag).status_code)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(statuses) == [200, 412, 412, 412]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"settings": {"seed": 3}}, "no setting 'seed'"),
        ({"settings": {"name": "x"}}, "no setting 'name'"),
        ({"settings": {"check": True}}, "no setting 'check'"),
        ({"settings": {"hint_below": 2}}, "hint_below is 2; allowed is a number from 0 to 1"),
        ({"archived": "yes"}, "archived must be"),
    ],
)
def test_wrong_settings_are_explained(
    server: TestClient, store: Store, people: People, campaign: int, body: dict[str, Any], words: str
) -> None:
    before = campaigns.get_campaign(store, people["adm"], campaign)
    answer = server.patch(SETTINGS, json=body)
    assert answer.status_code == 400 and words in answer.json()["detail"]
    assert campaigns.get_campaign(store, people["adm"], campaign) == before


def test_every_route_that_changes_a_thing_takes_the_condition() -> None:
    changing = {route.name for route in routes() if route.method in ("PATCH", "PUT", "DELETE")}
    assert changing == {route.name for route in routes() if route.matches} and len(changing) == 4
