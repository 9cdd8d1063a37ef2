"""A run on about 100 sentences: ours, transformers' Trainer on the same recipe, and spaCy's own tagger."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.perf.profile import shares
from benchmarks.perf.row import Row, growth, products_a_second, reading_operations
from benchmarks.training_speed import F1_NOISE
from crossner_core.encoders.loading import load_encoder
from crossner_core.experiments.corpora import read_corpus
from crossner_core.training.checkpoint import read_json
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.machine import prepare
from crossner_core.training.recipe import Recipe

SECONDS_BAR = 30.0
SIZES = (10, 100, 1000)


def rows(data: Path) -> Iterator[Row]:
    """Yield the rows; each way is timed from the start of its command to its scores on test."""
    seconds, result = _ours(data)
    assert result.test is not None
    learning = result.epochs * _tokens(data) / result.tokens_per_second
    parts = (
        f"learning {learning:.1f} s, looks at dev {result.seconds - learning:.1f} s, start, test and saving "
        f"{seconds - result.seconds:.1f} s"
    )
    own, speed = 100 * result.test.f1, result.tokens_per_second
    spent, products = shares(lambda: _learn(data, len(read_corpus("music", data).train), "music"))
    peers = []
    for name, module in (("transformers' Trainer", "trainer"), ("spaCy, from scratch", "spacy_training")):
        if module == "trainer" and importlib.util.find_spec("accelerate") is None:
            peers.append(f"{name} needs the package accelerate")
            continue
        took, f1 = _peer(data, module)
        peers.append(f"{name}: {took:.1f} s ({took / seconds:.2f} ×), test F1 {f1:.1f}")
    yield Row(
        "100 sentences of music, from the command to test F1",
        f"{seconds:.1f} s, test F1 {own:.1f}, {speed:.0f} tokens/s while learning",
        "; ".join(peers),
        f"matrix products alone: {_floor(data, result):.1f} s",
        f"under {SECONDS_BAR:.0f} s",
        seconds < SECONDS_BAR,
        f"{parts}. Of learning: {spent}. If all but the products took no time, learning alone would take "
        f"{products * learning:.0f} s.",
    )
    yield Row(
        "of that run",
        f"{parts}; peak memory {result.peak_memory_mb:.0f} MB; F1 between two seeds may differ by {F1_NOISE}",
    )
    yield _growth(data)


def _ours(data: Path) -> tuple[float, RunResult]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["--data", str(data / "music"), "--out", folder, "--domain", "music", "--recipe", '{"device": "cpu"}']
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "crossner_core.training", *words], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began, RunResult.from_dict(read_json(Path(folder) / "result.json"))


def _peer(data: Path, module: str) -> tuple[float, float]:
    began = time.perf_counter()
    command = [sys.executable, "-m", f"benchmarks.perf.{module}", str(data)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return time.perf_counter() - began, float(json.loads(printed.splitlines()[-1])["test_f1"])


def _floor(data: Path, result: RunResult) -> float:
    """Return the seconds of a run's matrix products: learning, looks at dev, test."""
    prepare()
    corpus, encoder = read_corpus("music", data), load_encoder("minilm")
    train_size, dev, test = (
        sum(len(window.input_ids) for window in encoder.windows([item.sentence for item in part]))
        for part in (corpus.train, corpus.dev, corpus.test)
    )
    looks = sum(record.dev_f1 is not None for record in result.history)
    subwords = 3 * result.epochs * train_size + looks * dev + test
    return subwords * reading_operations(encoder) / products_a_second()


def _tokens(data: Path) -> int:
    return sum(len(item.sentence.tokens) for item in read_corpus("music", data).train)


def _growth(data: Path) -> Row:
    prepare()
    took = [_learn(data, size, "conll2003") for size in SIZES]
    return growth("an epoch with the training sentences", SIZES, took, "sentences of CoNLL")


def _learn(data: Path, size: int, corpus: str) -> float:
    """Learn for one epoch from so many sentences; return the seconds."""
    whole, recipe = read_corpus(corpus, data).data(), Recipe(max_epochs=1, min_epoch_steps=1, device="cpu")
    part = replace(whole, train=whole.train[:size], dev=(), test=())
    with tempfile.TemporaryDirectory() as folder:
        *_, last = train(recipe, part, checkpoint_dir=Path(folder) / "run", encoder=load_encoder("minilm"))
    assert last.result is not None
    return last.result.seconds
