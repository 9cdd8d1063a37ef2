"""How each prediction source compares with gold: its accuracy against its confidence, by entity type."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_core.schema import Span, Suggestion
from crossner_core.suggest.base import kind_of

PRIOR = 30.0
"""Prior: this many suggestions count as correct at the rate of their scores, before any gold.

Of 4, 12, 30 and 100, this value has the lowest cross-fitted Brier score on dev of music and ai together.
"""
_SURE = 0.995
_STEPS = 50


@dataclass(frozen=True, slots=True)
class Weight:
    """The suggestions that gold covers: n, how many are correct, their mean confidence, and the resulting offset.

    `offset` is added to the log-odds of their scores; below 0 it lowers them. Without gold it is 0: a source's score is
    used as it is.
    """

    n: int = 0
    correct: int = 0
    confidence: float = 0.0
    offset: float = 0.0

    def to_list(self) -> list[float]:
        """Return plain numbers that `Weight(*numbers)` reads back."""
        return [self.n, self.correct, self.confidence, self.offset]


NO_GOLD = Weight()


@dataclass(frozen=True)
class SourceWeights:
    """Learnt weights of the sources: by kind, by kind and entity type, and by which kinds agree.

    A source's kind is the part before the colon: `model:run 3` is of the kind `model`. `sentences` counts those with
    gold.
    """

    kinds: Mapping[str, Weight] = field(default_factory=dict)
    types: Mapping[tuple[str, str], Weight] = field(default_factory=dict)
    groups: Mapping[str, Weight] = field(default_factory=dict)
    sentences: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        types = [[kind, name, *weight.to_list()] for (kind, name), weight in sorted(self.types.items())]
        kinds, groups = (
            {name: weight.to_list() for name, weight in sorted(part.items())} for part in (self.kinds, self.groups)
        )
        return {"kinds": kinds, "types": types, "groups": groups, "sentences": self.sentences}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SourceWeights:
        """Build weights from what `to_dict` returned."""
        return cls(
            kinds={name: Weight(*numbers) for name, numbers in values["kinds"].items()},
            types={(kind, name): Weight(*numbers) for kind, name, *numbers in values["types"]},
            groups={name: Weight(*numbers) for name, numbers in values["groups"].items()},
            sentences=int(values["sentences"]),
        )

    def believed(self, suggestion: Suggestion) -> float:
        """Return the probability that a suggestion is correct, from its score and its source's weights."""
        kind = kind_of(suggestion.source)
        offset = self.kinds.get(kind, NO_GOLD).offset + self.types.get((kind, suggestion.type), NO_GOLD).offset
        return shifted(suggestion.score, offset)


def shifted(score: float, offset: float) -> float:
    """Return a probability after adding `offset` to its log-odds; with offset 0 it is returned unchanged."""
    return share_of(log_odds(score) + offset) if offset else score


def log_odds(score: float) -> float:
    """Return the log-odds of a score; 0 and 1 are clipped, or no gold could ever change them."""
    sure = min(max(score, 1 - _SURE), _SURE)
    return math.log(sure) - math.log1p(-sure)


def share_of(odds: float) -> float:
    """Return the probability with these log-odds."""
    return 1.0 / (1.0 + math.exp(-odds))


def learn_sources(known: Iterable[tuple[Sequence[Suggestion], Collection[Span]]]) -> SourceWeights:
    """Learn by kind, then by kind and type, from sentences with gold; groups are learnt in `proposals`.

    A suggestion is correct if gold has a span with its start, end and type.
    """
    by_kind: dict[str, list[tuple[str, float, bool]]] = {}
    sentences = 0
    for suggestions, gold in known:
        sentences += 1
        for suggestion in suggestions:
            row = suggestion.type, log_odds(suggestion.score), suggestion.span in gold
            by_kind.setdefault(kind_of(suggestion.source), []).append(row)
    kinds: dict[str, Weight] = {}
    types: dict[tuple[str, str], Weight] = {}
    for kind, rows in sorted(by_kind.items()):
        kinds[kind] = weigh([(odds, correct) for _, odds, correct in rows])
        by_type: dict[str, list[tuple[float, bool]]] = {}
        for name, odds, correct in rows:
            by_type.setdefault(name, []).append((odds + kinds[kind].offset, correct))
        types |= {(kind, name): weigh(pairs) for name, pairs in sorted(by_type.items())}
    return SourceWeights(kinds, types, {}, sentences)


def weigh(answers: Sequence[tuple[float, bool]], prior: float = PRIOR) -> Weight:
    """Return the offset to these log-odds for which the mean probability equals the smoothed share that was correct.

    The share is smoothed towards the original mean probability: Beta(prior · confidence, prior · (1 - confidence)).
    """
    import numpy as np  # not at the top: commands that only show a campaign do not need it

    odds = np.asarray([value for value, _ in answers], dtype=np.float64)
    correct = sum(ok for _, ok in answers)

    def mean(offset: float) -> float:
        return float(np.mean(1.0 / (1.0 + np.exp(-odds - offset))))

    confidence = mean(0.0)
    share = (correct + prior * confidence) / (len(answers) + prior)
    low, high = -20.0, 20.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < share else (low, middle)
    return Weight(len(answers), correct, confidence, 0.0 if abs(share - confidence) < 1e-9 else (low + high) / 2)
