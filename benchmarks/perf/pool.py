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
from benchmarks.perf.profile import shares
from benchmarks.perf.row import Row, growth, products_a_second, reading_operations
from benchmarks.pool_turn import labelled_music, pool_of
from crossner_core.acquisition.ordering import MOST_READ
from crossner_core.acquisition.scoring import model_parts
from crossner_core.acquisition.selecting import WITHOUT_GAZETTEER
from crossner_core.acquisition.signals import CHEAP, OF_MODEL
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.schema import Sentence
from crossner_core.training.loop import train
from crossner_core.training.machine import prepare
from crossner_core.training.predictor import load_tagger
from workbench.campaigns.round_settings import recipe_for
from workbench.jobs.kinds.turn import SOON

SECONDS_BAR, FIRST_BAR, MEMORY_BAR = 60.0, 10.0, 1000.0
SIZES = (100, 1_000, 10_000)
GOLD, DEV, FIRST = 110, 50, 10


def rows(data: Path) -> Iterator[Row]:
    """Yield the first suggestions, a second round, when some of the pool was read, and how a first one grows."""
    prepare()
    pool, encoder = pool_of(data, SIZES[-1]), load_encoder("minilm")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        began = time.perf_counter()
        learning = ", ".join(_learn(data, pool, encoder, FIRST, folder / "first"))
        load_tagger(folder / "first").predict(pool[:SOON])
        first = time.perf_counter() - began
        began = time.perf_counter()
        stages = ", ".join(_learn(data, pool, encoder, GOLD, folder / "run"))
        trained = time.perf_counter() - began
        predictor = load_tagger(folder / "run")
        took = [ordered(folder / str(size), predictor, encoder, pool[:size]) for size in SIZES]
        again = ordered(folder / str(SIZES[-1]), predictor, encoder, pool, number=2)
        command = [sys.executable, "-m", "benchmarks.perf.pool_memory", str(data), str(folder / "run")]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        most = json.loads(printed.splitlines()[-1])["megabytes"]
    yield Row(
        f"first suggestions: run on the first {FIRST} sentences, {SOON} sentences of the queue read",
        f"{first:.1f} s",
        "",
        "",
        f"under {FIRST_BAR:.0f} s",
        first < FIRST_BAR,
        f"{learning}.",
    )
    whole = trained + again
    spent, _ = shares(lambda: list(model_parts(predictor, pool[:1_000], OF_MODEL & CHEAP)))
    yield Row(
        f"a round of the usual strategy: run on {GOLD} sentences with a student, pool of {SIZES[-1]:,} ordered",
        f"{whole:.0f} s: run {trained:.0f} s, pool {again:.0f} s",
        "",
        f"products of reading {MOST_READ:,} sentences: {_floor(pool, encoder):.0f} s",
        f"under {SECONDS_BAR:.0f} s",
        whole < SECONDS_BAR,
        f"{stages}, in which the teacher reads for it. Of the pool's reading: {spent}.",
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


def _learn(data: Path, pool: Sequence[Sentence], encoder: Encoder, gold: int, folder: Path) -> Iterator[str]:
    """Train as a campaign's round does on so many sentences, and dev in proportion; yield each stage's seconds."""
    given = replace(labelled_music(data, gold, gold * DEV // GOLD), unlabelled=tuple(pool))
    spent, steps, last = dict[str, float](), dict[str, int](), 0
    began = time.perf_counter()
    for event in train(recipe_for(WITHOUT_GAZETTEER, {}, gold), given, checkpoint_dir=folder, encoder=encoder):
        now = time.perf_counter()
        spent[event.phase] = spent.get(event.phase, 0.0) + now - began
        steps[event.phase] = steps.get(event.phase, 0) + event.step - last
        began, last = now, event.step
    yield from (f"{phase}: {seconds:.0f} s, {steps[phase]} steps" for phase, seconds in spent.items())


def _floor(pool: Sequence[Sentence], encoder: Encoder) -> float:
    """Return the seconds of the matrix products of reading as much of the pool as a model reads."""
    subwords = sum(len(window.input_ids) for window in encoder.windows(pool[:MOST_READ]))
    return subwords * reading_operations(encoder) / products_a_second()
