"""Wikitext to paragraphs with links: each kind of markup, by both readers."""

from __future__ import annotations

import time

import pytest

from crossner_core.wikipedia.markup import Extract, Unreadable
from crossner_core.wikipedia.wikitext import extract, extract_slow

LONG = "The old bridge over the river was closed to all traffic in 1931."


def read(text: str, title: str = "") -> Extract:
    """Read by both readers, which must agree."""
    fast, slow = extract(text, title), extract_slow(text, title)
    assert (fast.paragraphs, fast.categories, fast.templates) == (slow.paragraphs, slow.categories, slow.templates)
    return fast


def shown(text: str) -> str:
    return read(text).text


def links(text: str) -> list[tuple[str, str]]:
    return [(p.text[link.start : link.end], link.target) for p in read(text).paragraphs for link in p.links]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A [[river bank]] here", [("river bank", "River bank")]),
        ("A [[river bank|shore]] here", [("shore", "River bank")]),
        ("Two [[ferry|ferries]] and [[boat]]s", [("ferries", "Ferry"), ("boats", "Boat")]),
        ("A [[boat]]'s mast, [[boat]]<nowiki/>yard", [("boat", "Boat"), ("boat", "Boat")]),
        ("The [[Mast (ship)|]] and [[Bath, Maine|]]", [("Mast", "Mast (ship)"), ("Bath", "Bath, Maine")]),
        ("The [[mast_(ship)#Parts|mast]] [[#Here|below]]", [("mast", "Mast (ship)")]),
        ("See [[:Category:Boats]] and [[wikt:boat|boat]], [[fr:Bateau]]", []),
        ("''[[Dora (play)|Dora]]'' and [[Dora (film)|'''Dora''']]", [("Dora", "Dora (play)"), ("Dora", "Dora (film)")]),
        ("[[Rock &amp; Roll|R&amp;R]] and [[Caf%C3%A9]]", [("R&R", "Rock & Roll"), ("Caf%C3%A9", "Café")]),
        ("A [[boat| <small>little</small> boat ]] now", [("little boat", "Boat")]),
        ("Nothing [[boat|<small></small>]] there", []),
        ("In [[Österreich]] a [[Δx|Δ]]", [("Österreich", "Österreich"), ("Δ", "Δx")]),
        ("The [[40th parallel|{{nowrap|40° N}}]] line", [("40° N", "40th parallel")]),
        ("[[File:x.jpg|thumb|A [[boat]] of [[wood|oak]]]]A [[pier]]", [("pier", "Pier")]),
        ("A [http://e.org/a label with [[boat]]s] end", [("boats", "Boat")]),
    ],
)
def test_links_have_text_and_target(text: str, expected: list[tuple[str, str]]) -> None:
    assert links(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One<ref>{{cite web|title=x}}</ref> two<ref name=a/>, three <ref name=\"b\">''t''</ref>.", "One two, three."),
        ("Kim ({{IPAc-en|k}}; {{lang-ko|김}}; born 1950) sang", "Kim (Korean: 김; born 1950) sang"),
        ("Kim ({{IPAc-en|k}}; {{audio|k.ogg}}) sang", "Kim sang"),
        ("Kim ({{a}}; born 1950; {{b}}), sang {{c}}.", "Kim (born 1950), sang."),
        ("It is {{convert|1200|km|mi}} or {{convert|6|ft|2|in}} long", "It is 1,200 km or 6 ft 2 in long"),
        ("1900{{ndash}}1910{{spaced ndash}}a {{lang|fr|mot}}", "1900–1910 – a mot"),
        ("The ''Dora'''s crew, '''''both''''' '''b''' ''i''", "The Dora's crew, both b i"),
        ("A &amp; B&nbsp;C &lt;i&gt; &#233;&#x3b1; 10<sup>-7</sup> H<sub>2</sub>O", "A & B C <i> éα 10⁻⁷ H2O"),
        ("Use <nowiki>''[x]'' &amp; *</nowiki> and <code>y</code><br />z", "Use ''[x]'' & * and y z"),
        ("Seen<!-- not\nhere --> at [http://e.org/x the site] __NOTOC__ [http://e.org/y].", "Seen at the site."),
        ("If <math>x_1 \\leq \\alpha</math> holds", "If x_1 ≤ α holds"),
        ("If <math>\\frac{a}{b}</math> holds\n\nText", "Text"),
        ("a\nb\n\n\nc\n<!-- only -->\nd", "a b\n\nc d"),
        ('Was "{{quote|A long [[saying]].|Kim}}" so', 'Was "\n\nA long saying.\n\n" so'),
        ("The {{USS|Dora|DD-1}} sank{{citation needed|date=May}} in {{circa|1900}}", "The USS Dora sank in c. 1900"),
        ("x\n{| class=a\n|-\n| y {{b|c}}\n{|\n| z\n|}\n|}\nw", "x\n\nw"),
        ("<gallery>\nFile:a.jpg|b\n</gallery>\nText <timeline>x</timeline>here", "Text here"),
        ("{{#if:x|y|z}}The {{lc:ABC}} of {{PAGENAME}}", "The abc of Kim"),
    ],
)
def test_text_is_clean(text: str, expected: str) -> None:
    assert read(text, "Kim").text == expected


def test_headings_set_the_section_and_sections_without_prose_are_dropped() -> None:
    page = "Lead.\n== ''Life'' of [[Kim]] ==\nBorn.\n=== Youth ===\nGrew.\n"
    page += f"== References ==\nx\n=== Sub ===\ny\n== End ==\n{LONG}"
    assert [(p.section, p.text) for p in read(page).paragraphs] == [
        ("", "Lead."),
        ("Life of Kim", "Born."),
        ("Youth", "Grew."),
        ("End", LONG),
    ]


def test_list_items_are_kept_when_they_are_sentences() -> None:
    page = f"Intro:\n* {LONG}\n* [[Kim]], singer\n# 1. Short one.\n:: {LONG}\n; term : {LONG}\nAfter"
    assert shown(page) == f"Intro:\n\n{LONG}\n\n{LONG}\n\nAfter"


def test_categories_and_templates_are_collected() -> None:
    page = (
        "{{infobox_band|name={{nowrap|x}}}}{{Template:about}}{{DEFAULTSORT:Kim}}A<ref>{{cite}}</ref> {{nowrap|b}}"
        "{|\n|{{in table}}\n|}\n{{Infobox band}}[[Category:korean singers|Kim]] [[Category:People]]"
    )
    assert read(page).templates == ("Infobox band", "About", "Nowrap", "In table")
    assert read(page).categories == ("Korean singers", "People")


@pytest.mark.parametrize(
    "text",
    [
        "Text {{unclosed and [[Kim]] on\n\nmore [[text]].",
        "Text [[unclosed and {{x}}\n\nmore [[text]].",
        "{|\n| never closed\n\nmore [[text]].",
        "A [[Kim\nLee|x]] here",
        "A [[{{x}}|Kim]] here",
        "A <ref>open and [[Kim]]",
        "A <!-- open",
        "A {{{1}}} and {{{{x}}}}",
        "A [[Kim|b [[Lee]] c]] d",
        "A <small>x {{b|</small>}} y",
    ],
)
def test_doubtful_markup_goes_to_the_fallback_with_a_reason(text: str) -> None:
    found = read(text)
    assert found.parser == "fallback" and found.reason
    assert not any(mark in found.text for mark in ("{{", "[[", "{|"))


@pytest.mark.parametrize(
    "piece",
    ["{", "}", "{{", "{{a|", "[[a|", "[[File:a|", "<ref>", "<i>", "\n{|\n", "{{a|<i>}}", "{{a|[[b|", '<ref x="'],
)
def test_hostile_pages_end_in_bounded_time(piece: str) -> None:
    start = time.process_time()
    try:
        extract(piece * (10_000_000 // len(piece)))
    except Unreadable as reason:
        assert str(reason) == "too complex"
    assert time.process_time() - start < 30


def test_control_characters_and_line_ends_do_not_reach_the_text() -> None:
    assert shown("a\x01 b\x02\x03\r\n\r\nc\x04\rd") == "a b\n\nc d"


def test_an_empty_page_and_a_redirect_have_no_paragraphs() -> None:
    assert read("").paragraphs == read("#REDIRECT [[Kim]] {{R from move}}").paragraphs == ()
