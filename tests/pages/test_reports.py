"""Reports of pages that show a campaign, its queue, a corpus, encoders, a gazetteer or doubts about gold."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from db.engine import Store
from pages.parts.campaign import questions
from tests.support import builders
from tests.support.app_corpora import make_corpus
from tests.support.encoders import options, own_text
from tests.support.gazetteers.builders import make_gazetteer
from tests.support.label_review import look, said
from tests.support.screens import healthy, made_reports, open_screen
from tests.support.training_builders import save_encoder
from tests.support.training_store import work
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.labelling import label_review
from workbench.runs import encoders, rounds

People = dict[str, Actor]
HOSTILE = "<b>Mara Vell</b> was praised in Norway ."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    return tmp_path


def view(test: AppTest, key: str, value: str) -> AppTest:
    next(one for one in test.segmented_control if one.key == key).set_value(value)
    return healthy(test.run())


def test_reports_of_the_overview_hold_each_view(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    made = made_reports(monkeypatch, "pages.parts.campaign.questions")
    test = healthy(open_screen(monkeypatch, store, "campaign", people["eva"], campaign=campaign))
    for name in questions.VIEWS:
        view(test, "campaign-view", name)
    expected = {
        "progress": ("6 of 6 sentences are gold", "Adjudicate", "People"),
        "comparison-with-the-paper": ("(paper: ", "here."),
        "agreement": ("95 % bootstrap interval", "checked blind"),
        "suggestions": ("No sentence with suggestions",),
        "effort": ("seconds per sentence", "are controls"),
    }
    assert set(made) == {f"overview-{name}-{campaign}" for name in expected}
    for name, parts in expected.items():
        assert not [part for part in parts if part not in made[f"overview-{name}-{campaign}"]], name


def test_reports_of_the_queue_hold_what_comes_next_and_the_rounds(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, home: Path
) -> None:
    sentences.add_sentences(store, people["res"], campaign, [said(HOSTILE, id="hostile").sentence])
    rounds.change_round_settings(store, people["res"], campaign, strategy="longest")
    rounds.order_now(store, people["res"], campaign)
    work(store, home)
    made = made_reports(monkeypatch, "pages.parts.campaign.queue")
    test = healthy(open_screen(monkeypatch, store, "queue", people["res"], campaign=campaign))
    view(test, "queue:view", "Rounds")
    following, round_ = made[f"next-{campaign}"], made[f"rounds-{campaign}"]
    assert (
        "&lt;b&gt;Mara Vell&lt;/b&gt;" in following and "<b>Mara" not in following and "Longest sentences" in following
    )
    assert "<td>done</td>" in round_ and "a person" in round_


def test_report_of_a_corpus_holds_its_sentences(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, home: Path
) -> None:
    make_corpus(home)
    made = made_reports(monkeypatch, "pages.parts.corpus.look")
    test = healthy(open_screen(monkeypatch, store, "corpus", people["eva"]))
    (report,) = made.values()
    assert "3 pages: 3 kept" in report and "seed 0" in report and "Harrow Bay</span>" in report
    test.text_input(key="corpus:text").set_value("<i>").run()
    healthy(test)
    test.text_input(key="corpus:text").set_value("Harrow").run()
    healthy(test)
    (report,) = made.values()
    assert "sentences that contain &#x27;Harrow&#x27;" in report


def test_reports_of_a_gazetteer_explain_a_sentence_a_name_and_classes(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int, home: Path
) -> None:
    make_gazetteer(home)
    made = made_reports(monkeypatch, "pages.parts.corpus.lookup")
    test = healthy(open_screen(monkeypatch, store, "gazetteer", people["res"], campaign=campaign))
    assert "places were considered" in made["gazetteer-sentence"]
    view(test, "gazetteer:view", "A name")
    test.text_input(key="gazetteer:name").set_value("Mara Vell").run()
    healthy(test)
    assert "What Mara Vell may stand for" in made["gazetteer-name"]
    view(test, "gazetteer:view", "Classes without a type")
    assert "map to no type of this domain" in made["classes-without-type-tiny"]


def test_report_of_encoders_holds_the_list_and_what_a_pretraining_bought(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, home: Path
) -> None:
    save_encoder(home / "tiny")
    given = {"name": "dapt-own", "options": options(home), "text": own_text(home)}
    encoders.start_on_text(store, people["res"], kind="dapt", **given)
    work(store, home)
    made = made_reports(monkeypatch, "pages.parts.model.encoder_list")
    healthy(open_screen(monkeypatch, store, "encoders", people["res"]))
    assert all(words in made["encoders"] for words in ("<td>minilm</td>", "dapt-own</h2>", " before, ", "plotly"))


def test_report_of_a_label_review_holds_doubts_and_decisions(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: People, campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    words = "Mara Vell was praised in <Norway> ."
    sentences.add_sentences(store, people["res"], campaign, [said(words, (0, 2, "band"), (5, 6, "country"), id="in-1")])
    look(store, campaign)
    found = label_review.queues(store, people["eva"], campaign)
    queue = next(one for one in found if one.open)
    first = label_review.findings(store, people["eva"], campaign, queue.id, limit=1)[0]
    label_review.decide(store, people["eva"], first.id, "keep")
    made = made_reports(monkeypatch, "pages.parts.work.label_review")
    healthy(open_screen(monkeypatch, store, "label_review", people["eva"], campaign=campaign))
    report = made[f"second-look-{campaign}"]
    assert queue.title in report and "1 decided" in report and "<td>kept</td>" in report
    assert "<Norway>" not in report
