"""A run of an older version, in `old_run`: an encoder, its finished tagger, and the state of a run that was stopped.

`python -m tests.golden.make old-run` writes another; it stays as it is otherwise.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import torch
from transformers import BertModel

from crossner_core.models.registry import architecture_ids
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger, save_tagger
from tests.golden import kept
from tests.support.training_builders import own_sentences, tiny_data, tiny_encoder, tiny_recipe

OLD = kept.FOLDER / "old_run"
STOPPED_AFTER = 4


def write_old(folder: Path) -> None:
    """Write an encoder, a tagger of each architecture, and the state of a run that was stopped."""
    shutil.rmtree(OLD, ignore_errors=True)
    encoder = tiny_encoder(positions=32)
    config = encoder.model.config
    config.hidden_size, config.num_hidden_layers, config.intermediate_size = 16, 1, 16
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        BertModel(config, add_pooling_layer=False).save_pretrained(OLD / "encoder")
    encoder.tokenizer.save_pretrained(OLD / "encoder")
    with chdir(OLD):
        for architecture in architecture_ids():
            list(_train(folder / architecture, architecture, epochs=6))
            shutil.copytree(folder / architecture / "tagger", OLD / architecture)
        list(_train(folder / "stopped", "tagger", stop_after=STOPPED_AFTER))
        shutil.copytree(folder / "stopped", OLD / "stopped")


def read(folder: Path) -> dict[str, Any]:
    """Return what the old taggers say of themselves and of sentences, and how the stopped run ends."""
    shutil.copytree(OLD, folder / "old_run")
    sentences = [item.sentence for item in own_sentences(5, offset=40)]
    found: dict[str, Any] = {}
    for architecture in filter(_is_old, architecture_ids()):
        predictor = load_tagger(OLD / architecture)
        said = predictor.predict(sentences)
        spans = [[[one.start, one.end, one.type, one.source, one.score] for one in spans] for spans in said]
        again = folder / architecture
        save_tagger(again, predictor, predictor.types)
        same = {str(path.relative_to(OLD / architecture)): _is_same(path, again) for path in _files(OLD / architecture)}
        found[architecture] = {"spans": spans, "meta": dict(predictor.meta), "saved again": same}
    with chdir(folder / "old_run"):
        events = list(_train(folder / "old_run" / "stopped", "tagger"))
    result = events[-1].result.to_dict()
    names = ("outcome", "best_epoch", "epochs", "steps", "history", "recipe_hash", "data_hash", "encoder_hash")
    found["resumed"] = {"from step": events[0].step, **{name: result[name] for name in names}, "keys": sorted(result)}
    return kept.plain(found)


def _is_old(architecture: str) -> bool:
    """Whether the older version had an architecture."""
    return (OLD / architecture).is_dir()


def _train(folder: Path, architecture: str, *, epochs: int = 2, stop_after: int = 0) -> Iterator[Any]:
    """Train in a folder with the encoder beside it; stop after so many steps, if asked to."""
    recipe = tiny_recipe(
        encoder="./encoder", architecture=architecture, max_epochs=epochs, label_size=4, max_length=32
    )  # fmt: skip
    steps = iter(range(1, 10**6))
    return train(
        recipe, tiny_data(12), checkpoint_dir=folder, name="old run",
        should_stop=lambda: next(steps) == stop_after,
    )  # fmt: skip


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _is_same(path: Path, again: Path) -> bool:
    """Say whether a tagger's file was written as it was before; what other libraries write need only be there."""
    written = again / path.relative_to(OLD / again.name)
    return written.is_file() and (path.parent.name == "encoder" or path.read_bytes() == written.read_bytes())
