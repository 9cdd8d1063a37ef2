"""Search sentences by text, expression, type, layer, source and disagreement, and only in what one may see."""

from __future__ import annotations

import time

import pytest

from crossner_core.errors import BadInput, NotAllowed
from crossner_core.schema import Suggestion, sentence_from_words
from db import suggestion_rows
from db.engine import Store
from tests.support import builders
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.data import browsing, patterns
from workbench.data.searching import PLACES, Search
from workbench.data.values import suggestion_values

People = dict[str, Actor]
FIRST = [(0, 2, "musicalartist"), (4, 7, "band"), (8, 9, "location")]


def hits(store: Store, actor: Actor, campaign: int, **wanted: object) -> list[str]:
    found = browsing.browse(store, actor, campaign, Search(**wanted))  # type: ignore[arg-type]
    assert found.total == len(found.lines)
    return [line.external_id for line in found.lines]


def check_differently(store: Store, people: People, campaign: int, spans: list[tuple[int, int, str]]) -> None:
    """Have ann1 mark the first sentence as gold has it, and ann2 with these spans."""
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], FIRST)
    tab = builders.Tab(store, people["ann2"], campaign, "check")
    assert not tab.do("submit", tab.items(1)[0], spans).rejections


def test_search_finds_text_whatever_its_case_and_says_where(store: Store, people: People, campaign: int) -> None:
    (line,) = browsing.browse(store, people["res"], campaign, Search(text="pAPER lan")).lines
    assert line.external_id == "music-2"
    assert [line.text[start:end] for start, end in line.ranges] == ["Paper Lan"]
    (line,) = browsing.browse(store, people["res"], campaign, Search(text="music-2")).lines
    assert line.ranges == ()  # found by its id


def test_search_knows_the_case_of_every_letter(store: Store, people: People, campaign: int) -> None:
    new = sentence_from_words(["Jónsi", "bowed", "."], id="über-1")
    sentences.add_sentences(store, people["res"], campaign, [new])
    (line,) = browsing.browse(store, people["res"], campaign, Search(text="JÓNSI")).lines
    assert (line.external_id, line.ranges) == ("über-1", ((0, 5),))
    assert hits(store, people["res"], campaign, text="über-1") == ["über-1"]
    assert hits(store, people["res"], campaign, text="JÓ.SI") == []


def test_search_finds_by_regular_expression(store: Store, people: People, campaign: int) -> None:
    found = browsing.browse(store, people["res"], campaign, Search(text=r"\bin (oslo|norway)\b", regex=True))
    assert [line.external_id for line in found.lines] == ["music-1", "music-2"]
    assert [line.text[start:end] for line in found.lines for start, end in line.ranges] == ["in Oslo", "in Norway"]
    assert hits(store, people["res"], campaign, text=r"(?-i:in oslo)", regex=True) == []
    assert hits(store, people["res"], campaign, text="in (oslo|norway)") == []  # as text


def test_search_by_expression_pages_and_sees_new_sentences(store: Store, people: People, campaign: int) -> None:
    search = Search(text="^(the|nothing)", regex=True)
    whole = browsing.browse(store, people["res"], campaign, search)
    assert [line.external_id for line in whole.lines] == ["music-2", "music-4", "music-6"]
    page = browsing.browse(store, people["res"], campaign, search, offset=1, limit=1)
    assert (page.total, [line.external_id for line in page.lines]) == (3, ["music-4"])
    new = sentence_from_words(["The", "end"], id="new")
    sentences.add_sentences(store, people["res"], campaign, [new])
    assert browsing.browse(store, people["res"], campaign, search).total == 4


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("(Mara", "no regular expression: missing \\)"), ("*", "nothing to repeat"), ("a" * 201, "201 characters")],
)
def test_search_says_what_is_wrong_with_an_expression(
    store: Store, people: People, campaign: int, pattern: str, words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        browsing.browse(store, people["res"], campaign, Search(text=pattern, regex=True))


def test_search_ends_an_expression_that_takes_for_ever(
    store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 1)
    monkeypatch.setattr(patterns, "PATIENCE", 5)
    begun = time.monotonic()
    with pytest.raises(BadInput, match="was stopped: it takes more than 1 seconds"):
        browsing.browse(store, people["res"], campaign, Search(text=r"(\w+\s?)+$x", regex=True))
    assert time.monotonic() - begun < 20


def test_search_finds_by_type_and_layer(store: Store, people: People, campaign: int) -> None:
    builders.make_gold(store, people, campaign)
    res = people["res"]
    assert hits(store, res, campaign, type="album") == ["music-2", "music-3"]
    assert hits(store, res, campaign, type="album", layer="first") == ["music-2", "music-3"]
    assert hits(store, res, campaign, type="album", layer="gold", text="cello") == ["music-3"]
    assert hits(store, res, campaign, type="song") == []
    assert "music-4" not in hits(store, res, campaign, layer="gold")  # it has no entities


def test_search_finds_by_source_of_suggestion(store: Store, people: People, campaign: int) -> None:
    with store.write() as session:
        ids = [line.id for line in browsing.browse(store, people["res"], campaign).lines]
        rows = [
            suggestion_values(ids[0], Suggestion(0, 2, "band", "model:run 3", 0.9)),
            suggestion_values(ids[1], Suggestion(2, 4, "album", "dbpedia", 0.9)),
        ]
        suggestion_rows.add(session, rows)
    res = people["res"]
    assert hits(store, res, campaign, source="model") == ["music-1"]
    assert hits(store, res, campaign, source="model", type="album") == []
    assert hits(store, res, campaign, layer="suggestions") == ["music-1", "music-2"]
    assert hits(store, res, campaign, layer="suggestions", type="album") == ["music-2"]
    assert hits(store, people["ann1"], campaign, source="model") == ["music-1"]


def test_search_tells_annotators_nothing_of_withheld_suggestions(store: Store, people: People) -> None:
    control = builders.make_campaign(store, people, name="Controls", control_share=1.0)
    ids = [line.id for line in browsing.browse(store, people["res"], control).lines]
    with store.write() as session:
        suggestion_rows.add(session, [suggestion_values(ids[0], Suggestion(0, 2, "band", "dbpedia", 0.9))])
    assert hits(store, people["res"], control, type="band") == ["music-1"]
    for name in ("ann1", "eva"):
        assert hits(store, people[name], control, type="band") == []
        assert hits(store, people[name], control, source="dbpedia") == []
        assert [line.suggestions for line in browsing.browse(store, people[name], control).lines] == [0] * 6


@pytest.mark.parametrize(
    ("spans", "kinds"),
    [
        (FIRST, ()),
        ([(0, 2, "band"), *FIRST[1:]], ("any", "type")),
        ([(0, 1, "musicalartist"), *FIRST[1:]], ("any", "boundary")),
        (FIRST[1:], ("any", "first")),
        ([*FIRST, (2, 3, "song")], ("any", "second")),
    ],
)
def test_search_finds_how_annotators_differ(
    store: Store, people: People, campaign: int, spans: list[tuple[int, int, str]], kinds: tuple[str, ...]
) -> None:
    check_differently(store, people, campaign, spans)
    for name in ("res", "eva"):  # the expert may settle it
        found = {
            kind
            for kind in ("any", "type", "boundary", "first", "second", "flagged")
            if hits(store, people[name], campaign, differ=kind)
        }
        assert found == set(kinds)
    with pytest.raises(NotAllowed, match="Where annotators differ"):
        hits(store, people["ann1"], campaign, differ="any")


def test_search_finds_flags(store: Store, people: People, campaign: int) -> None:
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], FIRST)
    tab = builders.Tab(store, people["ann2"], campaign, "check")
    flag = {"start": 0, "end": 2, "type": "musicalartist", "note": "sure?"}
    assert not tab.do("submit", tab.items(1)[0], FIRST, parts={"flags": [flag]}).rejections
    assert hits(store, people["res"], campaign, differ="flagged") == ["music-1"]
    assert hits(store, people["res"], campaign, differ="any") == ["music-1"]


def test_search_shows_people_their_own_work_and_gold_only(store: Store, people: People, campaign: int) -> None:
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], [(0, 2, "song")])
    assert hits(store, people["ann1"], campaign, type="song") == ["music-1"]
    assert hits(store, people["res"], campaign, type="song") == ["music-1"]
    assert hits(store, people["ann2"], campaign, type="song") == []  # who may still check it
    assert hits(store, people["eva"], campaign, type="song") == []
    tab = builders.Tab(store, people["ann2"], campaign, "check")
    tab.do("submit", tab.items(1)[0], [(0, 2, "song")])
    assert hits(store, people["eva"], campaign, type="song") == ["music-1"]  # it waits for the expert
    assert hits(store, people["ann3"], campaign, type="song") == []
    builders.Tab(store, people["eva"], campaign, "adjudicate").submit_all()
    assert hits(store, people["ann3"], campaign, type="song") == ["music-1"]


def test_search_hides_from_experts_what_they_checked_until_it_is_gold(
    store: Store, people: People, campaign: int
) -> None:
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], [(0, 2, "song")])
    tab = builders.Tab(store, people["eva"], campaign, "check")
    tab.do("submit", tab.items(1)[0], [(0, 2, "band")])
    assert hits(store, people["res"], campaign, differ="type") == ["music-1"]
    assert hits(store, people["eva"], campaign, differ="type") == []
    assert hits(store, people["eva"], campaign, type="song") == []


@pytest.mark.parametrize(
    "wanted", [{"place": "nowhere"}, {"split": "all"}, {"type": "pilot"}, {"layer": "third"}, {"source": "oracle"},
               {"differ": "much"}],
)  # fmt: skip
def test_search_refuses_what_it_does_not_know(
    store: Store, people: People, campaign: int, wanted: dict[str, str]
) -> None:
    with pytest.raises(BadInput, match="; there are "):
        hits(store, people["res"], campaign, **wanted)


def test_search_places_are_those_of_a_campaign(store: Store, people: People, campaign: int) -> None:
    assert sum(len(hits(store, people["ann1"], campaign, place=place)) for place in PLACES) == 6
