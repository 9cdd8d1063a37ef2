"""Layers of suggestions from several sources, kept all, with the best of each place named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crossner_core.schema import Suggestion

PRIORITY = ("link", "page", "model", "dbpedia")


@dataclass(frozen=True, slots=True)
class Merged:
    """Every suggestion once, sorted by place, and the best ones: a subset of which no two overlap."""

    suggestions: tuple[Suggestion, ...]
    best: tuple[Suggestion, ...]

    def is_best(self, suggestion: Suggestion) -> bool:
        """Tell whether a suggestion is among the best."""
        return suggestion in self.best


def merge(*layers: Iterable[Suggestion], priority: Sequence[str] = PRIORITY) -> Merged:
    """Join layers; where suggestions overlap the source earlier in `priority` wins, then the longer, then the score.

    Sources that `priority` does not name come last. What was said twice (same span, type and source) is kept once,
    with its higher score. The order of the layers does not matter.
    """
    strongest: dict[tuple[int, int, str, str], Suggestion] = {}
    for item in (item for layer in layers for item in layer):
        key = (item.start, item.end, item.type, item.source)
        if key not in strongest or _strength(item) > _strength(strongest[key]):
            strongest[key] = item
    rank = {source: at for at, source in enumerate(priority)}
    ordered = sorted(
        strongest.values(),
        key=lambda item: (
            rank.get(item.source, len(rank)),
            item.start - item.end,
            -item.score,
            item.start,
            item.type,
            item.source,
        ),
    )
    best: list[Suggestion] = []
    for item in ordered:
        if all(item.end <= other.start or other.end <= item.start for other in best):
            best.append(item)
    return Merged(tuple(sorted(strongest.values(), key=_place)), tuple(sorted(best, key=_place)))


def _place(item: Suggestion) -> tuple[int, int, str, str]:
    return item.start, item.end, item.source, item.type


def _strength(item: Suggestion) -> tuple[float, str]:
    return item.score, item.entity or ""
