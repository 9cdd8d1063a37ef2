"""The errors of a prediction: each wrong span with the gold span it matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crossner_core.errors import BadInput
from crossner_core.schema import Span

KINDS = ("missed", "spurious", "boundary", "type", "boundary+type")
"""A gold span without a partner; a predicted one without; a pair that differs in boundaries, type, or both."""


@dataclass(frozen=True, slots=True)
class SpanError:
    """One error in the sentence at index `sentence`: a gold span, a predicted one, or a pair that should be equal."""

    sentence: int
    kind: str
    gold: Span | None
    predicted: Span | None

    @property
    def place(self) -> tuple[int, int]:
        """Sentence and first token, the order of errors."""
        return self.sentence, min(span.start for span in (self.gold, self.predicted) if span)

    @property
    def types(self) -> frozenset[str]:
        """The entity types involved in the error."""
        return frozenset(span.type for span in (self.gold, self.predicted) if span)


def find_errors(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> tuple[SpanError, ...]:
    """Return the errors of a prediction, sentence by sentence and from left to right.

    Every span is in at most one error. Correct spans are removed first; then pairs are matched greedily: equal
    boundaries first, then overlapping spans of the same type, then those of another type; among equals the largest
    overlap in tokens, then the leftmost. So a gold span that was split in two is one boundary error and one spurious
    span. `Confusion.boundary` differs: there every gold span that only overlaps something counts.
    """
    if len(gold) != len(predicted):
        raise BadInput(f"{len(gold)} gold sentences but {len(predicted)} predicted ones; they must pair up.")
    errors = [
        error
        for index, (wanted, got) in enumerate(zip(gold, predicted, strict=True))
        for error in _in_sentence(index, set(wanted), set(got))
    ]
    return tuple(sorted(errors, key=lambda error: (error.place, KINDS.index(error.kind))))


def count_errors(errors: Iterable[SpanError]) -> dict[str, int]:
    """Return the number of errors of each kind; a kind that does not occur is listed with 0."""
    counts = Counter(error.kind for error in errors)
    return {kind: counts[kind] for kind in KINDS}


def _in_sentence(index: int, wanted: set[Span], got: set[Span]) -> list[SpanError]:
    gold, predicted = wanted - got, got - wanted
    pairs = sorted(
        (_rank(gold_span, other), gold_span, other)
        for gold_span in gold
        for other in predicted
        if _overlap(gold_span, other) > 0
    )
    errors = []
    for rank, gold_span, other in pairs:
        if gold_span in gold and other in predicted:
            gold.discard(gold_span)
            predicted.discard(other)
            errors.append(SpanError(index, ("type", "boundary", "boundary+type")[rank[0]], gold_span, other))
    errors += [SpanError(index, "missed", span, None) for span in gold]
    return errors + [SpanError(index, "spurious", None, other) for other in predicted]


def _rank(gold: Span, predicted: Span) -> tuple[int, int]:
    """Return a pair's matching priority: its kind, then its overlap, large ones first."""
    if (gold.start, gold.end) == (predicted.start, predicted.end):
        return 0, 0
    return (1 if gold.type == predicted.type else 2), -_overlap(gold, predicted)


def _overlap(span: Span, other: Span) -> int:
    """Return the number of tokens that two spans share; 0 or less if they share none."""
    return min(span.end, other.end) - max(span.start, other.start)
