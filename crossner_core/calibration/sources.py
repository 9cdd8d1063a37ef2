"""What gold says of each source: how often it was right, by entity type, against how sure it had been."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossner_core.schema import Span, Suggestion
from crossner_core.suggest.base import kind_of

PRIOR = 30.0
"""So many suggestions count as if they had been right as often as their scores said, before any gold.

Of 4, 12, 30 and 100 the one with the least Brier score on dev of music and ai together, cross-fitted.
"""
_SURE = 0.995
_STEPS = 50


@dataclass(frozen=True, slots=True)
class Weight:
    """How many suggestions gold answers, how many were correct, their mean confidence, and what follows.

    `offset` is added to the log odds of their scores; below 0 they are believed less than they say. Without gold it
    is 0: a source's own score stands.
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
    """What was learnt of the sources: by kind of source, by kind and entity type, and by who agrees with whom.

    A kind of source is what stands before the colon: `model:run 3` is of the kind `model`. `sentences` counts those
    with gold.
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
        """Build what `to_dict` gave."""
        return cls(
            kinds={name: Weight(*numbers) for name, numbers in values["kinds"].items()},
            types={(kind, name): Weight(*numbers) for kind, name, *numbers in values["types"]},
            groups={name: Weight(*numbers) for name, numbers in values["groups"].items()},
            sentences=int(values["sentences"]),
        )

    def believed(self, suggestion: Suggestion) -> float:
        """Return the probability that a suggestion is right, from its score and what gold says of its source."""
        kind = kind_of(suggestion.source)
        offset = self.kinds.get(kind, NO_GOLD).offset + self.types.get((kind, suggestion.type), NO_GOLD).offset
        return shifted(suggestion.score, offset)


def shifted(score: float, offset: float) -> float:
    """Return a probability whose log odds were moved; one that stays is returned as it is."""
    return share_of(log_odds(score) + offset) if offset else score


def log_odds(score: float) -> float:
    """Return the log odds of a score; 0 and 1 count as nearly so, or no gold could ever change them."""
    sure = min(max(score, 1 - _SURE), _SURE)
    return math.log(sure) - math.log1p(-sure)


def share_of(odds: float) -> float:
    """Return the probability with these log odds."""
    return 1.0 / (1.0 + math.exp(-odds))


def learn_sources(known: Iterable[tuple[Sequence[Suggestion], Collection[Span]]]) -> SourceWeights:
    """Learn by kind, then by kind and type, from sentences whose gold is known; groups are learnt elsewhere.

    A suggestion is right if gold has a span with its start, end and type.
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
        kinds[kind] = weigh([(odds, right) for _, odds, right in rows])
        by_type: dict[str, list[tuple[float, bool]]] = {}
        for name, odds, right in rows:
            by_type.setdefault(name, []).append((odds + kinds[kind].offset, right))
        types |= {(kind, name): weigh(pairs) for name, pairs in sorted(by_type.items())}
    return SourceWeights(kinds, types, {}, sentences)


def weigh(answers: Sequence[tuple[float, bool]], prior: float = PRIOR) -> Weight:
    """Return the offset of these log odds under which the mean probability is the smoothed share that was right.

    The share is smoothed towards the mean probability itself: Beta(prior · confidence, prior · (1 - confidence)).
    """
    import numpy as np  # not at the top: a command that shows a campaign needs none of it

    odds = np.asarray([value for value, _ in answers], dtype=np.float64)
    right = sum(ok for _, ok in answers)

    def mean(offset: float) -> float:
        return float(np.mean(1.0 / (1.0 + np.exp(-odds - offset))))

    confidence = mean(0.0)
    share = (right + prior * confidence) / (len(answers) + prior)
    low, high = -20.0, 20.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < share else (low, middle)
    return Weight(len(answers), right, confidence, 0.0 if abs(share - confidence) < 1e-9 else (low + high) / 2)
