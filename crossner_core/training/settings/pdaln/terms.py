"""Terms of PDALN's loss: contrast with distorted copies, maximum mean discrepancy, adversarial noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.encoders.windows import Batch
from crossner_core.models.base import TokenTagger

# σ of exp(−d² / 2σ). Source: the 19 widths of La-DTL's code.
FIXED = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 100.0, 1e3, 1e4, 1e5, 1e6)
# Widths of exp(−d² / w) as multiples of the median squared distance.
MEDIANS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Noise of the single power iteration, as a fraction of the embeddings' length.
_PROBE = 0.1


def contrastive_loss(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return the mean loss of identifying each sentence's copy; 0 without sentences.

    `first` (N, Z) are the sentences' vectors, `second` (N, Z) their distorted copies'. Departures from eq. 7: its
    numerator exp(z · z̄)/τ is read as exp(z · z̄ / τ), like its denominator; z are normalised (cosine), since at τ =
    0.05 the exponent is unbounded otherwise.
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


def squared_mmd(first: Tensor, second: Tensor, *, estimator: str = "biased", bandwidths: str = "fixed") -> Tensor:
    """Return the squared MMD of two sets of vectors (N, H) and (M, H), a scalar; 0 for sets that are too small.

    The kernel is the mean over the bandwidths (La-DTL sums them: its weights are ours over 19), in single precision.
    Biased needs one vector in each set and never falls below 0; unbiased excludes pairs of a vector with itself, needs
    two, and may fall below 0. With `median`, no gradient flows through the widths.
    Source: PDALN eq. 4 (biased); Gretton et al. 2012, eq. 3 (unbiased).
    """
    n, m = len(first), len(second)
    if min(n, m) < (2 if estimator == "unbiased" else 1):
        return first.new_zeros((), dtype=torch.float32)
    together = torch.cat([first, second]).float()  # (N + M, H)
    # Differences rather than products: the distance between equal vectors is exactly 0, with a gradient of 0.
    distances = torch.cdist(together, together, compute_mode="donot_use_mm_for_euclid_dist").square()
    kernel = _kernel(distances, _widths(distances, bandwidths))  # (N + M, N + M)
    across = kernel[:n, n:].mean()
    if estimator == "unbiased":
        return _mean_of_others(kernel[:n, :n]) + _mean_of_others(kernel[n:, n:]) - 2.0 * across
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2.0 * across


def _widths(distances: Tensor, bandwidths: str) -> Tensor:
    if bandwidths == "fixed":
        return 2.0 * distances.new_tensor(FIXED)
    size = len(distances)
    apart = ~torch.eye(size, dtype=torch.bool, device=distances.device)
    median = distances.detach()[apart].median().clamp(min=1e-12)
    return median * distances.new_tensor(MEDIANS)


def _kernel(distances: Tensor, widths: Tensor) -> Tensor:
    total = torch.zeros_like(distances)
    for width in widths:
        total = total + torch.exp(-distances / width)
    return total / len(widths)


def _mean_of_others(kernel: Tensor) -> Tensor:
    size = len(kernel)
    return (kernel.sum() - kernel.diagonal().sum()) / (size * (size - 1))


def adversarial_loss(model: TokenTagger, batches: Sequence[Batch], size: float, rng: np.random.Generator) -> Tensor:
    """Return the mean over tokens of KL(tags without noise ‖ tags with it), a scalar.

    Noise of `size` × the mean length of a token's embedding is added to a sentence's embeddings as a whole. Dropout is
    off, as its noise would interfere; the passes are in single precision. Source: Miyato et al. 2017, "Adversarial
    Training Methods for Semi-Supervised Text Classification", eq. 7 to 9, with KL summed over a sentence's tokens.
    """
    training, low = model.training, model.use_bf16
    model.eval()
    model.use_bf16 = False
    try:
        total, count = torch.zeros((), device=batches[0].mask.device), 0
        for batch in batches:
            total, count = total + _divergence(model, batch, size, rng), count + int(batch.mask.sum())
        return total / max(count, 1)
    finally:
        model.train(training)
        model.use_bf16 = low


def _divergence(model: TokenTagger, batch: Batch, size: float, rng: np.random.Generator) -> Tensor:
    plain = Batch(batch.input_ids, batch.attention_mask, batch.positions, batch.mask, batch.tags)
    with torch.no_grad():
        table = model.encoder.get_input_embeddings().weight
        length = table[plain.input_ids].norm(dim=-1)[plain.attention_mask.bool()].mean()
        clean = model.tag_log_probabilities(plain)  # (B, W, K)
    shape = (*plain.input_ids.shape, table.shape[-1])  # (B, L, H)
    first = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).to(table.device)
    probe = (unit_noise(first, plain) * length * _PROBE).requires_grad_()
    with embedding_noise(model, probe):
        moved = model.tag_log_probabilities(plain)
    (direction,) = torch.autograd.grad(kl_divergence(clean, moved, plain.mask), probe)
    with embedding_noise(model, unit_noise(direction, plain) * length * size):
        worst = model.tag_log_probabilities(plain)
    return kl_divergence(clean, worst, plain.mask)


def kl_divergence(clean: Tensor, moved: Tensor, mask: Tensor) -> Tensor:
    return (clean.exp() * (clean - moved)).sum(-1)[mask].sum()


def unit_noise(noise: Tensor, batch: Batch) -> Tensor:
    """Return the noise with padding zeroed and each sentence's scaled to length 1."""
    noise = noise * batch.attention_mask.unsqueeze(-1)
    return noise / noise.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None]


@contextmanager
def embedding_noise(model: TokenTagger, noise: Tensor) -> Iterator[None]:
    """Add noise (B, L, H) to the encoder's subword embeddings."""

    def add(_: Any, __: Any, found: Tensor) -> Tensor:
        return found + noise

    hook = model.encoder.get_input_embeddings().register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()
