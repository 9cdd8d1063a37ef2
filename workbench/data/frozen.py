"""Labelled sentences as JSON lines that never change again: content of snapshots and data sets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from crossner_core.errors import InvalidSpan
from crossner_core.schema import (
    LabelledSentence,
    Link,
    Sentence,
    Span,
    Token,
    check_spans,
    fields_from_kept,
    meta_to_keep,
)


def to_line(item: LabelledSentence, **extra: Any) -> str:
    """Write one sentence as JSON; offsets of links and gold are in characters, and surfaces are asserted."""
    sentence = item.sentence
    values: dict[str, Any] = {"id": sentence.id, "text": sentence.text}
    values["tokens"] = [[token.start, token.end] for token in sentence.tokens]
    if sentence.links:
        values["links"] = [{**_range(sentence, link.start, link.end), "target": link.target} for link in sentence.links]
    gold = check_spans(sentence, item.spans)
    values["gold"] = [{**_range(sentence, span.start, span.end), "type": span.type} for span in gold]
    if meta := meta_to_keep(sentence):
        values["meta"] = meta
    return json.dumps({**values, **extra}, ensure_ascii=False, sort_keys=True)


def from_line(line: str) -> tuple[LabelledSentence, dict[str, Any]]:
    """Read what `to_line` wrote: the sentence, and all keys of its line."""
    values = json.loads(line)
    text = values["text"]
    tokens = tuple(Token(*offsets) for offsets in values["tokens"])
    starts = {token.start: index for index, token in enumerate(tokens)}
    ends = {token.end: index for index, token in enumerate(tokens, 1)}
    for part in (*values.get("links", ()), *values["gold"]):
        if text[part["start"] : part["end"]] != part["surface"]:
            raise InvalidSpan(f"Sentence {values['id']}: the stored surface {part['surface']!r} is not in its text.")
    links = tuple(Link(starts[p["start"]], ends[p["end"]], p["target"]) for p in values.get("links", ()))
    spans = tuple(Span(starts[p["start"]], ends[p["end"]], p["type"]) for p in values["gold"])
    sentence = Sentence(values["id"], text, tokens, links, **fields_from_kept(values.get("meta", {})))
    return LabelledSentence(sentence, check_spans(sentence, spans)), values


def read_lines(content: str) -> list[tuple[LabelledSentence, dict[str, Any]]]:
    """Read all sentences of a content, in order."""
    return list(each_line(content))


def each_line(content: str) -> Iterator[tuple[LabelledSentence, dict[str, Any]]]:
    """Read the sentences of a content one by one."""
    return (from_line(line.group()) for line in re.finditer(r"[^\n]+", content))


def each_words(content: str) -> Iterator[list[str]]:
    """Read the tokens of each sentence of a content, without its spans; for counting words."""
    for line in re.finditer(r"[^\n]+", content):
        values = json.loads(line.group())
        yield [values["text"][start:end] for start, end in values["tokens"]]


def content_hash(types: Sequence[str], lines: Iterable[tuple[str, LabelledSentence]]) -> str:
    """SHA-256 over types and (split, sentence) pairs, independent of their order, ids and metadata."""
    keys = []
    for split, item in lines:
        spans = ";".join(f"{span.start}-{span.end}-{span.type}" for span in sorted(item.spans))
        keys.append(f"{split}\x00{item.sentence.content_hash}\x00{spans}")
    return joined_hash([",".join(types), *sorted(keys)])


def joined_hash(parts: Iterable[str]) -> str:
    """SHA-256 over parts in their order."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def entities(items: Iterable[LabelledSentence]) -> int:
    """Count the entities of sentences."""
    return sum(len(item.spans) for item in items)


def support(items: Iterable[LabelledSentence], types: Sequence[str]) -> Mapping[str, int]:
    """Count the entities of each type; types without any are listed with 0."""
    counts = dict.fromkeys(types, 0)
    for item in items:
        for span in item.spans:
            counts[span.type] = counts.get(span.type, 0) + 1
    return counts


def _range(sentence: Sentence, start: int, end: int) -> dict[str, Any]:
    first, last = sentence.char_range(start, end)
    return {"start": first, "end": last, "surface": sentence.text[first:last]}
