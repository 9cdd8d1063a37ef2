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
    folder: Path, predictor: Predictor, encoder: Encoder, pool: Sequence[Sentence], *, key: str = "run"
) -> float:
    """Order a pool with a model that has not read it, by the usual strategy; return the seconds.

    What the encoder read into `folder` is not read again; another `key` is another model.
    """
    began = time.perf_counter()
    ordering = PoolOrdering(folder, Scorer(predictor, key, (), encoder), predictor.types)
    ordering.order(pool, AHEAD, strategy(WITHOUT_GAZETTEER), np.random.default_rng(0), batch=BATCH)
    return time.perf_counter() - began
