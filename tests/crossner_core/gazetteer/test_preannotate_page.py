"""Pre-annotation of one page: what it named before is found again, and it says which of several pages a name means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from crossner_core.domains import Domain
from crossner_core.gazetteer.candidates import PageContext, stems
from crossner_core.gazetteer.compiled import CompiledGazetteer
from crossner_core.gazetteer.lookup import EmbeddedSource, Resource
from crossner_core.gazetteer.preannotate import PreannotationConfig, Preannotator
from crossner_core.schema import Link, Mention, Sentence
from crossner_core.tokenize import tokenize
from tests.support.gazetteers.fakes import compiled
from tests.support.gazetteers.sparql_servers import triples

PAGES = {
    "Mira Holt": ("MusicalArtist", "Person"),
    "Jonas Holt": ("MusicalArtist", "Person"),
    "Petra Holt": ("Politician", "Person"),
    "Ida of Norland": ("Monarch",),
    "Carl Weld Jr.": ("MusicalArtist",),
    "Glass Pilots (band)": ("Band",),
    "Ember (band)": ("Band",),
    "Ember (album)": ("Album",),
    "Comet (album)": ("Album",),
    "Comet (song)": ("Song",),
    "Vale": ("Country",),
    "Vale (band)": ("Band",),
    "Drone folk": ("MusicGenre",),
    "Kelp (dance)": ("MusicGenre",),
    "Harbour": ("Album",),
    "Norland": ("Country",),
}
REDIRECTS = {"The Glass Pilots": "Glass Pilots (band)"}
NOWHERE = PageContext("A page nobody knows")


@pytest.fixture(scope="module")
def gazetteer(tmp_path_factory: pytest.TempPathFactory) -> CompiledGazetteer:
    """The pages above, compiled."""
    return compiled(tmp_path_factory.mktemp("page") / "few", PAGES, redirects=REDIRECTS)


def sentence(marked: str) -> Sentence:
    """Build a sentence from wiki-like links: `[[Page|text]]` or `[[Page]]`."""
    text, places = "", []
    for part in marked.replace("]]", "[[").split("[[")[0:]:
        inside = len(places) % 2 == 1
        target, _, shown = part.partition("|") if inside else ("", "", part)
        shown = (shown or target) if inside else part
        places.append((len(text), len(text) + len(shown), target))
        text += shown
    tokens = tokenize(text)
    links = [
        Link(
            min(at for at, token in enumerate(tokens) if token.start >= start),
            max(at for at, token in enumerate(tokens) if token.end <= end) + 1,
            target,
        )
        for start, end, target in places[1::2]
    ]
    return Sentence("s", text, tokens, tuple(links))


def page(
    source: CompiledGazetteer,
    domain: Domain | None,
    texts: Sequence[str],
    context: PageContext | None = NOWHERE,
    **config: bool,
) -> list[list[tuple[str, str, str]]]:
    """Pre-annotate a page; return surface, entity and source by sentence."""
    rows = [sentence(text) for text in texts]
    found = Preannotator([source], domain, PreannotationConfig(**config)).mentions(rows, context=context)  # type: ignore[arg-type]
    return [
        [(row.surface(one.start, one.end), one.entity, one.source) for one in mentions]
        for row, mentions in zip(rows, found, strict=True)
    ]


def mentions(source: CompiledGazetteer, domain: Domain, text: str, context: PageContext) -> tuple[Mention, ...]:
    """Pre-annotate a page of one sentence."""
    return Preannotator([source], domain).mentions([sentence(text)], context=context)[0]


def test_preannotate_page_finds_a_linked_entity_again_by_text_title_and_surname(
    gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    rows = page(
        gazetteer,
        domain,
        [
            "Holt waited for the Pilots.",
            "[[Mira Holt]] joined [[Glass Pilots (band)|the Pilots]].",
            "Later Holt left, and Glass Pilots without Holt's help, or the Pilots, went on.",
        ],
    )
    assert rows[0] == []
    assert rows[2] == [
        ("Holt", "Mira Holt", "page"),
        ("Glass Pilots", "Glass Pilots (band)", "page"),
        ("Holt", "Mira Holt", "page"),
    ]


def test_preannotate_page_goes_on_in_the_same_sentence_after_the_link(
    gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    rows = page(gazetteer, domain, ["Here Holt sang, and [[Mira Holt]] listened as Holt."])
    assert rows == [[("Mira Holt", "Mira Holt", "link"), ("Holt", "Mira Holt", "page")]]


def test_preannotate_page_knows_its_subject_from_the_start(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    texts = ["Holt sang, and then [[Jonas Holt]] sang.", "After that Holt rested."]
    assert page(gazetteer, domain, texts, PageContext("Mira Holt")) == [
        [("Holt", "Mira Holt", "page"), ("Jonas Holt", "Jonas Holt", "link")],
        [("Holt", "Mira Holt", "page")],  # a subject keeps its surname
    ]
    band = page(gazetteer, domain, ["Fans of Ember cheered."], PageContext("Ember (band)"))
    assert band == [[("Ember", "Ember (band)", "page")]]


def test_preannotate_page_surname_of_two_is_the_last_ones_where_their_type_is_the_same(
    gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    same = ["[[Mira Holt]] met [[Jonas Holt]].", "There Holt sang."]
    assert page(gazetteer, domain, same)[1] == [("Holt", "Jonas Holt", "page")]
    other = ["[[Mira Holt]] met [[Petra Holt]].", "There Holt sang."]
    assert page(gazetteer, domain, other)[1] == []
    assert page(gazetteer, None, same)[1] == []  # without types all hangs on the resource


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("They met Anna Holt there.", 0),
        ("They met A. Holt there.", 0),
        ("They saw Holt Island there.", 0),
        ("They met President Holt there.", 1),
        ("Anna Holt was there.", 0),
        ("Holt was there.", 1),
    ],
)
def test_preannotate_page_surname_stands_alone(
    text: str, count: int, gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    rows = page(gazetteer, domain, ["[[Mira Holt]] sang.", text])
    assert len(rows[1]) == count


def test_preannotate_page_surname_rules(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    rows = page(gazetteer, domain, ["[[Ida of Norland]] met [[Carl Weld Jr.]].", "There Norland and Weld spoke."])
    assert rows[1] == [("Norland", "Norland", "dbpedia"), ("Weld", "Carl Weld Jr.", "page")]


def test_preannotate_page_small_names_only_of_what_is_written_small(
    gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    rows = page(
        gazetteer,
        None,
        [
            "The [[Norland|country]] has [[drone folk]], [[Kelp (dance)|kelp]] and a [[Harbour|harbour]].",
            "This country likes drone folk, kelp and its harbour.",
        ],
    )
    assert rows[1] == [("drone folk", "Drone folk", "page"), ("kelp", "Kelp (dance)", "page")]


def test_preannotate_page_never_covers_a_link_and_scores_between_link_and_scan(
    gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    rows = page(gazetteer, domain, ["[[Glass Pilots (band)|Glass Pilots]] sang.", "So [[Nobody|Glass Pilots]] sang."])
    assert rows[1] == []
    texts = [sentence(text) for text in ("[[Harbour]] was sold.", "Again Harbour was sold.")]
    link, again = (row[0].score for row in Preannotator([gazetteer], domain).mentions(texts, context=NOWHERE))
    scan = Preannotator([gazetteer], domain).mentions(texts[1:])[0][0].score
    assert link > again > scan


def test_preannotate_page_can_be_told_not_to_propagate(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    texts = ["[[Mira Holt]] sang.", "There Holt sang."]
    assert page(gazetteer, domain, texts, propagate=False)[1] == []
    assert page(gazetteer, domain, texts, None)[1] == []  # without a context they may be of any page


def test_preannotate_page_links_decide_what_a_name_means(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    texts = ["They played Comet again.", "Then [[Comet (song)|it]] was sold."]
    assert page(gazetteer, domain, texts)[0] == [("Comet", "Comet (song)", "dbpedia")]
    texts[1] = texts[1].replace("song", "album")
    assert page(gazetteer, domain, texts)[0] == [("Comet", "Comet (album)", "dbpedia")]


@pytest.mark.parametrize(
    ("category", "entity"),
    [("Norlandic rock bands", "Ember (band)"), ("Albums of the 1970s", "Ember (album)")],
)
def test_preannotate_page_categories_decide_what_a_name_means(
    category: str, entity: str, gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    found = mentions(gazetteer, domain, "They liked Ember best.", PageContext("Somewhere", (category,)))
    assert [one.entity for one in found] == [entity]
    unsure = mentions(gazetteer, domain, "They liked Ember best.", NOWHERE)
    assert found[0].score > unsure[0].score


def test_preannotate_page_plain_title_stands_against_categories_but_not_against_links(
    gazetteer: CompiledGazetteer, domain: Domain
) -> None:
    bands = PageContext("Somewhere", ("Norlandic rock bands",))
    assert [one.entity for one in mentions(gazetteer, domain, "They liked Vale best.", bands)] == ["Vale"]
    texts = ["They liked Vale best.", "So did [[Vale (band)|others]]."]
    assert page(gazetteer, domain, texts)[0] == [("Vale", "Vale (band)", "dbpedia")]


def test_preannotate_page_is_deterministic_and_knows_no_chunks(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    texts = ["[[Mira Holt]] sang Ember.", "There Holt sang with Glass Pilots.", "Holt sang [[Ember (album)|it]]."] * 30
    rows = [sentence(text) for text in texts]
    context = PageContext("Glass Pilots (band)", ("Bands",))
    whole, small = (
        Preannotator([gazetteer], domain, PreannotationConfig(chunk=size)).mentions(rows, context=context)
        for size in (64, 1)
    )
    assert whole == small


def test_preannotate_page_explains_what_the_page_named_before(gazetteer: CompiledGazetteer, domain: Domain) -> None:
    rows = [sentence(text) for text in ("[[Mira Holt]] sang.", "There Holt sang.")]
    machine = Preannotator([gazetteer], domain)
    explained = machine.explain(rows[1], NOWHERE, before=rows[:1])
    assert [(one.surface, one.source, one.entity, one.won) for one in explained] == [
        ("Holt", "page", "Mira Holt", True)
    ]
    assert explained[0].candidates[0].reason == "the page named it before"
    ember = [sentence(text) for text in ("[[Ember (band)|Ember]] sang.", "There Ember sang.")]
    candidates = machine.explain(ember[1], NOWHERE, before=ember[:1])[0].candidates
    assert [(one.entity, one.won) for one in candidates] == [("Ember (band)", True), ("Ember (album)", False)]
    assert candidates[1].reason == "Ember (band) won: the page named it before"
    assert machine.explain(rows[1], NOWHERE) == []


def test_preannotate_page_by_sources_that_are_asked(domain: Domain, tmp_path: Path) -> None:
    path = tmp_path / "few.nt"
    path.write_bytes(triples({"Mira Holt": ("MusicalArtist", "Person"), "Ember (band)": ("Band",)}))
    rows = [sentence(text) for text in ("[[Mira Holt]] sang.", "There Holt sang Ember.")]
    asked: list[str] = []

    class Counted(EmbeddedSource):
        """A file that counts what it is asked."""

        def lookup(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
            wanted = list(names)
            asked.extend(wanted)
            return super().lookup(wanted)

    found = Preannotator([Counted(path)], domain).mentions(rows, context=PageContext("Ember (band)"))
    assert [(one.entity, one.source) for one in found[1]] == [("Mira Holt", "page"), ("Ember (band)", "page")]
    assert asked.count("Mira Holt") == 1


def test_preannotate_context_stems() -> None:
    assert stems("MusicalArtist") == stems("music artists") == {"music", "artist"}
    assert stems("(politician)") & stems("British political parties")
    assert stems("of the and 1970s") == set()


def test_preannotate_page_of_a_gazetteer_that_links_its_titles_with_small_letters(tmp_path: Path) -> None:
    source = compiled(tmp_path / "small", {"slow tide": ("Band",)})
    found = Preannotator([source], None).mentions([sentence("They heard slow tide.")])[0]
    assert [one.entity for one in found] == ["slow tide"]
