"""Few-shot curves: nested subsets of the training sentences, and the aggregation of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crossner_core.errors import InvalidConfig

# Source: Liu et al. 2021, figure 3.
PAPER_SIZES = (10, 25, 40, 55, 70, 85, 100)
ORDERS = ("random", "file")


@dataclass(frozen=True, slots=True)
class Subsets:
    """Sizes with the indices (into the training sentences) of each; smaller subsets are nested in larger ones."""

    indices: Mapping[int, tuple[int, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """F1 (or whatever was measured) at a size: mean and sample deviation over `n` seeds; sd is None for one seed."""

    size: int
    mean: float
    sd: float | None
    n: int


def nested_subsets(n_total: int, sizes: Sequence[int], seed: int, *, order: str = "random") -> Subsets:
    """Return nested subsets: the first ones of a random order by seed, or of the file's own order.

    Sizes above `n_total` become one point at `n_total`, and a note says so. Indices within a subset are sorted.
    """
    if n_total < 1:
        raise InvalidConfig("There are no training sentences to take subsets of; create some gold first.")
    if not sizes or any(size < 1 for size in sizes):
        raise InvalidConfig(f"Subset sizes are {list(sizes)}; give at least one, each 1 or more.")
    if order not in ORDERS:
        raise InvalidConfig(f"Order is {order!r}; choose one of {', '.join(ORDERS)}.")
    line = np.random.default_rng(seed).permutation(n_total) if order == "random" else np.arange(n_total)
    capped = sorted({min(size, n_total) for size in sizes})
    over = sorted(size for size in set(sizes) if size > n_total)
    notes: tuple[str, ...] = ()
    if over:
        asked = ", ".join(map(str, over))
        notes = (f"Only {n_total} training sentences are there: {asked} became one point at {n_total}.",)
    return Subsets({size: tuple(sorted(line[:size].tolist())) for size in capped}, notes)


def aggregate(points: Iterable[tuple[int, float]]) -> list[CurvePoint]:
    """Return one point per size from (size, value) pairs of several seeds, smallest size first."""
    by_size: dict[int, list[float]] = {}
    for size, value in points:
        by_size.setdefault(size, []).append(value)
    return [
        CurvePoint(
            size, float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, len(values)
        )
        for size, values in sorted(by_size.items())
    ]
