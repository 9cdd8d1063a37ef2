"""Prodigy: JSON lines with tokens and `spans`; the last token of a span is inclusive; `answer` says if it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.formats.base import Format, Layout, Parsed, register
from crossner_core.formats.json_documents import Entities, offsets, reader, writer
from crossner_core.formats.layers import GOLD, SUGGESTIONS, layer_names, proposals, turns, with_works, works_of
from crossner_core.formats.standoff import StandoffOptions, entities_of, is_annotated


@dataclass(frozen=True)
class ProdigyOptions(StandoffOptions):
    """How to read Prodigy's lines."""

    annotator: str = field(
        default="",
        metadata={"doc": "Whose lines: an annotator's id or a session's. Default: of each text whose comes first."},
    )


@dataclass(frozen=True)
class ProdigyLayout(Layout):
    """The layout of Prodigy's lines."""


def _entities(values: Mapping[str, Any], losses: Counter[str]) -> Entities:
    losses["relations"] += len(values.get("relations") or ())
    tokens = values.get("tokens")
    places = None
    if isinstance(tokens, list) and tokens:
        made = [offsets({**token, "is": "token"}, "start", "end", "is", "token") for token in tokens]
        places = [(start, end) for start, end, _ in made if values["text"][start:end].strip()]
    answer, spans = values.get("answer"), values.get("spans")
    if answer in ("reject", "ignore") or spans is None:
        losses[f"spans of tasks with answer {answer}"] += len(spans or ())
        return [], answer == "accept", places
    if not isinstance(spans, list):
        raise BadInput("spans must be a list of objects with start, end and label.")
    kept = [item for item in spans if not (isinstance(item, dict) and item.get("answer") in ("reject", "ignore"))]
    losses["spans that were rejected"] += len(spans) - len(kept)
    return [offsets(item, "start", "end", "label", "span") for item in kept], True, places


def _whose(values: Mapping[str, Any]) -> tuple[str, ...]:
    names = (values.get("_annotator_id"), values.get("_session_id"))
    return tuple(name for name in names if isinstance(name, str) and name)


def _objects(document: Parsed, text: str, starts: list[int], losses: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yield a line, or with layers the gold, then one for each person of a layer, and one of suggestions to ignore."""
    layers = sorted(layer_names(document), key=lambda name: name != GOLD)
    for layer, done, by, when in turns(document, layers, losses):
        session = f"{layer}-{by}" if by else layer
        values = _line(done, text, starts)
        values |= {"_annotator_id": by or session, "_session_id": session}
        yield values | ({"_timestamp": int(when.timestamp())} if when is not None else {})
    if SUGGESTIONS in layers:
        values = _line(with_works(document, works_of(document, (SUGGESTIONS,))), text, starts)
        for span, (_, source, score) in zip(values["spans"], proposals(document, starts), strict=True):
            span |= {"source": source, "score": score}
        yield values | {"answer": "ignore", "_annotator_id": SUGGESTIONS, "_session_id": SUGGESTIONS}
    if not layers:
        yield _line(document, text, starts)


def _line(document: Parsed, text: str, starts: list[int]) -> dict[str, Any]:
    tokens: list[dict[str, Any]] = []
    for record, start in zip(document.sentences, starts, strict=True):
        for token in record.sentence.tokens:
            low, high = start + token.start, start + token.end
            follows = text[high : high + 1] == " "
            tokens.append({"text": text[low:high], "start": low, "end": high, "id": len(tokens), "ws": follows})
    values: dict[str, Any] = {"text": text, "tokens": tokens, "meta": {"document": document.name}}
    if is_annotated(document):
        first = {token["start"]: token["id"] for token in tokens}
        last = {token["end"]: token["id"] for token in tokens}
        values["spans"] = [
            {"start": start, "end": end, "token_start": first[start], "token_end": last[end], "label": type}
            for start, end, type, _ in entities_of(document, starts)
        ]
        values["answer"] = "accept"
    return values


register(
    Format(
        "prodigy",
        "Prodigy JSON lines",
        (".jsonl",),
        reader(ProdigyLayout, _entities, _whose),
        writer(".jsonl", _objects),
        options_type=ProdigyOptions,
        layout_type=ProdigyLayout,
        by_document=True,
        annotates_documents=True,
        holds_layers=True,
        one_file=True,
        is_chosen=True,
        example='{"text": "Mara Vell sang.", "spans": [{"start": 0, "end": 9, "label": "person"}], "answer": "accept"}',
    )
)
