"""Sentences with their spans in colour, and entity types as coloured chips; every word is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

from crossner_core.domains import Domain, EntityType
from crossner_core.schema import Link, Sentence, Span
from pages.components.palette import entity_colour

_CHIP = "padding:0 .4em;border-radius:4px;white-space:nowrap;font-weight:600"
_MARK = "padding:.05em .25em;border-radius:4px;box-decoration-break:clone;-webkit-box-decoration-break:clone"
_LINE = "margin:0;line-height:1.9;overflow-wrap:anywhere;white-space:pre-wrap"
_NAME = "font-weight:600;margin-inline-start:.4em;white-space:nowrap"
_LINK = "text-decoration:underline;text-decoration-thickness:1px;text-underline-offset:.2em"
_FOUND = "color:light-dark(#3d2c00,#fff3c4);background:light-dark(#ffe58a,#6b5200);border-radius:3px"
_UNKNOWN = "color:inherit;background:transparent;outline:1px solid currentColor"


_MARKUP = re.compile(r"([\\`*_{}\[\]()#+.!|<>~$:^=&-])")


def as_text(words: str) -> str:
    """Escape text so that Markdown shows it verbatim, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(words.split()))


def type_chip(one: EntityType) -> str:
    """Return the type's title in its colour as HTML."""
    return f'<span style="{_CHIP};{_colours(one.color)}">{escape(one.title)}</span>'


def marked_sentence(
    sentence: Sentence,
    spans: Iterable[Span],
    domain: Domain | None,
    notes: Mapping[Span, str],
    *,
    links: Iterable[Link] = (),
) -> str:
    """Return the text as HTML with its spans marked and titled; `notes` are words to show after some of them.

    `links` are underlined, across spans too, and name their page on hover.
    """
    under = [(*sentence.char_range(link.start, link.end), link.target) for link in sorted(links)]
    colours = {kind.name: kind.color for kind in domain.types} if domain is not None else {}
    titles = domain.titles if domain is not None else {}
    parts, done = [], 0
    for span in sorted(spans):
        start, end = sentence.char_range(span.start, span.end)
        style = _colours(colours[span.type]) if span.type in colours else _UNKNOWN
        named = escape(titles.get(span.type, span.type)) + (f" · {escape(notes[span])}" if span in notes else "")
        parts.append(_linked(sentence.text, done, start, under))
        parts.append(
            f'<mark style="{_MARK};{style}">{_linked(sentence.text, start, end, under)}'
            f'<small style="{_NAME}">{named}</small></mark>'
        )
        done = end
    parts.append(_linked(sentence.text, done, len(sentence.text), under))
    return f'<p dir="auto" style="{_LINE}">{"".join(parts)}</p>'


def matched_text(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    """Return a text as HTML with the characters `[start, end)` of what was searched for marked."""
    parts, done = [], 0
    for start, end in ranges:
        parts += [escape(text[done:start]), f'<mark style="{_FOUND}">{escape(text[start:end])}</mark>']
        done = end
    return f'<p dir="auto" style="{_LINE}">{"".join([*parts, escape(text[done:])])}</p>'


def _linked(text: str, low: int, high: int, links: Iterable[tuple[int, int, str]]) -> str:
    """Return characters `[low, high)` as HTML, with the parts of links inside them underlined."""
    parts, done = [], low
    for start, end, target in links:
        start, end = max(start, done), min(end, high)
        if start < end:
            shown = f'<span style="{_LINK}" title="{escape(target)}">{escape(text[start:end])}</span>'
            parts += [escape(text[done:start]), shown]
            done = end
    return "".join([*parts, escape(text[done:high])])


def _colours(index: int) -> str:
    colour = entity_colour(index)
    return (
        f"color:light-dark({colour.light_text},{colour.dark_text});"
        f"background:light-dark({colour.light_fill},{colour.dark_fill})"
    )
