"""Whether every architecture trains in every setting on a GPU: whole, again, stopped and resumed, moved from the CPU.

Apart from the command, since worker processes cannot look up what a package's `__main__` defines.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import torch
from safetensors.torch import load_file

from crossner_core.experiments.corpora import read_corpus
from crossner_core.models.registry import architecture_ids
from crossner_core.training.data import TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.registry import setting, setting_ids
from crossner_core.training.sources import prepared

SENTENCES, SOURCE_SENTENCES, STEPS_TO_STOP = 12, 24, 5
COLUMNS = ("architecture", "setting", "dev F1 GPU", "CPU", "again", "resumed", "moved", "seconds GPU", "seconds CPU")
EQUAL = {"again": "two runs of a seed are equal", "resumed": "stopped and resumed equals whole"}
"""By column that must be 0: what that says."""
MISSED = "- NOT met: "
SHORT = {
    "source_epochs": 1,
    "max_epochs": 2,
    "head_first_epochs": 1,
    "dev_every": 1,
    "min_epoch_steps": 3,
    "seed": 555,
    "precision": "fp32",
}
# What a setting needs where it refuses the defaults.
_ON_WORDS: dict[str, object] = {"encoder": "words:size=8,chars=cnn", "lstm_layers": 1}
NEEDS = {"cross_domain_lm": _ON_WORDS, "cross_domain_lm_unsupervised": _ON_WORDS}


class Pair(NamedTuple):
    """An architecture and a setting that trains it."""

    architecture: str
    setting: str
    on_words: bool = False
    """Whether it reads word vectors and characters in place of the encoder."""


def correct(options: argparse.Namespace) -> Iterator[str]:
    """Yield a table with a line for each pair of architecture and setting, then its bars."""
    rows = []
    yield from ("", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|")
    for row in _each_pair(options):
        rows.append(row)
        yield f"| {' | '.join(row)} |"
    yield ""
    yield from bars(rows) if options.deterministic else ("- not judged: kernels that add in any order were allowed",)


def bars(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each column that must be 0: whether it is, and which pairs are not."""
    lines = []
    for column, what in EQUAL.items():
        cells = [(f"{row[0]} {row[1]}", row[COLUMNS.index(column)]) for row in rows]
        others = [f"{pair} ({value.partition(':')[0]})" for pair, value in cells if value != "0e+00"]
        verdict = f"{MISSED}{what} but for {', '.join(others)}" if others else f"- met: {what}"
        lines.append(f"{verdict}; of {len(rows)} pairs {len(rows) - len(others)}")
    return lines


def _each_pair(options: argparse.Namespace) -> Iterator[list[str]]:
    tried = [*pairs(), *on_words()]
    with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(measure, tried, [options] * len(tried))


def on_words() -> list[Pair]:
    """Return the baselines that read word vectors."""
    return [Pair(architecture, "joint", on_words=True) for architecture in ("bilstm_crf", "coach", "multi_cell")]


def pairs() -> list[Pair]:
    """Return each architecture with each setting that trains it."""
    return [
        Pair(architecture, id)
        for architecture in architecture_ids()
        for id in setting_ids()
        if setting(id).trains(architecture)
    ]


def recipe_of(pair: Pair, **changes: object) -> Recipe:
    """Return the recipe of a few steps of a pair; what its setting needs comes before other changes."""
    needs = _ON_WORDS if pair.on_words else NEEDS.get(pair.setting, {})
    fields = {"architecture": pair.architecture, "setting": pair.setting, **changes, **needs}
    return Recipe.from_dict({**SHORT, **fields})


def measure(pair: Pair, options: argparse.Namespace) -> list[str]:
    """Return one line of the table; an error becomes its text."""
    torch.set_num_threads(1)
    recipe = recipe_of(pair, encoder=options.encoder, deterministic=options.deterministic)
    data = _data(recipe, options)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        line = [f"{pair.architecture} on words" if pair.on_words else pair.architecture, pair.setting]
        whole = _try(line, lambda: run(recipe, data, folder / "whole", "cuda"), _dev)
        on_cpu = _try(line, lambda: run(recipe, data, folder / "cpu", "cpu"), _dev)
        _try(line, lambda: run(recipe, data, folder / "again", "cuda"), lambda _: _far(folder, "again"))
        _try(line, lambda: resumed(recipe, data, folder / "resumed", "cuda"), lambda _: _far(folder, "resumed"))
        _try(line, lambda: resumed(recipe, data, folder / "moved", "cpu"), _dev)
        return [*line, *(f"{seconds:.1f}" for seconds in (whole, on_cpu))]


def run(recipe: Recipe, data: TrainingData, folder: Path, device: str, steps: int = 0) -> RunResult:
    """Train on `device`, as if there were no other; stop after that many steps, if any."""
    seen = 0

    def should_stop() -> bool:
        nonlocal seen
        seen += 1
        return 0 < steps <= seen

    # A device in the recipe would make it another run, which does not go on from this one's state.
    with patch.object(torch.cuda, "is_available", return_value=device == "cuda"):
        *_, last = train(recipe, data, checkpoint_dir=folder, should_stop=should_stop)
    assert last.result is not None
    return last.result


def resumed(recipe: Recipe, data: TrainingData, folder: Path, first: str) -> RunResult:
    """Train a few steps on the first device, and go on from there on the GPU."""
    run(recipe, data, folder, first, STEPS_TO_STOP)
    return run(recipe, data, folder, "cuda")


def _try(line: list[str], do: Callable[[], RunResult], show: Callable[[RunResult], str]) -> float:
    """Append what was shown, or what failed; return the seconds."""
    began = time.perf_counter()
    try:
        line.append(show(do()))
    except Exception as error:  # what fails is what is looked for
        line.append(f"failed: {type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}")
    return time.perf_counter() - began


def _far(folder: Path, name: str) -> str:
    """Return the largest difference between a weight of the whole run and that of another; raise if names differ."""
    mine, theirs = (_weights(folder / each) for each in ("whole", name))
    if mine.keys() != theirs.keys() or not mine:
        raise ValueError(f"other weights were saved: {', '.join(sorted(mine.keys() ^ theirs.keys())) or 'none'}")
    most = torch.stack([(mine[key].float() - theirs[key].float()).abs().max() for key in mine]).max()  # NaN stays
    return f"{float(most):.0e}"


def _dev(result: RunResult) -> str:
    return "none" if result.dev is None else f"{100 * result.dev.f1:.2f}"


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for path in folder.rglob("*.safetensors") for name, tensor in load_file(path).items()}


def _data(recipe: Recipe, options: argparse.Namespace) -> TrainingData:
    target, source = read_corpus(options.corpus, options.data), read_corpus(options.source, options.data)
    few = replace(source.as_source(1.0), train=source.train[:SOURCE_SENTENCES], dev=source.dev[:SENTENCES])
    whole = target.data(size=SENTENCES, order="file")
    return replace(
        whole,
        dev=whole.dev[:SENTENCES],
        test=whole.test[:SENTENCES],
        unlabelled=whole.unlabelled[:SENTENCES],
        sources=prepared(recipe, [few], target.types),
    )
