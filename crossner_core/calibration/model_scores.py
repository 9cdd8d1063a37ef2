"""Calibrate a trained tagger on dev: a temperature for its tags, then a map for its spans; measured on test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crossner_core.calibration.reliability import Bools, Floats, Reliability, reliability
from crossner_core.calibration.span_maps import SpanMap, choose
from crossner_core.records import Record
from crossner_core.schema import LabelledSentence, Sentence, Span
from crossner_core.tags import spans_from_tags, tags_from_spans

NO_DEV = "No dev data: span scores are the model's own, not calibrated."


class TagScores(NamedTuple):
    """A sentence's chosen tags (T,) as indices, and the scores (T, A) whose softmax gives tag probabilities."""

    path: NDArray[np.int64]
    scores: Floats

    def tags(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the chosen tags by name."""
        return tuple(names[tag] for tag in self.path)


def join_scores(parts: Sequence[TagScores], tags: int) -> TagScores:
    """Concatenate a sentence's windows; a sentence without tokens has none."""
    if not parts:
        return TagScores(np.zeros(0, dtype=np.int64), np.zeros((0, tags)))
    return TagScores(np.concatenate([part.path for part in parts]), np.concatenate([part.scores for part in parts]))


@dataclass(frozen=True)
class Calibration(Record):
    """Maps a tagger's raw span scores to probabilities; stored with its checkpoint."""

    temperature: float = 1.0
    spans: SpanMap = field(default_factory=SpanMap)


class ScoredTagger(Protocol):
    """A tagger that can be calibrated."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that score indices refer to."""
        ...

    def tag_scores(self, sentences: Sequence[Sentence]) -> list[TagScores]:
        """Return each sentence's chosen tags and the scores behind them."""
        ...

    def calibrate(self, calibration: Calibration) -> None:
        """Apply a calibration."""
        ...


@dataclass(frozen=True)
class CalibrationReport(Record):
    """How scores were calibrated, and the effect measured on `measured_on` (test, or dev on held-out folds).

    `dev_error` is the expected calibration error on dev's held-out folds, None where an earlier version wrote this.
    """

    calibration: Calibration
    measured_on: str
    dev_spans: int
    raw: Reliability
    calibrated: Reliability
    losses: Mapping[str, float]
    note: str = ""
    dev_error: float | None = None

    @property
    def sentence(self) -> str:
        """The calibration and its effect in one line."""
        done = f"temperature {self.calibration.temperature:.2f}, then {self.calibration.spans.method}"
        bought = f"error of the span scores on {self.measured_on} {self.raw.error:.3f} → {self.calibrated.error:.3f}"
        return " ".join([f"Scores calibrated on {self.dev_spans} dev spans ({done}): {bought}.", self.note]).strip()


@dataclass(frozen=True)
class Scored:
    """Predicted spans of labelled sentences: raw and tempered score, correct or not, and the sentence's index."""

    raw: Floats
    tempered: Floats
    correct: Bools
    sentence: tuple[int, ...]


def calibrate(
    tagger: ScoredTagger,
    dev: Sequence[LabelledSentence],
    test: Sequence[LabelledSentence] = (),
    *,
    dev_scores: Sequence[TagScores] | None = None,
    test_scores: Sequence[TagScores] | None = None,
) -> CalibrationReport | None:
    """Calibrate a tagger on dev in place and return the report; without dev do nothing and return None.

    Test is only measured. Pass earlier predictions as `dev_scores` and `test_scores` to avoid predicting again. Source:
    Guo et al. 2017, section 4.2, for the temperature.
    """
    if not any(item.sentence.tokens for item in dev):
        return None
    scores = dev_scores or tagger.tag_scores([item.sentence for item in dev])
    temperature = fit_temperature(scores, _gold_tags(tagger, dev))
    dev_spans = scored_spans(tagger, dev, scores, temperature)
    choice = choose(dev_spans.tempered, dev_spans.correct, dev_spans.sentence)
    calibration = Calibration(temperature, choice.chosen)
    measured_on, measured, given = "dev, on held-out folds", dev_spans, choice.held_out
    if any(item.sentence.tokens for item in test):
        scores = test_scores or tagger.tag_scores([item.sentence for item in test])
        measured_on, measured = "test", scored_spans(tagger, test, scores, temperature)
        given = calibration.spans(measured.tempered)
    tagger.calibrate(calibration)
    return CalibrationReport(
        calibration=calibration,
        measured_on=measured_on,
        dev_spans=len(dev_spans.correct),
        raw=reliability(measured.raw, measured.correct),
        calibrated=reliability(given, measured.correct),
        losses=choice.losses,
        note=choice.note,
        dev_error=reliability(choice.held_out, dev_spans.correct).error,
    )


def fit_temperature(scores: Sequence[TagScores], gold: Sequence[NDArray[np.int64]]) -> float:
    """Return the temperature in [0.1, 20] that maximises the likelihood of the gold tags."""
    import torch
    from torch.nn import functional

    given = torch.from_numpy(np.concatenate([part.scores for part in scores]))  # (N, A)
    own = torch.from_numpy(np.concatenate(list(gold)))  # (N,)
    # The loss is convex in the temperature's inverse.
    inverse = torch.ones((), dtype=torch.float64, requires_grad=True)
    search: torch.optim.Optimizer = torch.optim.LBFGS([inverse], max_iter=50, line_search_fn="strong_wolfe")

    def loss() -> float:
        search.zero_grad()
        value = functional.cross_entropy(given * inverse, own)
        torch.autograd.backward(value)
        return value.item()

    search.step(loss)
    return float(1.0 / np.clip(inverse.item(), 0.05, 10.0))


def scored_spans(
    tagger: ScoredTagger,
    items: Sequence[LabelledSentence],
    scores: Sequence[TagScores],
    temperature: float,
) -> Scored:
    """Return the predicted spans with their raw and tempered scores: the lowest tag probability in the span."""
    raw, tempered, correct, where = [], [], [], []
    for index, (item, prediction) in enumerate(zip(items, scores, strict=True)):
        probabilities = [_chosen_share(prediction.scores / t, prediction.path) for t in (1.0, temperature)]
        gold: set[Span] = set(item.spans)
        for span in spans_from_tags(prediction.tags(tagger.tags), strict=False):
            raw.append(probabilities[0][span.start : span.end].min())
            tempered.append(probabilities[1][span.start : span.end].min())
            correct.append(span in gold)
            where.append(index)
    return Scored(
        np.asarray(raw, dtype=float), np.asarray(tempered, dtype=float), np.asarray(correct, bool), tuple(where)
    )


def _chosen_share(scores: Floats, path: NDArray[np.int64]) -> Floats:
    """Return the softmax probability (T,) of each token's chosen tag."""
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))  # (T, A)
    own: Floats = exponentials[np.arange(len(path)), path] / exponentials.sum(axis=1)
    return own


def _gold_tags(tagger: ScoredTagger, items: Sequence[LabelledSentence]) -> list[NDArray[np.int64]]:
    index = {tag: number for number, tag in enumerate(tagger.tags)}
    return [
        np.asarray([index[tag] for tag in tags_from_spans(item.spans, len(item.sentence.tokens))], dtype=np.int64)
        for item in items
    ]
