"""Which surfaces gold labels, and as which types; for two checks and the ranking of label errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from crossner_core.schema import LabelledSentence, Span

Key = tuple[str, ...]


class Surfaces:
    """How often gold labels each surface (its tokens as written) with each type."""

    def __init__(self, items: Iterable[LabelledSentence]) -> None:
        self._types: dict[Key, Counter[str]] = {}
        self.longest = 0
        for item in items:
            words = item.sentence.words
            for span in item.spans:
                key = words[span.start : span.end]
                self._types.setdefault(key, Counter())[span.type] += 1
                self.longest = max(self.longest, len(key))

    def types(self, key: Key) -> Counter[str]:
        """Return the type counts of a surface, empty if gold never labels it."""
        return self._types.get(key, Counter())

    def usual(self, key: Key) -> str | None:
        """Return a surface's most frequent type (ties broken by name), None if gold never labels it."""
        counts = self.types(key)
        return min(counts, key=lambda name: (-counts[name], name)) if counts else None

    def rival(self, key: Key, type_name: str) -> tuple[str, int] | None:
        """Return another type that gold gives this surface at least as often, with its count."""
        counts = self.types(key)
        others = [(-counts[name], name) for name in counts if name != type_name]
        if not others or -min(others)[0] < counts[type_name]:
            return None
        return min(others)[1], -min(others)[0]

    def unlabelled(self, words: Sequence[str], spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
        """Yield the places `[start, end)` of known surfaces that no span touches; longest first, without overlaps."""
        taken = {token for span in spans for token in range(span.start, span.end)}
        tokens = tuple(words)
        for size in range(min(self.longest, len(tokens)), 0, -1):
            for start in range(len(tokens) - size + 1):
                place = range(start, start + size)
                if tokens[start : start + size] in self._types and taken.isdisjoint(place):
                    taken.update(place)
                    yield start, start + size
