"""Outside models on the page Campaigns: from nothing named to suggestions that an annotator sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from crossner_core.outside import asking
from db.engine import Store
from tests.support.builders import Tab
from tests.support.gazetteers.sparql_servers import Reply
from tests.support.outside.servers import KEY, VARIABLE, chat, entities, knows, serve_json, write_models
from tests.support.screens import healthy, html, open_screen, press, words
from tests.support.training_store import work
from workbench.accounts.actors import Actor

People = dict[str, Actor]
NAMES = {"Mara Vell": "musical artist", "The Tin Gulls": "band", "Oslo": "location"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setattr(asking, "BACKOFF", 0.01)
    return tmp_path / "home"


def opened(monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor) -> AppTest:
    test = open_screen(monkeypatch, store, "campaigns", actor)
    next(one for one in test.segmented_control if one.key == "campaigns:part").set_value("Outside models")
    return healthy(test.run())


def button(test: AppTest, label: str) -> Any:
    return next((each for each in test.button if each.label.startswith(label)), None)


def test_a_researcher_goes_from_what_is_sent_where_to_suggestions_that_an_annotator_sees(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, home: Path
) -> None:
    with serve_json(knows(NAMES)) as server:
        write_models(home, server.url, key_variable=VARIABLE, input_price=1, output_price=10, currency="EUR")
        test = opened(monkeypatch, store, people["res"])
        said = words(test)
        assert f"To {server.url}/chat/completions, with a key: one request for each of 6 open sentences." in said
        assert "about" in said and "EUR" in said and "Mara Vell sang with" in said and "musical artist" in said
        assert KEY not in said and server.queries == []
        assert button(test, "Look at ten") is None and button(test, "Suggest in") is None
        next(each for each in test.number_input if each.label == "Most requests").set_value(20)
        press(test, "Allow sending to 127.0.0.1")
        assert server.queries == [] and button(test, "Suggest in") is None
        press(test, "Look at ten sentences")
        assert len(server.queries) == 6 and html(test).count("<mark") == 3
        press(test, "Suggest in 6 open sentences")
        assert work(store, home) == 1 and len(server.queries) == 6
        test = healthy(test.run())
        shown = words(test)
        assert "Spent: 6 of 20 requests · 1,320 tokens · 0.0024 EUR" in shown
        assert "6 usable answers of 6 · 3 suggestions in this campaign" in shown
        assert "about all 6 open sentences are kept already" in shown
    (item,) = Tab(store, people["ann1"], campaign, "annotate").items(1)
    assert [each["type"] for each in item["suggestions"]] == ["musicalartist", "band", "location"]
    press(test, "Withdraw its 3 suggestions")
    press(test, "Forbid sending")
    assert button(test, "Allow sending to 127.0.0.1") is not None and button(test, "Look at ten") is None


def test_what_goes_wrong_is_said_as_text(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, home: Path
) -> None:
    test = opened(monkeypatch, store, people["res"])
    assert "The settings name no outside model" in words(test)
    assert "outside.toml" in words(opened(monkeypatch, store, people["adm"])).replace("\\", "")
    home.mkdir(exist_ok=True)
    (home / "outside.toml").write_text("[own]\nkind = 'telnet'\n")
    assert "unknown kind" in words(opened(monkeypatch, store, people["res"]))
    evil = "<script>alert(1)</script>"
    with serve_json(
        lambda n, _b: chat(entities([(evil, evil)])) if n else Reply(b'{"error": "**bold** <b>"}', 400)
    ) as s:
        write_models(home, s.url, key_variable=VARIABLE, at_once=1)
        test = opened(monkeypatch, store, people["res"])
        press(test, "Allow sending")
        press(test, "Look at ten sentences")
        shown = words(test)
        assert evil not in shown and "<b>" not in shown and "not in the sentence" not in html(test)
        assert "unknown type" in shown and "1 without a usable answer" in shown
    monkeypatch.delenv(VARIABLE)
    test = opened(monkeypatch, store, people["res"])
    assert "is not set" in words(test) and button(test, "Look at ten").disabled
