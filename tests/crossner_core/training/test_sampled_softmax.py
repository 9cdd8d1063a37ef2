"""The sampled softmax against the whole one: exactly with all words, and in expectation over its sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from crossner_core.training.sampled_softmax import SampledSoftmax


def made(samples: int, words: int = 7) -> tuple[SampledSoftmax, torch.Tensor, torch.Tensor]:
    """Return a layer in double precision, states (4, 3) and their words (4,)."""
    generator = torch.Generator().manual_seed(1)
    layer = SampledSoftmax(words, 3, samples).double()
    with torch.no_grad():
        for weights in layer.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator, dtype=torch.float64))
    states = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    return layer, states, torch.tensor([0, 3, 6, 3])


def by_hand(layer: SampledSoftmax, states: torch.Tensor, words: torch.Tensor) -> list[float]:
    """Return −log p of each word over all words."""
    losses = []
    for state, word in zip(states.tolist(), words.tolist(), strict=True):
        scores = [
            sum(w * h for w, h in zip(row, state, strict=True)) + bias
            for row, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        ]
        losses.append(math.log(sum(math.exp(score) for score in scores)) - scores[word])
    return losses


def test_sampled_softmax_with_all_words_is_the_whole_one() -> None:
    for samples in (7, 50):
        layer, states, words = made(samples)
        drawn = layer.draw(np.random.default_rng(0))
        assert drawn is None
        assert layer(states, words, drawn).tolist() == pytest.approx(by_hand(layer, states, words))


def test_sampled_softmax_expectation_over_every_pair_of_samples_is_the_whole_denominator() -> None:
    layer, states, words = made(2)
    chance = [math.log((rank + 2) / (rank + 1)) / math.log(8) for rank in range(7)]
    assert sum(chance) == pytest.approx(1.0)
    expected = torch.zeros(4, dtype=torch.float64)
    for first in range(7):
        for second in range(7):
            loss = layer(states, words, torch.tensor([first, second]))
            expected += chance[first] * chance[second] * loss.exp()  # 1 / p
    assert expected.log().tolist() == pytest.approx(by_hand(layer, states, words))


def test_sampled_softmax_draws_ranks_log_uniformly_and_by_the_given_numbers() -> None:
    layer, *_ = made(20_000, words=30_000)
    drawn = layer.draw(np.random.default_rng(5))
    assert drawn is not None and torch.equal(drawn, layer.draw(np.random.default_rng(5)))  # type: ignore[arg-type]
    assert len(drawn) == 20_000 and int(drawn.min()) >= 0 and int(drawn.max()) < 30_000
    for rank in (0, 1, 9):
        share = (drawn == rank).double().mean().item()
        assert share == pytest.approx(math.log((rank + 2) / (rank + 1)) / math.log(30_001), rel=0.15)


def test_sampled_softmax_learns_which_words_follow_and_takes_no_words() -> None:
    torch.manual_seed(0)
    layer, states = SampledSoftmax(40, 8, 5), torch.randn(3, 8)
    words, rng = torch.tensor([2, 39, 17]), np.random.default_rng(0)
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    for _ in range(300):
        optimizer.zero_grad()
        layer(states, words, layer.draw(rng)).sum().backward()
        optimizer.step()
    assert layer(states, words, None).max() < 0.1
    assert layer(states[:0], words[:0], layer.draw(rng)).shape == (0,)
