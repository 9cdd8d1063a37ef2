"""Runs of a few steps on a GPU, whole or in parts."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import torch

from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import TYPES, encoder_for, own_sentences, tiny_recipe


def recipe_of(**changes: object) -> Recipe:
    """Return a recipe of a few steps on the GPU."""
    short = {
        "device": "cuda",
        "max_epochs": 1,
        "source_epochs": 1,
        "head_first_epochs": 1,
        "upsample": 1,
        "pdaln_target_copies": 1,
        "pdaln_source_copies": 1,
        "pdaln_rounds": 1,
        "pdaln_round_epochs": 1,
        "self_training_epochs": 1,
        "self_training_batch": 4,
        "label_size": 8,
        "lstm_size": 8,
    }
    return tiny_recipe(**{**short, **changes})


def small_data() -> TrainingData:
    return TrainingData(
        train=own_sentences(5),
        types=TYPES,
        dev=own_sentences(3, offset=30),
        test=own_sentences(3, offset=40),
        sources=(SourceCorpus(own_sentences(5, offset=100)),),
        unlabelled=tuple(item.sentence for item in own_sentences(4, offset=60)),
    )


def run(recipe: Recipe, folder: Path, stop_after: int = 0) -> RunResult:
    """Train until the end, or until so many steps are done."""
    calls = count(1)
    *_, last = train(
        recipe, small_data(), checkpoint_dir=folder, encoder=encoder_for(recipe),
        should_stop=lambda: next(calls) == stop_after,
    )  # fmt: skip
    assert last.result is not None
    return last.result


def run_in_parts(recipe: Recipe, folder: Path) -> RunResult:
    """Train with stops after some steps, in each stage of most settings; the caller draws numbers in between."""
    for steps in (1, 2, 3):
        part = run(recipe, folder, steps)
        assert part.outcome == "stopped" or steps > 1  # the shortest runs have two steps
        torch.cuda.manual_seed(99)
        torch.manual_seed(99)
    return run(recipe, folder)
