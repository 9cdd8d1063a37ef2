"""Signals of a pool from a trained model and an encoder: streamed in chunks, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossner_core.acquisition import signals as names
from crossner_core.acquisition.signals import Part
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.pooling import embed, sentences_at_once
from crossner_core.encoders.windows import Batch
from crossner_core.models.base import TokenTagger
from crossner_core.models.heads import head_tags
from crossner_core.schema import Sentence
from crossner_core.training.predictor import Predictor

# Sentences held in memory, sorted by length and scored before the next ones are read.
CHUNK = 1024
# Passes with dropout for BALD, as in Siddhant and Lipton 2018 for small models.
PASSES = 8
# A gradient is (tags × hidden); each side is projected separately, to this many dimensions.
TAG_SIDE, HIDDEN_SIDE = 16, 32


def model_parts(
    predictor: Predictor,
    sentences: Iterable[Sentence],
    wanted: Collection[str],
    *,
    seed: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Part]:
    """Yield a model's `wanted` signals chunk by chunk; `seed` is for dropout and projection.

    Ends early, between chunks, once `should_stop` returns True. Sentences without tokens get zeros.
    """
    scorer = _ModelScorer(predictor, frozenset(wanted), seed)
    for chunk in _chunks(sentences):
        if should_stop():
            return
        yield scorer.part(chunk)


def embedding_parts(
    encoder: Encoder, sentences: Iterable[Sentence], *, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[Part]:
    """Yield sentence embeddings chunk by chunk: the normalised mean of the encoder's vectors, in half precision."""
    for chunk in _chunks(sentences):
        if should_stop():
            return
        rows = embed(encoder, chunk).astype(np.float16)
        yield Part(tuple(sentence.content_hash for sentence in chunk), {names.EMBEDDING: rows})


def _chunks(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    whole = iter(sentences)
    while chunk := list(islice(whole, CHUNK)):
        yield chunk


class _ModelScorer:
    """Aggregates a model's signals over the windows of each sentence."""

    def __init__(self, predictor: Predictor, wanted: frozenset[str], seed: int) -> None:
        self.predictor, self.wanted, self.seed = predictor, wanted, seed
        self.model: TokenTagger = predictor.model
        self.device = next(self.model.parameters()).device
        self.allowed = len(head_tags(predictor.types))
        generator = torch.Generator().manual_seed(seed)
        shape = (self.allowed, TAG_SIDE), (predictor.encoder.hidden_size, HIDDEN_SIDE)
        self.tag_side, self.hidden_side = (
            (torch.randn(size, generator=generator) / size[1] ** 0.5).to(self.device) for size in shape
        )

    def part(self, chunk: Sequence[Sentence]) -> Part:
        """Return the signals of a chunk."""
        sums = self._empty(len(chunk))
        windows = self.predictor.encoder.windows(chunk)
        with self.predictor.evaluating():
            for indices, batch in self.predictor.batches(windows, sentences_at_once(self.device)):
                rows = [windows[index] for index in indices]
                self._add(sums, batch, np.array([row.sentence for row in rows]), [row.start for row in rows])
        return Part(tuple(sentence.content_hash for sentence in chunk), self._joined(sums))

    def _empty(self, count: int) -> dict[str, Any]:
        types = len(self.predictor.types)
        sums: dict[str, Any] = {
            names.LOG_PROBABILITY: np.zeros(count),
            names.ENTROPY: np.zeros(count),
            names.MARGIN: np.ones(count),
            names.EXPECTED: np.zeros((count, types)),
            names.TAGS: [[] for _ in range(count)],
            names.BALD: np.zeros(count),
            names.GRADIENT: np.zeros((count, TAG_SIDE * HIDDEN_SIDE)),
        }
        return {name: value for name, value in sums.items() if name in self.wanted | names.CHEAP}

    def _add(self, sums: dict[str, Any], batch: Batch, sentences: NDArray[np.int64], starts: Sequence[int]) -> None:
        batch.hidden = self.model.hidden(batch)
        logs = self.model.tag_log_probabilities(batch)[..., : self.allowed].log_softmax(-1)  # (B, W, K)
        probabilities, mask = logs.exp(), batch.mask
        best, path = logs.max(-1)  # (B, W)
        np.add.at(sums[names.LOG_PROBABILITY], sentences, _over(best, mask))
        np.add.at(sums[names.ENTROPY], sentences, _over(_entropy(probabilities), mask))
        np.minimum.at(sums[names.MARGIN], sentences, _least_margin(probabilities, mask))
        begins = (probabilities[..., 1::2] * mask.unsqueeze(-1)).sum(1)  # (B, T)
        np.add.at(sums[names.EXPECTED], sentences, begins.double().cpu().numpy())
        rows = zip(sentences, starts, path.cpu().numpy(), batch.sizes.lengths.tolist(), strict=True)
        for sentence, start, tags, length in rows:
            sums[names.TAGS][sentence].append((start, tags[:length].astype(np.uint16)))
        if names.GRADIENT in self.wanted:
            np.add.at(sums[names.GRADIENT], sentences, self._gradients(batch, probabilities, path))
        if names.BALD in self.wanted:
            np.add.at(sums[names.BALD], sentences, self._bald(batch, int(sentences[0])))

    def _gradients(self, batch: Batch, probabilities: Tensor, path: Tensor) -> NDArray[np.float64]:
        """Return (B, D): the loss gradients of the decoded tags with respect to a linear head, projected.

        Both sides of the outer product are projected separately, which preserves inner products in expectation. As in
        Ash et al. 2020 (BADGE), summed over the tokens of a sentence.
        """
        wrong = probabilities - torch.nn.functional.one_hot(path, self.allowed)  # (B, W, K)
        errors = (wrong * batch.mask.unsqueeze(-1)) @ self.tag_side  # (B, W, TAG_SIDE)
        other = self.model.token_vectors(batch) @ self.hidden_side  # (B, W, HIDDEN_SIDE)
        return torch.einsum("bwt,bwh->bth", errors, other).flatten(1).double().cpu().numpy()

    def _bald(self, batch: Batch, first: int) -> NDArray[np.float64]:
        """Return (B,): the mutual information between tags and dropout masks. Source: Gal et al. 2017."""
        mean, spread = torch.zeros(()), torch.zeros(())
        bare = batch.bare()
        self.model.train()
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.seed + first)
            for _ in range(PASSES):
                probabilities = self.model.tag_log_probabilities(bare)[..., : self.allowed].softmax(-1)  # (B, W, K)
                mean, spread = mean + probabilities / PASSES, spread + _entropy(probabilities) / PASSES
        self.model.eval()
        return _over((_entropy(mean) - spread).clamp(min=0), batch.mask)

    def _joined(self, sums: dict[str, Any]) -> dict[str, NDArray[Any]]:
        tags = np.empty(len(sums[names.TAGS]), dtype=object)
        for index, parts in enumerate(sums[names.TAGS]):
            ordered = [part for _, part in sorted(parts, key=lambda part: part[0])]
            tags[index] = np.concatenate(ordered) if ordered else np.zeros(0, dtype=np.uint16)
        kept = {name: np.asarray(value, dtype=np.float32) for name, value in sums.items() if name != names.TAGS}
        return {**kept, names.TAGS: tags}


def _over(values: Tensor, mask: Tensor) -> NDArray[np.float64]:
    """Sum (B, W) values over the tokens of each window, (B,)."""
    return (values * mask).sum(1).double().cpu().numpy()


def _entropy(probabilities: Tensor) -> Tensor:
    return -torch.xlogy(probabilities, probabilities).sum(-1)


def _least_margin(probabilities: Tensor, mask: Tensor) -> NDArray[np.float64]:
    """Return (B,): the smallest margin over tokens with an entity tag in their top two and P(O) < 0.9; else 1."""
    top = probabilities.topk(2, dim=-1)  # (B, W, 2)
    margin = top.values[..., 0] - top.values[..., 1]
    of_entity = ((top.indices > 0).any(-1)) & (probabilities[..., 0] < 0.9) & mask
    return margin.masked_fill(~of_entity, 1.0).min(1).values.double().cpu().numpy()
