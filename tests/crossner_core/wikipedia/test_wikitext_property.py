"""Random compositions of markup, whole and broken: the fast reader gives what mwparserfromhell's reader gives."""

from __future__ import annotations

import re
from unittest import mock

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from crossner_core.wikipedia import blocks
from crossner_core.wikipedia.markup import Extract, Unreadable
from crossner_core.wikipedia.wikitext import extract, extract_slow

WORDS = ["Lena", "rivers", "a", "of", "bus", "St. Ives", "été", "Ω", "es", "1815", "x < y", "it's", "A&B", "–", "ok."]
BITS = [
    "[[", "]]", "{{", "}}", "[", "]", "{", "}", "|", "\n{|\n", "\n|}\n", "\n|-\n", "\n| ", "<ref>", "</ref>", "<!--",
    "-->", "<nowiki>", "</nowiki>", "<small>", "</small>", "<br>", "''", "'''", "'''''", "''''", "=", "\n== H ==\n",
    "\n* ", "\n: ", "\n; t : d\n", "\n\n", "\n", "&amp;", "&nbsp;", "&#91;", "&lt;", "{{!}}", "[[File:", "[[Category:",
    "http://e.org/x", "[http://e.org ", "<math>", "</math>", "</i>", "<i>", "<li>", "__TOC__", "#", ":", "{{{1}}}",
    "<ref name=a/>", "<div>", "</div>", "[[A|", "{{lang|fr|", "{{quote|", "<sup>2</sup>", "<references>", "\x01", "<p>",
]  # fmt: skip
word = st.sampled_from(WORDS)
TITLES = [
    "Lena River",
    "bus",
    "fr:Bus",
    ":fr:Bus",
    "wikt:bus",
    "Category:Rivers|L",
    ":Category:R",
    "A#B",
    "#B",
    "Foo_(x)",
]


def _wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    label = st.lists(inner, max_size=3).map("".join)
    tag = st.sampled_from(
        ["ref", "small", "i", "sub", "div", "blockquote", "nowiki", "math", "gallery", "poem", "span"]
    )
    return st.one_of(
        st.tuples(st.sampled_from(TITLES), label).map(lambda pair: f"[[{pair[0]}|{pair[1]}]]s"),
        st.sampled_from(TITLES).map(lambda title: f"[[{title}]]es "),
        st.tuples(st.sampled_from(["Box", "nowrap", "lang|fr", "convert|5|km", "#if:x", "cite\n"]), label).map(
            lambda pair: f"{{{{{pair[0]}|{pair[1]}}}}}"
        ),
        label.map(lambda text: f"[[File:a.jpg|thumb|{text}]]"),
        st.tuples(tag, label).map(lambda pair: f"<{pair[0]}>{pair[1]}</{pair[0]}>"),
        label.map(lambda text: f"\n{{| class=x\n|-\n| {text}\n|}}\n"),
        label.map(lambda text: f"''{text}''"),
        label.map(lambda text: f"[http://e.org {text}]"),
        label.map(lambda text: f"\n== {text} ==\n"),
        label.map(lambda text: f"\n* {text}\n"),
        label.map(lambda text: f"<!-- {text} -->"),
    )


whole = st.recursive(word.map(lambda text: f" {text} "), _wrapped, max_leaves=12)
page = st.lists(st.one_of(whole, whole, word, st.sampled_from(BITS)), max_size=9).map("".join)
broken = st.lists(st.one_of(st.sampled_from(BITS), word), max_size=14).map("".join)


def _read(text: str) -> tuple[object, ...] | str:
    try:
        return _content(extract(text, "T"))
    except Unreadable as reason:
        return str(reason)


def _read_slow(text: str) -> tuple[object, ...] | str:
    try:
        return _content(extract_slow(text, "T"))
    except Unreadable as reason:
        return str(reason)


def _content(read: Extract) -> tuple[object, ...]:
    for paragraph in read.paragraphs:
        assert paragraph.text == " ".join(paragraph.text.split())
        at = 0
        for link in paragraph.links:
            assert at <= link.start < link.end <= len(paragraph.text)
            assert paragraph.text[link.start : link.end].strip() and link.target
            at = link.end
    return read.paragraphs, read.categories, read.templates


PHASES = (Phase.explicit, Phase.generate)  # a failing page is short enough to read
quick = settings(
    deadline=None, max_examples=250, derandomize=True, suppress_health_check=list(HealthCheck), phases=PHASES
)


@quick
@given(page)
def test_both_readers_agree_on_pages_made_of_whole_and_broken_markup(text: str) -> None:
    assert _read(text) == _read_slow(text)


@quick
@given(broken)
@example("{{a|[[b}} c]]")
@example("{{a|<small>}}</small> text")
@example("[[A|b [[C]] d]]")
@example("<ref>{{cite|x</ref> and text}} more")
@example("{{cite|url=[http://e.org y}} z] more")
@example("<ref>a</i> b</ref> c")
def test_both_readers_agree_on_broken_markup(text: str) -> None:
    assert _read(text) == _read_slow(text)


@settings(deadline=None, derandomize=True, max_examples=500)
@given(st.text("ab  \x04\x04(),;.", max_size=12))
@example("a (; \x04b)")
@example("a (\x04; b)")
@example("a \x04 b")
@example("a\x04 .")
def test_leaving_a_hole_out_is_closing_it_where_nothing_odd_is_beside_it(text: str) -> None:
    quick = blocks.clean([text], [])
    with mock.patch.object(blocks, "_ODD_HOLE", re.compile("")):
        assert blocks.clean([text], []) == quick
