"""Other tools' JSON lines, converted to our keys: words with tags, words with ranges, text with character spans.

| keys | of |
|---|---|
| `tokens`, `words` or `sentence` (strings) with `ner_tags`, `tags`, `ner` or `labels` (`B-song`) | Hugging Face |
| `tokenized_text` (strings) with `ner` (`[first, last, type]`, last word inclusive) | GLiNER |
| `text` with `entities`, `spans`, `ents`, `label` or `labels` (`[start, end, type]`, objects) | doccano, spaCy, … |
| … with the offsets of a span as a list (`"offsets": [[start, end]]`) | BigBio, brat as JSON |

Keys that are read are not kept as metadata. Text with spans but no tokens is tokenized by our rules and also split at
span boundaries, so that each span covers whole tokens. Only confirmed annotation becomes gold: a Prodigy task that was
rejected or ignored has none, nor has an empty `label` or an empty list beside `relations`, which doccano writes for
unopened sentences.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.formats.source import clip
from crossner_core.schema import ONE_PIECE
from crossner_core.tags import spans_from_tags
from crossner_core.tokenize import tokenize

_WORDS = ("tokens", "words", "sentence")
_TAGS = ("ner_tags", "tags", "ner", "labels")
_SPANS = ("entities", "spans", "ents", "label", "labels")
# doccano's keys; its export has them for unopened sentences too, and does not mark those.
_OF_UNOPENED = ("label", "labels")
_RANGED = "tokenized_text"
_START, _END = ("start", "start_offset"), ("end", "end_offset")
_PIECES = ("offsets", "fragments", "spans")
_TYPE = ("type", "label", "entity_type", "tag")
_READ = frozenset((_RANGED, *_WORDS, *_TAGS, *_SPANS))


def tags_of(values: Mapping[str, Any]) -> list[str] | None:
    """Return the tags of an object with words, [] if it has none; None for any other object."""
    if _is_ours(values) or not _key(values, (_RANGED, *_WORDS), _are_words):
        return None
    tags = _key(values, _TAGS, _are_tags)
    return list(values[tags]) if tags else []


def in_our_keys(values: Mapping[str, Any], scheme: str, *, lenient: bool = False) -> Mapping[str, Any]:
    """Convert an object to our keys; ours are returned as they are. `scheme` is the tag scheme of the whole file.

    With `lenient` a stray I- begins an entity.

    Raises BadInput unless there is one tag per word, for tags that are numbers, and for incomplete spans.
    """
    if _is_ours(values) or _READ.isdisjoint(values):
        return values
    words = _key(values, (_RANGED, *_WORDS), _are_words)
    if words == _RANGED and _are_ranges(values.get("ner")):
        return _with_words(values, words, "ner", _ranges)
    if words and (tags := _key(values, _TAGS, lambda value: isinstance(value, list))):
        return _with_words(values, words, tags, lambda value, count: _tagged(value, count, tags, scheme, lenient))
    if words and not isinstance(values.get("text"), str):
        _refuse_unread(values, f"beside {words}: write ner_tags, one per word, or add the text they come from")
    if words:
        values = _with_words(values, words, "", _ranges)
    return _with_spans(values) if isinstance(values.get("text"), str) else values


def _is_ours(values: Mapping[str, Any]) -> bool:
    """Tell our objects from other tools'; where `gold` is null there is none, whatever the metadata looks like."""
    if "gold" not in values or values["gold"] is not None:
        return "gold" in values
    return isinstance(values.get("text"), str) and not _are_words(values.get("tokens"))


def _key(values: Mapping[str, Any], names: Sequence[str], fits: Callable[[Any], bool]) -> str:
    return next((name for name in names if fits(values.get(name))), "")


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)


def _are_ranges(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(item, str) for item in value)


def _are_tags(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(tag, str) for tag in value)


def _with_words(
    values: Mapping[str, Any], words: str, annotated: str, read: Callable[[list[Any], int], list[tuple[int, int, str]]]
) -> dict[str, Any]:
    """Find the words in the text, or join them with spaces; annotation is read in word positions."""
    text = values.get("text")
    text = text if isinstance(text, str) else " ".join(values[words])
    offsets, end = list[list[int]](), 0
    for word in values[words]:
        if (start := text.find(word, end)) < 0 or not word:
            raise BadInput(f"{words} holds {clip(word)}, which is not in the text after character {end}.")
        end = start + len(word)
        offsets.append([start, end])
    made = {name: value for name, value in values.items() if name not in {words, annotated, "text"}}
    made |= {"text": text, "tokens": offsets}
    if annotated:
        ranges = read(values[annotated], len(offsets))
        made["gold"] = [
            {"start": offsets[first][0], "end": offsets[last - 1][1], "type": type} for first, last, type in ranges
        ]
    return made


def _tagged(tags: list[Any], count: int, name: str, scheme: str, lenient: bool) -> list[tuple[int, int, str]]:
    if any(type(tag) is int for tag in tags):
        raise BadInput(
            f"{name} are numbers, and the file does not name the types they stand for: write tags such as B-song "
            "instead."
        )
    if not _are_tags(tags) or len(tags) != count:
        raise BadInput(f"{len(tags)} {name} for {count} words; each word has one, a string such as B-song or O.")
    return [(span.start, span.end, span.type) for span in spans_from_tags(tags, scheme, strict=not lenient)]


def _ranges(items: list[Any], count: int) -> list[tuple[int, int, str]]:
    ranges = []
    for item in items:
        if not (isinstance(item, list) and len(item) == 3 and type(item[0]) is type(item[1]) is int and item[2]):
            raise BadInput(f"ner holds {clip(json.dumps(item))}; write [first word, last word, type].")
        if not 0 <= item[0] <= item[1] < count:
            raise BadInput(f"ner holds {clip(json.dumps(item))}, which lies outside the {count} words.")
        ranges.append((item[0], item[1] + 1, str(item[2])))
    return ranges


def _with_spans(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read character spans; without any known key the object stays as it is, except for tokens given as objects."""
    tokens = values.get("tokens")
    if isinstance(tokens, list) and tokens and all(isinstance(token, dict) for token in tokens):
        values = {**values, "tokens": [_offsets(token) for token in tokens if not _is_blank(token, values["text"])]}
    name = _key(values, _SPANS, lambda value: isinstance(value, list) and any(map(_is_span, value)))
    if not name:
        _refuse_unread(values, "without integer offsets: write [start, end, type], or an object with these")
    if not _is_accepted(values):
        return values
    name = name or _key(values, _SPANS, lambda value: value == [])
    if not name or (not values[name] and not _means_none(values, name)):
        return values
    spans = [_span(item, name) for item in values[name]]
    made = {key: value for key, value in values.items() if key != name}
    made["gold"] = [{"start": start, "end": end, "type": type} for start, end, type in spans]
    if made.get("tokens") is None:
        made["tokens"] = _cut(values["text"], {edge for start, end, _ in spans for edge in (start, end)})
    return made


def _is_accepted(values: Mapping[str, Any]) -> bool:
    """Tell whether the spans were accepted; Prodigy's `answer` may be that they are wrong, or none at all."""
    return values.get("answer") not in ("reject", "ignore")


def _means_none(values: Mapping[str, Any], name: str) -> bool:
    """Tell whether an empty list means that there is no entity, rather than not annotated yet."""
    return values.get("answer") == "accept" or (name not in _OF_UNOPENED and "relations" not in values)


def _refuse_unread(values: Mapping[str, Any], fault: str) -> None:
    """Raise BadInput for spans under a known key in an unsupported form."""
    for name in _SPANS:
        items = values.get(name)
        if isinstance(items, list) and (half := next((item for item in items if _is_like_a_span(item)), None)):
            raise BadInput(f"{name} holds {clip(json.dumps(half))} {fault}.")


def _is_like_a_span(item: Any) -> bool:
    if isinstance(item, dict):
        return any(name in item for name in (*_START, *_END))
    return isinstance(item, list) and len(item) > 1


def _is_blank(token: Mapping[str, Any], text: str) -> bool:
    """Tell whether a token is white space, which spaCy makes of a second space; our tokens are words."""
    start, end = _offsets(token)
    return _is_offset(start) and _is_offset(end) and 0 <= start < end and text[start:end].isspace()


def _offsets(token: Mapping[str, Any]) -> list[Any]:
    return [token.get("start"), token.get("end")]


def _pieces(item: Any) -> list[list[int]]:
    """Return the pieces of a span whose offsets are a list of pairs, [] for any other."""
    if isinstance(item, dict):
        return item[name] if (name := _key(item, _PIECES, _are_pieces)) else []
    return item[0] if isinstance(item, list) and len(item) == 2 and _are_pieces(item[0]) else []


def _are_pieces(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_pair, value))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_offset, value))


def _is_span(item: Any) -> bool:
    if _pieces(item):
        return True
    if isinstance(item, dict):
        return bool(_key(item, _START, _is_offset) and _key(item, _END, _is_offset))
    return isinstance(item, list) and len(item) == 3 and _is_offset(item[0]) and _is_offset(item[1])


def _is_offset(value: Any) -> bool:
    return type(value) is int


def _span(item: Any, name: str) -> tuple[int, int, str]:
    if not _is_span(item):
        raise BadInput(f"{name} holds {clip(json.dumps(item))}; write [start, end, type], or an object with these.")
    pieces = _pieces(item)
    if len(pieces) > 1:
        raise BadInput(
            f"{name} holds {clip(json.dumps(item))} in {len(pieces)} pieces; {ONE_PIECE}: keep one, or all that lies "
            "between."
        )
    if isinstance(item, list):
        start, end, type = (*pieces[0], item[1]) if pieces else item
    elif pieces:
        (start, end), type = pieces[0], item.get(_key(item, _TYPE, lambda value: isinstance(value, str)))
    else:
        start, end = item[_key(item, _START, _is_offset)], item[_key(item, _END, _is_offset)]
        type = item.get(_key(item, _TYPE, lambda value: isinstance(value, str)))
    if not isinstance(type, str) or not type:
        raise BadInput(f"{name} holds {clip(json.dumps(item))}, which has no type.")
    return start, end, type


def _cut(text: str, edges: set[int]) -> list[list[int]]:
    """Split our tokens where a span begins or ends inside one."""
    cuts = []
    for token in tokenize(text):
        inner = sorted(edge for edge in edges if token.start < edge < token.end)
        bounds = [token.start, *inner, token.end]
        cuts += [list(pair) for pair in itertools.pairwise(bounds)]
    return cuts
