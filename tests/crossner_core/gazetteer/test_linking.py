"""Candidates for what a span names, and what speaks for each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from crossner_core.domains import Domain
from crossner_core.gazetteer.linking import Evidence, LinkCandidate, Linker
from crossner_core.gazetteer.lookup import EmbeddedSource, Resource
from crossner_core.gazetteer.titles import resource_uri, title_of_entity
from crossner_core.schema import NIL, Link, Sentence, is_entity
from crossner_core.tokenize import tokenize
from tests.support.gazetteers.fakes import compiled
from tests.support.gazetteers.sparql_servers import triples

PAGES = {
    "Echo (album)": ("Album",),
    "Echo (song)": ("Song",),
    "Echo (band)": ("Band",),
    "Velvet Harbour (band)": ("Band",),
    "Norland": ("Country",),
}


@pytest.fixture(scope="module", params=["compiled", "file"])
def linker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, domain: Domain) -> Linker:
    folder = tmp_path_factory.mktemp("linking")
    if request.param == "compiled":
        return Linker([compiled(folder / "few", PAGES)], domain)
    (folder / "few.nt").write_bytes(triples(PAGES))
    return Linker([EmbeddedSource(folder / "few.nt")], domain)


def plain(text: str, *links: Link) -> Sentence:
    return Sentence("s", text, tokenize(text), links)


def titles(candidates: Iterable[LinkCandidate]) -> list[str]:
    return [candidate.title for candidate in candidates]


def test_the_type_of_the_span_and_the_words_around_it_decide(linker: Linker) -> None:
    bare = plain("Echo came out then .")
    assert titles(linker.candidates(bare, 0, 1, type="band"))[0] == "Echo (band)"
    assert sorted(titles(linker.candidates(bare, 0, 1))) == ["Echo (album)", "Echo (band)", "Echo (song)"]
    spoken = linker.candidates(plain("Echo is a song they wrote ."), 0, 1)
    assert spoken[0].title == "Echo (song)" and "song" in spoken[0].why
    assert titles(linker.candidates(bare, 0, 1, evidence=Evidence(words=("Albums of 1987",))))[0] == "Echo (album)"
    assert sum(candidate.score for candidate in spoken) == pytest.approx(1, abs=1e-3)


def test_a_link_over_the_span_comes_first_even_if_nobody_knows_its_page(linker: Linker) -> None:
    known = linker.candidates(plain("Echo came out then .", Link(0, 1, "Echo (album)")), 0, 1, type="band")
    assert (known[0].title, known[0].why, known[0].classes) == ("Echo (album)", "linked here", ("Album",))
    unknown = linker.candidates(plain("Echo came out then .", Link(0, 1, "echo Park#History")), 0, 1)
    assert (unknown[0].title, unknown[0].address) == ("Echo Park", resource_uri("Echo Park"))
    touching = linker.candidates(plain("New Norland sang .", Link(0, 2, "New Norland")), 1, 2)
    assert titles(touching) == ["Norland", "New Norland"]


def test_what_the_same_words_were_linked_to_before_counts_and_nil_too(linker: Linker) -> None:
    bare = plain("Echo came out then .")
    before = {resource_uri("Echo (song)"): 2, "http://www.wikidata.org/entity/Q1": 1}
    offered = linker.candidates(bare, 0, 1, evidence=Evidence(before=before))
    assert offered[0].title == "Echo (song)" and offered[0].why == "chosen 2 times for the same words"
    assert titles(offered)[1] == "Q1"
    unknown = linker.candidates(plain("Zyx came out ."), 0, 1, evidence=Evidence(before={NIL: 3}))
    assert [(one.address, one.score) for one in unknown] == [(NIL, 1.0)]
    assert linker.candidates(plain("Zyx came out ."), 0, 1) == ()


class Remote:
    """An endpoint that remembers some answers; to ask it anything else would fail the test."""

    name = "remote"

    def lookup(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        raise AssertionError(f"was asked for {list(names)}")

    def cached(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        resource = Resource(resource_uri("Norland"), ("http://dbpedia.org/ontology/Country",), "title")
        return {name: (resource,) for name in names if name == "Norland"}


def test_an_endpoint_is_not_waited_for(domain: Domain, tmp_path: Path) -> None:
    linker = Linker([Remote()], domain)
    assert titles(linker.candidates(plain("Norland and Zyx ."), 0, 1)) == ["Norland"]
    assert linker.candidates(plain("Norland and Zyx ."), 2, 3) == ()


@pytest.mark.parametrize(
    ("entity", "title"),
    [
        (NIL, "no resource (NIL)"), (resource_uri("Queen (band)"), "Queen (band)"),
        ("http://www.wikidata.org/entity/Q42", "Q42"), ("https://example.org/", "example.org"),
    ],
)  # fmt: skip
def test_what_an_entity_is_called(entity: str, title: str) -> None:
    assert is_entity(entity) and title_of_entity(entity) == title


@pytest.mark.parametrize(
    "text", ["", "nil", "Queen", "javascript:alert(1)", "http://a b", 'http://a"', "http://" + "a" * 500]
)
def test_what_is_no_entity(text: str) -> None:
    assert not is_entity(text)
