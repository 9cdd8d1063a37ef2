"""Ranks of scores, and distances between a pool's vectors, in memory linear in the pool's size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossner_core.acquisition.base import Order, Scores


def places(scores: Scores) -> Scores:
    """Return each score's rank scaled to [0, 1], the largest at 1; equal scores share their rank."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return np.asarray((below + (counts - 1) / 2)[inverse] / max(len(scores) - 1, 1))


def farthest_first(
    vectors: NDArray[np.float32], count: int, known: NDArray[np.float32] | None, rng: np.random.Generator
) -> Order:
    """Choose `count` of (N, H) vectors, each the farthest from `known` (G, H) and from those chosen before.

    Without known vectors the first is the one nearest to the mean. Ties are broken at random. Source: Gonzalez 1985.
    """
    count = min(count, len(vectors))
    nearest = np.full(len(vectors), np.inf)
    for row in known if known is not None else ():
        nearest = np.minimum(nearest, _distances(vectors, row))
    chosen: list[int] = []
    while len(chosen) < count:
        if np.isinf(nearest).all():
            index = int(_distances(vectors, vectors.mean(0)).argmin())
        else:
            best = np.flatnonzero(nearest == nearest.max())
            index = int(rng.choice(best))
        chosen.append(index)
        nearest = np.minimum(nearest, _distances(vectors, vectors[index]))
        nearest[chosen] = -1.0
    return np.array(chosen, dtype=np.int64)


def mean_similarity(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean cosine of each of (N, H) vectors of length 1 with all of them, (N,)."""
    return np.asarray(vectors @ vectors.mean(0), dtype=np.float64)


def without_look_alikes(order: Order, vectors: NDArray[np.float32], count: int, most: float) -> Order:
    """Return the first `count` of an order, skipping those whose cosine with an earlier choice exceeds `most`.

    If the order runs out, the skipped look-alikes follow in their order.
    """
    chosen: list[int] = []
    passed: list[int] = []
    for index in order.tolist():
        if len(chosen) == count:
            break
        alike = chosen and float((vectors[chosen] @ vectors[index]).max()) > most
        (passed if alike else chosen).append(index)
    return np.array((chosen + passed)[:count], dtype=np.int64)


def _distances(vectors: NDArray[np.float32], row: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(vectors - row, axis=1), dtype=np.float64)
