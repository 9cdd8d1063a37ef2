"""Outside models as sources of a campaign: nothing is sent unasked, budgets hold, jobs resume, gold calibrates."""

from __future__ import annotations

import json
import logging
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, EndpointUnavailable, InvalidConfig, NotFound
from crossner_core.outside import asking
from db.engine import Store
from db.tables import SentenceRow, SuggestionRow
from tests.support.builders import GOLD, Tab, first_choices, make_campaign, make_gold
from tests.support.gazetteers.sparql_servers import Endpoint, Reply
from tests.support.outside.servers import KEY, VARIABLE, knows, sentence_in, serve_json, write_models
from tests.support.training_store import beat, when_asked, work
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.jobs import queue
from workbench.jobs.context import JobContext
from workbench.suggestions import asking_outside, outside
from workbench.suggestions.proposing import source_weights

People = dict[str, Actor]
NAMES = {
    "Mara Vell": "musical artist", "The Tin Gulls": "band", "Oslo": "location", "Norway": "country",
    "Paper Lanterns": "song", "Jonas Reik": "musical artist", "Harbour Prize": "award", "London": "location",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setattr(asking, "BACKOFF", 0.01)
    return tmp_path / "home"


@pytest.fixture
def server(home: Path) -> Iterator[Endpoint]:
    """A well-behaved service that the settings name as `own`."""
    with serve_json(knows(NAMES)) as endpoint:
        write_models(home, endpoint.url, key_variable=VARIABLE, input_price=1, output_price=10)
        yield endpoint


def allow(store: Store, actor: Actor, campaign: int, requests: int = 100, **budget: Any) -> None:
    (view,) = outside.outside_models(store, actor, campaign)
    outside.allow(store, actor, campaign, view.name, address=view.address, requests=requests, **budget)


def stored(store: Store) -> list[tuple[int, int, str, str, float]]:
    with store.read() as session:
        rows = session.scalars(sa.select(SuggestionRow).order_by(SuggestionRow.sentence_id, SuggestionRow.start))
        return [(row.start, row.end, row.type, row.source, row.score) for row in rows]


def test_nothing_is_named_or_sent_without_settings(
    store: Store, people: People, campaign: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_args: object, **_more: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", no_network)
    assert outside.outside_models(store, people["res"], campaign) == ()
    with pytest.raises(NotFound, match="no outside model 'own'; there are: none"):
        outside.plan(store, people["res"], campaign, "own")
    write_models(home, "http://127.0.0.1:9/v1", key_variable=VARIABLE)
    (view,) = outside.outside_models(store, people["res"], campaign)
    assert (view.kind, view.host, view.problem, view.allowed) == ("chat", "127.0.0.1:9", "", None)
    queue.start_job(store, people["res"], "preannotate", campaign)
    assert work(store, home) == 1 and not [row for row in stored(store) if row[3].startswith("chat")]
    outside.plan(store, people["res"], campaign, "own")
    for call in (asking_outside.preview, asking_outside.start, asking_outside.ask):
        with pytest.raises(Conflict, match="Nobody has allowed the sentences of 'Music' to be sent to own"):
            call(store, people["res"], campaign, "own")
    queue.start_job(store, people["res"], "ask_outside", campaign, name="own")  # past the use case: the job refuses
    work(store, home)
    assert "Nobody has allowed" in (queue.newest_job(store, people["res"], "ask_outside", campaign) or view).error  # type: ignore[union-attr]


def test_plan_says_what_would_be_sent_where_at_what_cost(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path
) -> None:
    plan = outside.plan(store, people["res"], campaign, "own")
    assert plan.url == f"{server.url}/chat/completions" and plan.has_key and (plan.open, plan.new) == (6, 6)
    shown = json.dumps(plan.request)
    assert "Mara Vell sang with The Tin Gulls in Oslo ." in shown and "musical artist" in shown and KEY not in shown
    about, most = plan.cost
    assert 0 < about < most and 0 < plan.tokens[0] < plan.tokens[1] and plan.warnings == ()
    assert server.queries == []
    write_models(home, "http://models.example/v1", key_variable=VARIABLE)
    (first, second) = outside.plan(store, people["res"], campaign, "own").warnings
    assert "key travel unencrypted to models.example" in first and "no price for own" in second


def test_gold_of_train_goes_along_as_examples_and_gold_of_test_never(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path
) -> None:
    tabs = [Tab(store, people[name], campaign, stage) for name, stage in (("ann1", "annotate"), ("ann2", "check"))]
    tabs.append(Tab(store, people["eva"], campaign, "adjudicate"))
    gold = [tabs[0].items(2)[place]["text"] for place in (0, 1)]
    for tab in tabs:
        for _ in gold:
            (item,) = tab.items(1)
            parts = {"decisions": first_choices(item)[1]} if tab.stage == "adjudicate" else {}
            tab.do("submit", item, [[0, 2, "musicalartist"]], parts=parts)
    with store.write() as session:
        row = session.scalars(sa.select(SentenceRow).where(SentenceRow.text == gold[1])).one()
        row.split = "test"
    allow(store, people["res"], campaign)
    turns = outside.plan(store, people["res"], campaign, "own").request["messages"]
    assert isinstance(turns, list) and next(turn["content"] for turn in turns if turn["role"] == "user") == gold[0]
    asking_outside.ask(store, people["res"], campaign, "own")
    bodies = [json.loads(query) if isinstance(query, str) else query for query in server.queries]
    assert len(bodies) == 4 and all(body["messages"][1]["content"] == gold[0] for body in bodies)
    assert not any(gold[1] in json.dumps(body) for body in bodies)


def test_an_annotator_sees_what_a_model_elsewhere_suggests_and_a_control_shows_none(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path
) -> None:
    with store.write() as session:
        control = session.scalars(sa.select(SentenceRow).order_by(SentenceRow.position)).all()[1]
        control.control = True
    allow(store, people["res"], campaign)
    job = asking_outside.start(store, people["res"], campaign, "own")
    assert work(store, home) == 1
    view = queue.get_job(store, people["res"], job)
    assert view.state == "done" and view.message.startswith("own: 7 suggestions in 6 sentences, 0 of them from answers")
    assert len(server.queries) == 6 and server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert stored(store)[:3] == [
        (0, 2, "musicalartist", "chat:own", 0.6), (4, 7, "band", "chat:own", 0.6), (8, 9, "location", "chat:own", 0.6),
    ]  # fmt: skip
    first, second = Tab(store, people["ann1"], campaign, "annotate").items(2)
    assert [(each["start"], each["type"], each["sources"]) for each in first["suggestions"]] == [
        (0, "musicalartist", ["chat:own"]), (4, "band", ["chat:own"]), (8, "location", ["chat:own"]),
    ]  # fmt: skip
    assert second["suggestions"] == [] and len([row for row in stored(store) if row[2] in ("song", "country")]) == 2
    (shown,) = outside.outside_models(store, people["res"], campaign)
    assert shown.suggestions == 7 and shown.allowed is not None
    assert (shown.allowed.spent.requests, shown.allowed.spent.input_tokens, shown.allowed.answered) == (6, 1200, 6)
    assert shown.allowed.spent.cost == pytest.approx(6 * (200 + 200) / 1e6)


def test_the_same_sentence_prompt_and_model_are_never_sent_twice(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path
) -> None:
    allow(store, people["res"], campaign)
    looked = asking_outside.preview(store, people["res"], campaign, "own")
    assert len(looked.sentences) == 6 == looked.open and looked.report.suggestions == 7 and stored(store) == []
    asking_outside.start(store, people["res"], campaign, "own")
    work(store, home)
    assert len(server.queries) == 6 and len(stored(store)) == 7
    assert outside.plan(store, people["res"], campaign, "own").new == 0
    other = make_campaign(store, people, name="Other")
    allow(store, people["res"], other)
    report = asking_outside.ask(store, people["res"], other, "own")
    assert report.kept == 6 == len(server.queries)  # the same types and guidelines: the answers serve here, too
    (view,) = outside.outside_models(store, people["res"], other)
    assert view.allowed is not None and view.allowed.spent.requests == 0
    outside.withdraw(store, people["res"], other, "own")
    assert len(stored(store)) == 7


def test_a_budget_ends_a_job_cleanly_and_a_larger_one_resumes_it(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path
) -> None:
    allow(store, people["res"], campaign, requests=2)
    job = asking_outside.start(store, people["res"], campaign, "own")
    work(store, home)
    view = queue.get_job(store, people["res"], job)
    assert view.state == "done" and "the budget is spent, 4 sentences are left" in view.message
    assert len(server.queries) == 2
    allow(store, people["res"], campaign, requests=100, cost=0.0)
    assert asking_outside.ask(store, people["res"], campaign, "own").budget_spent and len(server.queries) == 2
    allow(store, people["res"], campaign, requests=100, tokens=1000)
    assert asking_outside.ask(store, people["res"], campaign, "own").budget_spent and len(server.queries) == 2
    allow(store, people["res"], campaign, requests=100)
    report = asking_outside.ask(store, people["res"], campaign, "own")
    assert (report.sentences, report.kept, report.budget_spent) == (6, 2, False) and len(server.queries) == 6


def test_a_killed_job_resumes_and_what_was_set_aside_stays_spent(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_models(home, server.url, key_variable=VARIABLE, at_once=1)
    allow(store, people["res"], campaign)
    job = asking_outside.start(store, people["res"], campaign, "own")

    def die(self: asking_outside.StoreBudget, reserved: asking.Spend, spent: asking.Spend) -> None:
        raise SystemExit  # as if the process ended between answer and account

    with monkeypatch.context() as patched:
        patched.setattr(asking_outside.StoreBudget, "settle", die)
        with pytest.raises(SystemExit):
            asking_outside.ask(store, people["res"], campaign, "own")
    (view,) = outside.outside_models(store, people["res"], campaign)
    assert view.allowed is not None
    assert view.allowed.spent.requests == 1 and view.allowed.spent.output_tokens == 1000
    assert work(store, home) == 1 and queue.get_job(store, people["res"], job).state == "done"
    assert len(stored(store)) == 7


def test_a_job_is_cancelled_and_what_was_answered_is_kept(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_models(home, server.url, key_variable=VARIABLE, at_once=1)
    allow(store, people["res"], campaign)

    def cancel_it(context: JobContext) -> None:
        queue.cancel_in_campaign(store, people["res"], campaign, "ask_outside")
        beat(store, context)

    job = asking_outside.start(store, people["res"], campaign, "own")
    when_asked(monkeypatch, "ask_outside", cancel_it, step=4)
    work(store, home)
    assert queue.get_job(store, people["res"], job).state == "cancelled"
    asked = len(server.queries)
    assert 0 < asked < 6
    assert asking_outside.ask(store, people["res"], campaign, "own").kept == asked and len(server.queries) == 6


def test_a_service_that_is_down_fails_the_job_and_resuming_goes_on(
    store: Store, people: People, campaign: int, home: Path
) -> None:
    down = [True]

    def behave(number: int, body: Any) -> Reply:
        return Reply(status=503) if down[0] and number >= 2 else knows(NAMES)(number, body)

    with serve_json(behave) as server:
        write_models(home, server.url, at_once=1)
        allow(store, people["res"], campaign)
        job = asking_outside.start(store, people["res"], campaign, "own")
        work(store, home)
        view = queue.get_job(store, people["res"], job)
        assert view.state == "failed" and "is not asked further: it answers 503" in (view.error or "")
        assert view.can_resume and len(stored(store)) == 5  # the first two sentences' suggestions are there
        down[0] = False
        queue.resume_job(store, people["res"], job)
        work(store, home)
        assert len(stored(store)) == 7 and len({sentence_in(body) for body in server.queries}) == 6
        with pytest.raises(Conflict, match="only a failed"):
            queue.resume_job(store, people["res"], job)


def test_permission_is_for_an_address_and_a_model_and_can_be_taken_back(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path
) -> None:
    with pytest.raises(Conflict, match=r"is http://127.0.0.1:\d+/v1 now, and was shown as http://other"):
        outside.allow(store, people["res"], campaign, "own", address="http://other.example", requests=1)
    allow(store, people["res"], campaign)
    write_models(home, server.url, key_variable=VARIABLE, model="larger")
    with pytest.raises(Conflict, match=r"Allowed was to send to tiny at .* name larger"):
        asking_outside.ask(store, people["res"], campaign, "own")
    write_models(home, "http://127.0.0.1:9/v1", key_variable=VARIABLE)
    with pytest.raises(Conflict, match="allow it anew"):
        asking_outside.preview(store, people["res"], campaign, "own")
    write_models(home, server.url, key_variable=VARIABLE)
    outside.forbid(store, people["res"], campaign, "own")
    with pytest.raises(NotFound, match="nothing to take back"):
        outside.forbid(store, people["res"], campaign, "own")
    with pytest.raises(Conflict, match="Nobody has allowed"):
        asking_outside.start(store, people["res"], campaign, "own")
    assert server.queries == []
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    with pytest.raises(Exception, match="archived"):
        allow(store, people["res"], campaign)


def test_a_permission_that_is_taken_back_ends_a_job_under_way(
    store: Store, people: People, campaign: int, home: Path
) -> None:
    def behave(number: int, body: Any) -> Reply:
        if number == 1:
            outside.forbid(store, people["res"], campaign, "own")
        return knows(NAMES)(number, body)

    with serve_json(behave) as server:
        write_models(home, server.url, at_once=1)
        allow(store, people["res"], campaign)
        report = asking_outside.ask(store, people["res"], campaign, "own")
        assert report.budget_spent and report.left == 4 and len(server.queries) == 2


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"requests": 0}, "requests is 0; allowed is a whole number from 1"),
        ({"requests": 1.5}, "requests is 1.5"),
        ({"requests": True}, "requests is True"),
        ({"requests": 1, "tokens": -1}, "tokens is -1"),
        ({"requests": 1, "cost": float("nan")}, "cost is nan"),
        ({"requests": 1, "cost": -0.1}, "cost is -0.1"),
    ],
)
def test_a_budget_out_of_range_is_refused(
    store: Store, people: People, campaign: int, server: Endpoint, budget: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadInput, match=why):
        outside.allow(store, people["res"], campaign, "own", address=server.url, **budget)


def test_a_cost_cannot_be_limited_without_prices_and_a_key_must_be_set(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_models(home, server.url, key_variable=VARIABLE)
    with pytest.raises(BadInput, match="no price for own, so no cost can be limited"):
        allow(store, people["res"], campaign, cost=1.0)
    allow(store, people["res"], campaign)
    monkeypatch.delenv(VARIABLE)
    (view,) = outside.outside_models(store, people["res"], campaign)
    assert f"variable {VARIABLE} is not set" in view.problem
    with pytest.raises(InvalidConfig, match=f"variable {VARIABLE} is not set"):
        asking_outside.preview(store, people["res"], campaign, "own")


def test_the_key_is_nowhere_in_store_logs_or_messages(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    allow(store, people["res"], campaign)
    asking_outside.start(store, people["res"], campaign, "own")
    work(store, home)
    with serve_json(lambda _n, _b: Reply(json.dumps({"error": f"bad key {KEY}"}).encode(), 400)) as grumpy:
        write_models(home, grumpy.url, key_variable=VARIABLE)
        allow(store, people["res"], campaign)
        job = asking_outside.start(store, people["res"], campaign, "own")
        work(store, home)
    view = queue.get_job(store, people["res"], job)
    said = [line.text for line in queue.job_log(store, people["res"], job)]
    assert view.state == "failed" and "bad key …" in (view.error or "")
    assert store.url.database is not None
    with closing(sqlite3.connect(store.url.database)) as connection:
        everything = "\n".join(connection.iterdump())
    assert "chat:own" in everything
    for text in (
        everything,
        caplog.text,
        str(view),
        *said,
        repr(outside.outside_models(store, people["res"], campaign)),
    ):
        assert KEY not in text


def test_gold_calibrates_a_model_elsewhere_like_any_source(
    store: Store, people: People, campaign: int, server: Endpoint
) -> None:
    allow(store, people["res"], campaign)
    asking_outside.ask(store, people["res"], campaign, "own")
    make_gold(store, people, campaign)
    weights = source_weights(store, people["res"], campaign)
    weight = weights.kinds["chat"]
    right = sum(
        (start, end, kind) in {span for spans in GOLD for span in spans} for start, end, kind, *_ in stored(store)
    )
    assert (weight.n, weight.confidence) == (7, pytest.approx(0.6)) and weight.correct == right == 6
    assert weight.offset > 0  # more of it is right than 0.6 says


def test_people_who_have_begun_keep_what_they_were_shown(
    store: Store, people: People, campaign: int, server: Endpoint
) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    tab.do("draft", tab.items(1)[0])
    allow(store, people["res"], campaign)
    assert asking_outside.ask(store, people["res"], campaign, "own").sentences == 5
    assert len(server.queries) == 5 and len(stored(store)) == 4
    assert outside.withdraw(store, people["res"], campaign, "own") == (4, 0) and stored(store) == []
    with pytest.raises(NotFound, match="nothing to withdraw"):
        outside.withdraw(store, people["res"], campaign, "own")


def test_preview_shows_what_came_before_a_service_stopped(
    store: Store, people: People, campaign: int, home: Path
) -> None:
    with serve_json(lambda n, body: knows(NAMES)(n, body) if n < 2 else Reply(status=401)) as server:
        write_models(home, server.url, at_once=1)
        allow(store, people["res"], campaign)
        looked = asking_outside.preview(store, people["res"], campaign, "own")
        assert len(looked.sentences) == 2 and "401" in looked.report.unusable[0] and looked.report.left == 4
    write_models(home, server.url, retries=0)  # nothing listens there any more
    campaigns.update_domain(store, people["adm"], campaign, load_domain("politics"))  # so that no answer is kept
    with pytest.raises(EndpointUnavailable, match="connection failed"):
        asking_outside.preview(store, people["res"], campaign, "own")


def test_two_models_suggest_side_by_side(
    store: Store, people: People, campaign: int, server: Endpoint, home: Path
) -> None:
    own = (home / "outside.toml").read_text()
    tagger = f'[tagger]\nkind = "gliner"\naddress = "{server.url}"\n'
    (home / "outside.toml").write_text(own + own.replace("[own]", "[second]") + tagger)
    for view in outside.outside_models(store, people["res"], campaign):
        outside.allow(store, people["res"], campaign, view.name, address=view.address, requests=50)
    asking_outside.ask(store, people["res"], campaign, "own")
    asking_outside.ask(store, people["res"], campaign, "second")
    assert {row[3] for row in stored(store)} == {"chat:own", "chat:second"} and len(stored(store)) == 14
    names = [view.name for view in outside.outside_models(store, people["res"], campaign)]
    assert names == ["own", "second", "tagger"]
    (home / "outside.toml").write_text(own)
    (_, gone, _) = outside.outside_models(store, people["res"], campaign)
    assert gone.name == "second" and "no longer name" in gone.problem and gone.suggestions == 7
