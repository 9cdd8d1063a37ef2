"""The tag set of a head, and moving a linear head's rows between tag sets by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn


def head_tags(types: Sequence[str]) -> tuple[str, ...]:
    """Return the IOB2 tags of the types, O first, then B- and I- of each type in the order given."""
    return ("O", *(f"{prefix}-{name}" for name in types for prefix in "BI"))


def copy_rows(
    target: nn.Linear,
    target_tags: Sequence[str],
    source: nn.Linear,
    source_tags: Sequence[str],
    parents: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Copy weight and bias rows of the tags both heads know; return those tags in the target's order.

    A tag whose type only the target knows gets the row of its nearest ancestor that the source knows, added to its
    own first values, so that siblings can part.
    """
    index = {tag: at for at, tag in enumerate(source_tags)}
    with torch.no_grad():
        for to, tag in enumerate(target_tags):
            if tag in index:
                target.weight[to] = source.weight[index[tag]]
                target.bias[to] = source.bias[index[tag]]
            elif (known := _ancestor_tag(tag, index, parents or {})) is not None:
                target.weight[to] += source.weight[index[known]]
                target.bias[to] += source.bias[index[known]]
    return tuple(tag for tag in target_tags if tag in index)


def _ancestor_tag(tag: str, known: Mapping[str, int], parents: Mapping[str, str]) -> str | None:
    prefix, _, name = tag.partition("-")
    seen: set[str] = set()
    while name in parents and name not in seen:
        seen.add(name)
        name = parents[name]
        if f"{prefix}-{name}" in known:
            return f"{prefix}-{name}"
    return None
