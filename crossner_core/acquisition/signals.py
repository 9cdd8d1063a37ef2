"""The signals that acquisition functions read: small arrays with one row per sentence, whatever its length."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# Computed by a trained model.
LOG_PROBABILITY = "log_probability"
"""(N,) sum over tokens of the log-probability of the likeliest tag."""
ENTROPY = "entropy"
"""(N,) sum over tokens of the entropy of the tags, in nats."""
MARGIN = "margin"
"""(N,) smallest probability margin between a token's two likeliest tags, over tokens of entities; 1 without any."""
EXPECTED = "expected"
"""(N, T) expected number of entities of each type: the summed probabilities of its B- tag."""
TAGS = "tags"
"""(N,) object array of uint16 arrays: the decoded tags, as indices into the head's tags; for histories."""
BALD = "bald"
"""(N,) sum over tokens of the mutual information between tag and weights, by MC dropout, in nats."""
GRADIENT = "gradient"
"""(N, D) the head's gradient under the decoded tags, projected to D dimensions."""
PREDICTED = "predicted"
"""The decoded spans, passed as `Pool.predicted`."""
# Not tied to one model.
EMBEDDING = "embedding"
"""(N, H) the encoder's mean vector of a sentence, of length 1; stored in half precision."""
PROPOSED = "proposed"
"""A gazetteer's spans, passed as `Pool.proposed`."""
HISTORY = "history"
"""(N,) share of a sentence's tags that changed over the last models, in [0, 1]."""

OF_MODEL = frozenset({LOG_PROBABILITY, ENTROPY, MARGIN, EXPECTED, TAGS, BALD, GRADIENT, PREDICTED, HISTORY})
# One forward pass yields all of these; the others cost more.
CHEAP = frozenset({LOG_PROBABILITY, ENTROPY, MARGIN, EXPECTED, TAGS})


@dataclass(frozen=True)
class Part:
    """Signals of some sentences, by their content hashes."""

    hashes: tuple[str, ...]
    signals: dict[str, NDArray[np.generic]]


def changes(history: list[NDArray[np.object_]]) -> NDArray[np.float64]:
    """Return how much the tags of each sentence changed from model to model, (N,) in [0, 1].

    Per token, the share of consecutive models that gave it different tags; per sentence, the mean over its tokens.
    `history` holds TAGS of at least one model, oldest first, None where a model has not scored a sentence: such models
    are skipped, and a sentence scored by fewer than two counts as unchanged. Source: Yao et al. 2020 (historical
    sequences).
    """
    rates = np.zeros(len(history[0]))
    for index in range(len(rates)):
        rows = [model[index] for model in history if model[index] is not None]
        if len(rows) > 1 and len(rows[0]):
            rates[index] = np.mean([np.mean(row != other) for row, other in pairwise(rows)])
    return rates
