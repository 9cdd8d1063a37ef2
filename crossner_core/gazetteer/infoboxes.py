"""The templates at the head of a page and what they are given; only this much of a page is needed to tell its class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from crossner_core.gazetteer.mappings import template_title

LONGEST_BOX = 100_000  # characters; a box is longer only if its braces do not meet

_BRACES = re.compile(r"\{\{+|\}\}+")
_HEADING = re.compile(r"^==[^=\n].*?==[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_NAME = re.compile(r"\{\{\s*+(?P<name>[^|{}\n\[\]<>]{1,255}+)(?=\n|\||\}\}|\{\{|<|\Z)")
_STUB = re.compile(r"\{\{(?!\{)\s*+(?P<name>[^|{}\n\[\]<>]{0,99}?(?:[Ss]tub|[Pp]ersondata))\s*+[|}\n]")
_QUOTES = re.compile("''+")
_BOX = re.compile(r"infobox|taxobox|chembox|drugbox|geobox|speciesbox", re.IGNORECASE)
_DISAMBIGUATION = re.compile(
    r"\{\{(?!\{)\s*+(?:template:)?(?:disambiguation(?: page)?|disambig|disamb|dab|hndis|hndab"
    r"|human name disambiguation|geodis|geodab|place name disambiguation|numberdis|letter[ _]?disambig"
    r"|letter-number(?: combination)? disambiguation"
    r"|mil-unit-dis|schooldis|school disambiguation|hospitaldis|call ?sign ?disambig|airport disambig|roaddis"
    r"|surname|given[ _]name|nickname|human name|sia|set index(?: article)?|ship ?index|mountainindex|road ?index"
    r"|sport ?index|plant common name|fungus common name|species latin name (?:abbreviation )?disambiguation"
    r"|(?:[a-z-]++ )?disambiguation|disambig[ -][a-z-]+|[a-z]{1,20}-dab)\s*+[|}]",
    re.IGNORECASE,
)


class Box(NamedTuple):
    """A template as a page uses it: its title, and the wikitext from its first brace to its last."""

    name: str
    wikitext: str

    @property
    def is_infobox(self) -> bool:
        """Whether its name says that it describes what the page is about."""
        return _BOX.search(self.name) is not None


def without_comments(text: str) -> str:
    """Return a page's wikitext without its comments."""
    return _COMMENT.sub("", text) if "<!--" in text else text


def is_disambiguation(title: str, text: str) -> bool:
    """Tell whether a page only lists what a name may mean (also surnames, given names and set indices)."""
    return title.endswith("(disambiguation)") or _DISAMBIGUATION.search(text) is not None


def lead_boxes(text: str) -> Iterator[Box]:
    """Yield the templates before a page's first heading that stand in no other, stub notices left out.

    The text has no comments.
    """
    heading = _HEADING.search(text)
    end = heading.start() if heading else len(text)
    depth, start = 0, 0
    for braces in _BRACES.finditer(text, 0, end):
        pairs = len(braces[0]) // 2
        if braces[0][0] == "{":
            if depth == 0:
                start = braces.end() - 2 * pairs
            depth += pairs
        elif depth:
            depth = max(0, depth - pairs)
            if depth == 0:
                yield from _box(text[start : braces.end()])
    if depth:  # never closed: its name still tells what it is
        yield from _box(text[start:end])


def _box(wikitext: str) -> Iterator[Box]:
    found = _NAME.match(wikitext)
    name = template_title(found["name"]) if found is not None else ""
    if name and not name.casefold().endswith(("stub", "persondata")):
        yield Box(name, wikitext)


def stubs(text: str) -> list[str]:
    """Return the titles of the stub notices (and person data) of a page, in order, each once."""
    return list(dict.fromkeys(template_title(found["name"]) for found in _STUB.finditer(text)))


def parameters(wikitext: str) -> dict[str, str] | None:
    """Return what a template is given, as plain text by name; None if its text is no one template or far too long."""
    from mwparserfromhell import parse

    if len(wikitext) > LONGEST_BOX:
        return None
    template = next(iter(parse(wikitext, skip_style_tags=True).filter_templates(recursive=False)), None)
    if template is None:
        return None
    plain = {}
    for item in template.params:
        text = item.value.strip_code(normalize=True, collapse=True, keep_template_params=True)
        plain[str(item.name).strip()] = _QUOTES.sub("", str(text)).strip()
    return plain
