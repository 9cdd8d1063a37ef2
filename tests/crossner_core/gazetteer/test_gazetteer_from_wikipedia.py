"""What a Wikipedia dump says by itself, through the infobox mappings."""

from __future__ import annotations

import bz2
import time
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from crossner_core.errors import BadInput, NotFound
from crossner_core.gazetteer import from_wikipedia
from crossner_core.gazetteer.facts import Count, Fact, Label, Redirect, Typed
from crossner_core.gazetteer.from_wikipedia import WikipediaFacts
from crossner_core.gazetteer.infoboxes import (
    Condition,
    InfoboxMappings,
    is_disambiguation,
    lead_boxes,
    parameters,
    read_mappings,
    stubs,
    without_comments,
)
from crossner_core.gazetteer.ontology import read_ontology

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/"><siteinfo><dbname>testwiki</dbname>
<case>first-letter</case><namespaces><namespace key="0" /><namespace key="6">File</namespace>
<namespace key="10">Template</namespace><namespace key="14">Category</namespace></namespaces></siteinfo>"""


def always(cls: str) -> tuple[Condition, ...]:
    """A mapping without conditions."""
    return (Condition("", "otherwise", "", cls),)


MAPPINGS = InfoboxMappings(
    {
        "Infobox ferry": always("Ship"),
        "Infobox harbour": always("Port"),
        "Infobox person": (Condition("members", "isSet", "", "Band"), *always("Person")),
        "Sailor-stub": always("Person"),
        "Lost": always("Thing"),
        "Infobox comet": always("Cometoid"),
    }
)


def dump(path: Path, pages: dict[str, str], *, ends: bool = True) -> Path:
    """Write pages (title → text, or `-> title` for a redirect) as a dump; `Template:` and others by their prefix."""
    body = []
    for number, (title, text) in enumerate(pages.items(), 1):
        ns = {"Template": 10, "Category": 14}.get(title.partition(":")[0], 0)
        redirect = f'<redirect title="{escape(text[3:])}" />' if text.startswith("-> ") else ""
        body.append(
            f"<page><title>{escape(title)}</title><ns>{ns}</ns><id>{number}</id>{redirect}<revision><id>{number}</id>"
            f"<text>{escape(text)}</text></revision></page>"
        )
    data = bz2.compress((HEAD + "".join(body) + "</mediawiki>").encode())
    path.write_bytes(data if ends else data[: len(data) // 2])
    return path


def read(path: Path, mappings: InfoboxMappings = MAPPINGS) -> tuple[list[Fact], WikipediaFacts, list[str]]:
    """Read all facts, with the reader and what it reported."""
    said: list[str] = []
    reader = WikipediaFacts(path, mappings, on_problem=said.append)
    return list(reader), reader, said


def classes(facts: list[Fact]) -> dict[str, list[str]]:
    """Return the classes of each labelled page."""
    found: dict[str, list[str]] = {fact.entity: [] for fact in facts if isinstance(fact, Label)}
    for fact in facts:
        if isinstance(fact, Typed):
            found[fact.entity].append(fact.cls)
    return found


def test_wikipedia_pages_have_the_class_of_the_infobox_they_begin_with(tmp_path: Path) -> None:
    path = dump(
        tmp_path / "d.xml.bz2",
        {
            "Mira (ferry)": "{{Lost}}\n{{infobox_ferry<!-- old -->\n| name = {{nowrap|Mira}} }} '''Mira''' is a ferry.",
            "The Gulls": "{{Infobox person | members = {{plainlist|\n* Jo\n* Al}} }}\nA band.",
            "Jo Lund": "{{Infobox person | members = <!-- none --> }}\n{{Infobox harbour}} Text.",
            "Later": "Text.\n== Ship ==\n{{Infobox ferry}}",
            "Al Berg": "A sailor.\n\n{{Sailor-stub}}",
            "Old Mira": "{{Infobox ferry}} A ship.\n\n{{sailor-stub}}",
            "Nested": "{{Sidebar | {{Infobox ferry}} }} Text.",
            "Open": "{{Infobox ferry | name = Open",
            "سفينة": "{{Infobox ferry}}",
            "Plain": "Nothing.",
        },
    )
    facts, reader, said = read(path)
    assert classes(facts) == {
        "Mira (ferry)": ["Ship"],
        "The Gulls": ["Band"],
        "Jo Lund": ["Person", "Port"],
        "Later": [],
        "Al Berg": ["Person"],
        "Old Mira": ["Ship"],
        "Nested": [],
        "Open": ["Ship"],
        "سفينة": ["Ship"],
        "Plain": [],
    }
    report = reader.report
    assert (report.articles, report.by_infobox, report.by_stub, report.untyped) == (10, 6, 1, 3)
    assert said == ["Class Cometoid of 1 mappings (Infobox comet) is not in the ontology (bundled); it has a type only "
                    "where a domain maps it by name."]  # fmt: skip


def test_wikipedia_redirects_and_links_are_facts_and_disambiguations_are_none(tmp_path: Path) -> None:
    path = dump(
        tmp_path / "d.xml.bz2",
        {
            "Old name": "-> Mira (ferry)",
            "Loop": "-> Loop",
            "To a template": "-> Template:Infobox ferry",
            "Mira (ferry)": "See [[mira_(ferry)#Crew|her]], [[Caf%C3%A9 &amp; Bar]], [[File:A.jpg|[[Mira (ferry)]]]], "
            "[[:Category:Ships]] <!-- [[Hidden]] -->",
            "Mira": "'''Mira''' may be\n* [[Mira (ferry)]]\n{{Disambiguation|geo}}",
            "Lund": "{{surname}}\n* [[Jo Lund]]",
            "Berg (disambiguation)": "* [[Al Berg]]",
            "Category:Ships": "[[Mira (ferry)]]",
        },
    )
    facts, reader, _ = read(path)
    assert [fact for fact in facts if isinstance(fact, Redirect)] == [
        Redirect("Old name", "Mira (ferry)"),
        Redirect("Loop", "Loop"),
    ]
    assert {fact for fact in facts if isinstance(fact, Count)} == {Count("Mira (ferry)", 2), Count("Café & Bar", 1)}
    assert classes(facts) == {"Mira (ferry)": []}
    report = reader.report
    assert (report.pages, report.articles, report.redirects, report.other) == (8, 4, 3, 1)
    assert (report.disambiguations, report.untyped, report.links) == (3, 1, 3)


def test_wikipedia_templates_renamed_in_the_dump_are_found_wherever_the_redirect_stands(tmp_path: Path) -> None:
    pages = {
        "Mira": "{{Ferry box | name = Mira}}",
        "Jo": "{{Infobox human | members = x}} {{Sailor-stub}}",
        "Ada": "{{Infobox rocket | name = Ada}} {{Infobox rocket | name = Ada 2}} {{Sailor-stub}}",
        "Bee": "{{Infobox rocket}}",
        "Template:Ferry box": "-> Template:Infobox ferry",
        "Template:Infobox person": "-> Template:Infobox human",  # the dump is newer than the mappings
    }
    facts, reader, said = read(dump(tmp_path / "d.xml.bz2", pages))
    assert classes(facts) == {"Mira": ["Ship"], "Jo": ["Band"], "Ada": ["Person"], "Bee": []}
    assert reader.report.unknown == Counter({"Infobox rocket": 2})
    assert "Infobox rocket (2)" in said[-1] and "get newer ones" in said[-1]


def test_wikipedia_counts_of_many_links_are_handed_on_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_wikipedia, "HELD_TARGETS", 2)
    facts, _, _ = read(dump(tmp_path / "d.xml.bz2", {"A": "[[B]] [[C]]", "D": "[[B]] [[B]]"}))
    assert [fact for fact in facts if isinstance(fact, Count)] == [Count("B", 1), Count("C", 1), Count("B", 2)]


def test_wikipedia_dump_that_breaks_off_or_is_none_is_an_error(tmp_path: Path) -> None:
    pages = {f"Page {n}": f"{{{{Infobox ferry}}}} {n} {n * 7919} text" for n in range(200)}
    with pytest.raises(BadInput):
        read(dump(tmp_path / "cut.xml.bz2", pages, ends=False))
    with pytest.raises(NotFound):
        read(tmp_path / "none.xml.bz2")


@pytest.mark.parametrize(
    "text",
    [
        "{{" * 1_000_000,
        "{{a|" * 200_000,
        "{{ " + " " * 500_000 + "[",
        "{{Infobox person" + " " * 500_000 + "[[x]]",
        "{{stub   " * 50_000,
        "<!--" * 200_000,
        "{{" + "disambiguation-" * 50_000,
        "== " * 200_000,
    ],
    ids=["braces", "open", "spaces", "name", "stubs", "comments", "words", "headings"],
)
def test_wikipedia_hostile_pages_take_time_in_proportion(text: str) -> None:
    started = time.perf_counter()
    bare = without_comments(text)
    assert not is_disambiguation("X", bare)
    for box in list(lead_boxes(bare))[:3]:
        parameters(box.wikitext)
    stubs(bare)
    assert time.perf_counter() - started < 3.0


def test_infoboxes_parameters_are_plain_text() -> None:
    box = "{{Infobox x | a = [[Deck|deck hand]] ''at sea'' | b = {{flag|Norway}} | c = <!-- x --> | plain }}"
    assert parameters(without_comments(box)) == {"a": "deck hand at sea", "b": "Norway", "c": "", "1": "plain"}
    assert parameters("{{" + "x" * 200_000) is None and parameters("no template") is None


def test_wikipedia_real_sample_is_typed_without_a_mistake(shared: Path) -> None:
    path = shared / "data" / "wikipedia" / "enwiki-sample-206-pages.xml.bz2"
    if not path.is_file():
        pytest.skip(f"the sample of a dump is not at {path}")
    said: list[str] = []
    reader = WikipediaFacts(
        path,
        read_mappings(shared / "data" / "dbpedia" / "Mapping_en.xml.xz"),
        tree=read_ontology(shared / "data" / "dbpedia" / "ontology.owl.xz"),
        on_problem=said.append,
    )
    found = classes(list(reader))
    report = reader.report
    assert report.pages == 206 == report.articles + report.redirects + report.other
    assert report.articles == 106 == report.disambiguations + report.by_infobox + report.by_stub + report.untyped
    assert (report.disambiguations, report.by_infobox) == (8, 38)
    # judged by eye, all 38: these stand for the kinds there are
    assert found["Abraham Lincoln"] == ["Politician"] and found["Algeria"] == ["Country"]
    assert found["Animal Farm"] == ["Book"] and found["Andre Agassi"] == ["TennisPlayer"]
    assert found["American National Standards Institute"] == ["Organisation"] and found["Apollo"] == ["Deity"]
    assert found["Anthropology"] == [] and "Austin (disambiguation)" not in found
    assert len(said) == 1 and "Automatic taxobox (3)" in said[0]
