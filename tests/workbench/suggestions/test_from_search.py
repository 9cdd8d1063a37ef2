"""Propose a type in all hits of a search: the preview, what is written, and taking it back as a whole."""

from __future__ import annotations

import pytest

from crossner_core.errors import BadInput, NotFound, UnknownType
from crossner_core.schema import Suggestion, sentence_from_words
from db import suggestion_rows
from db.engine import Store
from tests.support import builders
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import browsing
from workbench.data.searching import Search
from workbench.data.values import suggestion_values
from workbench.suggestions import from_search

People = dict[str, Actor]
LINES = ("The Gulls met the gulls .", "Gulls cry .", "Seagulls cry .", "They saw The Gulls in Oslo .")


@pytest.fixture
def shore(store: Store, people: People, campaign: int) -> int:
    new = [sentence_from_words(text.split(), id=f"s{number}") for number, text in enumerate(LINES)]
    sentences.add_sentences(store, people["res"], campaign, new)
    return campaign


def suggested(store: Store, people: People, campaign: int, source: str = "search") -> dict[str, list[str]]:
    result = {}
    for line in browsing.browse(store, people["res"], campaign).lines:
        layers = browsing.sentence_layers(store, people["res"], campaign, line.id)
        words = [layers.sentence.surface(s.start, s.end) for s in layers.suggestions if s.source.startswith(source)]
        if words:
            result[line.external_id] = words
    return result


def test_proposing_shows_every_place_before_it_writes(store: Store, people: People, shore: int) -> None:
    looked_at = from_search.preview(store, people["eva"], shore, Search(text="gulls"), "band")
    assert [place.surface for place in looked_at.places] == ["Gulls", "Gulls", "gulls", "Gulls", "Gulls"]
    assert (looked_at.sentences, looked_at.inside, looked_at.begun, looked_at.proposed) == (4, 1, 0, 0)
    assert looked_at.surfaces == {"Gulls": 4, "gulls": 1}
    assert suggested(store, people, shore) == {}


def test_proposing_writes_suggestions_of_a_source_of_their_own(store: Store, people: People, shore: int) -> None:
    search = Search(text="the gulls|gulls cry", regex=True)
    source, number = from_search.propose(store, people["eva"], shore, search, "band", surfaces=["The Gulls"])
    assert source.startswith("search:eva, ") and number == 2
    assert suggested(store, people, shore) == {"s0": ["The Gulls"], "s3": ["The Gulls"]}
    again = from_search.preview(store, people["res"], shore, Search(text="They saw The Gulls"), "band")
    assert again.places[0].overlaps[0].startswith("The Gulls (band, search:eva")
    item = next(
        item for item in builders.Tab(store, people["ann1"], shore, "annotate").items(20) if item["text"] == LINES[3]
    )
    assert [(s["start"], s["end"], s["type"], s["source"]) for s in item["suggestions"]] == [(2, 4, "band", source)]


def test_proposing_leaves_out_what_was_begun_and_what_was_proposed(store: Store, people: People, shore: int) -> None:
    search = Search(text="Oslo")
    tab = builders.Tab(store, people["ann1"], shore, "annotate")
    tab.do("submit", tab.items(1)[0], [])
    looked_at = from_search.preview(store, people["res"], shore, search, "location")
    assert (looked_at.begun, [place.sentence.id for place in looked_at.places]) == (1, ["s3"])
    assert from_search.propose(store, people["res"], shore, search, "location")[1] == 1
    assert suggested(store, people, shore) == {"s3": ["Oslo"]}
    looked_at = from_search.preview(store, people["res"], shore, search, "location")
    assert (looked_at.proposed, looked_at.places) == (1, ())
    with pytest.raises(BadInput, match="Nothing is left"):
        from_search.propose(store, people["res"], shore, search, "location")


def test_proposing_names_what_it_touches_and_can_leave_it_out(store: Store, people: People, shore: int) -> None:
    line = browsing.browse(store, people["res"], shore, Search(text="They saw")).lines[0]
    with store.write() as session:
        rows = [
            suggestion_values(line.id, Suggestion(2, 4, "musicgenre", "dbpedia", 0.6)),
            suggestion_values(line.id, Suggestion(5, 6, "location", "dbpedia", 0.6)),
        ]
        suggestion_rows.add(session, rows)
    search = Search(text="the gulls")
    (first, _, last) = from_search.preview(store, people["eva"], shore, search, "band").places
    assert (first.overlaps, last.overlaps) == ((), ("The Gulls (music genre, dbpedia 0.60)",))
    assert not last.repeats
    (oslo,) = (
        place
        for place in from_search.preview(store, people["eva"], shore, Search(text="oslo"), "location").places
        if place.sentence.id == "s3"
    )
    assert oslo.repeats
    from_search.propose(store, people["eva"], shore, search, "band", overlapping=False)
    assert set(suggested(store, people, shore)) == {"s0"}


def test_withdrawing_takes_back_the_whole_and_no_other(store: Store, people: People, shore: int) -> None:
    source, _ = from_search.propose(store, people["eva"], shore, Search(text="gulls"), "band")
    other, _ = from_search.propose(store, people["res"], shore, Search(text="cello"), "musicalinstrument")
    newest, oldest = from_search.proposed(store, people["res"], shore)
    assert (oldest.source, oldest.types, oldest.suggestions, oldest.begun) == (source, ("band",), 5, 0)
    assert (oldest.texts, newest.texts) == (("Gulls", "gulls"), ("cello",))
    assert newest.source == other and newest.words.startswith("res, ")
    assert from_search.withdraw(store, people["res"], shore, source) == (5, 0)
    assert suggested(store, people, shore) == {"music-3": ["cello"]}
    with pytest.raises(NotFound, match="withdrawn already"):
        from_search.withdraw(store, people["res"], shore, source)


def test_withdrawing_leaves_what_people_were_shown(store: Store, people: People, shore: int) -> None:
    source, _ = from_search.propose(store, people["eva"], shore, Search(text="gulls"), "band")
    tab = builders.Tab(store, people["ann1"], shore, "annotate")
    item = tab.items(1)[0]
    assert item["sentence"] == browsing.browse(store, people["res"], shore).lines[0].id
    assert from_search.proposed(store, people["eva"], shore)[0].begun == 1
    assert from_search.withdraw(store, people["eva"], shore, source) == (4, 1)
    assert suggested(store, people, shore) == {"music-1": ["Gulls"]}


def test_proposing_needs_a_text_a_known_type_and_an_open_campaign(store: Store, people: People, shore: int) -> None:
    with pytest.raises(BadInput, match="no text to propose"):
        from_search.preview(store, people["eva"], shore, Search(type="band"), "band")
    with pytest.raises(UnknownType, match="'pilot' is not one"):
        from_search.preview(store, people["eva"], shore, Search(text="gulls"), "pilot")
    with pytest.raises(NotFound, match="No search"):
        from_search.withdraw(store, people["eva"], shore, "dbpedia")


def test_proposing_is_limited(store: Store, people: People, shore: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_search, "MOST_SENTENCES", 3)
    with pytest.raises(BadInput, match="5 sentences match; up to 3"):
        from_search.preview(store, people["eva"], shore, Search(text="gulls"), "band")


def test_what_a_search_proposed_survives_anothers_pre_annotation_and_an_archive(
    store: Store, people: People, shore: int
) -> None:
    from workbench.data import archive
    from workbench.suggestions import preannotating

    from_search.propose(store, people["eva"], shore, Search(text="cello"), "musicalinstrument")
    preannotating.preannotate(store, people["res"], shore, sources=[])
    assert suggested(store, people, shore) == {"music-3": ["cello"]}
    packed = archive.export_campaign(store, people["res"], shore)
    copied = archive.import_campaign(store, people["adm"], packed, name="Copied")
    assert suggested(store, people, copied) == {"music-3": ["cello"]}
    assert campaigns.get_campaign(store, people["res"], copied).sentences == 10
