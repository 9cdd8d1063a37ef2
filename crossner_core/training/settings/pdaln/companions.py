"""Additional batches of a step: target sentences, and distorted copies with synonyms from WordNet or the encoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch, Window
from crossner_core.models.base import TokenTagger
from crossner_core.schema import LabelledSentence
from crossner_core.training.batches import drawn_alike, tag_indices
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.pdaln.material import Material, Synonyms, distorted, distorts
from crossner_core.training.settings.pdaln.wordnet import Lexicon, pick_wordnet

# Maximum number of synonyms per word.
MOST = 5
_CHUNK = 512


def candidates(words: Iterable[str]) -> list[str]:
    """Return the distinct replaceable words, sorted: letters only, with at least four or a capital."""
    return sorted({word for word in words if word.isalpha() and (len(word) > 3 or word[0].isupper())})


def from_wordnet(words: Sequence[str], lexicon: Lexicon) -> dict[str, tuple[str, ...]]:
    """Return each word's single-word synonyms, in its own case; words without are left out."""
    synonyms: dict[str, tuple[str, ...]] = {}
    for word in words:
        lemmas = {lemma for lemma in lexicon(word) if lemma.isalpha()}
        others = sorted({in_case_of(word, lemma) for lemma in lemmas if lemma.lower() != word.lower()})
        if others:
            synonyms[word] = tuple(others[:MOST])
    return synonyms


def neighbours(words: Sequence[str], tokenizer: Any, embeddings: Tensor) -> Tensor:
    """Return the subword ids (words, MOST) of each word's nearest whole words by cosine; −1 for none.

    Only single-subword words have any. If the vocabulary is cased, a neighbour has the word's case.
    """
    ids, texts = whole_words(tokenizer)
    row_of = {text: row for row, text in enumerate(texts)}
    plain = _plain(words, tokenizer)
    known = [index for index, text in enumerate(plain) if text in row_of]
    neighbours = torch.full((len(words), MOST), -1, dtype=torch.long)
    if not known or len(ids) <= MOST + 1:
        return neighbours
    vectors = functional.normalize(embeddings.detach().cpu().float()[ids], dim=-1)  # (V, H)
    shapes = torch.tensor([_case(text) for text in texts])  # (V,)
    for chunk in torch.tensor(known).split(_CHUNK):
        own = torch.tensor([row_of[plain[index]] for index in chunk.tolist()])
        nearness = vectors[own] @ vectors.T  # (C, V)
        other_case = shapes.unsqueeze(0) != shapes[own].unsqueeze(1)
        nearness = nearness.masked_fill(other_case, -2.0).scatter(1, own.unsqueeze(1), -3.0)
        values, indices = nearness.topk(MOST, dim=1)
        neighbours[chunk] = torch.where(values > -2.0, ids[indices], -1)
    return neighbours


def from_neighbours(words: Sequence[str], found: Tensor, tokenizer: Any) -> dict[str, tuple[str, ...]]:
    """Return the words' synonyms in their own case, from the result of `neighbours`."""
    made: dict[str, tuple[str, ...]] = {}
    for word, row in zip(words, found.tolist(), strict=True):
        texts = [_text(tokenizer, id) for id in row if id >= 0]
        if texts:
            made[word] = tuple(in_case_of(word, text) for text in texts)
    return made


def whole_words(tokenizer: Any) -> tuple[Tensor, list[str]]:
    """Return the ids (V,) and texts of the vocabulary's whole words of at least two letters."""
    texts = {id: _text(tokenizer, id) for id in sorted(tokenizer.get_vocab().values())}
    texts = {id: text for id, text in texts.items() if len(text) > 1 and text.isalpha()}
    if not texts:
        return torch.zeros(0, dtype=torch.long), []
    again = tokenizer([[text] for text in texts.values()], is_split_into_words=True, add_special_tokens=False)
    kept = [id for id, pieces in zip(texts, again["input_ids"], strict=True) if pieces == [id]]
    return torch.tensor(kept, dtype=torch.long), [texts[id] for id in kept]


def in_case_of(word: str, other: str) -> str:
    """Return `other` in the case of `word`: all capitals, capitalised, or unchanged."""
    if word.isupper() and len(word) > 1:
        return other.upper()
    return other[:1].upper() + other[1:] if word[0].isupper() else other


def _plain(words: Sequence[str], tokenizer: Any) -> list[str]:
    """Return each word as the vocabulary spells it, empty if it is more than one subword."""
    if not words:
        return []
    encoded = tokenizer([[word] for word in words], is_split_into_words=True, add_special_tokens=False)["input_ids"]
    return [_text(tokenizer, pieces[0]) if len(pieces) == 1 else "" for pieces in encoded]


def _text(tokenizer: Any, id: int) -> str:
    return str(tokenizer.convert_tokens_to_string([tokenizer.convert_ids_to_tokens(id)])).strip()


def _case(text: str) -> int:
    return 2 if text.isupper() else 1 if text[0].isupper() else 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """Drawn labelled sentences and their batch, one row per sentence."""

    items: tuple[LabelledSentence, ...]
    batch: Batch


class Companions:
    """Draws from a stage's material; the windows of an overlong sentence are drawn separately."""

    def __init__(self, recipe: Recipe, material: Material, model: TokenTagger, encoder: Encoder) -> None:
        self.recipe, self.material, self.encoder, self.tags = recipe, material, encoder, model.tags
        compares = recipe.pdaln_use_sentence_mmd or recipe.pdaln_use_word_mmd or recipe.pdaln_use_contrastive
        labelled = material.target if compares or recipe.pdaln_labels == "drawn" else ()
        self.target = encoder.windows([item.sentence for item in labelled])
        self.target_tags = tag_indices(labelled, self.tags)
        self.bare = encoder.windows(material.unlabelled)
        self.distorts = distorts(recipe)
        everything = material.train + material.target if self.distorts else ()
        self.words = candidates(word for item in everything for word in item.sentence.words)
        lexicon = pick_wordnet(recipe.pdaln_synonyms) if self.distorts else None
        self._wordnet = from_wordnet(self.words, lexicon) if lexicon is not None else None
        self.tokenizer = encoder.require_subwords("PDALN")
        table = model.encoder.get_input_embeddings().weight
        self.neighbours = neighbours([] if lexicon is not None else self.words, self.tokenizer, table)

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
        chosen = [self.target[index] for index in drawn_alike(self.target, count, rng)]
        drawn = None
        if chosen:
            items = tuple(self.material.target[window.sentence] for window in chosen)
            drawn = Drawn(items, self.encoder.collate(chosen, self.target_tags))
        wants_bare = self.recipe.pdaln_use_sentence_mmd or self.recipe.pdaln_distil_on != "augmented"
        places = drawn_alike(self.bare, count if chosen else 2 * count, rng) if wants_bare else []
        bare = [self.bare[index] for index in places]
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
