"""The signals that acquisition functions read: small arrays with a row a sentence, whatever its length."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# What a trained model says of a sentence.
LOG_PROBABILITY = "log_probability"
"""(N,) sum over tokens of the log probability of the likeliest tag."""
ENTROPY = "entropy"
"""(N,) sum over tokens of the entropy of the tags, in nats."""
MARGIN = "margin"
"""(N,) least difference between the two likeliest tags of a token, over the tokens of entities; 1 without any."""
EXPECTED = "expected"
"""(N, T) expected number of entities of each type: the probabilities of its B- tag, added up."""
TAGS = "tags"
"""(N,) object array of uint16 arrays: the tags decoded, as indices into the head's; for histories."""
BALD = "bald"
"""(N,) sum over tokens of the mutual information between tag and weights, by MC dropout, in nats."""
GRADIENT = "gradient"
"""(N, D) the head's gradient under the tags decoded, projected to D dimensions."""
PREDICTED = "predicted"
"""The spans decoded; they come as `Pool.predicted`."""
# What does not change from model to model.
EMBEDDING = "embedding"
"""(N, H) the encoder's mean vector of a sentence, of length 1; half precision where it is kept."""
PROPOSED = "proposed"
"""A gazetteer's spans; they come as `Pool.proposed`."""
HISTORY = "history"
"""(N,) how much of a sentence's tags has changed over the last models, in [0, 1]."""

OF_MODEL = frozenset({LOG_PROBABILITY, ENTROPY, MARGIN, EXPECTED, TAGS, BALD, GRADIENT, PREDICTED, HISTORY})
# One pass of the model gives these all; the others cost more.
CHEAP = frozenset({LOG_PROBABILITY, ENTROPY, MARGIN, EXPECTED, TAGS})


@dataclass(frozen=True)
class Part:
    """Signals of some sentences, by their content hashes."""

    hashes: tuple[str, ...]
    signals: dict[str, NDArray[np.generic]]


def changes(history: list[NDArray[np.object_]]) -> NDArray[np.float64]:
    """Return how much the tags of each sentence changed from model to model, (N,) in [0, 1].

    For each token the share of neighbouring models that gave it another tag; a sentence has the mean of its tokens.
    `history` holds TAGS of at least one model, oldest first, None for a sentence that a model has not seen: those that
    have are neighbours, and what fewer than two have seen has not changed. Source: Yao et al. 2020 (historical
    sequences).
    """
    rates = np.zeros(len(history[0]))
    for index in range(len(rates)):
        rows = [model[index] for model in history if model[index] is not None]
        if len(rows) > 1 and len(rows[0]):
            rates[index] = np.mean([np.mean(row != other) for row, other in pairwise(rows)])
    return rates
