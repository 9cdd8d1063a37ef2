"""Confusions between types, and boundary errors, missed and spurious spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crossner_core.errors import BadInput
from crossner_core.records import Record
from crossner_core.schema import Span


@dataclass(frozen=True, slots=True)
class Confusion(Record):
    """Counts by type. `matrix[gold][predicted]` pairs spans of equal boundaries, so its diagonal counts correct spans.

    `boundary[gold]`: a gold span that only overlaps predicted ones; `missed[gold]`: overlaps none;
    `spurious[predicted]`: a predicted span that overlaps no gold one.
    """

    types: tuple[str, ...]
    matrix: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    boundary: Mapping[str, int] = field(default_factory=dict)
    missed: Mapping[str, int] = field(default_factory=dict)
    spurious: Mapping[str, int] = field(default_factory=dict)

    def count(self, gold: str, predicted: str) -> int:
        """Return how often a gold type was predicted as another (or the same) with equal boundaries."""
        return self.matrix.get(gold, {}).get(predicted, 0)

    def renamed(self, names: Mapping[str, str]) -> Confusion:
        """Return the same counts under other names of the types, which must differ; one without keeps its own."""
        return Confusion(
            tuple(names.get(name, name) for name in self.types),
            {names.get(gold, gold): _renamed(row, names) for gold, row in self.matrix.items()},
            *(_renamed(counts, names) for counts in (self.boundary, self.missed, self.spurious)),
        )

    def worst(self, limit: int = 10) -> list[tuple[str, str, int]]:
        """Return the most frequent (gold, predicted, count) with different types, most frequent first."""
        pairs = [(g, p, n) for g, row in self.matrix.items() for p, n in row.items() if g != p and n]
        return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))[:limit]


def _renamed(counts: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    return {names.get(name, name): count for name, count in counts.items()}


def confusion(
    gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]], types: Iterable[str] = ()
) -> Confusion:
    """Count type ↔ type for equal boundaries, and spans without such a partner."""
    if len(gold) != len(predicted):
        raise BadInput(f"{len(gold)} gold sentences but {len(predicted)} predicted ones; they must pair up.")
    pairs: Counter[tuple[str, str]] = Counter()
    boundary: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    spurious: Counter[str] = Counter()
    for wanted, got in zip(gold, predicted, strict=True):
        wanted, got = tuple(wanted), tuple(got)
        predicted_types = {(span.start, span.end): span.type for span in got}
        for span in wanted:
            if (span.start, span.end) in predicted_types:
                pairs[span.type, predicted_types[span.start, span.end]] += 1
            elif _overlaps(span, got):
                boundary[span.type] += 1
            else:
                missed[span.type] += 1
        spurious.update(span.type for span in got if not _overlaps(span, wanted))
    seen = {name for pair in pairs for name in pair} | set(boundary) | set(missed) | set(spurious)
    listed = dict.fromkeys(types)
    names = (*listed, *sorted(seen - set(listed)))
    matrix = {g: {p: pairs[g, p] for p in names if pairs[g, p]} for g in names}
    return Confusion(names, matrix, dict(boundary), dict(missed), dict(spurious))


def summed(parts: Iterable[Confusion]) -> Confusion:
    """Sum confusions, for example over seeds."""
    parts = tuple(parts)
    names = tuple(dict.fromkeys(name for part in parts for name in part.types))
    matrix = {
        gold: {predicted: count for predicted in names if (count := sum(part.count(gold, predicted) for part in parts))}
        for gold in names
    }
    rest = (
        {name: count for name in names if (count := sum(getattr(part, kind).get(name, 0) for part in parts))}
        for kind in ("boundary", "missed", "spurious")
    )
    return Confusion(names, matrix, *rest)


def _overlaps(span: Span, others: Iterable[Span]) -> bool:
    return any(other.start < span.end and span.start < other.end for other in others)
