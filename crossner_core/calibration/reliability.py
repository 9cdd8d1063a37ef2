"""Reliability of scores by bins, and the expected calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossner_core.records import Record

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
BINS = 10
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Bin:
    """The scores in one bin: their number, their mean, and the share that is correct."""

    count: int
    score: float
    right: float


@dataclass(frozen=True)
class Reliability(Record):
    """Scores compared with outcomes: bins of equal mass, and calibration errors for both ways of binning.

    `error` and `error_equal_width` are expected calibration errors in [0, 1]; `brier` is the mean squared error.
    """

    spans: int
    bins: tuple[Bin, ...]
    error: float
    error_equal_width: float
    brier: float
    log_loss: float


def reliability(scores: Sequence[float] | Floats, correct: Sequence[bool] | Bools, *, bins: int = BINS) -> Reliability:
    """Measure scores in [0, 1] against whether each span is correct (start, end and type as in gold)."""
    given, truth = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    mass = binned(given, truth, "equal mass", bins)
    width = binned(given, truth, "equal width", bins)
    return Reliability(
        spans=len(given),
        bins=mass,
        error=expected_error(mass),
        error_equal_width=expected_error(width),
        brier=float(np.mean((given - truth) ** 2)) if len(given) else 0.0,
        log_loss=log_loss(given, truth),
    )


def binned(scores: Floats, correct: Bools, binning: str = "equal mass", bins: int = BINS) -> tuple[Bin, ...]:
    """Return the non-empty bins, lowest scores first.

    Equal mass: bin sizes differ by at most one. Equal width: `bins` equal parts of [0, 1], as in Guo et al. 2017, where
    most spans of a confident model share one bin.
    """
    order = np.argsort(scores, kind="stable")
    if binning == "equal mass":
        parts = np.array_split(order, max(1, min(bins, len(order))))
    else:
        edges = np.minimum((scores * bins).astype(np.int64), bins - 1)
        parts = [np.flatnonzero(edges == number) for number in range(bins)]
    return tuple(Bin(len(part), float(scores[part].mean()), float(correct[part].mean())) for part in parts if len(part))


def expected_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error: |share correct - mean score| per bin, weighted by its spans."""
    total = sum(part.count for part in bins)
    return sum(part.count * abs(part.right - part.score) for part in bins) / total if total else 0.0


def log_loss(scores: Floats, correct: Bools) -> float:
    """Return the mean negative log-likelihood of the outcomes under the scores, 0 without spans."""
    if not len(scores):
        return 0.0
    sure = np.clip(scores, _LEAST, 1 - _LEAST)
    return float(-np.mean(np.where(correct, np.log(sure), np.log1p(-sure))))
