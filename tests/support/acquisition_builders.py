"""A small pool with made-up signals for the tests of acquisition functions."""

from __future__ import annotations

import numpy as np

from crossner_core.acquisition import signals
from crossner_core.acquisition.base import Pool
from crossner_core.schema import Span
from tests.support.training_builders import TYPES, own_sentences


def some_pool(count: int = 24, *, gold: int = 6, model: bool = True, seed: int = 5) -> Pool:
    """Return a pool whose signals are random but possible, and that has been pre-annotated."""
    rng = np.random.default_rng(seed)
    items = own_sentences(count)
    labelled = own_sentences(gold, offset=100)
    vectors = rng.normal(size=(count + gold, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths = np.array([len(item.sentence.tokens) for item in items])
    found = {signals.EMBEDDING: vectors[:count]}
    if model:
        found |= {
            signals.LOG_PROBABILITY: -rng.random(count) * lengths,
            signals.ENTROPY: rng.random(count) * lengths,
            signals.MARGIN: rng.random(count),
            signals.EXPECTED: rng.random((count, len(TYPES))) * 2,
            signals.BALD: rng.random(count),
            signals.GRADIENT: rng.normal(size=(count, 16)),
            signals.HISTORY: rng.random(count),
        }
    return Pool(
        [item.sentence for item in items],
        TYPES,
        found,
        labelled,
        vectors[count:],
        proposed=[item.spans for item in items],
        predicted=[(Span(0, 1, "person"),) for _ in items] if model else None,
    )
