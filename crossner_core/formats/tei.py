"""TEI: names marked within the text (`persName`, `placeName`, `orgName`, `rs`), nested or not; it is only read.

A name's `ref` is its resource where it is an address.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crossner_core.errors import InvalidConfig
from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, register
from crossner_core.formats.source import refused
from crossner_core.formats.standoff import Mark, StandoffOptions, Text, pieces_of, stem_of
from crossner_core.formats.xml import elements
from crossner_core.schema import is_entity

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

WHY_NOT = "TEI is read only: an edition is more than its names, and writing would lose it. Choose brat or CAS."
_NAMES = (
    "persName", "placeName", "orgName", "geogName", "rs", "name", "objectName", "eventName", "settlement", "country",
)  # fmt: skip
_BLOCKS = (
    "p", "head", "l", "lg", "div", "ab", "item", "cell", "row", "s", "u", "quote", "note", "opener", "closer", "lb",
)  # fmt: skip
_TYPED = ("rs", "name")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class TeiOptions(StandoffOptions):
    """How to read TEI."""

    names: tuple[str, ...] = field(
        default=_NAMES, metadata={"doc": "Elements that are entities; rs and name have their attribute type as type."}
    )


@dataclass(frozen=True)
class TeiLayout(Layout):
    """The layout of a TEI document's text."""


@dataclass(slots=True)
class _Open:
    """An element that has begun, where it begins in the text, and the last element that ended in it."""

    element: Element
    start: int
    before: Element | None = None


class _Reading:
    """The text of an edition's body with its names, as elements begin and end."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.parts, self.size = set(names), list[str](), 0
        self.open: list[_Open] = []
        self.marks: list[Mark] = []
        self.sentences: list[tuple[int, int]] = []
        self.losses: Counter[str] = Counter()

    def add(self, text: str | None) -> None:
        """Add text; a run of white space counts as one blank, none at the beginning of a line."""
        plain = _SPACE.sub(" ", text or "")
        if plain.startswith(" ") and (not self.parts or self.parts[-1][-1:].isspace()):
            plain = plain[1:]
        if plain:
            self.parts.append(plain)
            self.size += len(plain)

    def new_line(self) -> None:
        if self.parts and self.parts[-1][-1:] == " ":
            self.parts[-1] = self.parts[-1][:-1]
            self.size -= 1
            if not self.parts[-1]:
                self.parts.pop()
        if self.parts and not self.parts[-1].endswith("\n"):
            self.parts.append("\n")
            self.size += 1

    def begin(self, element: Element) -> None:
        """Begin an element of the text; its own text is there once something in it begins, or it ends."""
        self._add_before()
        if _local(element) in _BLOCKS:
            self.new_line()
        self.open.append(_Open(element, self.size))

    def end(self) -> None:
        """End the innermost element, and forget it but for the text behind it."""
        self._add_before()
        ended = self.open.pop()
        self._leave(ended.element, ended.start)
        if self.open:
            self.open[-1].before = ended.element
            del self.open[-1].element[:]

    def _add_before(self) -> None:
        """Add what stands before the next begin or end: an element's own text, or that behind the last one in it."""
        if not self.open:
            return
        innermost = self.open[-1]
        if innermost.before is not None:
            self.add(innermost.before.tail)
        elif _local(innermost.element) not in ("teiHeader", "fw", "figDesc"):
            self.add(innermost.element.text)

    def _leave(self, element: Element, start: int) -> None:
        tag = _local(element)
        if tag in self.names:
            type = element.get("type", "") if tag in _TYPED else ""
            entity, *others = element.get("ref", "").split() or [""]
            linked = entity if is_entity(entity) else None
            self.marks.append(Mark(((start, self.size),), sys.intern(type or tag), entity=linked))
            given = bool(element.get("key")) + bool(entity and linked is None) + len(others)
            self.losses["references of names (ref, key)"] += given
        if tag == "s":
            self.sentences.append((start, self.size))
        if tag in _BLOCKS:
            self.new_line()


def read(files: Sequence[InputFile], options: TeiOptions) -> Iterator[Parsed]:
    """Read the text of each edition, its header left out; a name's ends are the element's, without white space."""
    for name, data in files:
        reading, root, texts = _Reading(options.names), "", 0
        for event, element in elements(data, name):
            root = root or _local(element)
            if not reading.open and _local(element) != "text":
                continue
            if event == "start":
                texts += not reading.open
                reading.begin(element)
            else:
                reading.end()
        if root not in ("TEI", "teiCorpus", "TEI.2", "text"):
            raise refused(name, 1, f"the XML's root is {root}, and TEI is expected")
        text = "".join(reading.parts)
        if not texts or not text.strip():
            raise refused(name, 1, "the TEI has no text with anything in it")
        held = Text(stem_of(name), text, reading.sentences or None)
        yield from pieces_of(held, reading.marks, options, TeiLayout(), file=name, losses=+reading.losses)


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Refuse: see `WHY_NOT`."""
    raise InvalidConfig(WHY_NOT)


register(
    Format(
        "tei",
        "TEI",
        (".tei",),
        read,
        write,
        options_type=TeiOptions,
        layout_type=TeiLayout,
        by_document=True,
        holds_entities=True,
        content=re.compile(rb"<(?:\w+:)?(?:TEI|teiCorpus|TEI\.2)\b"),
        example="<p><persName>Mara Vell</persName> sang in <placeName>Oslo</placeName>.</p>",
        bytes_per_second=200_000,
        no_writer=WHY_NOT,
    )
)
