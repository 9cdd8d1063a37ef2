"""Uncertainty of the model about a sentence's tags: MNLP, token entropy, span margin, BALD, fluctuation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossner_core.acquisition import signals
from crossner_core.acquisition.base import Pool, Scores, scoring
from crossner_core.acquisition.vectors import places
from crossner_core.options.base import Checked, option


@dataclass(frozen=True)
class EntropyOptions(Checked):
    """What a sentence's uncertainty is divided by."""

    length_power: float = option(
        0.0, "Divide the sum over tokens by length to this power: 0 sum, 1 mean, 0.5 between.", min=0.0, max=1.0
    )


def _per_length(values: np.ndarray, pool: Pool, power: float) -> Scores:
    return np.asarray(values, dtype=np.float64) / np.maximum(pool.lengths, 1) ** power


@scoring("mnlp", "Length-normalised log-probability (MNLP)", "Shen et al. 2018", needs=(signals.LOG_PROBABILITY,))
def mnlp(pool: Pool, config: Any, rng: np.random.Generator) -> Scores:
    """Return minus the mean log-probability of the tags, each decoded independently."""
    return -_per_length(pool.signals[signals.LOG_PROBABILITY], pool, 1.0)


@scoring("token_entropy", "Token entropy", "Settles and Craven 2008", needs=(signals.ENTROPY,), config=EntropyOptions)
def token_entropy(pool: Pool, config: EntropyOptions, rng: np.random.Generator) -> Scores:
    """Return the summed entropy of the tags: total token entropy, or its mean."""
    return _per_length(pool.signals[signals.ENTROPY], pool, config.length_power)


@scoring("span_margin", "Span margin", "Scheffer et al. 2001, over entities", needs=(signals.MARGIN,))
def span_margin(pool: Pool, config: Any, rng: np.random.Generator) -> Scores:
    """Return minus the smallest margin between the two likeliest tags among tokens of entities."""
    return -np.asarray(pool.signals[signals.MARGIN], dtype=np.float64)


@scoring(
    "bald", "BALD by MC dropout", "Gal et al. 2017; Siddhant and Lipton 2018",
    needs=(signals.BALD,), config=EntropyOptions,
)  # fmt: skip
def bald(pool: Pool, config: EntropyOptions, rng: np.random.Generator) -> Scores:
    """Return the summed mutual information between tags and weights."""
    return _per_length(pool.signals[signals.BALD], pool, config.length_power)


@scoring("fluctuation", "Changes between checkpoints", "Yao et al. 2020", needs=(signals.HISTORY, signals.ENTROPY))
def fluctuation(pool: Pool, config: Any, rng: np.random.Generator) -> Scores:
    """Return the share of a sentence's tags that changed over the last models; ties are broken by entropy."""
    entropy = np.asarray(pool.signals[signals.ENTROPY], dtype=np.float64)
    return np.asarray(pool.signals[signals.HISTORY], dtype=np.float64) + 1e-3 * places(entropy)
