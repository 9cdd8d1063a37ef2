"""The tag set of a head, and moving a linear head's rows between tag sets by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def head_tags(types: Sequence[str]) -> tuple[str, ...]:
    """Return the IOB2 tags of the types, O first, then B- and I- of each type in the order given."""
    return ("O", *(f"{prefix}-{name}" for name in types for prefix in "BI"))


def copy_rows(
    target: nn.Linear, target_tags: Sequence[str], source: nn.Linear, source_tags: Sequence[str]
) -> tuple[str, ...]:
    """Copy weight and bias rows of the tags both heads know; return those tags in the target's order."""
    shared = tuple(tag for tag in target_tags if tag in set(source_tags))
    with torch.no_grad():
        for tag in shared:
            to, come = target_tags.index(tag), list(source_tags).index(tag)
            target.weight[to] = source.weight[come]
            target.bias[to] = source.bias[come]
    return shared
