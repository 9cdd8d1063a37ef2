"""Turn rows into the schema's values, and assert on the way that offsets and surfaces still agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crossner_core.calibration.proposals import best_of, propose
from crossner_core.calibration.sources import SourceWeights
from crossner_core.errors import InvalidSpan
from crossner_core.schema import Link, Sentence, Span, Suggestion, Token, check_spans, fields_from_kept
from db.tables import Annotation, LinkRow, SentenceRow, SpanRow, SuggestionRow


def sentence_of(row: SentenceRow, links: Iterable[LinkRow] = ()) -> Sentence:
    """Return the sentence of a row; links are handed in, since many readers do not need them."""
    return Sentence(
        id=row.external_id,
        text=row.text,
        tokens=tuple(Token(start, end) for start, end in row.tokens),
        links=tuple(Link(link.start, link.end, link.target) for link in links),
        **fields_from_kept(row.meta),
    )


def suggestion_of(row: SuggestionRow) -> Suggestion:
    """Return the suggestion of a row."""
    return Suggestion(row.start, row.end, row.type, row.source, row.score, row.entity)


def spans_of(annotation: Annotation | None) -> tuple[Span, ...]:
    """Return the spans of an annotation in order, none where there is no annotation."""
    return tuple(Span(row.start, row.end, row.type, row.entity) for row in annotation.spans) if annotation else ()


def checked_spans(sentence: Sentence, rows: Iterable[SpanRow]) -> tuple[Span, ...]:
    """Return stored spans; raise InvalidSpan if one no longer covers the surface that was stored with it."""
    spans = []
    for row in rows:
        span = Span(row.start, row.end, row.type, row.entity)
        check_spans(sentence, (span,))
        surface = sentence.surface(row.start, row.end)
        if surface != row.surface:
            raise InvalidSpan(
                f"Sentence {sentence.id}: span [{row.start}, {row.end}) {row.type} was stored as {row.surface!r}, "
                f"but its text is {surface!r}; the store was changed from outside, restore a backup."
            )
        spans.append(span)
    return check_spans(sentence, spans)


def best_suggestions(
    suggestions: Iterable[Suggestion], weights: SourceWeights, *, hint_below: float = 0.0
) -> tuple[Suggestion, ...]:
    """Return the suggestions that are shown: merged, no two overlapping, each under the best of its sources.

    Those that score below `hint_below` are only hints, and left out.
    """
    best = best_of(made for made in propose(list(suggestions), weights) if made.score >= hint_below)
    return tuple(Suggestion(made.start, made.end, made.type, made.sources[0], made.score, made.entity) for made in best)


def suggestion_values(sentence_id: int, suggestion: Suggestion, *, run_id: int | None = None) -> dict[str, Any]:
    """Return the columns of a suggestion."""
    return {
        "sentence_id": sentence_id,
        "start": suggestion.start,
        "end": suggestion.end,
        "type": suggestion.type,
        "source": suggestion.source,
        "score": suggestion.score,
        "entity": suggestion.entity,
        "run_id": run_id,
    }


def text_of(kept: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return what tells the text that a sentence is part of from others: its page, else its document.

    A line of a JSONL file is a sentence by itself unless it names a page.
    """
    meta, layout = kept["meta"], kept.get("layout")
    for key in ("page", "title"):
        if isinstance(value := meta.get(key), str | int) and str(value).strip():
            return key, str(value).strip()
    document = (kept.get("document") or "").strip()
    return ("document", document) if document and (layout is None or layout.format != "jsonl") else None
