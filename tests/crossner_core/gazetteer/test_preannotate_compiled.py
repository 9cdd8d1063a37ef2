"""Pre-annotation with a compiled gazetteer: its own matches, its ambiguity, and the same answers as a file asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.domains import Domain
from crossner_core.gazetteer.candidates import PageContext, ScanningSource
from crossner_core.gazetteer.compiled import CompiledGazetteer
from crossner_core.gazetteer.lookup import EmbeddedSource
from crossner_core.gazetteer.matcher import ScanRules
from crossner_core.gazetteer.preannotate import PreannotationConfig, Preannotator
from crossner_core.schema import Link, Sentence, Token, sentence_from_words
from crossner_core.tokenize import tokenize
from tests.support.gazetteers.fakes import compiled
from tests.support.gazetteers.sparql_servers import DBR, triples

PAGES = {
    "Velvet Harbour (band)": ("Band",),
    "Night Owls": ("Band",),
    "Night": ("Song",),
    "Norland": ("Country",),
    "New Norland Times": ("Newspaper",),
    "Slow wave": ("Song",),
    "Echo (album)": ("Album",),
    "Echo (song)": ("Song",),
    "Wham!": ("Band",),
    "US": ("Country",),
    "1987 Norland general census": ("Song",),
}
REDIRECTS = {"The Owls": "Night Owls"}


@pytest.fixture(scope="module")
def gazetteer(tmp_path_factory: pytest.TempPathFactory) -> CompiledGazetteer:
    """The pages above, compiled."""
    return compiled(tmp_path_factory.mktemp("compiled") / "few", PAGES, redirects=REDIRECTS)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedSource:
    """The same pages as a file that is asked name by name."""
    path = tmp_path_factory.mktemp("embedded") / "few.nt"
    path.write_bytes(triples(PAGES, redirects=REDIRECTS))
    return EmbeddedSource(path)


def plain(text: str, *links: Link) -> Sentence:
    """Build a sentence as it stands in running text."""
    return Sentence("s", text, tokenize(text), links)


def said(machine: Preannotator, sentence: Sentence) -> list[tuple[str, str | None, str]]:
    """Return surface, type and source of a sentence's mentions."""
    return [(sentence.surface(one.start, one.end), one.type, one.source) for one in machine.mentions([sentence])[0]]


def test_preannotate_compiled_is_a_scanning_source(gazetteer: CompiledGazetteer) -> None:
    assert isinstance(gazetteer, ScanningSource) and not isinstance(EmbeddedSource(), ScanningSource)


def test_preannotate_compiled_finds_links_and_names(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    machine = Preannotator([gazetteer], domain)
    sentence = plain("Fans of the harbour group met the Night Owls in Norland.", Link(3, 5, "Velvet Harbour (band)"))
    found = machine.suggest([sentence])[0]
    assert [(sentence.surface(one.start, one.end), one.type, one.source, one.entity) for one in found] == [
        ("harbour group", "band", "link", f"{DBR}Velvet_Harbour_(band)"),
        ("Night Owls", "band", "dbpedia", f"{DBR}Night_Owls"),
        ("Norland", "country", "dbpedia", f"{DBR}Norland"),
    ]
    assert machine.mentions([sentence])[0][0].entity == "Velvet Harbour (band)"


WORDS = """
The the Night Owls Velvet Harbour Norland New Times slow wave in of Wham ! US us , . 1987 general census
"""


@given(st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=14))
def test_preannotate_compiled_says_what_the_same_facts_say_when_asked(
    gazetteer: CompiledGazetteer, embedded: EmbeddedSource, domain: Domain, chosen: list[str]
) -> None:
    sentence = sentence_from_words(chosen, id="s")
    by_scan, by_name = (Preannotator([one], domain).suggest([sentence])[0] for one in (gazetteer, embedded))
    assert by_scan == by_name


def test_preannotate_compiled_beside_a_source_that_is_asked(
    gazetteer: CompiledGazetteer, domain: Domain, tmp_path: Path
) -> None:
    path = tmp_path / "more.nt"
    path.write_bytes(triples({"Night Owls": ("Song",), "Grey Pier": ("Band",)}))
    sentence = plain("They heard Night Owls and Grey Pier.")
    first, second = (
        [one.type for one in Preannotator(order, domain).suggest([sentence])[0]]
        for order in ([gazetteer, EmbeddedSource(path)], [EmbeddedSource(path), gazetteer])
    )
    assert (first, second) == (["band", "band"], ["song", "band"])


def test_preannotate_maps_names_back_to_other_tokens(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    text = "He joined Wham! near Norland-upon-Sea"
    ends = [2, 9, 15, 20, 28, 37]
    starts = [0, 3, 10, 16, 21, 28]
    coarse = Sentence("s", text, tuple(map(Token, starts, ends)))
    found = Preannotator([gazetteer], domain).suggest([coarse])[0]
    # Ours has `Wham` and `!` where the sentence has one token, and one token over `Norland-upon-Sea`.
    assert [(one.start, one.end) for one in found] == [(2, 3)]


def test_preannotate_compiled_never_touches_a_link(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    sentence = plain("They saw Night Owls again in Norland.", Link(2, 3, "Nobody knows"))
    assert said(Preannotator([gazetteer], domain), sentence) == [("Norland", "country", "dbpedia")]


@pytest.mark.parametrize(
    ("text", "surfaces"),
    [
        ("They told us in the US.", ["US"]),
        ("THEY TOLD US ABOUT IT.", []),
        ("It was the 1987 Norland general census.", ["1987 Norland general census"]),
        ("They met in East Norland.", []),
        ("They met President Norland.", ["Norland"]),
        ("They met the Norland Senator.", ["Norland"]),
    ],
)
def test_preannotate_rules_that_gold_taught(
    text: str, surfaces: list[str], gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    sentence = plain(text)
    assert [one[0] for one in said(Preannotator([gazetteer], domain), sentence)] == surfaces


def test_preannotate_small_words_only_where_they_name_what_is_written_small(tmp_path: Path, domain: Domain) -> None:
    pages = {"Jazz": ("MusicGenre",), "Rain": ("Song",), "New wave": ("MusicGenre",)}
    source = compiled(tmp_path / "small", pages)
    sentence = plain("In the rain they played jazz and new wave.")
    machine = Preannotator([source], None)
    assert [one[0] for one in said(machine, sentence)] == ["jazz", "new wave"]
    strict = PreannotationConfig(rules=ScanRules(common_lower=False))
    assert [one[0] for one in said(Preannotator([source], None, strict), sentence)] == ["new wave"]


def test_preannotate_small_words_by_a_suffix_need_a_page_that_speaks_for_them(tmp_path: Path) -> None:
    source = compiled(tmp_path / "suffix", {"Reel (dance)": ("MusicGenre",)})
    machine, rows = Preannotator([source], None), [plain("Then came the reel of the year.")]
    assert machine.mentions(rows) == [()]
    assert machine.mentions(rows, context=PageContext("Somewhere", ("Towns of Norland",))) == [()]
    assert len(machine.mentions(rows, context=PageContext("Somewhere", ("Music of Norland",)))[0]) == 1


def test_preannotate_without_a_domain_gives_classes_and_no_types(gazetteer: CompiledGazetteer) -> None:
    machine = Preannotator([gazetteer], None)
    sentence = plain("They read the New Norland Times to Night Owls.")
    rows = machine.mentions([sentence])[0]
    assert [(one.entity, one.classes, one.type) for one in rows] == [
        ("New Norland Times", ("Newspaper",), None),
        ("Night Owls", ("Band",), None),
    ]
    assert machine.suggest([sentence]) == [()]


def test_preannotate_scores_fall_with_rivals_and_with_the_way(tmp_path: Path, domain: Domain) -> None:
    pages = {
        "Clear Day": ("Band",),
        "Dim Day (album)": ("Album",),
        "Dim Day (song)": ("Song",),
        "Grey Day (band)": ("Band",),
        "Long Day (album)": ("Album",),
        "Long Day (song)": ("Song",),
    }
    counts = {"Long Day (album)": 97, "Long Day (song)": 1}
    machine = Preannotator(
        [compiled(tmp_path / "rivals", pages, redirects={"Odd Day": "Clear Day"}, counts=counts)], domain
    )

    def score(name: str) -> float:
        return machine.suggest([plain(f"They heard {name} again.")])[0][0].score

    assert score("Clear Day") > score("Odd Day") > score("Grey Day") > score("Dim Day") > 0
    assert score("Long Day") > score("Dim Day")  # nearly always the album, as its links say
    assert machine.suggest([plain("They heard Long Day again.")])[0][0].type == "album"


def test_preannotate_explains_what_won_and_what_lost(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    machine = Preannotator([gazetteer], domain, PreannotationConfig(min_score=0.1))
    sentence = plain("They told us of Echo by the Night Owls.", Link(1, 2, "Nowhere"))
    places = {one.surface: one for one in machine.explain(sentence)}
    assert list(places) == ["told", "Echo", "Night Owls", "Night"]
    assert not places["told"].won and "no source has" in places["told"].reason
    echo = places["Echo"]
    assert echo.won and {one.entity: one.won for one in echo.candidates} == {"Echo (album)": True, "Echo (song)": False}
    assert all(one.reason for one in echo.candidates) and echo.candidates[0].way == "suffix"
    assert places["Night"].reason == "gives way to 'Night Owls'"


def test_preannotate_explains_names_that_are_not_written_like_one(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    places = Preannotator([gazetteer], domain).explain(plain("In East Norland."))
    assert [(one.surface, one.won) for one in places] == [("Norland", False)]
    assert "not written like a name" in places[0].reason
