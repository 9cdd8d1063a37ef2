"""The page New campaign: five steps, nothing written before the last button, and all of it then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from db.engine import Store
from tests.support.app_corpora import make_corpus
from tests.support.builders import SENTENCES
from tests.support.screens import healthy, html, open_screen, press, words
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import staging
from workbench.jobs import queue
from workbench.jobs.worker import Worker
from workbench.settings import settings_of

People = dict[str, Actor]
Open = Callable[..., AppTest]
PLAIN = "\n".join(text for text, _ in SENTENCES).encode()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def screen(store: Store, people: People, monkeypatch: pytest.MonkeyPatch) -> Open:
    return lambda who="res": healthy(open_screen(monkeypatch, store, "new_campaign", people[who]))


def filled(test: AppTest, text: bytes = PLAIN) -> AppTest:
    """Name the campaign, choose the music domain and give a file."""
    test.text_input(key="new:0:name").set_value("Songs")
    test.selectbox(key="new:0:domain").set_value("music")
    test.file_uploader(key="new:0:files:0").set_value(("songs.txt", text, "text/plain"))
    return healthy(test.run())


def make_button(test: AppTest) -> object:
    return next(button for button in test.button if button.label == "Make the campaign")


def folded(test: AppTest) -> set[str]:
    """Return the steps whose inputs are hidden."""
    return {number for number in "12345" if f".st-key-new-body-{number}" in html(test)}


@pytest.mark.parametrize("who", ["ann1", "eva"])
def test_new_campaign_is_for_those_who_make_campaigns(screen: Open, who: str) -> None:
    test = screen(who)
    assert "this is for researcher or admin" in words(test) and not test.button


def test_new_campaign_is_made_by_a_researcher_from_three_inputs(screen: Open, store: Store, people: People) -> None:
    test = filled(screen())
    assert campaigns.list_campaigns(store, people["res"]) == ()
    press(test, "Make the campaign")
    (made,) = campaigns.list_campaigns(store, people["res"])
    assert (made.name, made.domain_name, made.sentences) == ("Songs", "music", 6)
    assert {member.name for member in made.members} == {"ann1", "ann2", "ann3", "eva"}
    assert "The campaign Songs is made. 6 sentences, 13 types, 4 people." in as_plain(words(test))
    press(test, "Make another campaign")
    assert test.text_input(key="new:1:name").value == "" and folded(test) == set("2345")


def test_new_campaign_leaves_files_that_take_long_to_the_worker(
    screen: Open, store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "LONG", 0.0)
    test = filled(screen(), b'{"text": "Oslo ."}\n{oops\n')
    assert "the worker reads and checks them" in words(test) and "not shown before" in words(test)
    test.selectbox(key="new:0:format").set_value("jsonl")
    press(healthy(test.run()), "Make the campaign")
    assert "Waiting for the worker" in words(test) and "You can leave this page" in as_plain(words(test))
    assert "Make the campaign" not in [button.label for button in test.button]
    Worker(store, settings_of(store)).run(once=True)
    healthy(test.run())
    assert any("songs.txt:2" in each.value for each in (*test.error, *test.code))
    assert campaigns.list_campaigns(store, people["res"]) == ()

    test.file_uploader(key="new:0:files:0").set_value(("songs.txt", PLAIN, "text/plain"))
    test.selectbox(key="new:0:format").set_value("plain")
    press(healthy(test.run()), "Make the campaign")
    Worker(store, settings_of(store)).run(once=True)
    text = as_plain(words(healthy(test.run())))
    assert "The campaign Songs is made. 6 sentences, 13 types, 4 people. 6 sentences imported." in text
    (made,) = campaigns.list_campaigns(store, people["res"])
    assert (made.name, made.sentences) == ("Songs", 6)
    press(test, "Make another campaign")
    assert test.text_input(key="new:1:name").value == "" and make_button(test).disabled  # type: ignore[attr-defined]


def test_new_campaign_that_is_cancelled_is_not_made(
    screen: Open, store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "LONG", 0.0)
    press(press(filled(screen()), "Make the campaign"), "Do not make it")
    (job,) = queue.list_jobs(store, people["res"], kinds=(staging.NEW_CAMPAIGN,))
    assert job.state == "cancelled" and campaigns.list_campaigns(store, people["res"]) == ()


def test_new_campaign_says_what_is_missing_and_opens_that_step(screen: Open) -> None:
    test = screen()
    assert make_button(test).disabled and folded(test) == set("2345")  # type: ignore[attr-defined]
    assert "Still needed: a domain" in as_plain(words(test))
    press(test, "Next")
    assert folded(test) == set("2345")  # the first step was left with a fault
    test.selectbox(key="new:0:domain").set_value("music")
    assert "a name for the campaign" in words(healthy(test.run()))
    test.text_input(key="new:0:name").set_value("Songs")
    assert folded(healthy(test.run())) == set("1345")  # and gives way to the next once it is mended
    assert "Still needed: a file of sentences, or Later" in as_plain(words(test))
    assert make_button(test).disabled  # type: ignore[attr-defined]


def test_new_campaign_takes_pasted_types_and_shows_what_it_made_of_them(
    screen: Open, store: Store, people: People
) -> None:
    test = screen()
    test.text_input(key="new:0:name").set_value("Ships")
    test.segmented_control(key="new:0:how").set_value("A new one, from a list of types").run()
    test.text_input(key="new:0:title").set_value("Ships at sea")
    test.text_area(key="new:0:types").set_value("ship\nShip")
    assert "both name the type" in words(healthy(test.run()))
    test.text_area(key="new:0:types").set_value("ship: a named vessel\nharbour master")
    assert "a named vessel" in html(healthy(test.run())) and "DBpedia: Ship" in html(test)
    test.segmented_control(key="new:0:way").set_value("Later")
    press(healthy(test.run()), "Make the campaign")
    (made,) = campaigns.list_campaigns(store, people["res"])
    assert made.sentences == 0
    assert [(kind.name, kind.title) for kind in made.domain.types] == [
        ("ship", "ship"), ("harbourmaster", "harbour master"),
    ]  # fmt: skip


def test_new_campaign_shows_suggestions_and_warns_where_few_sentences_get_any(screen: Open) -> None:
    many = filled(screen())
    assert "of 6 sentences get suggestions" in words(many) and "<mark" in html(many)
    assert "Only" not in words(many)
    none = "\n".join(f"Nobody saw number {number} ." for number in range(30)).encode()
    few = filled(screen(), none)
    assert as_plain("None of 10 sentences gets a suggestion. The gazetteer knows few of these names") in as_plain(
        words(few)
    )


def as_plain(text: str) -> str:
    return text.replace("\\", "")


def test_new_campaign_asks_a_researcher_for_no_address(screen: Open, store: Store, people: People) -> None:
    labels = {who: {one.label for one in screen(who).text_input} for who in ("res", "adm")}
    assert labels["adm"] - labels["res"] == {"SPARQL endpoint"}


def test_new_campaign_shows_faults_of_files_and_offers_no_button(screen: Open) -> None:
    test = filled(screen(), b"Oslo\tB-place\n")
    test.selectbox(key="new:0:format").set_value("conll")
    healthy(test.run())
    assert "place" in words(test) and make_button(test).disabled  # type: ignore[attr-defined]


def test_new_campaign_draws_from_a_corpus(screen: Open, store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    test = screen()
    test.text_input(key="new:0:name").set_value("Songs")
    test.selectbox(key="new:0:domain").set_value("music")
    test.segmented_control(key="new:0:way").set_value("From a corpus").run()
    test.number_input(key="new:0:count").set_value(4)
    assert "of 4 sentences get suggestions" in as_plain(words(healthy(test.run())))
    press(test, "Make the campaign")
    assert campaigns.list_campaigns(store, people["res"])[0].sentences == 4


def test_new_campaign_says_that_nobody_can_check(screen: Open, people: People) -> None:
    test = screen()
    test.multiselect(key="new:0:members").set_value([people["ann1"].id])
    said = words(healthy(test.run()))
    assert "add two people who label" in said and "No expert is among them" in said
