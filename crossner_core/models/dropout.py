"""Dropout with fast CPU masks, for heads and transformer encoders.

On a CPU, PyTorch draws 53 random bits per mask element, on one core, and computes attention with dropout in single
precision. Here an element takes 16 bits of the same generator, and attention runs in the dtype of its heads. On other
devices, and in attention without dropout, PyTorch's own implementation is used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from crossner_core.encoders.packing import ATTENTION, packing_now

_BITS, _INTS_A_DRAW = 16, 4
_LOWEST = -(2 ** (_BITS - 1))


class Dropout(nn.Dropout):
    """`nn.Dropout` with masks of `drop` on a CPU; its probability is then rounded to 1/65,536."""

    def forward(self, input: Tensor) -> Tensor:
        """Return values of the same shape: in training some are zeroed and the others scaled up."""
        if not self.training or input.device.type != "cpu" or self.inplace:
            return super().forward(input)
        return drop(input, self.p)


def drop(values: Tensor, share: float) -> Tensor:
    """Return CPU values with a share in [0, 1] of them zeroed and the others divided by 1 − share.

    Draws from PyTorch's generator. The mean is preserved (Srivastava et al. 2014).
    """
    steps = round(share * 2**_BITS)
    if steps == 0:
        return values
    if steps == 2**_BITS:
        return values * 0.0
    count = values.numel()
    drawn = torch.empty((count + _INTS_A_DRAW - 1) // _INTS_A_DRAW, dtype=torch.int64).random_(-(2**63), None)
    kept = drawn.view(torch.int16)[:count].view(values.shape) >= _LOWEST + steps
    return values * kept.to(values.dtype).mul_(2**_BITS / (2**_BITS - steps))


def speed_up_dropout(encoder: nn.Module) -> None:
    """Make an encoder use `drop` for its dropout, without changing its weights; idempotent."""
    for parent in encoder.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                mine = Dropout(child.p, child.inplace)
                setattr(parent, name, mine.train(child.training))
    config = getattr(encoder, "config", None)
    if getattr(config, "_attn_implementation", None) in ("sdpa", ATTENTION):  # ours, if from another process
        _register()
        encoder.set_attn_implementation(ATTENTION)  # type: ignore[operator]


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *rest: Any,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend as `_attend`, in a packed batch, whose heads are (1, N, subwords, D), each subword within its window."""
    if (packing := packing_now()) is None:
        return _attend(module, query, key, value, attention_mask, *rest, **others)
    query, key, value = (packing.pad(heads[0].transpose(0, 1)).transpose(1, 2) for heads in (query, key, value))
    attended, _ = _attend(module, query, key, value, packing.here[:, None, None], *rest, **others)  # (B, L, N, D)
    return packing.pack(attended)[None], None


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend as `sdpa` of transformers does: heads (B, N, L, D) → (B, L, N, D); with dropout on a CPU by `drop`.

    Scores are computed in the dtype of the heads, the softmax in single precision.
    """
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    usual = query.shape[1] == key.shape[1] and not any(others.get(name) is not None for name in _OWN_WAYS)
    if dropout == 0.0 or query.device.type != "cpu" or not usual or (attention_mask is None and causal):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        attended: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **others
        )
        return attended
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = torch.matmul(query * scale, key.transpose(-1, -2)).float()  # (B, N, L, L)
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill_(~attention_mask, torch.finfo(torch.float32).min)
    elif attention_mask is not None:
        scores = scores + attention_mask
    probabilities = drop(scores.softmax(-1).to(value.dtype), dropout)
    return torch.matmul(probabilities, value).transpose(1, 2).contiguous(), None


# Extra arguments of some encoders' attention, which are left to `sdpa`.
_OWN_WAYS = ("position_bias", "softcap", "cache", "s_aux")


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
