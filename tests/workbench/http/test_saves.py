"""The route of the span editor, behind the gate: who may save, what is refused, and what comes back."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.testclient import TestClient

from crossner_core.errors import StorageError
from db import account_rows
from db.engine import Store
from db.tables import Annotation, AppliedEvent, Task, User
from db.types import now
from tests.support.builders import Tab, make_campaign, make_person
from tests.support.screens import give_session
from workbench.accounts.actors import Actor
from workbench.http import saves
from workbench.http.cookies import SESSION_COOKIE, form_token
from workbench.http.gate import Gate
from workbench.http.saves import LARGEST_MESSAGE, TOKEN_HEADER, Saves
from workbench.labelling import adjudication, outbox
from workbench.settings import Settings

ORIGIN = "http://testserver"
SPANS = [(0, 2, "musicalartist"), (4, 7, "band")]
People = dict[str, Actor]


@dataclass
class Browser:
    """A signed-in person's editor on one stage, which sends its messages over HTTP."""

    client: TestClient
    tab: Tab
    token: str

    def post(self, body: Any, *, stage: str = "", campaign: int = 0, drop: str = "", **headers: str) -> Any:
        """Send a body (bytes as they are, anything else as JSON) with the headers a browser adds; leave out `drop`."""
        sent = {"origin": ORIGIN, TOKEN_HEADER: form_token(self.token), "cookie": f"{SESSION_COOKIE}={self.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        path = f"/labelling/{campaign or self.tab.campaign_id}/{stage or self.tab.stage}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        kept = {name: value.encode("latin-1") for name, value in sent.items() if name != drop}
        return self.client.post(path, content=content, headers=kept)

    def send(self, *events: dict[str, Any], **more: Any) -> Any:
        """Send events in the message of this tab."""
        return self.post({"client": self.tab.client, "user": self.tab.actor.id, "events": list(events), **more})


@pytest.fixture
def server(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(home=tmp_path, database_url=store.url.render_as_string(hide_password=False))
    app = Gate(Starlette(routes=Saves(settings).routes()), settings=settings)
    with TestClient(app, base_url=ORIGIN) as client:
        yield client


@pytest.fixture
def browser(server: TestClient, store: Store, people: People, campaign: int) -> Browser:
    return browser_of(server, store, people["ann1"], campaign)


def browser_of(server: TestClient, store: Store, actor: Actor, campaign: int, stage: str = "annotate") -> Browser:
    return Browser(server, Tab(store, actor, campaign, stage), give_session(store, actor))


def applied(store: Store) -> int:
    with store.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(AppliedEvent)) or 0


def spans_of(store: Store, task: int) -> list[tuple[int, int, str]]:
    with store.read() as session:
        work = session.scalars(sa.select(Annotation).where(Annotation.task_id == task)).one()
        return [(span.start, span.end, span.type) for span in work.spans]


def test_draft_is_saved_and_acknowledged_without_more(store: Store, browser: Browser) -> None:
    item = browser.tab.items()[0]
    answer = browser.send(browser.tab.event("draft", item, SPANS))
    assert (answer.status_code, answer.json()) == (200, {"acks": {browser.tab.client: 1}, "rejections": []})
    assert spans_of(store, item["task"]) == SPANS
    assert answer.headers["cache-control"] == "no-store"


def test_submit_brings_the_next_sentences(store: Store, browser: Browser) -> None:
    item = browser.tab.items()[0]
    answer = browser.send(browser.tab.event("submit", item, SPANS)).json()
    assert answer["items"] == json.loads(json.dumps(browser.tab.items()))
    assert item["task"] not in [each["task"] for each in answer["items"]]
    assert "progress" not in answer and "types" not in answer


def test_sentences_that_the_browser_has_come_as_a_number(store: Store, browser: Browser) -> None:
    first, *known = browser.tab.items()
    event = browser.tab.event("submit", first, SPANS)
    *numbers, fresh = browser.send(event, known=[item["task"] for item in known]).json()["items"]
    assert numbers == [{"task": item["task"]} for item in known]
    assert fresh == json.loads(json.dumps(browser.tab.items()[-1])) and fresh["text"]
    asked = browser.send(ask=True, known=[item["task"] for item in known]).json()["items"]
    assert all(item["text"] for item in asked)


def test_message_that_asks_brings_everything(browser: Browser) -> None:
    answer = browser.send(ask=True).json()
    assert (len(answer["items"]), answer["progress"]) == (4, {"done": 0, "left": 6})
    assert {"musicalartist", "band"} <= {kind["name"] for kind in answer["types"]}


def test_idle_browser_is_handed_nothing_new_and_renews_nothing(store: Store, browser: Browser) -> None:
    assert browser.send(ask=True, quiet=24 * 3600 * 1000).json()["items"] == []
    held = browser.send(ask=True).json()["items"]
    long_ago = now().replace(year=2020)
    with store.write() as session:
        session.execute(sa.update(Task).where(Task.state == "leased").values(lease_expires=long_ago))
    browser.send(ask=True, quiet=2 * 60 * 1000)
    with store.read() as session:
        leases = set(session.scalars(sa.select(Task.lease_expires).where(Task.state == "leased")))
    assert leases == {long_ago} and len(held) == 4
    browser.send(ask=True, quiet=1_000)
    with store.read() as session:
        ends = session.scalars(sa.select(Task.lease_expires).where(Task.state == "leased"))
        assert all(end and end > now() for end in ends)


def test_replay_is_acknowledged_again_and_changes_nothing(store: Store, browser: Browser) -> None:
    event = browser.tab.event("draft", browser.tab.items()[0], SPANS)
    answers = [browser.send(event).json() for _ in range(3)]
    assert answers[0] == answers[1] == answers[2] and applied(store) == 1


def test_conflict_comes_with_the_newest_work_and_the_whole_screen(store: Store, browser: Browser) -> None:
    item = browser.tab.items()[0]
    browser.send(browser.tab.event("draft", item, SPANS))
    other = browser_of(browser.client, store, browser.tab.actor, browser.tab.campaign_id)
    answer = other.send(other.tab.event("draft", item, [(0, 1, "person")])).json()
    (rejection,) = answer["rejections"]
    assert (rejection["reason"], rejection["item"]["revision"], answer["acks"]) == ("conflict", 1, {})
    assert len(answer["items"]) == 4 and answer["types"] and answer["progress"]
    assert spans_of(store, item["task"]) == SPANS


def test_malformed_event_is_rejected_and_the_others_are_applied(store: Store, browser: Browser) -> None:
    first, second = browser.tab.items()[:2]
    bad, good = browser.tab.event("draft", first, SPANS, revision="x"), browser.tab.event("draft", second)
    answer = browser.send(bad, good).json()
    assert [(each["seq"], each["reason"]) for each in answer["rejections"]] == [(1, "invalid")]
    assert answer["acks"] == {browser.tab.client: 2} and applied(store) == 1


def test_stranger_is_asked_to_sign_in(store: Store, browser: Browser) -> None:
    event = browser.tab.event("draft", browser.tab.items()[0], SPANS)
    message = {"client": browser.tab.client, "events": [event]}
    for headers in ({"cookie": ""}, {"cookie": f"{SESSION_COOKIE}={'a' * 43}"}):
        answer = browser.post(message, **headers)
        assert (answer.status_code, answer.text) == (401, "Sign in first.")
    assert applied(store) == 0


def test_sign_out_in_the_middle_is_noticed_and_the_event_can_come_later(store: Store, browser: Browser) -> None:
    item = browser.tab.items()[0]
    first, second = browser.tab.event("draft", item, SPANS), browser.tab.event("draft", item, [], base=1)
    assert browser.send(first).status_code == 200
    with store.write() as session:
        account_rows.revoke_sessions_of(session, user_id=browser.tab.actor.id)
    assert browser.send(second).status_code == 401 and applied(store) == 1
    again = Browser(browser.client, browser.tab, give_session(store, browser.tab.actor))
    assert again.send(second).json()["acks"] == {browser.tab.client: 2} and applied(store) == 2


@pytest.mark.parametrize(
    ("headers", "drop", "reason"),
    [
        ({"origin": "https://evil.example"}, "", None),
        ({"origin": "null"}, "", None),
        ({}, "origin", None),
        ({"sec_fetch_site": "cross-site"}, "", None),
        ({}, TOKEN_HEADER, "reload"),
        ({"x_form_token": form_token("another session")}, "", "reload"),
        ({"x_form_token": "\xff"}, "", "reload"),
    ],
)
def test_message_needs_our_origin_and_the_form_token(
    store: Store, browser: Browser, headers: dict[str, str], drop: str, reason: str | None
) -> None:
    event = browser.tab.event("draft", browser.tab.items()[0], SPANS)
    message = {"client": browser.tab.client, "events": [event]}
    answer = browser.post(message, drop=drop, **headers)
    assert answer.status_code == 403 and applied(store) == 0
    if answer.headers["content-type"] == "application/json":
        assert answer.json().get("reason") == reason
    assert browser.post(message).status_code == 200


def test_token_of_an_earlier_session_does_not_fit(store: Store, browser: Browser) -> None:
    newer = give_session(store, browser.tab.actor)
    answer = browser.post({"client": "tab"}, cookie=f"{SESSION_COOKIE}={newer}")
    assert (answer.status_code, answer.json()["reason"]) == (403, "reload")


def test_work_of_another_person_is_not_applied(store: Store, browser: Browser, people: People) -> None:
    event = browser.tab.event("draft", browser.tab.items()[0], SPANS)
    answer = browser.send(event, user=people["ann2"].id)
    assert (answer.status_code, answer.json()["reason"], applied(store)) == (409, "reload", 0)


def test_roles_and_membership_are_looked_up_afresh(
    store: Store, server: TestClient, browser: Browser, people: People
) -> None:
    outsider = browser_of(server, store, make_person(store, "out", "annotator"), browser.tab.campaign_id)
    researcher = browser_of(server, store, people["res"], browser.tab.campaign_id)
    event = browser.tab.event("draft", browser.tab.items()[0], SPANS)
    refused = [outsider.send(event), researcher.send(event), browser.post({"client": "tab"}, stage="adjudicate")]
    refused += [browser.post({"client": "tab"}, stage="gold"), browser.post({"client": "tab"}, campaign=99)]
    with store.write() as session:
        session.get_one(User, browser.tab.actor.id).role = "researcher"
    refused.append(browser.send(event))
    assert [answer.status_code for answer in refused] == [403] * 6 and applied(store) == 0
    words = [answer.json()["problem"] for answer in refused]
    assert "There is no campaign" in words[0] and "is a researcher" in words[1] and "is a researcher" in words[5]


def test_campaign_of_others_looks_like_one_that_does_not_exist(store: Store, browser: Browser, people: People) -> None:
    other = make_campaign(store, {"adm": people["adm"], "res": people["res"]}, name="Others")
    answers = [browser.post({"client": "tab"}, campaign=number) for number in (other, 999)]
    assert answers[0].status_code == answers[1].status_code == 403
    assert answers[0].text.replace(str(other), "999") == answers[1].text


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"null", b"7", b'"text"', b"[" * 100_000, b'{"client": 9}', b'{"events": []}',
        b'{"client": "tab", "events": {}}', b'{"client": "\\ud800", "events": []}', b'{"client": "tab", "ask": "yes"}',
        b'{"client": "' + b"a" * 101 + b'"}', b'{"client": "tab", "quiet": ' + b"9" * 5_000 + b"}",
    ],
    ids=range(15),
)  # fmt: skip
def test_what_is_not_a_message_is_refused_in_words(store: Store, browser: Browser, body: bytes) -> None:
    answer = browser.post(body)
    assert answer.status_code == 400 and applied(store) == 0
    assert answer.json()["problem"].startswith(("The message cannot be read: ", "The message is not UTF-8"))
    assert len(answer.text) < 1_000


def test_half_surrogates_of_an_event_come_back_as_json(browser: Browser) -> None:
    event = browser.tab.event("\ud800", browser.tab.items()[0])
    (rejection,) = browser.send(event).json()["rejections"]
    assert rejection["reason"] == "invalid"


def test_message_has_a_largest_size(store: Store, browser: Browser) -> None:
    event = browser.tab.event("draft", browser.tab.items()[0], SPANS)
    whole = json.dumps({"client": browser.tab.client, "events": [event]}).encode()
    answer = browser.post(whole + b" " * LARGEST_MESSAGE)
    assert (answer.status_code, applied(store)) == (413, 0) and "larger than" in answer.json()["problem"]
    assert browser.post(whole + b" " * (LARGEST_MESSAGE - len(whole))).status_code == 200


def test_store_trouble_is_one_calm_line_and_the_message_can_come_again(
    store: Store, browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    event = browser.tab.event("draft", browser.tab.items()[0], SPANS)

    def fail(*_arguments: object) -> None:
        raise StorageError("The store at sqlite:////secret/place failed: disk I/O error.")

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "_apply_one", fail)
        answer = browser.send(event)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "try again later" in answer.text and "secret" not in answer.text and "disk" not in answer.text
    assert "/secret/place" in caplog.text
    assert browser.send(event).status_code == 200 and applied(store) == 1


def test_gate_answers_calmly_when_it_cannot_look_anybody_up(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object) -> None:
        raise StorageError("The store at postgresql://user@host/db failed: connection refused.")

    monkeypatch.setattr("workbench.http.gate.actor_for_token", fail)
    answer = browser.send()
    assert answer.status_code == 503 and "host" not in answer.text and "try again later" in answer.text
    assert "user@host" in caplog.text


def test_use_cases_run_beside_the_event_loop_in_few_threads(
    store: Store, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, most, lock = 0, 0, threading.Lock()
    look = saves.outbox.is_of_another

    def slow(*arguments: Any) -> Any:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.05)
        with lock:
            busy -= 1
        return look(*arguments)

    monkeypatch.setattr(saves.outbox, "is_of_another", slow)
    threads = [threading.Thread(target=browser.send) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 2 <= most <= saves._THREADS


@pytest.fixture
def expert(server: TestClient, store: Store, people: People, campaign: int) -> Browser:
    """An expert's editor with all sentences to decide."""
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        Tab(store, people[name], campaign, stage).submit_all()
    return browser_of(server, store, people["eva"], campaign, "adjudicate")


def test_question_is_put_and_its_sentence_comes_last(store: Store, people: People, expert: Browser) -> None:
    order = [item["task"] for item in expert.tab.items(6)]
    message = {"user": people["eva"].id, "task": order[0], "text": "A band?", "asks": "second"}
    answer = expert.post(message, stage="adjudicate/questions")
    assert answer.status_code == 200 and answer.json()["rejections"] == []
    assert [item["task"] for item in answer.json()["items"]] == order[1:5]
    (put,) = adjudication.my_questions(store, people["ann2"], expert.tab.campaign_id)
    assert (put.text, put.asks) == ("A band?", "second")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"asks": "third"}, 400, "asks"),
        ({"text": " "}, 400, "characters"),
        ({"user": 9999}, 409, "Somebody else"),
        ({"task": 9999}, 403, "no task"),
    ],
)
def test_question_that_cannot_be_put_says_why(
    store: Store, people: People, expert: Browser, body: dict[str, Any], status: int, words: str
) -> None:
    task = expert.tab.items(1)[0]["task"]
    answer = expert.post({"user": people["eva"].id, "task": task, "text": "?"} | body, stage="adjudicate/questions")
    assert answer.status_code == status and words in answer.json()["problem"]
    assert adjudication.open_questions(store, people["eva"], expert.tab.campaign_id) == ()


def test_question_about_a_sentence_that_is_gold_is_a_conflict(people: People, expert: Browser) -> None:
    task = expert.tab.items(1)[0]["task"]
    expert.tab.submit_all()
    answer = expert.post({"user": people["eva"].id, "task": task, "text": "?"}, stage="adjudicate/questions")
    assert (answer.status_code, "under adjudication" in answer.json()["problem"]) == (409, True)


def test_annotators_and_other_sites_ask_nothing(
    server: TestClient, store: Store, people: People, expert: Browser
) -> None:
    message = {"task": expert.tab.items(1)[0]["task"], "text": "?"}
    path = "adjudicate/questions"
    assert expert.post(message, stage=path, origin="http://elsewhere").status_code == 403
    assert expert.post(message, stage=path, drop=TOKEN_HEADER).status_code == 403
    annotator = browser_of(server, store, people["ann1"], expert.tab.campaign_id)
    assert annotator.post(message, stage=path).status_code == 403
    assert adjudication.open_questions(store, people["eva"], expert.tab.campaign_id) == ()


def test_label_review_goes_through_the_same_checks(
    store: Store, server: TestClient, people: People, campaign: int
) -> None:
    token = give_session(store, people["eva"])
    sent = {"origin": ORIGIN, TOKEN_HEADER: form_token(token), "cookie": f"{SESSION_COOKIE}={token}"}
    path, message = f"/label-review/{campaign}/near_duplicates", {"client": "tab", "events": [], "ask": True}

    def post(body: Any = message, **changed: str) -> Any:
        headers = sent | {name.replace("_", "-"): value for name, value in changed.items()}
        return server.post(path, content=json.dumps(body).encode(), headers=headers)

    answer = post()
    assert (answer.status_code, answer.json()["progress"]) == (200, {"done": 0, "left": 0})
    assert post(cookie="").status_code == 401
    assert post(origin="https://evil.example").status_code == 403
    assert post(x_form_token="0").json()["reason"] == "reload"
    assert post(message | {"user": people["ann1"].id}).status_code == 409
    assert post({"events": []}).status_code == 400
    annotator = give_session(store, people["ann1"])
    refused = post(cookie=f"{SESSION_COOKIE}={annotator}", x_form_token=form_token(annotator))
    assert refused.status_code == 403 and "expert" in refused.json()["problem"]
