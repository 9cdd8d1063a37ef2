"""A sentence's vector stays near its distorted copy's and off all others'."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def contrastive_loss(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return the mean over sentences of the loss of finding one's copy; 0 without any.

    `first` (N, Z) are the sentences' vectors, `second` (N, Z) their distorted copies'. Departures from eq. 7: its
    numerator exp(z · z̄)/τ is read as exp(z · z̄ / τ), as its denominator is; z are normalised (cosine), since at
    τ = 0.05 the exponent of a product of free length has no bound.
    """
    if not len(first):
        return first.new_zeros(())
    count = len(first)
    one = functional.normalize(first, dim=-1)
    all_of_them = torch.cat([functional.normalize(second, dim=-1), one])  # (2N, Z): copies, then the sentences
    scores = one @ all_of_them.T / temperature  # (N, 2N)
    itself = torch.arange(count, device=scores.device)
    scores = scores.masked_fill(functional.one_hot(itself + count, 2 * count).bool(), float("-inf"))
    return functional.cross_entropy(scores, itself)


class Projection(nn.Module):
    """z = Wᵀ h, without a bias. Source: PDALN eq. 7; its size is not given, ours is half the encoder's."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, max(2, hidden_size // 2), bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.linear(vectors)
