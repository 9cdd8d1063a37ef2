"""One ordering of a pool, as a round makes it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from crossner_core.acquisition.ordering import PoolOrdering, Scorer
from crossner_core.acquisition.selecting import WITHOUT_GAZETTEER, strategy
from crossner_core.encoders.base import Encoder
from crossner_core.schema import Sentence
from crossner_core.training.predictor import Predictor

AHEAD, BATCH = 1_000, 10


def ordered(
    folder: Path, predictor: Predictor, encoder: Encoder, pool: Sequence[Sentence], *, number: int = 1
) -> float:
    """Order a pool by the usual strategy in the round of this number; return the seconds.

    What an earlier round's encoder and models read into `folder` is known; this round's model has read nothing yet.
    """
    began = time.perf_counter()
    earlier = tuple(f"run-{before}" for before in range(1, number))
    ordering = PoolOrdering(folder, Scorer(predictor, f"run-{number}", earlier, encoder), predictor.types)
    ordering.order(pool, AHEAD, strategy(WITHOUT_GAZETTEER), np.random.default_rng(number), batch=BATCH)
    return time.perf_counter() - began
