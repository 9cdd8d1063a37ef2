"""brat: a text, and beside it a file of annotations whose offsets count code points.

Source: brat's standoff format (`T1<tab>Person 0 4<tab>Mara`; `N1<tab>Reference T1 Wikidata:Q42<tab>Mara` links it;
`E R A M * #` are events, relations, attributes, …).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, Problem, register
from crossner_core.formats.source import Data, after_line, clip, content_of, head_of, refused
from crossner_core.formats.standoff import (
    Mark,
    StandoffOptions,
    Text,
    count_links,
    entities_of,
    fitting_type,
    pieces_of,
    read_text,
    text_of,
    text_portions,
)
from crossner_core.schema import NIL, is_entity

CONFIGURATION = "annotation.conf"
_ENTITY = re.compile(r"(T\S+)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
_OTHERS = {
    "E": "events", "R": "relations", "A": "attributes", "M": "attributes",
    "*": "equivalences", "#": "notes",
}  # fmt: skip
_LINK = re.compile(r"N\S*\tReference (T\S+) ([^\s:]+):(\S+)(?:\t.*)?")
_BASES = {
    "DBpedia": "http://dbpedia.org/resource/",
    "Wikidata": "http://www.wikidata.org/entity/",
}
"""Where the resources of a database are, by the name that brat's tools.conf would give it."""
_ADDRESS, _NORMALIZATIONS = "URI", "normalizations"
_NO_NAME = re.compile(r"\s")


@dataclass(frozen=True)
class BratOptions(StandoffOptions):
    """How to read brat's files."""

    check_surface: bool = field(
        default=True, metadata={"doc": "Refuse an entity whose text in the annotations is not the one at its offsets."}
    )


@dataclass(frozen=True)
class BratLayout(Layout):
    """How a document was laid out, and the configuration of its collection."""

    configuration: str = ""


def read(files: Sequence[InputFile], options: BratOptions) -> Iterator[Parsed]:
    """Read each text with its annotations; a text without, or with no entity, is not annotated."""
    data = dict(files)
    for name in data:
        path = PurePosixPath(name)
        if path.suffix not in (".ann", ".txt") or (path.suffix == ".ann" and str(path.with_suffix(".txt")) in data):
            continue
        stem = str(path.with_suffix(""))
        if path.suffix == ".ann":
            raise refused(name, 1, f"its text {path.stem}.txt is missing; give both files of each document")
        yield from _document(stem, data[name], data.get(f"{stem}.ann", b""), _configuration(path, data), options)


def _configuration(path: PurePosixPath, data: Mapping[str, Data]) -> str:
    """Return the configuration of a document's folder, or of one above it."""
    matched = next((name for folder in path.parents if (name := str(folder / CONFIGURATION)) in data), None)
    return content_of(data[matched]).decode("utf-8", "replace") if matched else ""


def _document(stem: str, data: Data, beside: Data, configuration: str, options: BratOptions) -> Iterator[Parsed]:
    source = read_text(data, f"{stem}.txt")
    file, losses, problems = f"{stem}.ann", Counter[str](), list[Problem]()
    entities = dict[str, Mark]()
    linked = dict[str, str]()
    for number, line in _annotations(beside, file):
        if not line.strip():
            continue
        if (link := _LINK.fullmatch(line)) is not None:
            entity = NIL if link[2] == link[3] == NIL else _BASES.get(link[2], "") + link[3]
            fits = link[1] not in linked and is_entity(entity)
            losses[_NORMALIZATIONS] += not fits
            linked |= {link[1]: entity} if fits else {}
            continue
        if not line.startswith("T"):
            losses[_NORMALIZATIONS if line[0] == "N" else _OTHERS.get(line[0], "lines of an unknown kind")] += 1
            continue
        if (matched := _ENTITY.fullmatch(line)) is None:
            problems.append(Problem(file, number, f"{clip(line)} is no entity: T1, tab, TYPE START END, tab, text."))
            continue
        id, type, offsets, surface = matched.groups()
        pieces = tuple((int(start), int(end)) for start, end in (pair.split() for pair in offsets.split(";")))
        inside = " ".join(source.text[start:end] for start, end in pieces)
        fault = ""
        if options.check_surface and surface is not None and inside.split() != surface.split():
            fault = f"{type} at {offsets} is {clip(surface)} here and {clip(inside)} in the text: it has changed since."
        entities[f"{id} {number}" if id in entities else id] = Mark(pieces, sys.intern(type), number, fault)
    losses[_NORMALIZATIONS] += len(linked.keys() - entities.keys())
    marks = [replace(mark, entity=linked[id]) if id in linked else mark for id, mark in entities.items()]
    layout = BratLayout(source.newline, source.bom, configuration=configuration)
    text = Text(stem, source.text)
    del source, entities
    yield from pieces_of(text, marks, options, layout, file=file, losses=losses, problems=problems)


def _annotations(data: Data, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file of annotations with their numbers, none of an empty one."""
    if head_of(data, 1) and content_of(data).strip():
        for source in text_portions(data, name, after_line):
            yield from ((source.number(index), line) for index, line in enumerate(source.lines))


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write each document's text and entities, and one configuration: theirs, or the list of types."""
    configurations = dict.fromkeys(getattr(document.layout, "configuration", "") for document in documents)
    types: dict[str, None] = {}
    for document in documents:
        text, starts = text_of(document)
        lines, links = list[str](), list[str]()
        for number, (start, end, type, entity) in enumerate(
            sorted(entities_of(document, starts), key=lambda each: each[:3]), 1
        ):
            name = fitting_type(type, _NO_NAME, losses)
            types[name] = None
            surface = " ".join(text[start:end].splitlines())
            pieces = ";".join(f"{low} {high}" for low, high in _lines(text, start, end))
            lines.append(f"T{number}\t{name} {pieces}\t{surface}\n")
            if entity is not None:
                links.append(f"N{len(links) + 1}\tReference T{number} {_reference(entity)}\t{surface}\n")
        count_links(document, losses)
        mark = "\ufeff" if document.layout.bom else ""
        yield f"{document.name}.txt", (mark + text).encode()
        yield f"{document.name}.ann", "".join([*lines, *links]).encode()
    own = [text for text in configurations if text]
    listed = "[entities]\n" + "".join(f"{name}\n" for name in types) + "[relations]\n\n[events]\n\n[attributes]\n"
    yield CONFIGURATION, (own[0] if len(own) == 1 else listed).encode()


def _reference(entity: str) -> str:
    """Return a resource as brat names it, database and id; an address of no database that we know as a whole."""
    if entity == NIL:
        return f"{NIL}:{NIL}"
    known = next((name for name, base in _BASES.items() if entity.startswith(base) and entity != base), None)
    return f"{_ADDRESS}:{entity}" if known is None else f"{known}:{entity.removeprefix(_BASES[known])}"


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a piece for each line of an entity, as brat's own editor writes one that crosses a line's end."""
    for line in text[start:end].splitlines(keepends=True):
        stripped = line.rstrip("\r\n")
        if stripped:
            yield start, start + len(stripped)
        start += len(line)


register(
    Format(
        "brat",
        "brat standoff",
        (".ann",),
        read,
        write,
        options_type=BratOptions,
        layout_type=BratLayout,
        by_document=True,
        annotates_documents=True,
        holds_entities=True,
        bytes_per_second=200_000,
        beside=(".txt", CONFIGURATION),
        example="T1\tperson 0 9\tMara Vell",
    )
)
