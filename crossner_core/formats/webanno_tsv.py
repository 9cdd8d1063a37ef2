"""WebAnno TSV 3.2 and 3.3, INCEpTION's own table: tokens with UTF-16 offsets, a column for each feature of a layer.

In a value `_` is none and `*` an annotation without a value; `|` stacks annotations, and `[2]` says which lines belong
to one. Source: INCEpTION's user guide, appendix on WebAnno TSV 3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from crossner_core.formats.base import ENTITY_LINKS, Format, InputFile, Layout, NamedFile, Parsed, Problem, register
from crossner_core.formats.layers import by_person
from crossner_core.formats.source import Source, clip, refused
from crossner_core.formats.standoff import (
    Mark,
    Range,
    StandoffOptions,
    Text,
    Utf16,
    count_links,
    pieces_of,
    read_text,
    resource,
    stem_of,
    text_of,
)

IDENTIFIER = "identifier"
"""The feature of named entities that holds a resource's address."""
NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
OF_GRAMMAR = re.compile(r"de\.tudarmstadt\.ukp\.dkpro\.core\.api\.(segmentation|lexmorph|syntax|coref|semantics)\.")
_HEADER = re.compile(r"#FORMAT=WebAnno TSV (\S+)")
_UNIT = re.compile(r"(\d+)-(\d+)(?:\.(\d+))?")
_RANGE = re.compile(r"(\d+)-(\d+)")
_NUMBER = re.compile(r"(?<!\\)\[(\d+)\]$")
_STACK = re.compile(r"(?<!\\)\|")
_NONE, _NO_VALUE = "_", "*"
_KINDS = {"SP": "annotations of other layers", "RL": "relations", "CH": "chain links"}
_OF_VALUES = {letter: f"\\{letter}" for letter in "\\[]|_;*"} | {"->": "\\->", "\t": "\\t", "\n": "\\n"}
_OF_TEXT = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\b": "\\b"}
_OF_TEXT |= {chr(code): f"\\{chr(code)}" for code in range(32) if not 7 < code < 14}


@dataclass(frozen=True)
class LayerOptions(StandoffOptions):
    """How to read annotation that comes in layers."""

    layer: str = field(
        default="", metadata={"doc": "Layer whose spans are entities, such as custom.Span. Default: named entities."}
    )
    feature: str = field(default="", metadata={"doc": "Feature of the layer that is the entity type. Default: value."})


@dataclass(frozen=True)
class LayerLayout(Layout):
    """The layer and feature that entities came from."""

    layer: str = NAMED_ENTITY
    feature: str = "value"


@dataclass
class _Layer:
    """A layer of the header: its kind (SP, RL, CH), name and features, and the first of its columns."""

    kind: str
    name: str
    features: list[str]
    first: int


@dataclass
class _Entity:
    """An annotation of the layer: its type, its cells, the line where it begins, and its identifier."""

    type: str
    cells: list[Range]
    line: int
    identifier: str


@dataclass
class _Table:
    """What stands in a file, in UTF-16 units: sentences (text, place), tokens, and cells by layer."""

    sentences: list[tuple[str, int]] = field(default_factory=list)
    tokens: list[Range] = field(default_factory=list)
    entities: dict[tuple[int, str], _Entity] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)


def read(files: Sequence[InputFile], options: LayerOptions) -> Iterator[Parsed]:
    """Read each file as a document; what stood between its sentences, which it does not hold, becomes white space."""
    for name, data in files:
        source = read_text(data, name)
        problems: list[Problem] = []
        layers, first = _layers(source)
        chosen = choose_layer({layer.name: layer.features for layer in layers if layer.kind == "SP"}, options, name)
        layout = LayerLayout(source.newline, source.bom, layer=chosen[0], feature=chosen[1])
        table = _table(source, first, layers, chosen, problems)
        text, places = _text(table.sentences)
        units = Utf16.of(text)

        def points(pair: Range, units: Utf16 = units) -> Range:
            return units.points(pair[0]), units.points(pair[1])

        marks = [
            Mark(
                (points((min(low for low, _ in each.cells), max(high for _, high in each.cells))),),
                each.type,
                each.line,
                entity=resource(each.identifier, table.others),
            )
            for each in table.entities.values()
        ]
        stem = stem_of(name)
        held = Text(stem, text, [points(place) for place in places], [points(pair) for pair in table.tokens])
        del source, places
        yield from pieces_of(held, marks, options, layout, file=name, losses=table.others, problems=problems)


def choose_layer(spans: Mapping[str, Sequence[str]], options: LayerOptions, name: str) -> tuple[str, str]:
    """Return the layer and the feature that entities come from; raise BadInput where that is not to be seen.

    `spans` are the features of each layer of spans. A layer without features gives its own name as the type.
    """
    layer = options.layer
    listed = ", ".join(spans) or "none"
    if layer and layer not in spans:
        raise refused(name, 1, f"there is no layer {layer!r} of spans; those here are {listed}")
    if not layer:
        own = [other for other in spans if not OF_GRAMMAR.match(other) and not _has_slots(spans[other])]
        layer = NAMED_ENTITY if NAMED_ENTITY in spans else own[0] if len(own) == 1 else ""
        if not layer and own:
            raise refused(name, 1, f"entities could be in the layers {', '.join(own)}; choose one by the option layer")
    features = [] if _has_slots(spans.get(layer, ())) else spans.get(layer, ())
    if options.feature and options.feature not in features:
        raise refused(
            name, 1, f"{layer or 'no layer'} has no feature {options.feature!r}, but {', '.join(features) or 'none'}"
        )
    usual = "value" if "value" in features else features[0] if len(features) == 1 else ""
    if layer and features and not (options.feature or usual):
        raise refused(name, 1, f"{layer} has the features {', '.join(features)}; choose one by the option feature")
    return layer, options.feature or usual


def _has_slots(features: Sequence[str]) -> bool:
    return any(name.startswith("ROLE_") for name in features)


def short_name(layer: str) -> str:
    """Return the last part of a layer's name: the type of what has no value."""
    return layer.rpartition(".")[2]


def _layers(source: Source) -> tuple[list[_Layer], int]:
    """Read the header; return the layers and the line after it."""
    header = _HEADER.fullmatch(source.lines[0].strip()) if source.lines else None
    if header is None or header[1] not in ("3.2", "3.3"):
        seen = f"version {clip(header[1])}" if header else f"the line {clip(source.lines[0] if source.lines else '')}"
        raise refused(source.name, 1, f"{seen}; read are WebAnno TSV 3.2 and 3.3, which begin #FORMAT=WebAnno TSV 3.3")
    layers, column = list[_Layer](), 3
    for number, line in enumerate(source.lines[1:], 1):
        kind, _, rest = line.removeprefix("#T_").partition("=")
        if not line.startswith("#T_") or kind not in _KINDS:
            return layers, number
        name, *features = rest.split("|")
        # A slot takes two columns, its role and the type of its target; a layer without features takes one.
        layers.append(_Layer(kind, name, [name for name in features if name], column))
        column += max(len(layers[-1].features), 1)
    return layers, len(source.lines)


def _table(
    source: Source, first: int, layers: Sequence[_Layer], chosen: tuple[str, str], problems: list[Problem]
) -> _Table:
    table, texts, opened = _Table(), list[str](), False
    layer = next((candidate for candidate in layers if candidate.kind == "SP" and candidate.name == chosen[0]), None)
    others = [candidate for candidate in layers if candidate is not layer]
    column = layer.first + (layer.features.index(chosen[1]) if layer.features else 0) if layer else 0
    names = layer.first + layer.features.index(IDENTIFIER) if layer and IDENTIFIER in layer.features else column
    counted: set[tuple[str, str]] = set()
    for index in range(first, len(source.lines)):
        line = source.lines[index]
        if line.startswith("#Text="):
            texts = [*([] if opened else texts), _unescape(line.removeprefix("#Text="), _OF_TEXT)]
            opened = False
            continue
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t")
        unit, place = _UNIT.fullmatch(cells[0]), _RANGE.fullmatch(cells[1]) if len(cells) > 2 else None
        if unit is None or place is None:
            problems.append(Problem(source.name, index + 1, f"{clip(line)} is no line of a token: 1-1, 0-4, its text."))
            continue
        here = int(place[1]), int(place[2])
        if not opened:
            text, opened = "\n".join(texts), True
            position = max(text.find(cells[2]), text.find(_unescape(cells[2], _OF_TEXT)))
            if position < 0 or not texts:
                problems.append(
                    Problem(source.name, index + 1, f"the token {clip(cells[2])} is not in {clip(text)} above it.")
                )
                continue
            table.sentences.append((text, here[0] - Utf16.of(text).units(position)))
        if unit[3] is None:
            table.tokens.append(here)
        if layer is not None and column < len(cells):
            identifiers = _STACK.split(cells[names]) if column != names < len(cells) else []
            for value, identifier in zip_longest(_STACK.split(cells[column]), identifiers, fillvalue=_NONE):
                _add(table, value, identifier, here, index + 1, short_name(layer.name))
        for other in others:
            for value in _STACK.split(cells[other.first]) if other.first < len(cells) else ():
                number = _NUMBER.search(value)
                mark = (other.name, number[1] if number else f"line {index}")
                if value != _NONE and mark not in counted:
                    counted.add(mark)
                    table.others[_KINDS[other.kind]] += 1
    return table


def _add(table: _Table, value: str, identifier: str, here: Range, line: int, nameless: str) -> None:
    if value in (_NONE, ""):
        return
    number = _NUMBER.search(value)
    bare, named = _NUMBER.sub("", value), _NUMBER.sub("", identifier)
    key = (int(number[1]), "") if number else (-line, str(len(table.entities)))
    type = nameless if bare == _NO_VALUE else _unescape(bare, _OF_VALUES)
    named = "" if named in (_NONE, _NO_VALUE) else _unescape(named, _OF_VALUES)
    table.entities.setdefault(key, _Entity(type, [], line, named)).cells.append(here)


def _text(sentences: Sequence[tuple[str, int]]) -> tuple[str, list[Range]]:
    """Return the document's text, and where its sentences are in UTF-16 units."""
    parts, places, position = list[str](), list[Range](), 0
    for text, start in sentences:
        gap = max(start - position, 0)
        parts += [("\n" + " " * (gap - 1)) if gap and position else " " * gap, text]
        position += gap
        size = len(text.encode("utf-16-le", "surrogatepass")) // 2
        places.append((position, position + size))
        position += size
    return "".join(parts), places


def _unescape(text: str, table: Mapping[str, str]) -> str:
    if "\\" not in text:
        return text
    back = {escaped[1:]: plain for plain, escaped in table.items()}
    pattern = "|".join(re.escape(name) for name in sorted(back, key=len, reverse=True))
    return re.sub(rf"\\({pattern})", lambda match: back[match[1]], text, flags=re.DOTALL)


def _escape(text: str, table: Mapping[str, str]) -> str:
    pattern = "|".join(re.escape(name) for name in sorted(table, key=len, reverse=True))
    return re.sub(pattern, lambda match: table[match[0]], text)


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write each document as a table of its own, with layers one for each person."""
    for document in by_person(documents, losses):
        count_links(document, losses)
        mark = "\ufeff" if document.layout.bom else ""
        yield f"{document.name}.tsv", (mark + "\n".join(_lines(document, losses)) + "\n").encode()


def _lines(document: Parsed, losses: Counter[str]) -> Iterator[str]:
    layout = document.layout
    layer = layout.layer if isinstance(layout, LayerLayout) and layout.layer else NAMED_ENTITY
    feature = layout.feature if isinstance(layout, LayerLayout) and layout.layer else "value"
    has_identifier = layer == NAMED_ENTITY and feature == "value"
    yield from ("#FORMAT=WebAnno TSV 3.3", f"#T_SP={layer}|{f'{IDENTIFIER}|' * has_identifier}{feature}", "")
    text, starts = text_of(document)
    units, stack = Utf16.of(text), 0
    for number, (record, start) in enumerate(zip(document.sentences, starts, strict=True), 1):
        sentence = record.sentence
        yield ""
        yield from (f"#Text={_escape(line, _OF_TEXT)}" for line in sentence.text.split("\n"))
        cells = [_NONE] * len(sentence.tokens)
        names = [_NONE] * len(sentence.tokens)
        for span in record.spans or ():
            type = document.layout.outer_type(span.type)
            value = _NO_VALUE if not feature else _escape(type, _OF_VALUES)
            name = _NO_VALUE if span.entity is None else _escape(span.entity, _OF_VALUES)
            losses[ENTITY_LINKS] += span.entity is not None and not has_identifier
            several = span.end - span.start > 1
            stack += several
            for index in range(span.start, span.end):
                cells[index], names[index] = (text + (f"[{stack}]" if several else "") for text in (value, name))
        for index, (token, cell, name) in enumerate(zip(sentence.tokens, cells, names, strict=True), 1):
            place = f"{units.units(start + token.start)}-{units.units(start + token.end)}"
            form = _escape(sentence.text[token.start : token.end], _OF_TEXT)
            values = [name, cell] if has_identifier else [cell]
            yield "\t".join([f"{number}-{index}", place, form, *values, ""])


register(
    Format(
        "webanno-tsv",
        "WebAnno TSV 3 (INCEpTION)",
        (".tsv",),
        read,
        write,
        options_type=LayerOptions,
        layout_type=LayerLayout,
        by_document=True,
        annotates_documents=True,
        holds_entities=True,
        holds_layers=True,
        content=re.compile(rb"\A(?:\xef\xbb\xbf)?#FORMAT=WebAnno TSV "),
        example="#FORMAT=WebAnno TSV 3.3",
    )
)
