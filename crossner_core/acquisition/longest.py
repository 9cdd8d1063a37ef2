"""Longest sentences first: more tokens per sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossner_core.acquisition.base import Pool, Scores, scoring


@scoring("longest", "Longest sentences", "the second baseline: length alone")
def score(pool: Pool, config: Any, rng: np.random.Generator) -> Scores:
    """Return the number of tokens."""
    return pool.lengths.astype(np.float64)
