"""The screens about corpora and gazetteers, as the people who may open them see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from crossner_core.domains import load_domain
from crossner_core.schema import Link, Span, sentence_from_words
from db.engine import Store
from pages.components.marked_text import marked_sentence
from tests.support import builders
from tests.support.app_corpora import make_corpus
from tests.support.gazetteers.builders import CONLL, make_gazetteer
from tests.support.screens import healthy, html, made_reports, open_screen, press, words
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import browsing, datasets
from workbench.data.searching import Search

People = dict[str, Actor]
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def screen(store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch) -> Open:
    def opened(name: str, who: str, **options: object) -> AppTest:
        return healthy(open_screen(monkeypatch, store, name, people[who], campaign=campaign, **options))  # type: ignore[arg-type]

    return opened


def switch(test: AppTest, key: str, value: str) -> AppTest:
    next(one for one in test.segmented_control if one.key == key).set_value(value)
    return healthy(test.run())


@pytest.mark.parametrize(("name", "command"), [("corpus", "workbench corpus build"), ("overlap", "corpus build")])
def test_empty_screens_say_what_to_run(screen: Open, name: str, command: str) -> None:
    assert command in words(screen(name, "res"))


def test_corpus_shows_counts_and_sentences_with_links(screen: Open, home: Path) -> None:
    make_corpus(home)
    test = screen("corpus", "eva")
    shown = words(test)
    assert "3 pages: 3 kept" in shown and "8 sentences" in shown and "8 of 8 sentences" in shown
    assert 'title="Harrow Bay">Harrow Bay</span>' in shown  # a link without a type
    assert "musical artist" in shown and "musicalartist" not in shown
    assert "Page 2, revision 102" in shown and "tinywiki-2-102-300" in shown
    assert not test.segmented_control  # no sampling for experts


def test_corpus_searches_and_samples_by_seed(screen: Open, home: Path) -> None:
    make_corpus(home)
    test = screen("corpus", "res")
    test.text_input(key="corpus:text").set_value("norway")
    assert "2 sentences contain it" in words(healthy(test.run())) and "bossa" not in html(test)
    test.text_input(key="corpus:text").set_value("nowhere at all")
    assert "No sentence contains it" in words(healthy(test.run()))
    test.text_input(key="corpus:text").set_value("")
    test.number_input(key="corpus:count").set_value(3)
    first = html(healthy(test.run()))
    test.number_input(key="corpus:seed").set_value(5)
    assert html(healthy(test.run())) != first
    test.number_input(key="corpus:seed").set_value(0)
    assert html(healthy(test.run())) == first


def test_corpus_names_a_damaged_one_and_shows_the_others(screen: Open, home: Path) -> None:
    make_corpus(home)
    make_corpus(home, "worn")
    (home / "corpora" / "worn" / "manifest.json").write_text("[]", encoding="utf-8")
    test = screen("corpus", "res")
    assert "worn" in test.warning[0].value and test.selectbox(key="corpus:which").options == ["tiny"]


def test_corpus_without_a_domain_shows_classes(screen: Open, home: Path) -> None:
    make_corpus(home, domain=None)
    shown = words(screen("corpus", "res"))
    assert "classes only, no domain" in shown and "MusicalArtist<" in shown


def test_corpus_shows_text_as_text(screen: Open, home: Path) -> None:
    make_corpus(home, texts=[("<i>Sly</i>", "<script>", "It said <img src=x onerror=alert(1)> & left.")])
    pieces = html(screen("corpus", "res"))
    assert "&lt;img src=x" in pieces and "&lt;i&gt;Sly" in pieces and "&lt;script&gt;" in pieces
    assert "<img" not in pieces and "<script" not in pieces


def test_corpus_samples_into_the_campaign(screen: Open, store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    calm = builders.make_campaign(store, people, name="Calm", suggestions_on=True)
    test = switch(screen("corpus", "res"), "corpus:view", "Sample into a campaign")
    test.session_state["campaign"] = calm
    test.number_input(key="sample:min_links").set_value(2)
    assert "2 fit the filters" not in words(healthy(test.run()))
    assert "left out: length 1, links 4" in words(test).replace("\\", "")
    label = next(one.label for one in test.button if one.label.startswith("Add"))
    assert label == "Add 2 sentences to Calm"
    press(test, "Add 2")
    assert "2 sentences were added to the pool of Calm with 4 suggestions" in words(test)
    assert campaigns.get_campaign(store, people["res"], calm).sentences == 8
    wanted = Search(text="Mara Vell sang with The Tin Gulls until")
    assert browsing.browse(store, people["res"], calm, wanted).total == 1
    assert next(one for one in test.button if one.label.startswith("Add")).disabled  # they are there already


def test_corpus_sampling_says_what_is_wrong_with_a_plan(screen: Open, home: Path) -> None:
    make_corpus(home)
    test = switch(screen("corpus", "res"), "corpus:view", "Sample into a campaign")
    test.number_input(key="sample:min_tokens").set_value(90)
    assert "above max" in words(healthy(test.run())).replace("\\", "")
    assert not [one for one in test.button if one.label.startswith("Add")]


def test_gazetteer_explains_a_pasted_sentence_to_annotators(screen: Open, home: Path) -> None:
    make_gazetteer(home)
    test = screen("gazetteer", "ann1")
    test.text_area(key="gazetteer:text").set_value("[[Mara Vell|Vell]] sang Low Tide, <b>loudly</b>.")
    shown = words(healthy(test.run()))
    assert "2 suggested" in shown and "Low Tide (song) won" in shown and "Ship › MeanOfTransportation" in shown
    assert "<b>loudly" not in html(test)
    assert "Classes without a type" not in test.segmented_control[0].options


def test_gazetteer_explains_a_sentence_of_the_campaign(screen: Open, home: Path, campaign: int) -> None:
    make_gazetteer(home)
    test = screen("gazetteer", "res")
    assert "The Tin Gulls" in html(test) and "the only page of this name" in html(test)
    test.text_input(key=f"gazetteer:contains:{campaign}").set_value("no such words")
    assert "No sentence of the campaign" in words(healthy(test.run()))
    switch(test, "gazetteer:view", "Classes without a type")
    assert list(test.dataframe[0].value["Class"]) == ["Ship"]


@pytest.mark.parametrize("page", ["gazetteer", "coverage"])
def test_gazetteer_and_domain_are_those_of_the_campaign(
    screen: Open, store: Store, people: People, campaign: int, home: Path, page: str
) -> None:
    for name in ("small", "tiny", "twin"):
        make_gazetteer(home, name)
    campaigns.update_settings(store, people["adm"], campaign, gazetteer="tiny")
    members, domain = [people["eva"].id], load_domain("politics")
    other = campaigns.create_campaign(
        store, people["adm"], name="Laws", domain=domain, member_ids=members, gazetteer="twin"
    )
    test = screen(page, "eva")
    if page == "coverage":
        switch(test, "coverage:way", "The campaign, pre-annotated again")

    def shown() -> list[str]:
        return [one.value for one in test.selectbox if one.label in ("Gazetteer", "Domain")]

    assert shown() == ["tiny", "music"][: len(shown())]
    test.selectbox[0].set_value("small").run()  # looked at with another
    test.session_state["campaign"] = other
    healthy(test.run())
    assert shown() == ["twin", "politics"][: len(shown())]


def test_gazetteer_looks_a_name_up(screen: Open, home: Path) -> None:
    make_gazetteer(home)
    test = switch(screen("gazetteer", "eva"), "gazetteer:view", "A name")
    test.text_input(key="gazetteer:name").set_value("Low Tide")
    assert "2 pages have this name" in words(healthy(test.run())) and "without its bracket" in html(test)
    test.text_input(key="gazetteer:name").set_value("Mara Vell of Oslo")
    shown = words(healthy(test.run()))
    assert "No page has this name" in shown and "Names inside it: Mara Vell" in shown


def test_gazetteer_without_any_asks_the_bundled_sample(screen: Open) -> None:
    test = switch(screen("gazetteer", "ann1"), "gazetteer:view", "A name")
    test.text_input(key="gazetteer:name").set_value("Cello")
    assert "One page has this name" in words(healthy(test.run()))


def test_coverage_compares_with_gold(screen: Open, store: Store, people: People, campaign: int, home: Path) -> None:
    make_gazetteer(home)
    assert "no gold yet" in words(screen("coverage", "eva"))
    builders.make_gold(store, people, campaign)
    test = screen("coverage", "eva")
    assert "12 gold entities in 6 sentences, 0 suggestions" in words(test)
    switch(test, "coverage:way", "The campaign, pre-annotated again")
    test.selectbox(key=f"coverage:gazetteer:{campaign}").set_value("tiny")
    healthy(test.run())
    table = test.dataframe[0].value.set_index("type")
    assert table.loc["band", "right, %"] == 100.0 and table.loc["song", "gold"] == 0


def test_coverage_of_a_data_set(
    screen: Open, store: Store, people: People, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = made_reports(monkeypatch, "pages.parts.corpus.coverage_tables")
    make_gazetteer(home)
    datasets.import_dataset(store, people["res"], name="small", splits={"test": ("t.conll", CONLL)}, domain="music")
    test = switch(screen("coverage", "res"), "coverage:way", "A data set")
    test.selectbox(key="coverage:gazetteer").set_value("tiny")
    assert "**100.0 %** of gold found" in words(healthy(test.run()))
    assert "small · A data set" in reports["coverage"] and "100.0 % of gold found" in reports["coverage"]
    test.selectbox(key="coverage:domain:small").set_value("politics")
    assert "choose one that has the types" in words(healthy(test.run()))


def test_overlap_draws_two_or_more(screen: Open, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = made_reports(monkeypatch, "pages.components.html_report")
    make_corpus(home)
    test = screen("overlap", "eva")
    assert "Fewer than 5,000 words" in words(test) and test.get("plotly_chart")
    assert "Fewer than 5,000 words" in reports["vocabulary-overlap"] and "newPlot(" in reports["vocabulary-overlap"]
    test.multiselect(key="overlap:which").set_value(["tiny (corpus)"])
    assert "Choose two or more" in words(healthy(test.run()))


def test_campaigns_choose_a_gazetteer(screen: Open, store: Store, people: People, campaign: int, home: Path) -> None:
    make_gazetteer(home)
    test = screen("campaigns", "adm")
    test.selectbox(key=f"campaigns:gazetteer:{campaign}").set_value("tiny")
    press(test, "Save the rules")
    assert campaigns.get_campaign(store, people["adm"], campaign).gazetteer == "tiny"
    switch(test, "campaigns:part", "Pre-annotation")
    assert "the gazetteer tiny, then in the bundled sample" in words(test)


def test_marked_sentence_underlines_links_across_spans() -> None:
    sentence = sentence_from_words(["a", "<b>", "c", "d"], id="1", links=[Link(0, 2, 'x"y'), Link(2, 4, "z")])
    shown = marked_sentence(sentence, [Span(1, 3, "band")], load_domain("music"), {}, links=sentence.links)
    assert shown.count("<span") == 4 and "&lt;b&gt;" in shown and "<b>" not in shown and 'title="x&quot;y"' in shown
    assert "<span" not in marked_sentence(sentence, [], None, {})
