"""The cost of an annotator's steps, fitted to the time spent on real sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crossner_core.errors import BadInput
from crossner_core.simulation.annotators import AnnotatorOptions

# With fewer sentences a fit is meaningless.
LEAST = 20
# Sentences that took longer than this multiple of the median were left open.
LEFT_LYING = 10.0
_STEPS = ("seconds_token", "seconds_kept", "seconds_changed", "seconds_added", "seconds_deleted")


@dataclass(frozen=True, slots=True)
class Observed:
    """One submitted sentence: its tokens, its entities by action, and its active seconds."""

    tokens: int
    kept: int
    changed: int
    added: int
    deleted: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """Prices of an annotator's steps; `explained` is the share of the variance of seconds they explain.

    `seen` counts the sentences that were used; a step that never happened keeps its published price, and is in
    `unseen`.
    """

    options: AnnotatorOptions
    explained: float
    seen: int
    unseen: tuple[str, ...]


def fit_costs(observed: Sequence[Observed]) -> Fitted:
    """Fit prices of at least zero by least squares; raise BadInput if there are too few sentences.

    Sentences without active time, and those that were left open, do not count. Source: Lawson and Hanson 1974 (NNLS).
    """
    from sklearn.linear_model import LinearRegression

    timed = [work for work in observed if work.seconds > 0]
    median = float(np.median([work.seconds for work in timed])) if timed else 0.0
    used = [work for work in timed if work.seconds <= LEFT_LYING * median]
    if len(used) < LEAST:
        raise BadInput(
            f"{len(used)} sentences have active time; {LEAST} are needed to estimate the cost of a step. Annotate more."
        )
    rows = np.array([[work.tokens, work.kept, work.changed, work.added, work.deleted] for work in used], dtype=float)
    seconds = np.array([work.seconds for work in used])
    seen = np.flatnonzero(rows.any(axis=0)).tolist()
    model = LinearRegression(fit_intercept=False, positive=True).fit(rows[:, seen], seconds)
    left, spread = seconds - model.predict(rows[:, seen]), float(((seconds - seconds.mean()) ** 2).sum())
    prices = {_STEPS[index]: round(float(price), 3) for index, price in zip(seen, model.coef_, strict=True)}
    return Fitted(
        replace(AnnotatorOptions(), **prices),
        1.0 - float((left**2).sum()) / spread if spread else 0.0,
        len(used),
        tuple(name for name in _STEPS if name not in prices),
    )
