"""How much of gold a pre-annotation finds, and how much of it is correct, by entity type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crossner_core.errors import BadInput
from crossner_core.schema import Sentence, Span, Suggestion


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts of one entity type, or of all; every ratio lies in [0, 1], 0 if undefined.

    `found`: gold entities with a suggestion over exactly their tokens, `correct`: with its type too. `suggested`:
    suggestions of this type, `placed`: those over exactly the tokens of a gold entity of any type.
    """

    gold: int = 0
    found: int = 0
    correct: int = 0
    suggested: int = 0
    placed: int = 0

    @property
    def coverage(self) -> float:
        """Share of gold entities whose boundaries were suggested; CrossNER calls them pre-annotated."""
        return self.found / self.gold if self.gold else 0.0

    @property
    def recall(self) -> float:
        """Share of gold entities suggested with boundaries and type."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Share of suggestions with the boundaries and type of gold."""
        return self.correct / self.suggested if self.suggested else 0.0

    @property
    def span_precision(self) -> float:
        """Share of suggestions with the boundaries of gold, whatever their type."""
        return self.placed / self.suggested if self.suggested else 0.0


@dataclass(frozen=True, slots=True)
class CoverageTable:
    """Coverage by entity type, `overall`, and by prediction source (`link`, `page`, `dbpedia`).

    In `per_source` gold counts cover all sentences, so that the sources can be compared.
    """

    overall: Coverage
    per_type: Mapping[str, Coverage] = field(default_factory=dict)
    per_source: Mapping[str, Coverage] = field(default_factory=dict)
    sentences: int = 0


class _Counts:
    def __init__(self) -> None:
        self.gold, self.found, self.correct, self.suggested, self.placed = (Counter[str]() for _ in range(5))

    def of(self, key: str, gold: int | None = None) -> Coverage:
        known = self.gold[key] if gold is None else gold
        return Coverage(known, self.found[key], self.correct[key], self.suggested[key], self.placed[key])

    def total(self) -> Coverage:
        return Coverage(*(part.total() for part in (self.gold, self.found, self.correct, self.suggested, self.placed)))


def coverage(
    gold: Iterable[tuple[Sentence, Iterable[Span]]],
    suggestions: Iterable[Sequence[Suggestion]],
    types: Iterable[str] = (),
) -> CoverageTable:
    """Compare suggestions with gold, sentence by sentence in the same order; both may be streams.

    `types` are listed even if they never occur. Raises BadInput if one stream is longer than the other. A span
    suggested twice with one type counts once, under its first source.
    """
    kinds, sources, sentences = _Counts(), _Counts(), 0
    predictions = iter(suggestions)
    for sentence, spans in gold:
        row = next(predictions, None)
        if row is None:
            raise BadInput(f"Suggestions end before gold sentence {sentence.id}; provide one row per sentence.")
        sentences += 1
        _count(set(spans), row, kinds, sources)
    if next(predictions, None) is not None:
        raise BadInput(f"There are more rows of suggestions than the {sentences} gold sentences; they must pair up.")
    overall = kinds.total()
    names = dict.fromkeys(types)
    names |= dict.fromkeys(sorted({*kinds.gold, *kinds.suggested}))
    return CoverageTable(
        overall,
        {name: kinds.of(name) for name in names},
        {name: sources.of(name, overall.gold) for name in sorted(sources.suggested)},
        sentences,
    )


def _count(gold: set[Span], row: Sequence[Suggestion], kinds: _Counts, sources: _Counts) -> None:
    first: dict[Span, str] = {}
    for item in row:
        first.setdefault(item.span, item.source)
    places = {(span.start, span.end) for span in gold}
    ranges = {(span.start, span.end) for span in first}
    for span in gold:
        kinds.gold[span.type] += 1
        kinds.found[span.type] += (span.start, span.end) in ranges
        kinds.correct[span.type] += span in first
    seen: set[tuple[str, int, int]] = set()
    for span, source in first.items():
        placed = (span.start, span.end) in places
        kinds.suggested[span.type] += 1
        kinds.placed[span.type] += placed
        sources.suggested[source] += 1
        sources.placed[source] += placed
        sources.correct[source] += span in gold
        if placed and (source, span.start, span.end) not in seen:
            seen.add((source, span.start, span.end))
            sources.found[source] += 1
