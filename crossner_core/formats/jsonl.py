"""JSON lines: one object per line with text, tokens, links, gold; anything else is kept as metadata.

Layers besides the gold stand under `layers`, by name: `spans`, who did it (`by`) and when (`at`). Other tools' objects
are read, too (`json_layouts`). They are written back unchanged unless their spans have changed;
then they are written in our keys.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePath
from typing import Any, NoReturn

from crossner_core.errors import BadInput, InvalidConfig, WorkbenchError
from crossner_core.formats.base import Layout, Notes, ReadOptions, Record, join_pieces, notes_of, register
from crossner_core.formats.json_layouts import in_our_keys, tags_of
from crossner_core.formats.layers import NAMES, utc
from crossner_core.formats.source import MOST_PROBLEMS, Source, after_line, clip
from crossner_core.formats.text import text_format
from crossner_core.schema import (
    LAYOUT_KEY,
    OUR_KEYS,
    WHOLE_TOKENS,
    Link,
    Sentence,
    SentenceLayout,
    Span,
    Token,
    check_content,
    check_spans,
    is_entity,
)
from crossner_core.tags import SCHEMES, detect_scheme, is_tag
from crossner_core.tokenize import tokenize, tokenize_at_most

_LAYERS = "layers"
_STYLES = tuple((ascii, item, key) for ascii in (False, True) for item in (", ", ",") for key in (": ", ":"))


@dataclass(frozen=True)
class JsonlOptions(ReadOptions):
    """How to read JSON lines."""

    layer: str = field(
        default="", metadata={"doc": "Layer to read as the annotation, such as first, where lines have layers."}
    )


@dataclass(frozen=True)
class JsonlLayout(Layout):
    """How the objects were written; `surface`: each span carries its text; `scheme`: that of the tags, if any."""

    ensure_ascii: bool = False
    item_separator: str = ", "
    key_separator: str = ": "
    surface: bool = False
    scheme: str = "IOB2"
    lenient: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.ensure_ascii, self.item_separator, self.key_separator) not in _STYLES or self.scheme not in SCHEMES:
            raise InvalidConfig(
                f"JSON with {self.item_separator!r} and {self.key_separator!r}, tags as {self.scheme!r}; known are "
                f"', ' or ',', ': ' or ':', and {', '.join(SCHEMES)}."
            )


@dataclass(frozen=True)
class JsonlNotes(Notes):
    """The order of a line's keys, and the line where these do not give it."""

    keys: list[str] = field(default_factory=list)
    raw: str = ""


@dataclass
class _SoFar:
    """What is known of a file: its tags' scheme, its layout once an object was good, and the lines of its ids.

    An id is kept as its hash: a large file has millions.
    """

    scheme: str
    layout: JsonlLayout | None = None
    number: int = 0
    seen: dict[int, int] = field(default_factory=dict)


def read(source: Source, options: JsonlOptions) -> tuple[list[Record], JsonlLayout]:
    """Read one object per line; a sentence is annotated where it has `gold`, an empty list included."""
    prefix = options.id_prefix or PurePath(source.name).stem
    known: _SoFar = source.so_far
    records: list[Record] = []
    written = 0
    for index, line in enumerate(source.lines):
        if not line.strip():
            continue
        known.number += 1
        before, written = source.text[written : source.starts[index]], source.end(index)
        if index in source.bad_lines:
            continue
        try:
            values = _load(line)
            record = _record(values, f"{prefix}-{known.number}", options, known.scheme, source.name)
            key = hash(record.sentence.id)
            if key in known.seen:
                raise BadInput(f"id {clip(record.sentence.id)} is already on line {known.seen[key]}.")
            source.losses.update(_left_out(values, options.layer))
            known.layout = known.layout or _find_layout(line, values, source, options, known.scheme)
            notes = {"before": before} if before != (source.newline if known.number > 1 else "") else {}
            notes |= _notes(record, values, line, known.layout)
            records.append(Record(record.sentence.laid_out(SentenceLayout("jsonl", notes)), record.spans))
        except WorkbenchError as error:
            source.problem(index, str(error))
        else:
            known.seen[key] = source.number(index)
    tail = source.text[written:]
    kept = {"newline": source.newline, "bom": source.bom, "tail": None if tail == source.newline else tail}
    return records, JsonlLayout(**{**vars(known.layout or JsonlLayout()), **kept})


def write(records: Sequence[Record], layout: JsonlLayout) -> str:
    """Write one object per line; unchanged ones as they were read, others in their key order.

    Sentences of several files may share an id, lines of one file may not: the later ones get a number.
    """
    records, apart = _with_own_ids(records), "\r*" + layout.newline[-1]
    pieces = (_piece(record, layout) for record in records)
    return join_pieces(pieces, records, "jsonl", layout.newline, layout, apart=apart)


def _with_own_ids(records: Sequence[Record]) -> list[Record]:
    taken, seen, apart = {record.sentence.id for record in records}, set[str](), list[Record]()
    numbers = Counter[str]()
    for record in records:
        id = given = record.sentence.id
        while id in seen or (id != given and id in taken):
            numbers[given] += 1
            id = f"{given}-{numbers[given] + 1}"
        seen.add(id)
        apart.append(record if id == given else replace(record, sentence=replace(record.sentence, id=id)))
    return apart


def _load(line: str) -> dict[str, Any]:
    try:
        values = _DECODER.decode(line)
    except RecursionError as error:
        raise BadInput("the JSON is nested too deeply.") from error
    except ValueError as error:
        whole = " The file is one JSON list; write one object per line." if line.strip() == "[" else ""
        raise BadInput(f"not JSON: {error}.{whole}") from error
    if not isinstance(values, dict):
        raise BadInput(f"a JSON {type(values).__name__} where an object with text is expected; one object per line.")
    return values


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    """Read a number; refuse one beyond the float range, which would be written as Infinity and is not JSON."""
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {clip(digits)} is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def survey(portions: Iterator[Source], _options: ReadOptions) -> _SoFar:
    """Detect the tag scheme of all objects; only files whose first object has words are searched."""
    return _SoFar(detect_scheme(_sequences(line for source in portions for line in source.lines)))


def _sequences(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the tags of each object with words, up to the first object if that has none."""
    bad, any_yet = 0, False
    for line in lines:
        if line.strip():
            try:
                tags = tags_of(_load(line))
            except BadInput:  # reported when the line is read
                bad += 1
                if bad == MOST_PROBLEMS:
                    return
                continue
            if tags is None and not any_yet:
                return
            if tags is not None and all(map(is_tag, tags)):
                any_yet = True
                yield tags


def _record(
    values: Mapping[str, Any], default_id: str, options: JsonlOptions, scheme: str, document: str | None = None
) -> Record:
    """Make a record of one object; raise a WorkbenchError saying what does not fit."""
    values = in_our_keys(values, scheme, lenient=options.lenient)
    text, id = values.get("text"), values.get("id", default_id)
    if not isinstance(text, str) or not text.strip():
        raise BadInput(f"text must be a non-empty string, not {clip(json.dumps(text))}.")
    if len(text) > options.max_line:
        raise BadInput(f"a text of {len(text):,} characters; at most {options.max_line:,} are read.")
    if "\0" in text:
        raise BadInput(f"a NUL character at position {text.index(chr(0)) + 1} of the text; databases reject it.")
    if not isinstance(id, str | int) or isinstance(id, bool) or id == "":
        raise BadInput(f"id must be a string or a whole number, not {clip(json.dumps(id))}.")
    values = _as_layer(values, options.layer)
    given = values.get("tokens")
    if given is not None:
        tokens = _read_tokens(given, text)
        count = len(tokens)
    else:
        tokens, count = tokenize_at_most(text, options.max_tokens)
    if not 0 < count <= options.max_tokens:
        raise BadInput(f"a sentence of {count:,} tokens; 1 to {options.max_tokens:,} are read.")
    marked = bool(values.get("gold") or values.get("links"))
    starts = {token.start: i for i, token in enumerate(tokens)} if marked else {}
    bounds = (starts, {token.end: i for i, token in enumerate(tokens, 1)} if marked else {})
    links = tuple(
        Link(*_token_range(item, text, bounds, "link"), _string(item, "target", "link"))
        for item in _items(values.get("links") or [], "links")
    )
    meta = {key: value for key, value in values.items() if key not in OUR_KEYS and key != LAYOUT_KEY}
    sentence = Sentence(str(id), text, tokens, links, meta, document)
    check_content(sentence)
    if values.get("gold") is None:
        return Record(sentence)
    spans = []
    for item in _items(values["gold"], "gold"):
        ours = options.our_type(_string(item, "type", "gold span"))
        start, end = _token_range(item, text, bounds, "gold span")
        if ours:
            linked = item.get("entity")
            spans.append(Span(start, end, ours, linked if isinstance(linked, str) and is_entity(linked) else None))
    return Record(sentence, check_spans(sentence, spans))


def _layers(values: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the layers of a line of ours by name, none where the key holds somebody else's metadata."""
    given = values.get(_LAYERS)
    if not isinstance(given, dict) or not given.keys() <= set(NAMES):
        return {}
    is_ours = all(isinstance(work, dict) and work and work.keys() <= {"spans", "by", "at"} for work in given.values())
    return given if is_ours else {}


def _as_layer(values: Mapping[str, Any], layer: str) -> Mapping[str, Any]:
    """Return a line with a layer as its annotation, none if it lacks that, and without the others."""
    layers = _layers(values)
    made = {key: value for key, value in values.items() if key != _LAYERS} if layers else dict(values)
    if layer:
        made["gold"] = layers[layer].get("spans", values.get("gold")) if layer in layers else None
    return made


def _left_out(values: Mapping[str, Any], layer: str) -> dict[str, int]:
    """Count what a line has besides the layer that is read."""
    layers = _layers(values)
    lost = {f"sentences of the layer {name}": 1 for name, work in layers.items() if "spans" in work and name != layer}
    lost["annotations besides the layer asked for"] = int(
        bool(layer) and values.get("gold") is not None and "spans" in layers.get(layer, {"spans": ()})
    )
    lost["people and times of sentences"] = sum(len(work.keys() & {"by", "at"}) > 0 for work in layers.values())
    return lost


def _read_tokens(value: Any, text: str) -> tuple[Token, ...]:
    tokens = []
    end = 0
    for pair in value if isinstance(value, list) else [value]:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(offset) is int for offset in pair):
            raise BadInput(f"tokens must be a list of [start, end] character offsets, not {clip(json.dumps(pair))}.")
        if not end <= pair[0] < pair[1] <= len(text):
            raise BadInput(
                f"token {pair} overlaps the one before it or lies outside the text's {len(text)} characters."
            )
        if not text[pair[0] : pair[1]].strip():
            raise BadInput(f"token {pair} holds nothing but white space.")
        end = pair[1]
        tokens.append(Token(*pair))
    return tuple(tokens)


def _items(value: Any, key: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadInput(f"{key} must be a list of objects, not {clip(json.dumps(value))}.")
    return value


def _string(item: Mapping[str, Any], key: str, what: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value:
        raise BadInput(f"{what} {clip(json.dumps(item))} has no {key}.")
    return value


def _token_range(
    item: Mapping[str, Any], text: str, bounds: tuple[dict[int, int], dict[int, int]], what: str
) -> tuple[int, int]:
    """Turn character offsets into token offsets; both ends must fall on token boundaries."""
    start, end = item.get("start"), item.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise BadInput(
            f"{what} [{start}, {end}) lies outside the text's {len(text)} characters (whole numbers, half-open)."
        )
    surface = item.get("surface")
    if surface is not None and surface != text[start:end]:
        raise BadInput(f"{what} [{start}, {end}) covers {clip(text[start:end])}, not {clip(str(surface))}.")
    if start not in bounds[0] or end not in bounds[1]:
        edge = start if start not in bounds[0] else end
        raise BadInput(
            f"{what} [{start}, {end}) {clip(text[start:end])}: {edge} is not on a token boundary; "
            f"{WHOLE_TOKENS}: move it to one."
        )
    return bounds[0][start], bounds[1][end]


def _find_layout(
    line: str, values: Mapping[str, Any], source: Source, options: ReadOptions, scheme: str
) -> JsonlLayout:
    """Find the spacing and escaping that reproduce this line."""
    style = next((s for s in _STYLES if _dumps(values, *s) == line), _STYLES[0])
    surface = any("surface" in item for item in [*(values.get("gold") or ()), *(values.get("links") or ())])
    return JsonlLayout(
        newline=source.newline,
        type_map=dict(options.type_map),
        ensure_ascii=style[0],
        item_separator=style[1],
        key_separator=style[2],
        surface=surface,
        scheme=scheme,
        lenient=options.lenient,
    )


def _notes(record: Record, values: Mapping[str, Any], line: str, layout: JsonlLayout) -> dict[str, Any]:
    """Return what the layout alone cannot reproduce of a record: key order, or the whole line."""
    if LAYOUT_KEY not in values and "id" in values and _render(record, layout, {}) == line:
        return {}
    layers = _layers(values)  # counted as left out, so no line that holds them is kept
    notes: dict[str, Any] = {"keys": [key for key in values if key != LAYOUT_KEY and not (layers and key == _LAYERS)]}
    if not layers and _render(record, layout, notes) != line:
        notes["raw"] = line
    return notes


def _piece(record: Record, layout: JsonlLayout) -> str:
    notes = notes_of(record.sentence, "jsonl")
    raw = notes.get("raw")
    if raw is not None and not record.layers and _still_holds(raw, record, layout):
        return str(raw)
    return _render(record, layout, notes)


def _still_holds(raw: str, record: Record, layout: JsonlLayout) -> bool:
    """Tell whether the line a sentence was read from still matches the record."""
    sentence = record.sentence
    options = JsonlOptions(type_map=layout.type_map, max_tokens=10**9, lenient=layout.lenient)
    try:
        kept = _record(_load(raw), sentence.id, options, layout.scheme)
    except WorkbenchError:  # an earlier version read the line differently, so it does not match
        return False
    same = kept.sentence.bare() == sentence.bare()
    if not same or dict(kept.sentence.meta) != dict(sentence.meta) or kept.spans != record.spans:
        return False
    return [span.entity for span in kept.spans or ()] == [span.entity for span in record.spans or ()]


def _render(record: Record, layout: JsonlLayout, notes: Mapping[str, Any]) -> str:
    sentence, keys = record.sentence, notes.get("keys")
    values: dict[str, Any] = {} if keys and "id" not in keys else {"id": sentence.id}
    values["text"] = sentence.text
    if (keys and "tokens" in keys) or tokenize(sentence.text) != sentence.tokens:
        values["tokens"] = [[token.start, token.end] for token in sentence.tokens]
    if sentence.links or (keys and "links" in keys):
        values["links"] = [_item(sentence, link, {"target": link.target}, layout) for link in sentence.links]
    if record.spans is not None:
        values["gold"] = [
            _item(sentence, span, {"type": layout.outer_type(span.type)} | _entity(span), layout)
            for span in check_spans(sentence, record.spans)
        ]
    if record.spans is None and _reads_as_gold({**sentence.meta, **values}, layout):
        values["gold"] = None
    if record.layers:
        values[_LAYERS] = {name: _work(record, name, layout) for name in record.layers}
    for key, value in sentence.meta.items():
        if key in OUR_KEYS or (key == _LAYERS and record.layers):
            raise BadInput(f"Sentence {sentence.id}: metadata may not be called {key!r}.")
        values[key] = value
    if keys:
        values = {
            key: values[key] for key in [*(k for k in keys if k in values), *(k for k in values if k not in keys)]
        }
    return _dumps(values, layout.ensure_ascii, layout.item_separator, layout.key_separator)


def _work(record: Record, name: str, layout: JsonlLayout) -> dict[str, Any]:
    """Return what stands in a layer, people and times alone where its spans are the annotation itself."""
    work = record.layers[name]
    values: dict[str, Any] = {"by": work.by} if work.by else {}
    if work.when is not None:
        values["at"] = utc(work.when)
    if values and name == record.layer:
        return values
    check_spans(record.sentence, work.spans)
    proposed = [{"source": source, "score": score} for source, score in work.proposed] or [{}] * len(work.spans)
    values["spans"] = [
        _item(record.sentence, span, {"type": layout.outer_type(span.type)} | _entity(span), layout) | more
        for span, more in sorted(zip(work.spans, proposed, strict=True), key=lambda each: each[0])
    ]
    return values


def _reads_as_gold(values: Mapping[str, Any], layout: JsonlLayout) -> bool:
    """Tell whether metadata of a sentence without gold would be read as another tool's annotation."""
    try:
        return in_our_keys(values, layout.scheme) is not values
    except WorkbenchError:
        return True


def _item(sentence: Sentence, span: Span | Link, rest: Mapping[str, str], layout: JsonlLayout) -> dict[str, Any]:
    start, end = sentence.char_range(span.start, span.end)
    surface = {"surface": sentence.text[start:end]} if layout.surface else {}
    return {"start": start, "end": end, **surface, **rest}


def _entity(span: Span) -> dict[str, str]:
    return {"entity": span.entity} if span.entity is not None else {}


def _dumps(values: Mapping[str, Any], ensure_ascii: bool, item_separator: str, key_separator: str) -> str:
    line = _encoder(ensure_ascii, item_separator, key_separator).encode(values)
    if line.isascii():
        return line
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadInput(f"{clip(ascii(line[error.start]))} is half of a surrogate pair and not text.") from error
    return line


@cache
def _encoder(ensure_ascii: bool, item_separator: str, key_separator: str) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=ensure_ascii, separators=(item_separator, key_separator))


register(
    text_format(
        "jsonl",
        title="JSON lines",
        suffixes=(".jsonl", ".ndjson", ".json"),
        reader=read,
        writer=write,
        boundary=lambda _options: after_line,
        survey=survey,
        layout_type=JsonlLayout,
        notes_type=JsonlNotes,
        times=20,
        options_type=JsonlOptions,
        holds_entities=True,
        holds_layers=True,
        example='{"text": "Mara Vell sang .", "gold": [{"start": 0, "end": 9, "type": "person"}]}',
    )
)
