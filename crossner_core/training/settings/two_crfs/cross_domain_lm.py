"""Cross-domain language modelling: taggers and language models of both domains share what generates their BiLSTMs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch, sent_ahead
from crossner_core.encoders.words import BUCKETS
from crossner_core.models._recurrent import run_lstm
from crossner_core.models.base import TokenTagger
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.models.crf import Crf
from crossner_core.schema import Sentence
from crossner_core.training.recipe import Recipe
from crossner_core.training.sampled_softmax import SampledSoftmax
from crossner_core.training.settings.two_crfs.generated import Generator
from crossner_core.training.settings.two_crfs.objective import Domain, TwoCrfObjective

SOURCE, TARGET = range(2)
TAGGING, WORDS_AHEAD = range(2)
_DRAW = 11


class CrossDomainLmObjective(TwoCrfObjective):
    """L = Σ_d (L_tags + λ L_lm), where the BiLSTM of a domain and a task has the weights W ⊗ I_domain ⊗ I_task.

    L_lm is half of Σ_t −log p(w_{t+1} | h→_t) − log p(w_{t−1} | h←_t), a mean over sentences: the labelled ones of the
    batch, and of the target's unlabelled ones, if there are any, half as many as the batch has, without target labels
    as many. (λ/2) ‖Θ‖² is the recipe's weight decay, of which W has none. Without labelled target sentences the target
    has no L_tags and both domains one CRF: the target's BiLSTM then differs from the source's by I_target alone, which
    its language model learns. The tagger's own BiLSTM is not trained: after each step it gets the weights generated for
    the target's tags, so that the saved tagger is a plain BiLSTM-CRF.

    One output layer serves both directions and domains; words are the same where the encoder's row and hash are.
    Departures: AdamW instead of SGD, W at a rate that moves the BiLSTMs as their own weights would move; both domains
    count alike, where the released code counts the target's tags twice; sentences have no boundary words; rare words
    are words of their own. The paper's language models also read raw text of both domains; here it is the target's
    unlabelled sentences.
    There: word vectors of 100 dimensions and a CNN over characters (50), BiLSTMs of 200 (100 each way), batches of 30,
    dropout 0.5, SGD at 0.015, less each epoch, 100 epochs; without target labels RMSprop at 0.001 and batches of 10.
    The studies here: BiLSTM and dropout alike, GloVe of 50 dimensions and a CNN of 30 channels, AdamW at 1e-3, ten
    epochs, batches of 30 (`baselines`) or 32.
    Source: Jia et al. 2019, "Cross-Domain NER using Cross-Domain Language Modeling", ACL, section 3.
    """

    def __init__(
        self,
        recipe: Recipe,
        targets: int,
        model: TokenTagger,
        encoder: Encoder,
        texts: Sequence[Sentence],
        bare: Sequence[Sentence],
    ) -> None:
        super().__init__(recipe, targets, model)
        assert isinstance(model, BilstmCrf) and isinstance(self.parts, nn.ModuleDict)
        self.encoder = encoder
        self.generator = Generator(model.lstm, 2, 2, recipe.lm_domain_size, recipe.lm_task_size)
        self.parts["generator"] = self.generator
        scale = {"objective_parts.generator.meta": self.generator.rate_scale}
        model.rate_scales = model.rate_scales | scale
        model.lstm.requires_grad_(False)
        self.output: SampledSoftmax | None = None
        self.bare = encoder.windows(bare) if recipe.lm_weight else []
        if recipe.lm_weight:
            self.words = numbers_of_words(encoder, [*texts, *bare]).to(model.start.device)
            self.output = SampledSoftmax(len(self.words.ranks), model.lstm.hidden_size, recipe.lm_samples)
            self.parts["output"] = self.output
        self.weights, self.step = torch.empty(0), 0  # (domains, tasks, P), of the current step
        self.parts.to(model.start.device)
        self.after_step(model)

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return the loss of a batch, a scalar."""
        self.weights, self.step = self.generator(), step
        return super().loss(model, batch, sentences, step)

    def read(self, model: Crf, batch: Batch, *, is_source: bool) -> Tensor:
        """Return the states of the BiLSTM generated for the tags of a domain, (B, W, R)."""
        return self._states(model, batch, SOURCE if is_source else TARGET, TAGGING)

    def terms(self, model: Crf, source: Domain | None, target: Domain | None) -> Tensor:
        """Return the weighted losses of the language models, over the mean of the sentences of each domain."""
        total = self.weights.new_zeros(())
        if self.output is None:
            return total
        rng = np.random.default_rng([self.recipe.seed, _DRAW, self.step])
        drawn = self.output.draw(rng)
        drawn = drawn if drawn is None else drawn.to(total.device)
        texts = {SOURCE: [source.batch] if source else [], TARGET: [target.batch] if target else []}
        if self.bare:
            rows = sum(len(batch.mask) for batches in texts.values() for batch in batches)
            rows = max(1, rows // 2) if self.targets else rows
            chosen = rng.choice(len(self.bare), min(len(self.bare), rows), replace=False)
            texts[TARGET].append(self.encoder.collate([self.bare[index] for index in chosen]).to(total.device))
        for domain, batches in texts.items():
            losses = [self._words_ahead(model, batch, domain, drawn) for batch in batches]
            if losses:
                total = total + torch.stack(losses).sum() / sum(len(batch.mask) for batch in batches)
        return self.recipe.lm_weight * total

    def after_step(self, model: TokenTagger) -> None:
        """Give the tagger the weights generated for the target's tags."""
        assert isinstance(model, BilstmCrf)
        with torch.no_grad():
            made = self.generator.shaped(self.generator()[TARGET, TAGGING])
            for weights, value in zip(model.lstm.parameters(), made, strict=True):
                weights.copy_(value)

    def _states(self, model: Crf, batch: Batch, domain: int, task: int) -> Tensor:
        assert isinstance(model, BilstmCrf)
        vectors = model.dropout(model.token_vectors(batch))
        weights = self.generator.shaped(self.weights[domain, task])
        return run_lstm(model.lstm, vectors, batch.sizes.lengths, weights, bf16=model.use_bf16)

    def _words_ahead(self, model: Crf, batch: Batch, domain: int, drawn: Tensor | None) -> Tensor:
        """Return the summed loss of a batch's words given those before and those after them, halved, a scalar."""
        assert self.output is not None
        states = model.dropout(self._states(model, batch, domain, WORDS_AHEAD))
        forward, backward = states.chunk(2, -1)  # (B, W, H) each
        words = self.words.of(batch)  # (B, W)
        later = torch.arange(1, words.shape[1])
        pairs = (later < batch.sizes.lengths.unsqueeze(1)).flatten()  # (B · (W − 1),) tokens that have one before them
        places = sent_ahead(pairs.nonzero().squeeze(1), words.device)
        ahead = self.output(forward[:, :-1].flatten(0, 1)[places], words[:, 1:].flatten()[places], drawn)
        behind = self.output(backward[:, 1:].flatten(0, 1)[places], words[:, :-1].flatten()[places], drawn)
        return (ahead.sum() + behind.sum()) / 2


@dataclass(frozen=True, slots=True)
class WordNumbers:
    """The words of texts, by what the encoder tells apart (V,) in rising order, and the number of each (V,)."""

    keys: Tensor
    ranks: Tensor

    def of(self, batch: Batch) -> Tensor:
        """Return the numbers (B, W) of a batch's words, all of which are in the texts."""
        keys = _key(batch.input_ids[..., 0], batch.input_ids[..., 1]).gather(1, batch.positions)  # (B, W)
        return self.ranks[torch.searchsorted(self.keys, keys)]

    def to(self, device: torch.device) -> WordNumbers:
        """Return the same on a device."""
        return WordNumbers(self.keys.to(device), self.ranks.to(device))


def numbers_of_words(encoder: Encoder, texts: Sequence[Sentence]) -> WordNumbers:
    """Return the numbers of the words of texts, by how often they occur from 0."""
    counts = Counter(word for sentence in texts for word in sentence.words)
    keys: Counter[int] = Counter()
    for word, (piece,) in zip(counts, encoder.pieces([list(counts)])[0], strict=True):
        keys[_key(*piece[:2])] += counts[word]
    ranks = {key: rank for rank, key in enumerate(sorted(keys, key=lambda key: (-keys[key], key)))}
    return WordNumbers(torch.tensor(sorted(ranks)), torch.tensor([ranks[key] for key in sorted(ranks)]))


def _key(row: Any, hashed: Any) -> Any:
    """Return what tells words apart: their row among the vectors, and their hash."""
    return row * BUCKETS + hashed
