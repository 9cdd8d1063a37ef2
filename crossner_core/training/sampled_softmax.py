"""A softmax over many words, of which a step computes the right one and a sample."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class SampledSoftmax(nn.Module):
    """−log p(w | h) for words numbered by frequency, the most frequent first; p is a softmax of W h + b.

    Its denominator is estimated from S words drawn with replacement from the log-uniform distribution
    q(r) = log((r + 2) / (r + 1)) / log(V + 1) over ranks r: exp(s_w) + Σ_{r drawn, r ≠ w} exp(s_r) / (S q(r)), whose
    expectation is the denominator. With S ≥ V it is the denominator itself.
    Source: Bengio and Sénécal 2008 (importance sampling). Departure from the usual implementations: these draw without
    replacement, and correct the right word's score as well.
    """

    def __init__(self, words: int, size: int, samples: int) -> None:
        super().__init__()
        self.words, self.samples = words, samples
        self.weight = nn.Parameter(torch.randn(words, size) * size**-0.5)
        self.bias = nn.Parameter(torch.zeros(words))

    def draw(self, rng: np.random.Generator) -> Tensor | None:
        """Return S ranks (S,), on the CPU; None if all words are taken."""
        if self.samples >= self.words:
            return None
        ranks = np.exp(rng.random(self.samples) * math.log(self.words + 1)).astype(np.int64) - 1
        return torch.from_numpy(ranks.clip(0, self.words - 1))

    def forward(self, states: Tensor, words: Tensor, drawn: Tensor | None) -> Tensor:
        """Return −log p of words (N,) after states (N, H), by the ranks `drawn` (S,), (N,)."""
        if drawn is None:
            return functional.cross_entropy(functional.linear(states, self.weight, self.bias), words, reduction="none")
        own = (states * self.weight[words]).sum(-1) + self.bias[words]  # (N,)
        ranks = drawn.to(self.weight.dtype)
        expected = self.samples * ((ranks + 2) / (ranks + 1)).log() / math.log(self.words + 1)  # (S,)
        others = functional.linear(states, self.weight[drawn], self.bias[drawn]) - expected.log()  # (N, S)
        others = others.masked_fill(words.unsqueeze(1) == drawn, float("-inf"))
        return torch.cat([own.unsqueeze(1), others], 1).logsumexp(1) - own
