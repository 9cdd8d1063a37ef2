"""The vectors of what types mean, and the texts themselves for a tagger that reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from crossner_core.domains.texts import TITLE
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.pooling import embed
from crossner_core.errors import InvalidConfig
from crossner_core.models.base import TypeTexts
from crossner_core.schema import Sentence
from crossner_core.tokenize import tokenize
from crossner_core.training.data import TrainingData
from crossner_core.training.recipe import Recipe
from crossner_core.training.stage import Stage

Texts = Mapping[str, Sequence[str]]
WORDS_READ = 24


def stage_texts(recipe: Recipe, data: TrainingData, stage: Stage) -> dict[str, tuple[str, ...]]:
    """Return the texts of the types of a stage's head; those of a kept source stage do not depend on the target."""
    if not recipe.reads_texts:
        return {}
    return data.texts_of(stage.types, of_sources=stage.cached)


def read_texts(recipe: Recipe, encoder: Encoder, texts: Texts) -> TypeTexts:
    """Return the vectors (V, H) of each type's texts by the pre-trained encoder, and a batch of them for its own.

    Of a text that is longer than a window its beginning counts; for its own encoder, the first `WORDS_READ` words.
    """
    if recipe.type_texts == "random":
        return TypeTexts({name: _random(name, encoder.hidden_size) for name in texts})
    chosen = {name: own[: TITLE + 1] if recipe.type_texts == "titles" else own for name, own in texts.items() if own}
    reads = recipe.own_text_encoder
    flat = [Sentence("", text, tokenize(text)) for own in chosen.values() for text in own]
    if reads:
        flat = [replace(each, tokens=each.tokens[:WORDS_READ]) for each in flat]
    rows = torch.from_numpy(embed(encoder, flat)).split([len(own) for own in chosen.values()])
    vectors = dict(zip(chosen, rows, strict=True))
    if not reads:
        return TypeTexts(vectors)
    first = {window.sentence: window for window in encoder.windows(flat) if window.start == 0}
    if empty := [each.text for number, each in enumerate(flat) if number not in first]:
        raise InvalidConfig(f"A type's text {empty[0]!r} has no words; give it a title.")
    return TypeTexts(vectors, encoder.collate([first[number] for number in range(len(flat))]))


def _random(name: str, size: int) -> Tensor:
    """Return a vector (1, H) of length 1 that depends on the type's name alone."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1
    drawn = torch.randn(1, size, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)
