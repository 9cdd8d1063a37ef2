"""GATE XML: a text with numbered nodes, and annotations between two of them, in sets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, register
from crossner_core.formats.source import Data, refused
from crossner_core.formats.standoff import (
    Entity,
    Mark,
    StandoffOptions,
    Text,
    count_links,
    entities_of,
    pieces_of,
    resource,
    stem_of,
    text_of,
)
from crossner_core.formats.xml import elements, fit_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SEGMENTS = ("Sentence", "Token", "SpaceToken", "Split", "Paragraph", "paragraph", "Lookup", "DEFAULT_TOKEN", "Unknown")
_NAMED = "NamedEntity"
_RESOURCE = "inst"  # the feature by which GATE's linkers and gazetteers name a resource
_MARKUP = "Original markups"


@dataclass(frozen=True)
class GateOptions(StandoffOptions):
    """How to read a document of GATE."""

    annotation_set: str | None = field(
        default=None,
        metadata={"doc": "Annotation set to read, empty for GATE's default one; else the one with entities."},
    )


@dataclass(frozen=True)
class GateLayout(Layout):
    """The annotation set that entities came from."""

    annotation_set: str = ""


@dataclass(frozen=True, slots=True)
class _Annotation:
    type: str
    start: str
    end: str
    value: str
    resource: str


def read(files: Sequence[InputFile], options: GateOptions) -> Iterator[Parsed]:
    """Read each document; entities are annotations that are no tokens, sentences or lookups."""
    for name, data in files:
        text, nodes, sets = _parts(data, name)
        chosen = _chosen(sets, options, name)
        losses: Counter[str] = Counter()
        for key, marked in sets.items():
            kind = "marks of the original markup" if key == _MARKUP else "annotations of other sets"
            losses[kind] += len(marked) if key != chosen else 0
        marks, given = [], {"Sentence": list[tuple[int, int]](), "Token": list[tuple[int, int]]()}
        for each in sets.get(chosen, ()):
            try:
                start, end = nodes[each.start], nodes[each.end]
            except KeyError as error:
                raise refused(name, 1, f"{each.type} stands at node {error}, which the text does not have") from error
            if each.type in given:
                given[each.type].append((start, end))
            elif each.type in _SEGMENTS:
                losses["annotations of other kinds"] += each.type not in ("SpaceToken", "DEFAULT_TOKEN")
            else:
                marks.append(Mark(((start, end),), each.value or each.type, entity=resource(each.resource, losses)))
        sentences, tokens = (sorted(given[kind]) or None for kind in ("Sentence", "Token"))
        held = Text(stem_of(name), text, sentences, tokens)
        del nodes, sets, given
        yield from pieces_of(held, marks, options, GateLayout(annotation_set=chosen), file=name, losses=+losses)


def _parts(data: Data, name: str) -> tuple[str, dict[str, int], dict[str, list[_Annotation]]]:
    """Return the text, the place of each node in it, and the annotations of each set."""
    text: list[str] = []
    nodes: dict[str, int] = {}
    sets: dict[str, list[_Annotation]] = {}
    root, current = "", ""
    for event, element in elements(data, name):
        root = root or element.tag
        if event == "start":
            if element.tag == "AnnotationSet":
                current = element.get("Name", "")
                sets.setdefault(current, [])
            continue
        if element.tag == "TextWithNodes":
            offset = len(element.text or "")
            text.append(element.text or "")
            for node in element:
                nodes[node.get("id", "")] = offset
                offset += len(node.tail or "")
                text.append(node.tail or "")
            element.clear()
        elif element.tag == "Annotation":
            sets.setdefault(current, []).append(_annotation(element))
            element.clear()
    if root != "GateDocument":
        raise refused(name, 1, f"the XML's root is {root}, and GateDocument is expected")
    return "".join(text), nodes, sets


def _annotation(element: Element) -> _Annotation:
    features = {each.findtext("Name", ""): each.findtext("Value", "") for each in element.iter("Feature")}
    type = element.get("Type", "")
    value = features.get("value", "") if type == _NAMED else ""
    return _Annotation(
        type, element.get("StartNode", ""), element.get("EndNode", ""), value, features.get(_RESOURCE, "")
    )


def _chosen(sets: dict[str, list[_Annotation]], options: GateOptions, name: str) -> str:
    listed = ", ".join(key or "the default one" for key in sets) or "none"
    if options.annotation_set is not None:
        if options.annotation_set not in sets:
            raise refused(name, 1, f"there is no annotation set {options.annotation_set!r}; there are {listed}")
        return options.annotation_set
    useful = [
        key for key, marked in sets.items() if key != _MARKUP and any(mark.type not in _SEGMENTS for mark in marked)
    ]
    if len(useful) > 1 and "" not in useful:
        raise refused(name, 1, f"entities are in the sets {', '.join(useful)}; choose one by the option annotation_set")
    return "" if "" in useful or not useful else useful[0]


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write each document with its sentences, tokens and entities as annotations of their types."""
    for document in documents:
        count_links(document, losses)
        text, starts = text_of(document)
        marked: list[Entity] = []
        for record, start in zip(document.sentences, starts, strict=True):
            marked.append((start, start + len(record.sentence.text), "Sentence", None))
            marked += [(start + token.start, start + token.end, "Token", None) for token in record.sentence.tokens]
        entities = list(entities_of(document, starts))
        yield f"{document.name}.xml", _xml(document, fit_xml(text, losses), marked, entities).encode()


def _xml(document: Parsed, text: str, segments: Sequence[Entity], entities: Sequence[Entity]) -> str:
    places = sorted({place for start, end, *_ in (*segments, *entities) for place in (start, end)})
    pieces, offset = list[str](), 0
    for place in places:
        pieces.append(f'{_text(text[offset:place])}<Node id="{place}"/>')
        offset = place
    chosen = document.layout.annotation_set if isinstance(document.layout, GateLayout) else ""
    named = f" Name={quoteattr(chosen)}" if chosen else ""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>', '<GateDocument version="3">', "<GateDocumentFeatures/>",
        f"<TextWithNodes>{''.join(pieces)}{_text(text[offset:])}</TextWithNodes>", f"<AnnotationSet{named}>",
    ]  # fmt: skip
    for number, (start, end, type, entity) in enumerate((*segments, *entities)):
        is_segment = number < len(segments)
        own = is_segment or not (type in _SEGMENTS or type == _NAMED or not type.isidentifier())
        begin = f'<Annotation Id="{number}" Type={quoteattr(type if own else _NAMED)}'
        begin += f' StartNode="{start}" EndNode="{end}">'
        features = [] if own else [("value", type)]
        features += [(_RESOURCE, entity)] if entity is not None else []
        lines.append(f"{begin}{''.join(_feature(*pair) for pair in features)}</Annotation>")
    return "\n".join([*lines, "</AnnotationSet>", "</GateDocument>", ""])


def _feature(name: str, value: str) -> str:
    text = (
        '<Feature><Name className="java.lang.String">%s</Name><Value className="java.lang.String">%s</Value></Feature>'
    )
    return text % (escape(name), _text(value))


def _text(text: str) -> str:
    """Escape text; a carriage return is written so that it comes back."""
    return escape(text, {"\r": "&#13;"})


register(
    Format(
        "gate",
        "GATE XML",
        (".xml",),
        read,
        write,
        options_type=GateOptions,
        layout_type=GateLayout,
        by_document=True,
        holds_entities=True,
        content=re.compile(rb"<GateDocument\b"),
        example='<TextWithNodes><Node id="0"/>Mara Vell<Node id="9"/> sang.</TextWithNodes>',
    )
)
