"""GATE XML: a text with numbered nodes, and annotations between two of them, in sets."""

from __future__ import annotations

import bisect
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, Record, register
from crossner_core.formats.layers import SUGGESTIONS, count_unsaid, layer_names, proposals, utc, with_works, works_of
from crossner_core.formats.source import Data, refused
from crossner_core.formats.standoff import (
    Entity,
    Mark,
    Range,
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
_BY, _TIME, _NOBODY = ".annotator", ".time", "imported"  # features of a sentence: who did it in a layer, and when
_Marked = tuple[int, int, str, Mapping[str, str]]  # start, end, type, features
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
    layers: tuple[str, ...]


def read(files: Sequence[InputFile], options: GateOptions) -> Iterator[Parsed]:
    """Read each document; entities are annotations that are no tokens, sentences or lookups."""
    for name, data in files:
        text, nodes, sets = _parts(data, name)
        chosen = _chosen(sets, options, name)
        losses: Counter[str] = Counter()
        segmented = next((key for key in (chosen, "") if _has_segments(sets.get(key, ()))), chosen)
        for key, marked in sets.items():
            kind = "marks of the original markup" if key == _MARKUP else "annotations of other sets"
            used = ("Sentence", "Token") if key == segmented else ()
            losses[kind] += sum(each.type not in used for each in marked) if key != chosen else 0
        marks, given = [], {"Sentence": list[Range](), "Token": list[Range]()}
        done = list[int]()  # where sentences begin that the chosen set has as a layer of ours
        for key in dict.fromkeys((chosen, segmented)):
            for each in sets.get(key, ()):
                if key != chosen and each.type not in given:
                    continue
                try:
                    start, end = nodes[each.start], nodes[each.end]
                except KeyError as error:
                    reason = f"{each.type} stands at node {error}, which the text does not have"
                    raise refused(name, 1, reason) from error
                if each.type in given:
                    given[each.type].append((start, end))
                    if chosen in each.layers:
                        done.append(start)
                elif each.type in _SEGMENTS:
                    losses["annotations of other kinds"] += each.type not in ("SpaceToken", "DEFAULT_TOKEN")
                else:
                    marks.append(Mark(((start, end),), each.value or each.type, entity=resource(each.resource, losses)))
        sentences, tokens = (sorted(given[kind]) or None for kind in ("Sentence", "Token"))
        held = Text(stem_of(name), text, sentences, tokens)
        is_layer = any(each.layers for marked in sets.values() for each in marked) and chosen != ""
        del nodes, sets, given
        made = pieces_of(
            held, marks, options, GateLayout(annotation_set=chosen), file=name, losses=+losses,
            annotated=True if is_layer else None,
        )  # fmt: skip
        yield from (_only_done(piece, sorted(done)) for piece in made) if is_layer else made


def _has_segments(marked: Sequence[_Annotation]) -> bool:
    return any(each.type == "Sentence" for each in marked)


def _only_done(piece: Parsed, done: Sequence[int]) -> Parsed:
    """Return a piece in which only the sentences are annotated that begin, or hold a beginning, at these places."""
    records = []
    for record in piece.sentences:
        start = record.sentence.offset or 0
        first, after = (bisect.bisect_left(done, place) for place in (start, start + len(record.sentence.text)))
        records.append(record if first < after else replace(record, spans=None))
    return replace(piece, sentences=tuple(records))


def _parts(data: Data, name: str) -> tuple[str, dict[str, int], dict[str, list[_Annotation]]]:
    """Return the text, the place of each node in it, and the annotations of each set."""
    text: list[str] = []
    nodes: dict[str, int] = {}
    sets: dict[str, list[_Annotation]] = {}
    root, current, length = "", "", 0
    holder: Element | list[Element] = []  # what nodes or annotations are in; forgets those that were read
    whole = before = None  # the text's element, and its last node: what follows a node is there once the next ends
    for event, element in elements(data, name):
        root = root or element.tag
        if event == "start":
            if element.tag == "TextWithNodes":
                holder = whole = element
            elif element.tag == "AnnotationSet":
                holder, current = element, element.get("Name", "")
                sets.setdefault(current, [])
            continue
        if element.tag == "Annotation":
            sets.setdefault(current, []).append(_annotation(element))
            del holder[:]
        elif whole is not None and element.tag in ("Node", "TextWithNodes"):
            piece = (whole.text if before is None else before.tail) or ""
            text.append(piece)
            length += len(piece)
            if element.tag == "Node":
                nodes[sys.intern(element.get("id", ""))] = length
                before = element
                del holder[:]
            else:
                whole = before = None
    if root != "GateDocument":
        raise refused(name, 1, f"the XML's root is {root}, and GateDocument is expected")
    return "".join(text), nodes, sets


def _annotation(element: Element) -> _Annotation:
    features = {each.findtext("Name", ""): each.findtext("Value", "") for each in element.iter("Feature")}
    type, start, end = (sys.intern(element.get(name, "")) for name in ("Type", "StartNode", "EndNode"))
    value = features.get("value", "") if type == _NAMED else ""
    return _Annotation(
        type, start, end, value, features.get(_RESOURCE, ""),
        tuple(name.removesuffix(_BY) for name in features if type == "Sentence" and name.endswith(_BY)),
    )  # fmt: skip


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
    """Write each document with its sentences, tokens and entities as annotations of their types, each layer a set.

    Who did a sentence in a layer, and when, are features of the sentence.
    """
    layers = dict.fromkeys(name for document in documents for name in layer_names(document))
    for document in documents:
        count_links(document, losses)
        text, starts = text_of(document)
        segments: list[_Marked] = []
        for record, start in zip(document.sentences, starts, strict=True):
            segments.append((start, start + len(record.sentence.text), "Sentence", _of_sentence(record)))
            segments += [(start + token.start, start + token.end, "Token", {}) for token in record.sentence.tokens]
        own = document.layout.annotation_set if isinstance(document.layout, GateLayout) else ""
        sets = {own: [*segments, *map(_marked, entities_of(document, starts))]}
        if layers:
            count_unsaid(works_of(document, (document.sentences[0].layer,)), losses)
        for name in (name for name in layers if name != document.sentences[0].layer):
            sets[name if name != own else f"{name}-layer"] = _layer(document, name, starts)
        yield f"{document.name}.xml", _xml(fit_xml(text, losses), sets).encode()


def _of_sentence(record: Record) -> dict[str, str]:
    features: dict[str, str] = {}
    for name, work in record.layers.items():
        features |= {f"{name}{_BY}": work.by or _NOBODY}
        features |= {f"{name}{_TIME}": utc(work.when)} if work.when is not None else {}
    return features


def _layer(document: Parsed, name: str, starts: Sequence[int]) -> list[_Marked]:
    if name != SUGGESTIONS:
        works = works_of(document, (name,))
        return [_marked(entity) for entity in entities_of(with_works(document, works), starts)]
    return [
        _marked(entity, source=source, score=f"{score:.6g}") for entity, source, score in proposals(document, starts)
    ]


def _marked(entity: Entity, **features: str) -> _Marked:
    start, end, type, linked = entity
    features |= {_RESOURCE: linked} if linked is not None else {}
    if type in _SEGMENTS or type == _NAMED or not type.isidentifier():
        return start, end, _NAMED, {"value": type} | features
    return start, end, type, features


def _xml(text: str, sets: Mapping[str, Sequence[_Marked]]) -> str:
    places = sorted({place for marked in sets.values() for start, end, *_ in marked for place in (start, end)})
    pieces, offset = list[str](), 0
    for place in places:
        pieces.append(f'{_text(text[offset:place])}<Node id="{place}"/>')
        offset = place
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>', '<GateDocument version="3">', "<GateDocumentFeatures/>",
        f"<TextWithNodes>{''.join(pieces)}{_text(text[offset:])}</TextWithNodes>",
    ]  # fmt: skip
    number = 0
    for name, marked in sets.items():
        lines.append(f"<AnnotationSet{f' Name={quoteattr(name)}' if name else ''}>")
        for start, end, type, features in marked:
            begin = f'<Annotation Id="{number}" Type={quoteattr(type)} StartNode="{start}" EndNode="{end}">'
            lines.append(f"{begin}{''.join(_feature(*pair) for pair in features.items())}</Annotation>")
            number += 1
        lines.append("</AnnotationSet>")
    return "\n".join([*lines, "</GateDocument>", ""])


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
        annotates_documents=True,
        holds_entities=True,
        holds_layers=True,
        content=re.compile(rb"<GateDocument\b"),
        example='<TextWithNodes><Node id="0"/>Mara Vell<Node id="9"/> sang.</TextWithNodes>',
    )
)
