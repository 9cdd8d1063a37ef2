"""Marked text from wikitext by mwparserfromhell: for pages that the fast reader gives up on, and to test it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import mwparserfromhell
from mwparserfromhell.nodes import (
    Argument,
    Comment,
    ExternalLink,
    Heading,
    HTMLEntity,
    Tag,
    Template,
    Text,
    Wikilink,
)

from crossner_core.wikipedia.inline import is_inline, render
from crossner_core.wikipedia.markup import (
    COMMENT,
    FORMULA,
    HIDDEN,
    HOLE,
    NOTHING,
    OPEN,
    TABLE,
    VOID,
    Marked,
    Unreadable,
    formula,
    protected,
)

# MediaWiki allows no page over 2 MiB. Whatever is opened and not closed is read to the page's end and again, so the
# work is about their number times the page's length: two seconds at most.
MAX_LENGTH = 2 << 20
MAX_WORK = 20_000_000
TOO_COMPLEX = "too complex"
_ENDS = {"}}": "{{", "]]": "[["}
_BRACKETS = re.compile(r"\{\{|\}\}|\[\[|\]\]|<(/?)([A-Za-z][A-Za-z0-9]*)(?=[\s/>])([^<>]*)>|<(?=[A-Za-z/!])")
_SINGLE = VOID | frozenset(("li", "dt", "dd", "tr", "td", "th"))


def mark(text: str, title: str) -> Marked:
    """Read prepared wikitext; raises Unreadable if it is too large or too broken to be read in bounded time."""
    _guard(text)
    marked = Marked(title)
    try:
        tree = mwparserfromhell.parse(text, skip_style_tags=True)
        marked.text = _Walker(marked).walk(tree.nodes)
    except (mwparserfromhell.parser.ParserError, RecursionError) as error:
        raise Unreadable(TOO_COMPLEX) from error
    return marked


def _guard(text: str) -> None:
    if len(text) > MAX_LENGTH or _unclosed(text) * len(text) > MAX_WORK:
        raise Unreadable(TOO_COMPLEX)


def _unclosed(text: str) -> int:
    """Count the elements that are opened and not closed where they should be."""
    opened: list[str] = []
    broken = 0
    for match in _BRACKETS.finditer(text):
        found, name = match[0], (match[2] or "").lower()
        if name:
            if name in _SINGLE or match[3].endswith("/"):
                continue
            start = f"</{name}" if match[1] else name
            ends = name if match[1] else None
        else:
            start, ends = found, _ENDS.get(found)
        if ends is None:
            opened.append(start)
        elif opened and opened[-1] == ends:
            opened.pop()
        elif ends in opened[-40:]:
            while opened.pop() != ends:
                broken += 1
    return broken + len(opened) + max(text.count("{|") - text.count("|}"), 0)


class _Walker:
    """Writes nodes as marked text; `depth` counts the templates around the current node."""

    def __init__(self, marked: Marked) -> None:
        self.marked = marked
        self.depth = 0

    def walk(self, nodes: Iterable[Any]) -> str:
        return "".join([self.node(node) for node in nodes])

    def code(self, code: Any) -> str:
        return "" if code is None else self.walk(code.nodes)

    def node(self, node: Any) -> str:
        if isinstance(node, Text):
            return str(node.value)
        if isinstance(node, Wikilink):
            return self.link(node)
        if isinstance(node, Template):
            return self.template(node)
        if isinstance(node, Tag):
            return self.tag(node)
        if isinstance(node, HTMLEntity):
            return str(node)
        if isinstance(node, Comment):
            return COMMENT
        if isinstance(node, ExternalLink):
            return self.external(node)
        if isinstance(node, Heading):
            return "=" * node.level + self.code(node.title) + "=" * node.level
        if isinstance(node, Argument):
            return HOLE
        raise Unreadable(f"unknown markup {type(node).__name__}")

    def link(self, node: Any) -> str:
        target = self.code(node.title)
        label = None if node.text is None else self.code(node.text)
        return self.marked.link(target, label, collect=not self.depth)

    def template(self, node: Any) -> str:
        self.depth += 1
        name = self.code(node.name)
        self.depth -= 1
        if not self.depth:
            self.marked.template(name)
        if HOLE in name or OPEN in name or not is_inline(name):
            return HOLE
        self.depth += 1
        parts = [
            f"{self.code(param.name)}={self.code(param.value)}" if param.showkey else self.code(param.value)
            for param in node.params
        ]
        self.depth -= 1
        shown = render(name, parts, self.marked.title)
        return HOLE if shown is None else shown

    def external(self, node: Any) -> str:
        if not node.brackets:
            return self.code(node.url)
        if node.title is None:
            return f"[{self.code(node.url)}]"
        return f"[{self.code(node.url)}{'' if node.suppress_space else ' '}{self.code(node.title)}]"

    def tag(self, node: Any) -> str:
        name = str(node.tag).strip().lower()
        if name in TABLE and node.wiki_markup:
            for attribute in node.attributes:  # only to note their templates
                self.code(attribute.name)
                self.code(attribute.value)
        if name == "table":
            self.code(node.contents)
            return HOLE
        if node.wiki_markup:
            return str(node.wiki_markup) + self.code(node.contents)
        if name in HIDDEN:
            return HOLE
        if name == "nowiki":
            return NOTHING if node.self_closing else protected(str(node.contents))
        if name in FORMULA:
            return HOLE if node.self_closing else formula(str(node.contents))
        if name in VOID or node.self_closing:
            return f"<{name}>"
        inside = self.code(node.contents)
        return f"<{name}>{inside}" if node.implicit else f"<{name}>{inside}</{name}>"
