"""What a process that trains on a corpus of CoNLL's size holds at most."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.perf.row import Row
from crossner_core.encoders.loading import load_encoder
from crossner_core.experiments.corpora import read_corpus
from crossner_core.training.data import TrainingData
from crossner_core.training.loop import train
from crossner_core.training.machine import prepare
from crossner_core.training.recipe import Recipe

MEMORY_BAR = 1500.0
STEPS, LONGEST, DEV = 40, 128, 500
RECIPE = Recipe(max_epochs=1, batch_size=32, device="cpu")


def rows(data: Path) -> Iterator[Row]:
    """Yield the most that is held in some steps on all of CoNLL, on its longest sentences, and in a look at dev."""
    prepare()
    whole = read_corpus("conll2003", data).data()
    by_length = sorted(whole.train, key=lambda item: -len(item.sentence.tokens))
    first = _most(replace(whole, dev=(), test=()), stop_after=STEPS)
    longest = _most(replace(whole, train=tuple(by_length[:LONGEST]), dev=whole.dev[:DEV], test=()))
    most = max(first, longest)
    yield Row(
        f"memory of a run on CoNLL, {len(whole.train):,} sentences, batches of 32",
        f"{most:.0f} MB at most ({STEPS} steps on all of it {first:.0f}, its {LONGEST} longest sentences and "
        f"{DEV} of dev {longest:.0f})",
        "",
        "",
        f"under {MEMORY_BAR:.0f} MB",
        most < MEMORY_BAR,
    )


def _most(data: TrainingData, stop_after: int = 0) -> float:
    """Train, until so many steps if any are given, with the whole corpus in memory; return megabytes."""
    steps = itertools.count(1)
    with tempfile.TemporaryDirectory() as folder:
        run = train(
            RECIPE,
            data,
            checkpoint_dir=Path(folder) / "run",
            encoder=load_encoder("minilm"),
            should_stop=lambda: next(steps) == stop_after,
        )
        *_, last = run
    assert last.result is not None
    return last.result.peak_memory_mb
