"""AdamW with parameter groups, and the learning-rate schedule as a function of the step."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import nn

_LAYER = re.compile(r"^encoder\.(?:.*\.)?layers?\.(\d+)\.")


def make_optimizer(
    model: nn.Module, *, learning_rate: float, head_learning_rate: float, weight_decay: float, layer_decay: float
) -> torch.optim.AdamW:
    """Return AdamW whose groups differ in peak rate (`peak`) and in weight decay (none on biases and norms).

    Parameters under `encoder` have the first rate, all others the head's, scaled by the model's `rate_scales`.
    """
    depth = 1 + max((_layer(name) for name, _ in model.named_parameters()), default=0)
    scales: Mapping[str, float] = getattr(model, "rate_scales", {})
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if name.startswith("encoder."):
            peak = learning_rate * layer_decay ** (depth - 1 - _layer(name))
        else:
            peak = head_learning_rate * scales.get(name, 1.0)
        decay = 0.0 if parameter.dim() < 2 or name in scales else weight_decay
        groups.setdefault((peak, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": params, "lr": peak, "peak": peak, "weight_decay": decay}
            for (peak, decay), params in groups.items()
        ],
        fused=True,
    )


def set_rate(
    optimizer: torch.optim.AdamW, step: int, total: int, warmup_share: float, schedule: str = "linear"
) -> None:
    """Set each group's rate for `step` (0-based) of `total`: linear warm-up, then linear decay to zero, or constant."""
    factor = rate_factor(step, total, warmup_share, schedule)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor


def hold_rate(optimizer: torch.optim.AdamW, rate: float) -> None:
    """Set the same constant rate for all groups, ignoring the model's `rate_scales`: only the head is trained."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def rate_factor(step: int, total: int, warmup_share: float, schedule: str = "linear") -> float:
    """Return the share of the peak rate at a step, in (0, 1]."""
    warmup = int(total * warmup_share)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    return max(total - step, 1) / max(total - warmup, 1)


def _layer(name: str) -> int:
    """Return the 1-based encoder layer of a parameter; 0 for embeddings and parameters outside layers."""
    match = _LAYER.match(name)
    return int(match.group(1)) + 1 if match else 0
