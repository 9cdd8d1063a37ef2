"""The vectors of what types mean, by the pre-trained encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from crossner_core.domains.texts import TITLE
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.pooling import embed
from crossner_core.schema import Sentence
from crossner_core.tokenize import tokenize
from crossner_core.training.data import TrainingData
from crossner_core.training.recipe import Recipe
from crossner_core.training.stage import Stage

Texts = Mapping[str, Sequence[str]]


def stage_texts(recipe: Recipe, data: TrainingData, stage: Stage) -> dict[str, tuple[str, ...]]:
    """Return the texts of the types of a stage's head; those of a kept source stage do not depend on the target."""
    if not recipe.reads_texts:
        return {}
    return data.texts_of(stage.types, of_sources=stage.cached)


def text_vectors(recipe: Recipe, encoder: Encoder, texts: Texts) -> dict[str, Tensor]:
    """Return the vectors (V, H) of each type's texts; of a text that is longer than a window its beginning counts.

    `encoder` is the pre-trained one, whatever the tagger's has become.
    """
    if recipe.type_texts == "random":
        return {name: _random(name, encoder.hidden_size) for name in texts}
    chosen = {name: own[: TITLE + 1] if recipe.type_texts == "titles" else own for name, own in texts.items()}
    flat = [(name, text) for name, own in chosen.items() for text in own]
    rows = embed(encoder, [Sentence("", text, tokenize(text)) for _, text in flat])
    by_name: dict[str, list[Tensor]] = {name: [] for name in texts}
    for (name, _), row in zip(flat, rows, strict=True):
        by_name[name].append(torch.from_numpy(row.copy()))
    return {name: torch.stack(own) for name, own in by_name.items() if own}


def _random(name: str, size: int) -> Tensor:
    """Return a vector (1, H) of length 1 that depends on the type's name alone."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1
    drawn = torch.randn(1, size, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)
