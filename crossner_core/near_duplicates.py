"""Near-duplicate sentences: MinHash finds candidates, the Jaccard index of their 3-shingles decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from datasketch import MinHash, MinHashLSH

from crossner_core.schema import Sentence

_WIDTH = 3
_PERMUTATIONS = 128
_SLACK, _MISSES, _FALSE = 0.05, 0.95, 0.05  # the search favours recall: the Jaccard index decides


class NearDuplicates:
    """Stores sentences and detects near-duplicates of them.

    Two sentences are near-duplicates if the Jaccard index of their sets of three consecutive tokens, ignoring case,
    reaches the threshold.
    Source: Broder 1997.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._search = MinHashLSH(min(threshold, 1.0) - _SLACK, _PERMUTATIONS, weights=(_FALSE, _MISSES))
        self._kept: dict[int, frozenset[tuple[str, ...]]] = {}

    def add(self, sentence: Sentence) -> None:
        """Store a sentence."""
        shingles = _shingles(sentence.words)
        self._search.insert(len(self._kept), _sketch(shingles))
        self._kept[len(self._kept)] = shingles

    def add_if_new(self, sentence: Sentence) -> bool:
        """Store a sentence unless it is a near-duplicate of a stored one; return whether it was stored."""
        shingles = _shingles(sentence.words)
        sketch = _sketch(shingles)
        if any(_jaccard(shingles, self._kept[key]) >= self._threshold for key in self._search.query(sketch)):
            return False
        self._search.insert(len(self._kept), sketch)
        self._kept[len(self._kept)] = shingles
        return True


def alike_pairs(sentences: Sequence[Sentence], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of indices, the lower first, whose Jaccard index reaches the threshold, with that index."""
    search = MinHashLSH(min(threshold, 1.0) - _SLACK, _PERMUTATIONS, weights=(_FALSE, _MISSES))
    kept: list[frozenset[tuple[str, ...]]] = []
    for index, sentence in enumerate(sentences):
        shingles = _shingles(sentence.words)
        sketch = _sketch(shingles)
        for before in sorted(search.query(sketch)):
            alike = _jaccard(shingles, kept[before])
            if alike >= threshold:
                yield before, index, alike
        search.insert(index, sketch)
        kept.append(shingles)


def _shingles(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    low = tuple(word.lower() for word in words)
    return frozenset(low[start : start + _WIDTH] for start in range(max(len(low) - _WIDTH + 1, 1)))


def _sketch(shingles: frozenset[tuple[str, ...]]) -> MinHash:
    sketch = MinHash(num_perm=_PERMUTATIONS)
    sketch.update_batch(["\x1f".join(shingle).encode() for shingle in shingles])
    return sketch


def _jaccard(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other)
