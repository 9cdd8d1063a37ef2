"""Packed batches: a transformer's layers read the subwords of all windows in one row, without padding.

Only attention sees the padded windows, as each subword attends to those of its own window.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crossner_core.encoders.windows import Batch

PACKED = False
"""Whether padded batches are packed for the encoders that can read them so."""
ATTENTION = "fast_dropout"
"""The attention that unpacks them, which `models.dropout` registers with transformers."""
# Bodies that number the positions of a window from 0.
_MODEL_TYPES = ("bert", "electra")


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the N subwords of windows (B, L) are: numbers in [0, B · L)."""

    numbers: Tensor  # (N,)
    here: Tensor  # (B, L) True where there is a subword

    def pack(self, values: Tensor) -> Tensor:
        """Return values (B, L, …) of the subwords alone, (N, …)."""
        return values.flatten(0, 1).index_select(0, self.numbers)

    def pad(self, values: Tensor) -> Tensor:
        """Return values (N, …) as those of windows, (B, L, …); 0 where there is no subword."""
        rows, length = self.here.shape
        padded = values.new_zeros(rows * length, *values.shape[1:])
        return padded.index_copy(0, self.numbers, values).unflatten(0, (rows, length))


_PACKING: ContextVar[Packing | None] = ContextVar("packing", default=None)


def can_pack(model: Any) -> bool:
    """Return whether a module reads packed batches.

    One whose inputs are hooked does not, as hooks expect windows, nor one that computes activations again in the
    backward pass, where nothing tells what is packed.
    """
    config: Any = getattr(model, "config", None)
    return (
        getattr(config, "model_type", None) in _MODEL_TYPES
        and config._attn_implementation == ATTENTION
        and not model.is_activation_checkpointing
        and not model.get_input_embeddings()._forward_hooks
    )


def packed_vectors(model: Any, batch: Batch) -> Tensor:
    """Return an encoder's vectors (B, L, H) of a batch's subwords, 0 at padding."""
    sizes = batch.sizes.subwords  # (B,) on the host, so that nothing waits for a GPU
    rows, length = batch.input_ids.shape
    begins = torch.arange(rows).repeat_interleave(sizes) * length  # (N,)
    places = torch.arange(len(begins)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)  # (N,) within a window
    device = batch.input_ids.device
    packing = Packing((begins + places).to(device), batch.attention_mask.bool())
    ids, positions = packing.pack(batch.input_ids)[None], places.to(device)[None]  # (1, N)
    with _reading(packing):
        states = model(input_ids=ids, position_ids=positions, token_type_ids=torch.zeros_like(ids)).last_hidden_state
    return packing.pad(states[0])


@contextmanager
def _reading(packing: Packing) -> Iterator[None]:
    token = _PACKING.set(packing)
    try:
        yield
    finally:
        _PACKING.reset(token)


def packing_now() -> Packing | None:
    """Return the packing of the batch that is being read, if it is packed."""
    return _PACKING.get() if PACKED else None  # torch.compile cannot trace the former
