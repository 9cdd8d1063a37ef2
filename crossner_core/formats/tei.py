"""TEI: names marked within the text (`persName`, `placeName`, `orgName`, `rs`), nested or not; it is only read.

A name's `ref` is its resource where it is an address.
"""

from __future__ import annotations

import re
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


class _Reading:
    """The text of an edition's body with its names, as elements begin and end."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.parts, self.size = set(names), list[str](), 0
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

    def walk(self, root: Element) -> None:
        """Read an element with all below it, without recursion: editions nest deep."""
        stack: list[tuple[Element, int, int]] = [(root, 0, self._enter(root))]
        while stack:
            element, child, start = stack.pop()
            if child < len(element):
                stack.append((element, child + 1, start))
                below = element[child]
                stack.append((below, 0, self._enter(below)))
                continue
            self._leave(element, start)
            if stack:
                self.add(element.tail)

    def _enter(self, element: Element) -> int:
        tag = _local(element)
        if tag in _BLOCKS:
            self.new_line()
        start = self.size
        if tag not in ("teiHeader", "fw", "figDesc"):
            self.add(element.text)
        return start

    def _leave(self, element: Element, start: int) -> None:
        tag = _local(element)
        if tag in self.names:
            type = element.get("type", "") if tag in _TYPED else ""
            entity, *others = element.get("ref", "").split() or [""]
            linked = entity if is_entity(entity) else None
            self.marks.append(Mark(((start, self.size),), type or tag, entity=linked))
            given = bool(element.get("key")) + bool(entity and linked is None) + len(others)
            self.losses["references of names (ref, key)"] += given
        if tag == "s":
            self.sentences.append((start, self.size))
        if tag in _BLOCKS:
            self.new_line()


def read(files: Sequence[InputFile], options: TeiOptions) -> Iterator[Parsed]:
    """Read the text of each edition, its header left out; a name's ends are the element's, without white space."""
    for name, data in files:
        reading, depth, texts = _Reading(options.names), 0, 0
        root = ""
        for event, element in elements(data, name):
            root = root or _local(element)
            if _local(element) != "text":
                continue
            depth += 1 if event == "start" else -1
            if event == "end" and depth == 0:
                reading.walk(element)
                element.clear()
                texts += 1
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
