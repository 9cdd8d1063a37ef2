"""Agreement between two layers of spans: named measures, each with its coverage and a bootstrap interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossner_core.errors import BadInput
from crossner_core.schema import Span

OUTSIDE = "O"
# With fewer sentences an interval over sentences is meaningless.
FEWEST_FOR_INTERVAL = 2

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layers:
    """One sentence of `length` tokens with the spans of both layers."""

    length: int
    first: tuple[Span, ...]
    second: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure's value with its 95 % interval; `n` counts its basis, in `unit`.

    If the value is None, `undefined` gives the reason; the interval alone can be None as well.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    undefined: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two layers over sentences: entity level exact, boundaries alone, and token level."""

    sentences: int
    entity_f1: Measure
    span_f1: Measure
    kappa: Measure
    kappa_without_o: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        """All measures, in display order."""
        return self.entity_f1, self.span_f1, self.kappa, self.kappa_without_o


def agreement(items: Iterable[Layers], *, rng: np.random.Generator | None = None, resamples: int = 1000) -> Agreement:
    """Measure how far two layers agree; intervals resample sentences with `rng` (default: seed 0).

    κ is Cohen's over tokens, whose category is their span's entity type or O. Without O it covers the tokens that at
    least one layer puts into a span (the other layer may still have O there).
    """
    layers = tuple(items)
    for index, item in enumerate(layers):
        if any(not 0 <= span.start < span.end <= item.length for span in (*item.first, *item.second)):
            raise BadInput(f"Sentence {index + 1} of {item.length} tokens has a span outside it.")
    rng = rng if rng is not None else np.random.default_rng(0)
    weights = _resamples(len(layers), resamples, rng)
    tables = _token_tables(layers)  # (S, K, K)
    entity = _pair_counts([(set(item.first), set(item.second)) for item in layers])
    bounds = _pair_counts([(_bounds(item.first), _bounds(item.second)) for item in layers])
    without_o = tables.copy()
    if len(layers):
        without_o[:, 0, 0] = 0.0
    return Agreement(
        sentences=len(layers),
        entity_f1=_f1_measure("entity F1, exact", entity, weights),
        span_f1=_f1_measure("span F1, boundaries only", bounds, weights),
        kappa=_kappa_measure("token κ", tables, weights),
        kappa_without_o=_kappa_measure("token κ without O", without_o, weights),
    )


def _bounds(spans: Sequence[Span]) -> set[tuple[int, int]]:
    return {(span.start, span.end) for span in spans}


def _pair_counts(
    pairs: Sequence[tuple[set[Span], set[Span]] | tuple[set[tuple[int, int]], set[tuple[int, int]]]],
) -> Array:
    """Return (S, 2): twice the number of shared spans, and the sum of both layers' spans."""
    counts = [[2.0 * len(first & second), len(first) + len(second)] for first, second in pairs]
    return np.asarray(counts, dtype=np.float64).reshape(-1, 2)


def _token_tables(layers: Sequence[Layers]) -> Array:
    """Return (S, K, K) counts of tokens by their category in the first and the second layer; category 0 is O."""
    names = sorted({span.type for item in layers for span in (*item.first, *item.second)})
    index = {name: number + 1 for number, name in enumerate(names)}
    tables = np.zeros((len(layers), len(names) + 1, len(names) + 1))
    for row, item in enumerate(layers):
        categories = np.zeros((2, item.length), dtype=np.int64)
        for side, spans in enumerate((item.first, item.second)):
            for span in spans:
                categories[side, span.start : span.end] = index[span.type]
        np.add.at(tables[row], (categories[0], categories[1]), 1.0)
    return tables


def _resamples(sentences: int, resamples: int, rng: np.random.Generator) -> Array:
    """Return (R, S): the number of times each sentence is drawn in each resample."""
    if sentences < FEWEST_FOR_INTERVAL:
        return np.zeros((0, sentences))
    return rng.multinomial(sentences, np.full(sentences, 1.0 / sentences), size=resamples).astype(np.float64)


def _f1_measure(name: str, counts: Array, weights: Array) -> Measure:
    total = counts.sum(axis=0) if len(counts) else np.zeros(2)
    n = int(total[1])
    if not len(counts):
        return Measure(name, None, None, None, 0, "entities", "No sentence has both layers yet.")
    if not n:
        return Measure(name, None, None, None, 0, "entities", "Neither layer marks any entity in these sentences.")
    drawn = weights @ counts  # (R, 2)
    values = drawn[drawn[:, 1] > 0]
    low, high = _interval(values[:, 0] / values[:, 1], len(weights))
    return Measure(name, float(total[0] / total[1]), low, high, n, "entities")


def _kappa_measure(name: str, tables: Array, weights: Array) -> Measure:
    if not len(tables):
        return Measure(name, None, None, None, 0, "tokens", "No sentence has both layers yet.")
    total = tables.sum(axis=0)  # (K, K)
    n = int(total.sum())
    if not n:
        why = "There is no token to compare: neither layer marks any entity."
        return Measure(name, None, None, None, 0, "tokens", why)
    value = float(_kappas(total[None])[0])
    if np.isnan(value):
        why = "All tokens have the same category in both layers, so chance agreement is already perfect."
        return Measure(name, None, None, None, n, "tokens", why)
    size = total.shape[0]
    drawn = (weights @ tables.reshape(len(tables), -1)).reshape(-1, size, size)  # (R, K, K)
    values = _kappas(drawn)
    low, high = _interval(values[~np.isnan(values)], len(weights))
    return Measure(name, value, low, high, n, "tokens")


def _kappas(tables: Array) -> Array:
    """Return Cohen's κ of each table (R, K, K); nan where chance agreement is 1 or the table is empty."""
    totals = tables.sum(axis=(1, 2))
    safe = np.where(totals > 0, totals, 1.0)
    observed = np.trace(tables, axis1=1, axis2=2) / safe
    expected = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / safe**2
    room = 1.0 - expected
    defined = (totals > 0) & (room > 1e-12)
    return np.where(defined, (observed - expected) / np.where(defined, room, 1.0), np.nan)


def _interval(values: Array, wanted: int) -> tuple[float | None, float | None]:
    """Return the 2.5 and 97.5 percentiles; none if the measure is undefined for most resamples."""
    if not len(values) or len(values) < wanted / 2:
        return None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
