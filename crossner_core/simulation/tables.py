"""What strategies bought: F1 at each size, sentences and seconds for the F1 of random ones, and the curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.evaluation.learning_curves import (
    AXES,
    BASELINE,
    RoundPoint,
    area,
    axes_of,
    common_range,
    mean_curve,
    reaches,
)
from crossner_core.experiments.plots import panels
from crossner_core.experiments.tables import Measured, Table, Value, summary

TITLE = "Strategies in simulated campaigns"
NOTE = (
    "Entity F1 in percent on the whole test set, mean ± sample deviation over the seeds. Area: mean F1 under the "
    "curve, on straight lines between its points, over the range of sentences that all strategies of the corpus cover, "
    "which stands beside it; – where a strategy has too few points. To F1 of n random: how many sentences the mean "
    "curve needs, on such lines, for the mean F1 that n random sentences give; – where it never gets there. Seconds "
    "are annotators' active time, simulated."
)
Runs = Mapping[str, Sequence[RoundPoint]]
"""The points of each strategy on one corpus, all seeds."""


def strategies_table(by_corpus: Mapping[str, Runs], goals: Sequence[int] = (100, 200)) -> Table:
    """Return a row for each corpus and strategy, the baseline first; `goals` are numbers of random sentences."""
    sizes = sorted({point.sentences for runs in by_corpus.values() for points in runs.values() for point in points})
    columns = ("corpus", "strategy", *(f"F1 at {size}" for size in sizes), "area", "over sentences")
    columns += tuple(f"{unit} to F1 of {goal} random" for goal in goals for unit in ("sentences", "seconds"))
    rows: list[tuple[Value, ...]] = []
    for corpus, runs in by_corpus.items():
        usual, areas = _by_size(runs.get(BASELINE, ())), _areas(runs)
        for name in sorted(runs, key=lambda strategy: strategy != BASELINE):
            points = _by_size(runs[name])
            needed = _spent if name == BASELINE else partial(_needs, usual=usual)
            needs = [needed(runs[name], goal=goal, axis=axis) for goal in goals for axis in ("sentences", "seconds")]
            rows.append((corpus, name, *(points.get(size) for size in sizes), *areas.get(name, (None, None)), *needs))
    return Table(TITLE, columns, tuple(rows), NOTE)


def strategies_figure(by_corpus: Mapping[str, Runs]) -> dict[str, Any]:
    """Return the curves of all strategies: a column a corpus, and a row an axis on which all points have a place."""
    axes = axes_of(point for runs in by_corpus.values() for points in runs.values() for point in points) or AXES[:1]
    names = list(dict.fromkeys(name for runs in by_corpus.values() for name in runs))
    rows = {
        axis: {corpus: {name: _line(runs.get(name, ()), axis) for name in names} for corpus, runs in by_corpus.items()}
        for axis in axes
    }
    return panels(TITLE, rows)


def _line(points: Sequence[RoundPoint], axis: str) -> list[tuple[float, Measured]]:
    curve = mean_curve(points, axis)
    return [
        (at_size.x, Measured(100 * at_size.mean, None if at_size.sd is None else 100 * at_size.sd, at_size.n))
        for at_size in curve
    ]


def _areas(runs: Runs) -> dict[str, tuple[Measured, str]]:
    """Return the area under the curve of each strategy that has one, and the range over which it is taken."""
    long = {name: points for name, points in runs.items() if _has_lines(points)}
    try:
        low, high = common_range(point for points in long.values() for point in points)
    except BadInput:  # no harm: without a common range there is nothing to compare
        return {}
    made = {}
    for name, points in long.items():
        mean_f1, sd = area(points, low, high)
        seeds = len({point.seed for point in points})
        made[name] = Measured(100 * mean_f1, None if sd is None else 100 * sd, seeds), f"{low:g} to {high:g}"
    return made


def _has_lines(points: Iterable[RoundPoint]) -> bool:
    """Say whether each seed was measured more than once."""
    rounds = Counter(point.seed for point in points)
    return bool(rounds) and min(rounds.values()) > 1


def _by_size(points: Iterable[RoundPoint]) -> dict[int, Measured]:
    values: dict[int, list[float]] = {}
    for point in points:
        values.setdefault(point.sentences, []).append(100 * point.f1)
    return {size: summary(scores) for size, scores in values.items()}


def _spent(points: Sequence[RoundPoint], goal: int, axis: str) -> Value:
    """Return what so many random sentences took in the mean."""
    spent = [float(getattr(point, axis)) for point in points if point.sentences == goal]
    return round(mean(spent)) if spent else None


def _needs(points: Sequence[RoundPoint], usual: Mapping[int, Measured], goal: int, axis: str) -> Value:
    if goal not in usual or (wanted := usual[goal].mean) is None:
        return None
    crossing = reaches(mean_curve(points, axis), wanted / 100)
    return None if crossing is None else round(crossing)
