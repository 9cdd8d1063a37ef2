"""Learning curves: F1 over sentences, tokens, entities or seconds, their areas, and what a strategy saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from crossner_core.errors import BadInput

AXES = ("sentences", "tokens", "entities", "seconds")
BASELINE = "random"
# F1 values closer than this differ only by the order of summation.
_SAME = 1e-9

_Key = TypeVar("_Key", int, str)
Line = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Increasing x values, and the F1 at each."""


@dataclass(frozen=True, slots=True)
class RoundPoint:
    """A model after a round: the total labelled by then, and its F1 in [0, 1], overall and by type.

    `seconds` are annotators' active time. A cost that was not recorded is None; then there is no curve over it.
    """

    strategy: str
    seed: int
    round: int
    sentences: int
    f1: float
    tokens: int | None = None
    entities: int | None = None
    seconds: float | None = None
    per_type: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeanPoint:
    """F1 in [0, 1] at a point on the axis: mean and sample deviation over `n` seeds (None for one seed)."""

    x: float
    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A strategy's curve in one row; `area` is mean F1 over the common range, with its deviation over seeds.

    `saved` is how much less than the baseline the strategy needs to reach `f1`, the baseline's best mean; None if it
    never does. `needs` is the point where it does, else None.
    """

    strategy: str
    seeds: int
    area: float
    area_sd: float | None
    final: float
    f1: float
    needs: float | None
    saved: float | None


def axes_of(points: Iterable[RoundPoint]) -> tuple[str, ...]:
    """Return the axes on which every point has a value."""
    points = tuple(points)
    return tuple(axis for axis in AXES if points and all(getattr(point, axis) is not None for point in points))


def mean_curve(points: Iterable[RoundPoint], axis: str = "sentences", type: str | None = None) -> tuple[MeanPoint, ...]:
    """Return one strategy's mean curve over its seeds, for all types or for one.

    Its x values are those of the rounds, averaged over seeds if they differ, within the range that all seeds cover; F1
    is interpolated linearly between a seed's rounds. A seed with fewer rounds ends the curve early. Raises BadInput for
    an axis that the points lack.
    """
    points = tuple(points)
    lines = _lines(points, axis, type)
    if not lines:
        return ()
    grid = _grid(points, lines, axis)
    values = np.stack([np.interp(grid, *line) for line in lines])  # (seeds, places)
    sd = values.std(axis=0, ddof=1) if len(lines) > 1 else None
    mean = values.mean(axis=0)
    return tuple(
        MeanPoint(float(x), float(mean[index]), None if sd is None else float(sd[index]), len(lines))
        for index, x in enumerate(grid)
    )


def area(
    points: Iterable[RoundPoint], low: float, high: float, axis: str = "sentences", type: str | None = None
) -> tuple[float, float | None]:
    """Return the area under the curve from `low` to `high` divided by their distance: mean and deviation over seeds.

    This is the mean F1 over that range, in [0, 1]. Raises BadInput if a seed's curve does not cover the range.
    """
    lines = _lines(points, axis, type)
    if not lines or not low < high:
        raise BadInput(f"There is no area from {low:g} to {high:g} {axis} under {len(lines)} curves.")
    values = [_area(line, low, high, axis) for line in lines]
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def common_range(points: Iterable[RoundPoint], axis: str = "sentences", type: str | None = None) -> tuple[float, float]:
    """Return the range of an axis that all seeds of all strategies cover; raise BadInput if there is none."""
    by_strategy = _by(points, lambda point: point.strategy)
    places = [line[0] for points in by_strategy.values() for line in _lines(points, axis, type)]
    if not places:
        raise BadInput(f"There are no curves over {axis}, so they have no range in common.")
    low, high = float(max(xs[0] for xs in places)), float(min(xs[-1] for xs in places))
    if low == high:
        raise BadInput(
            f"The curves have only {low:g} {axis} in common, and an area needs a range: the shortest curve has no "
            "other point yet. Train what it lacks, or leave it out."
        )
    if low > high:
        raise BadInput(f"The curves have no range of {axis} in common: one begins at {low:g}, one ends at {high:g}.")
    return low, high


def reaches(curve: Sequence[MeanPoint], f1: float) -> float | None:
    """Return the first x at which a curve reaches an F1, by linear interpolation; None if it never does.

    A curve that begins above it returns its first x: it needs no more than that.
    """
    if not curve:
        return None
    if curve[0].mean >= f1 - _SAME:
        return curve[0].x
    for before, after in pairwise(curve):
        if after.mean >= f1 - _SAME:
            return before.x + (after.x - before.x) * (f1 - before.mean) / (after.mean - before.mean)
    return None


def saved_by_level(
    curve: Sequence[MeanPoint], baseline: Sequence[MeanPoint], *, levels: int = 20
) -> tuple[tuple[float, float], ...]:
    """Return (F1, saving against the baseline) for evenly spaced F1 values that both curves reach, low to high."""
    if not curve or not baseline:
        return ()
    low = max(curve[0].mean, baseline[0].mean)
    high = min(max(point.mean for point in line) for line in (curve, baseline))
    if not low < high:
        return ()
    results = []
    for f1 in np.linspace(low, high, levels):
        needed, usual = reaches(curve, float(f1)), reaches(baseline, float(f1))
        if needed is not None and usual is not None:
            results.append((float(f1), usual - needed))
    return tuple(results)


def summarise(
    points: Iterable[RoundPoint], axis: str = "sentences", *, type: str | None = None, baseline: str = BASELINE
) -> tuple[Summary, ...]:
    """Compare every strategy with the baseline, best area first, for all types or for one.

    Areas cover the range common to all seeds of all strategies. Raises BadInput if the baseline or such a range is
    missing.
    """
    by_strategy = _by(points, lambda point: point.strategy)
    if baseline not in by_strategy:
        available = ", ".join(by_strategy) or "none"
        raise BadInput(
            f"There is no strategy {baseline!r} to compare with; there are: {available}. Run it with the same seeds."
        )
    by_strategy = {name: points for name, points in by_strategy.items() if _lines(points, axis, type)}
    if baseline not in by_strategy:
        raise BadInput(f"The strategy {baseline!r} has no scores of type {type!r}.")
    low, high = common_range((point for points in by_strategy.values() for point in points), axis, type)
    curves = {name: mean_curve(points, axis, type) for name, points in by_strategy.items()}
    goal = max(point.mean for point in curves[baseline])
    usual = reaches(curves[baseline], goal)
    rows = []
    for name, found in by_strategy.items():
        mean, sd = area(found, low, high, axis, type)
        needs = reaches(curves[name], goal)
        saved = None if needs is None or usual is None else usual - needs
        last = curves[name][-1]
        rows.append(Summary(name, last.n, mean, sd, last.mean, goal, needs, saved))
    return tuple(sorted(rows, key=lambda row: (-row.area, row.strategy)))


def seconds_saved(
    points: Iterable[RoundPoint], *, type: str | None = None, baseline: str = BASELINE
) -> dict[str, float | None]:
    """Return the annotators' seconds that each strategy saves for the target F1 of `summarise` over sentences.

    Both sides are priced alike: the mean seconds over seeds for the sentences that the baseline needs, minus those for
    the sentences that the strategy needs. (On curves over seconds the target F1 would differ if seeds took unequally
    long.) Negative values mean that the strategy takes longer; None if it never reaches the target, or if seconds were
    not recorded. Raises BadInput as `summarise` does.
    """
    points = tuple(points)
    rows, by_strategy = summarise(points, type=type, baseline=baseline), _by(points, lambda point: point.strategy)
    took = {row.strategy: _seconds_of(by_strategy[row.strategy], row.needs) for row in rows}
    usual = took[baseline]
    return {name: None if usual is None or cost is None else usual - cost for name, cost in took.items()}


def _seconds_of(points: Iterable[RoundPoint], sentences: float | None) -> float | None:
    """Return the seconds for this many of a strategy's sentences, mean over seeds, interpolated between rounds."""
    if sentences is None:
        return None
    found = []
    for of_seed in _by(points, lambda point: point.seed).values():
        ordered = sorted(of_seed, key=lambda point: point.round)
        seconds = [point.seconds for point in ordered if point.seconds is not None]
        if len(seconds) < len(ordered):
            return None
        found.append(float(np.interp(sentences, [point.sentences for point in ordered], seconds)))
    return float(np.mean(found))


def _lines(points: Iterable[RoundPoint], axis: str, type: str | None) -> list[Line]:
    """Return one line per seed, sorted by seed; a seed without the requested type has none."""
    if axis not in AXES:
        raise BadInput(f"axis is {axis!r}; choose one of {', '.join(AXES)}.")
    lines = []
    for seed, of_seed in sorted(_by(points, lambda point: point.seed).items()):
        of_seed = [point for point in of_seed if type is None or type in point.per_type]
        if any(getattr(point, axis) is None for point in of_seed):
            raise BadInput(f"Seed {seed} has rounds whose {axis} were not recorded; choose another axis.")
        ordered = sorted(of_seed, key=lambda point: point.round)
        places = np.asarray([getattr(point, axis) for point in ordered], dtype=np.float64)
        if (np.diff(places) < 0).any():
            raise BadInput(f"Seed {seed}: the {axis} decrease from one round to the next: {places.tolist()}.")
        if ordered:
            values = [point.f1 if type is None else point.per_type[type] for point in ordered]
            last = np.append(
                np.diff(places) > 0, True
            )  # sentences without entities do not advance the axis: the later round counts
            lines.append((places[last], np.asarray(values, dtype=np.float64)[last]))
    return lines


def _grid(points: Iterable[RoundPoint], lines: Sequence[Line], axis: str) -> NDArray[np.float64]:
    """Return the x values of a mean curve: the mean of each round, within the range that all lines cover."""
    rounds = _by(points, lambda point: point.round).values()
    means = [float(np.mean([getattr(point, axis) for point in points])) for points in rounds]
    low, high = max(line[0][0] for line in lines), min(line[0][-1] for line in lines)
    return np.unique(np.clip(means, low, high)) if low <= high else np.asarray([], dtype=np.float64)


def _area(line: Line, low: float, high: float, axis: str) -> float:
    places, values = line
    if places[0] > low or places[-1] < high:
        raise BadInput(f"A curve covers {places[0]:g} to {places[-1]:g} {axis}, not {low:g} to {high:g}.")
    inner = places[(places > low) & (places < high)]
    grid = np.concatenate([[low], inner, [high]])
    return float(np.trapezoid(np.interp(grid, places, values), grid) / (high - low))


def _by(points: Iterable[RoundPoint], key: Callable[[RoundPoint], _Key]) -> dict[_Key, list[RoundPoint]]:
    groups: dict[_Key, list[RoundPoint]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups
