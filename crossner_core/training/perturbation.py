"""Noise on a tagger's inputs, of length 1 for each sentence, and the inputs themselves, for the gradient of a loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from crossner_core.encoders.base import encoding_part
from crossner_core.encoders.windows import Batch
from crossner_core.models.base import TokenTagger


def unit_noise(noise: Tensor, batch: Batch) -> Tensor:
    """Return the noise (B, L, H) with padding zeroed and each sentence's scaled to length 1."""
    noise = noise * batch.attention_mask.unsqueeze(-1)
    return noise / noise.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None]


def input_layer(model: TokenTagger) -> nn.Module:
    """Return what makes a tagger's inputs: the embeddings of subwords, or an encoder of word vectors as a whole.

    In a body with a decoder they are the encoder's own module: BART's `shared` has their weights, but reads no text.
    """
    reader = encoding_part(model.encoder)
    embeddings = getattr(reader, "get_input_embeddings", None)
    return model.encoder if embeddings is None else embeddings()


@contextmanager
def input_noise(model: TokenTagger, noise: Tensor) -> Iterator[None]:
    """Add noise (B, L, H) to the inputs: a transformer's subword embeddings, else the encoder's vectors of words."""

    def add(_: Any, __: Any, output: Any) -> Any:
        if isinstance(output, Tensor):
            return output + noise
        return SimpleNamespace(last_hidden_state=output.last_hidden_state + noise)

    with _hooked(model, add):
        yield


@contextmanager
def inputs_kept(model: TokenTagger) -> Iterator[list[Tensor]]:
    """Yield a list that receives the inputs (B, L, H) of each pass, for the gradient of a loss with respect to them."""
    inputs: list[Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> Any:
        whole = isinstance(output, Tensor)
        vectors = output if whole else output.last_hidden_state
        if not vectors.requires_grad:
            vectors = vectors.detach().requires_grad_()
        inputs.append(vectors)
        return vectors if whole else SimpleNamespace(last_hidden_state=vectors)

    with _hooked(model, keep):
        yield inputs


@contextmanager
def _hooked(model: TokenTagger, hook: Any) -> Iterator[None]:
    handle = input_layer(model).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
