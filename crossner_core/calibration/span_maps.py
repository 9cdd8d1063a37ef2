"""Map a predicted span's raw score to the probability that the span is correct: several maps, one chosen on dev."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crossner_core.calibration.reliability import Bools, Floats, log_loss
from crossner_core.errors import CheckpointError
from crossner_core.records import Record

# Simplest first: if two are equally good on dev, the earlier one is used.
METHODS = ("identity", "platt", "beta", "isotonic")
LEAST_SPANS = 40
FOLDS = 5
_LEAST = 1e-5


@dataclass(frozen=True, slots=True)
class SpanMap(Record):
    """A monotone map of [0, 1]: `numbers` are the weights of a logistic map, or the steps of an isotonic one.

    identity: the unchanged score. platt: a logistic map of the score's log-odds (Platt 1999). beta: of log p and -log(1
    - p) (Kull et al. 2017). isotonic: steps fitted to the data (Zadrozny and Elkan 2002), with linear interpolation.
    """

    method: str = "identity"
    numbers: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise CheckpointError(
                f"The scores were calibrated by {self.method!r}; supported are {', '.join(METHODS)}. Train it again."
            )

    def __call__(self, scores: Sequence[float] | Floats) -> Floats:
        """Return the probabilities of raw scores."""
        given = np.asarray(scores, dtype=np.float64)
        if self.method == "identity":
            return given
        if self.method == "isotonic":
            knots, value = self.numbers
            return np.interp(given, knots, value)
        weights, (bias,) = self.numbers
        odds = _features(self.method, given) @ np.asarray(weights) + bias
        probabilities: Floats = 1.0 / (1.0 + np.exp(-odds))
        return probabilities


def fit(method: str, scores: Floats, correct: Bools) -> SpanMap:
    """Fit a map to spans with known outcomes."""
    if method == "identity" or len(set(correct.tolist())) < 2:
        return SpanMap()
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        steps = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(scores, correct)
        return SpanMap(method, (tuple(steps.X_thresholds_.tolist()), tuple(steps.y_thresholds_.tolist())))
    from sklearn.linear_model import LogisticRegression

    learnt = LogisticRegression(max_iter=1000).fit(_features(method, scores), correct)
    return SpanMap(method, (tuple(learnt.coef_[0].tolist()), (float(learnt.intercept_[0]),)))


@dataclass(frozen=True)
class Choice:
    """The chosen map, the log loss of each map on held-out folds, and the chosen map's held-out scores."""

    chosen: SpanMap
    losses: Mapping[str, float]
    held_out: Floats
    note: str = ""


def choose(scores: Floats, correct: Bools, groups: Sequence[int]) -> Choice:
    """Choose a map by the log loss on held-out folds, then fit it to all; `groups` are the spans' sentences.

    With too few spans, or if all are correct or all wrong, the scores stay unchanged, with a note.
    """
    wrong = len(correct) - int(correct.sum())
    if len(correct) < LEAST_SPANS or not wrong or wrong == len(correct):
        why = f"{len(correct)} spans were predicted on dev, {len(correct) - wrong} of them correct"
        note = f"Span scores are not mapped: {why}; at least {LEAST_SPANS}, correct and wrong, are needed."
        return Choice(SpanMap(), {}, scores, note)
    held_out = {method: _held_out(method, scores, correct, np.asarray(groups)) for method in METHODS}
    losses = {method: log_loss(given, correct) for method, given in held_out.items()}
    best = min(METHODS, key=lambda method: round(losses[method], 4))
    return Choice(fit(best, scores, correct), losses, held_out[best])


def _held_out(method: str, scores: Floats, correct: Bools, groups: np.ndarray) -> Floats:
    """Return each span's score under a map that was fitted without its sentence's fold."""
    given = scores.copy()
    for fold in range(FOLDS):
        here = groups % FOLDS == fold
        if here.any() and not here.all():
            given[here] = fit(method, scores[~here], correct[~here])(scores[here])
    return given


def _features(method: str, scores: Floats) -> Floats:
    """Return the features of a logistic map: (N, 1) for platt, (N, 2) for beta."""
    sure = np.clip(scores, _LEAST, 1 - _LEAST)
    ups, downs = np.log(sure), -np.log1p(-sure)
    return np.stack([ups, downs], axis=1) if method == "beta" else (ups + downs)[:, None]
