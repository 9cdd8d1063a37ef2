"""What strategies bought: F1 at each size, sentences and seconds for the F1 of random ones, and the curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any

from crossner_core.evaluation.learning_curves import BASELINE, RoundPoint, mean_curve, reaches
from crossner_core.experiments.plots import panels
from crossner_core.experiments.tables import Measured, Table, Value, summary

TITLE = "Strategies in simulated campaigns"
NOTE = (
    "Entity F1 in percent on the whole test set, mean ± sample deviation over the seeds. To F1 of n random: how many "
    "sentences the mean curve needs, on straight lines between its points, for the mean F1 that n random sentences "
    "give; – where it never gets there. Seconds are annotators' active time, simulated."
)
Runs = Mapping[str, Sequence[RoundPoint]]
"""The points of each strategy on one corpus, all seeds."""


def strategies_table(by_corpus: Mapping[str, Runs], goals: Sequence[int] = (100, 200)) -> Table:
    """Return a row for each corpus and strategy, the baseline first; `goals` are numbers of random sentences."""
    sizes = sorted({point.sentences for runs in by_corpus.values() for found in runs.values() for point in found})
    columns = ("corpus", "strategy", *(f"F1 at {size}" for size in sizes))
    columns += tuple(f"{unit} to F1 of {goal} random" for goal in goals for unit in ("sentences", "seconds"))
    rows: list[tuple[Value, ...]] = []
    for corpus, runs in by_corpus.items():
        usual = _by_size(runs.get(BASELINE, ()))
        for name in sorted(runs, key=lambda one: one != BASELINE):
            found = _by_size(runs[name])
            needed = _spent if name == BASELINE else partial(_needs, usual=usual)
            needs = [needed(runs[name], goal=goal, axis=axis) for goal in goals for axis in ("sentences", "seconds")]
            rows.append((corpus, name, *(found.get(size) for size in sizes), *needs))
    return Table(TITLE, columns, tuple(rows), NOTE)


def strategies_figure(by_corpus: Mapping[str, Runs], axes: Sequence[str] = ("sentences", "seconds")) -> dict[str, Any]:
    """Return the curves of all strategies, a column a corpus and a row an axis of learning curves."""
    names = list(dict.fromkeys(name for runs in by_corpus.values() for name in runs))
    rows = {
        axis: {corpus: {name: _line(runs.get(name, ()), axis) for name in names} for corpus, runs in by_corpus.items()}
        for axis in axes
    }
    return panels(TITLE, rows)


def _line(points: Sequence[RoundPoint], axis: str) -> list[tuple[float, Measured]]:
    curve = mean_curve(points, axis)
    return [(one.x, Measured(100 * one.mean, None if one.sd is None else 100 * one.sd, one.n)) for one in curve]


def _by_size(points: Iterable[RoundPoint]) -> dict[int, Measured]:
    values: dict[int, list[float]] = {}
    for point in points:
        values.setdefault(point.sentences, []).append(100 * point.f1)
    return {size: summary(found) for size, found in values.items()}


def _spent(points: Sequence[RoundPoint], goal: int, axis: str) -> Value:
    """Return what so many random sentences took in the mean."""
    there = [float(getattr(point, axis)) for point in points if point.sentences == goal]
    return round(mean(there)) if there else None


def _needs(points: Sequence[RoundPoint], usual: Mapping[int, Measured], goal: int, axis: str) -> Value:
    if goal not in usual or (wanted := usual[goal].mean) is None:
        return None
    found = reaches(mean_curve(points, axis), wanted / 100)
    return None if found is None else round(found)
