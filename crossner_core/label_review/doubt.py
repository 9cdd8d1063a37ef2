"""One score for how doubtful a place in the gold is: its cross-validated loss, weighted with other evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossner_core.label_review.evidence import Floats, Place
from crossner_core.label_review.surfaces import Surfaces
from crossner_core.schema import LabelledSentence

_MOST = 3  # more places with the same words add no evidence
# The doubt, a sum of −log-probabilities, that maps to one half.
_MIDDLE = 4.0


@dataclass(frozen=True)
class DoubtWeights:
    """The weight of each signal; chosen on planted errors of one seed of ai, and not changed since."""

    typical: float = 0.5
    """Share of a type's mean loss that is subtracted: a hard type is not an error by itself."""
    agree: float = 0.5
    """Subtracted for each other place where gold gives the same words the same type."""
    differ: float = 0.5
    """Added for each other place where gold gives the same words another type."""
    repeat: float = 0.3
    """Added to a missing entity for each place where gold has the same words as one."""
    small: float = 0.7
    """Added to an entity without a capital; subtracted from a missing one."""
    ragged: float = 1.0
    """Added to an entity that begins or ends with punctuation."""


WEIGHTS = DoubtWeights()


def doubts(
    places: Sequence[Place], items: Sequence[LabelledSentence], surfaces: Surfaces, weights: DoubtWeights = WEIGHTS
) -> Floats:
    """Return a doubt for each place, in [0, 1]; only the order is meaningful.

    An entity's loss sums the evidence against its type, against there being an entity, and against its boundaries; a
    type's mean loss is partly subtracted, like the per-class thresholds of confident learning. Sources: Klie, Webber
    and Gurevych 2023, section 4 (scoring by loss, aggregated over spans); Northcutt, Jiang and Chuang 2021, section
    3.1.
    """
    usual = _usual(places)
    raw = [
        _entity(place, items[place.item], surfaces, weights, usual)
        if place.given
        else _missing(place, items[place.item], surfaces, weights)
        for place in places
    ]
    return np.asarray(1.0 / (1.0 + np.exp(_MIDDLE - np.array(raw, dtype=np.float64))))


def _usual(places: Sequence[Place]) -> dict[str, float]:
    """Return the mean loss of each type over the gold's entities."""
    losses: dict[str, list[float]] = {}
    for place in places:
        if place.given is not None:
            losses.setdefault(place.given.type, []).append(place.signals["type"])
    return {name: float(np.mean(values)) for name, values in losses.items()}


def _entity(
    place: Place, item: LabelledSentence, surfaces: Surfaces, weights: DoubtWeights, usual: dict[str, float]
) -> float:
    span, signals = place.given, place.signals
    assert span is not None
    key = item.sentence.words[span.start : span.end]
    counts = surfaces.types(key)
    agree, differ = min(counts[span.type] - 1, _MOST), min(counts.total() - counts[span.type], _MOST)
    loss = signals["type"] - weights.typical * usual[span.type]
    loss += max(signals["edge"], signals["outside"]) + max(signals["left"], signals["right"], signals["beside"])
    loss += weights.differ * differ - weights.agree * agree
    ragged = not (any(map(str.isalnum, key[0])) and any(map(str.isalnum, key[-1])))
    return loss + weights.small * _is_small(key) + weights.ragged * ragged


def _missing(place: Place, item: LabelledSentence, surfaces: Surfaces, weights: DoubtWeights) -> float:
    span = place.proposed
    assert span is not None
    key = item.sentence.words[span.start : span.end]
    known = min(surfaces.types(key).total(), _MOST)
    return place.signals["chance"] + weights.repeat * known - weights.small * _is_small(key)


def _is_small(key: Sequence[str]) -> bool:
    return not any(word[0].isupper() for word in key)
