"""Virtual adversarial training: tags must not change under the small noise that would change them most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossner_core.models.base import Batch, TokenTagger

# Noise of the one power iteration, as a share of the embeddings' length.
_PROBE = 0.1


def adversarial_loss(model: TokenTagger, batches: Sequence[Batch], size: float, rng: np.random.Generator) -> Tensor:
    """Return the mean over tokens of KL(tags without noise ‖ tags with it), a scalar.

    Noise of `size` × the mean length of a token's embedding falls on a sentence's embeddings as a whole. Dropout is
    off, or its own noise would be found; the passes are in single precision. Source: Miyato et al. 2017, "Adversarial
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
    probe = (_unit(first, plain) * length * _PROBE).requires_grad_()
    with _noise(model, probe):
        moved = model.tag_log_probabilities(plain)
    (direction,) = torch.autograd.grad(_kl(clean, moved, plain.mask), probe)
    with _noise(model, _unit(direction, plain) * length * size):
        worst = model.tag_log_probabilities(plain)
    return _kl(clean, worst, plain.mask)


def _kl(clean: Tensor, moved: Tensor, mask: Tensor) -> Tensor:
    return (clean.exp() * (clean - moved)).sum(-1)[mask].sum()


def _unit(noise: Tensor, batch: Batch) -> Tensor:
    """Return the noise without padding, each sentence's of length 1."""
    noise = noise * batch.attention_mask.unsqueeze(-1)
    return noise / noise.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None]


@contextmanager
def _noise(model: TokenTagger, noise: Tensor) -> Iterator[None]:
    """Add noise (B, L, H) to what the encoder looks up for its subwords."""

    def add(_: Any, __: Any, found: Tensor) -> Tensor:
        return found + noise

    hook = model.encoder.get_input_embeddings().register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()
