"""The names of source checkpoints: one serves all runs that agree in what decides its weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from crossner_core.encoders import Encoder
from crossner_core.training.data import TrainingData, corpus_hash
from crossner_core.training.recipe import Recipe, effective

# What only the target stage reads, or only where it is computed.
_TARGET = (
    "encoder",
    "setting",
    "source",
    "learning_rate",
    "head_learning_rate",
    "batch_size",
    "max_epochs",
    "patience",
    "warmup_share",
    "dev_every",
    "head_first_epochs",
    "head_first_learning_rate",
    "inherit",
    "upsample",
    "seed",
)
# The target stage's alone: what stands against the gap between gold history and a model's own, which few sentences make
# wide, and how tags are decoded, which no loss sees.
_OF_TARGET = ("label_history", "label_own_share", "label_noise", "label_embedding_dropout", "constrained")
# What begins so is told to students, who come after the target stage.
_STUDENT = "self_training_"


def source_key(recipe: Recipe, data: TrainingData, encoder: Encoder) -> str:
    """Return a hash of encoder, source corpus, source hyper-parameters and source seed."""
    parts = source_options(recipe)
    parts |= {"encoder": encoder.fingerprint}
    parts |= {"train": corpus_hash(data.source_train), "dev": corpus_hash(data.source_dev)}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def source_options(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe says of the source stage: two that agree in it share a checkpoint."""
    values = effective(source_recipe(recipe).to_dict())
    return {name: value for name, value in values.items() if name not in _TARGET and not name.startswith(_STUDENT)}


def source_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe by which a source stage's model is made: what is the target stage's alone is at its default."""
    defaults: dict[str, Any] = {spec.name: spec.default for spec in fields(Recipe) if spec.name in _OF_TARGET}
    return replace(recipe, **defaults)


def cached_source(folder: Path | None, recipe: Recipe, data: TrainingData, encoder: Encoder) -> Path | None:
    """Return where the source checkpoint is or will be; None without a cache folder."""
    return Path(folder) / source_key(recipe, data, encoder) if folder is not None else None
