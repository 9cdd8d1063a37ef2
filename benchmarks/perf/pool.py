"""A round: run, pool scored, queue in order; and what the pool takes in memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.perf.ordering import ordered
from benchmarks.perf.pool_memory import SENTENCES
from benchmarks.perf.row import Row, growth, products_a_second, reading_operations
from benchmarks.pool_turn import labelled_music, pool_of
from crossner_core.acquisition.ordering import MOST_READ
from crossner_core.acquisition.selecting import WITHOUT_GAZETTEER
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.schema import Sentence
from crossner_core.training.loop import train
from crossner_core.training.machine import prepare
from crossner_core.training.predictor import load_tagger
from workbench.campaigns.round_settings import recipe_for

SECONDS_BAR, MEMORY_BAR = 60.0, 1000.0
SIZES = (100, 1_000, 10_000)
GOLD, DEV = 110, 50


def rows(data: Path) -> Iterator[Row]:
    """Yield the second round, when some of the pool was read before, and how a first one grows with the pool."""
    prepare()
    pool, encoder = pool_of(data, SIZES[-1]), load_encoder("minilm")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        began = time.perf_counter()
        given = replace(labelled_music(data, GOLD, DEV), unlabelled=tuple(pool))
        for _ in train(recipe_for(WITHOUT_GAZETTEER, {}, GOLD), given, checkpoint_dir=folder / "run", encoder=encoder):
            pass
        trained = time.perf_counter() - began
        predictor = load_tagger(folder / "run")
        took = [ordered(folder / str(size), predictor, encoder, pool[:size]) for size in SIZES]
        again = ordered(folder / str(SIZES[-1]), predictor, encoder, pool, number=2)
        command = [sys.executable, "-m", "benchmarks.perf.pool_memory", str(data), str(folder / "run")]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        most = json.loads(printed.splitlines()[-1])["megabytes"]
    whole = trained + again
    yield Row(
        f"a round of the usual strategy: run on {GOLD} sentences with a student, pool of {SIZES[-1]:,} ordered",
        f"{whole:.0f} s: run {trained:.0f} s, pool {again:.0f} s",
        "",
        f"products of reading {MOST_READ:,} sentences: {_floor(pool, encoder):.0f} s",
        f"under {SECONDS_BAR:.0f} s",
        whole < SECONDS_BAR,
    )
    yield growth("a first round's ordering (model and embeddings) with the pool", SIZES, took, "sentences")
    yield Row(
        f"memory of a process that orders a pool of {SENTENCES:,} sentences",
        f"{most:.0f} MB at most",
        "",
        "",
        f"under {MEMORY_BAR:.0f} MB",
        most < MEMORY_BAR,
    )


def _floor(pool: Sequence[Sentence], encoder: Encoder) -> float:
    """Return the seconds of the matrix products of reading as much of the pool as a model reads."""
    subwords = sum(len(window.input_ids) for window in encoder.windows(pool[:MOST_READ]))
    return subwords * reading_operations(encoder) / products_a_second()
