"""What a sentence is likely to contain: many entities, rare types, or spans that model and gazetteer disagree on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossner_core.acquisition import signals
from crossner_core.acquisition.base import Pool, Scores, scoring
from crossner_core.errors import BadInput
from crossner_core.options.base import Checked, option


@scoring("expected_entities", "Expected number of entities", "Esuli et al. 2010 (yield)", needs=(signals.EXPECTED,))
def expected_entities(pool: Pool, config: Any, rng: np.random.Generator) -> Scores:
    """Return the expected number of entities, summed over types."""
    scores: Scores = np.asarray(pool.signals[signals.EXPECTED], dtype=np.float64).sum(1)
    return scores


@dataclass(frozen=True)
class RareTypesOptions(Checked):
    """How strongly rare types are preferred."""

    power: float = option(0.5, "Divide a type's weight by its gold count to this power.", min=0.0, max=2.0)


@scoring(
    "rare_types", "Rare types first", "Ertekin et al. 2007 (class imbalance), over expected entities",
    needs=(signals.EXPECTED,), config=RareTypesOptions,
)  # fmt: skip
def rare_types(pool: Pool, config: RareTypesOptions, rng: np.random.Generator) -> Scores:
    """Return the expected number of entities, weighted higher the less gold a type has."""
    counts = Counter(span.type for item in pool.gold for span in item.spans)
    worth = np.array([(1 + counts[name]) ** -config.power for name in pool.types])
    scores: Scores = np.asarray(pool.signals[signals.EXPECTED], dtype=np.float64) @ worth
    return scores


@scoring(
    "disagreement", "Gazetteer against model", "query by committee of two, Seung et al. 1992",
    needs=(signals.PREDICTED, signals.PROPOSED),
)  # fmt: skip
def disagreement(pool: Pool, config: Any, rng: np.random.Generator) -> Scores:
    """Return the number of (span, type) pairs that only one of model and gazetteer has; raise BadInput without both."""
    if pool.predicted is None or pool.proposed is None:
        raise BadInput("disagreement needs a model's spans and a gazetteer's; pre-annotate first, or choose another.")
    pairs = zip(pool.predicted, pool.proposed, strict=True)
    return np.array([len(set(ours) ^ set(theirs)) for ours, theirs in pairs], dtype=np.float64)


@scoring(
    "gazetteer_entities", "Most gazetteer entities", "cold start by dictionary, cf. Mayhew et al. 2019",
    needs=(signals.PROPOSED,), config=RareTypesOptions,
)  # fmt: skip
def gazetteer_entities(pool: Pool, config: RareTypesOptions, rng: np.random.Generator) -> Scores:
    """Return the number of gazetteer entities, weighted higher the less gold a type has; needs no model."""
    if pool.proposed is None:
        raise BadInput("gazetteer_entities needs a gazetteer's spans; pre-annotate first, or choose another.")
    counts = Counter(span.type for item in pool.gold for span in item.spans)
    return np.array(
        [sum((1 + counts[span.type]) ** -config.power for span in spans) for spans in pool.proposed], dtype=np.float64
    )
