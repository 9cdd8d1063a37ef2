"""Random order, the baseline for all other functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossner_core.acquisition.base import Pool, Scores, scoring


@scoring("random", "Random", "the baseline")
def score(pool: Pool, config: Any, rng: np.random.Generator) -> Scores:
    """Return random numbers."""
    return rng.random(len(pool))
