"""Additional batches of a step: target sentences, and distorted copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch, Window
from crossner_core.models.base import TokenTagger
from crossner_core.schema import LabelledSentence
from crossner_core.training.batches import tag_indices
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.pdaln.material import Material, Synonyms, distorted
from crossner_core.training.settings.pdaln.synonyms import (
    candidates,
    from_neighbours,
    from_wordnet,
    neighbours,
    pick_wordnet,
)

# This many times the sentences needed are drawn and sorted by length, to take a contiguous part with little padding.
_POOLS = 4


@dataclass(frozen=True, slots=True)
class Drawn:
    """Drawn labelled sentences and their batch, one row per sentence."""

    items: tuple[LabelledSentence, ...]
    batch: Batch


class Companions:
    """Draws from a stage's material; the windows of an overlong sentence are drawn separately."""

    def __init__(self, recipe: Recipe, material: Material, model: TokenTagger, encoder: Encoder) -> None:
        self.recipe, self.material, self.encoder, self.tags = recipe, material, encoder, model.tags
        self.target = encoder.windows([item.sentence for item in material.target])
        self.target_tags = tag_indices(material.target, self.tags)
        self.bare = encoder.windows(material.unlabelled)
        self.distorts = recipe.pdaln_use_contrastive or recipe.pdaln_label_distorted
        everything = material.train + material.target if self.distorts else ()
        self.words = candidates(word for item in everything for word in item.sentence.words)
        corpus = pick_wordnet(recipe.pdaln_synonyms) if self.distorts else None
        self._wordnet = from_wordnet(self.words, corpus) if corpus is not None else None
        self.tokenizer = encoder.require_subwords("PDALN")
        table = model.encoder.get_input_embeddings().weight
        self.neighbours = neighbours([] if corpus is not None else self.words, self.tokenizer, table)

    @property
    def neighbours(self) -> Tensor:
        """The vocabulary ids (words, n) of the words' neighbours, empty if WordNet provides the synonyms."""
        return self._neighbours

    @neighbours.setter
    def neighbours(self, found: Tensor) -> None:
        self._neighbours = found
        self.synonyms: Synonyms = self._wordnet or (
            from_neighbours(self.words, found, self.tokenizer) if len(found) else {}
        )

    def draw(self, rng: np.random.Generator, rows: int) -> tuple[Drawn | None, Batch | None]:
        """Return labelled and unlabelled target sentences for a batch of `rows` rows, None if there are none.

        Without target labels, the unlabelled ones take the labelled ones' share as well.
        """
        count = max(1, round(rows * self.recipe.pdaln_target_share))
        chosen = _some(self.target, count, rng)
        drawn = None
        if chosen:
            items = tuple(self.material.target[window.sentence] for window in chosen)
            drawn = Drawn(items, self.encoder.collate(chosen, self.target_tags))
        wants_bare = self.recipe.pdaln_use_sentence_mmd or self.recipe.pdaln_distil_on != "augmented"
        bare = _some(self.bare, count if chosen else 2 * count, rng) if wants_bare else []
        return drawn, self.encoder.collate(bare) if bare else None

    def items(self, sentences: Sequence[int]) -> tuple[LabelledSentence, ...]:
        """Return the stage's own sentences at these indices."""
        return tuple(self.material.train[index] for index in sentences)

    def distort(self, items: Sequence[LabelledSentence], rng: np.random.Generator) -> Batch:
        """Return a batch with a distorted copy of each sentence (only its first window)."""
        copies = [distorted(item, self.synonyms, rng) for item in items]
        windows = self.encoder.windows([copy.sentence for copy in copies])
        first: dict[int, Window] = {}
        for window in windows:
            first.setdefault(window.sentence, window)
        return self.encoder.collate([first[index] for index in range(len(copies))], tag_indices(copies, self.tags))


def _some(windows: Sequence[Window], count: int, rng: np.random.Generator) -> list[Window]:
    """Draw `count` windows of similar length without replacement, or all; each is equally likely."""
    pools = min(_POOLS, len(windows) // count)
    drawn = rng.choice(len(windows), max(pools, 1) * min(count, len(windows)), replace=False).tolist()
    drawn.sort(key=lambda index: len(windows[index].input_ids))
    start = int(rng.integers(max(pools, 1))) * count
    return [windows[index] for index in drawn[start : start + count]]
