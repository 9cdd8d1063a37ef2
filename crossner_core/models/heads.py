"""The tag set of a head, and copying rows between tag sets by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models._linear_chain import Chain
from crossner_core.models.viterbi import FORBIDDEN


def head_tags(types: Sequence[str]) -> tuple[str, ...]:
    """Return the IOB2 tags of the types, O first, then B- and I- of each type in the order given."""
    return ("O", *(f"{prefix}-{name}" for name in types for prefix in "BI"))


def tag_types(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the types of a head's tags, in its order."""
    return tuple(dict.fromkeys(_type(tag) for tag in tags[1:]))


def first_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return O and the first tag of each type: names for what a head has once for O and once for each type."""
    return (tags[0], *tags[1::2])


def token_loss(scores: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Return the mean cross-entropy of scores (B, W, K) over tokens with a known tag, with label smoothing.

    Tags that are foreign to a window's corpus have no part in it.
    """
    if batch.foreign is None:
        flat = scores.flatten(0, 1), batch.tags.flatten()
        return functional.cross_entropy(*flat, ignore_index=IGNORED, label_smoothing=smoothing)
    log_probs = without_foreign(scores, batch).log_softmax(-1)  # (B, W, K)
    known = batch.tags != IGNORED  # (B, W)
    of_tags = log_probs.gather(2, batch.tags.clamp(min=0).unsqueeze(2)).squeeze(2)  # (B, W)
    own = ~batch.foreign.unsqueeze(1)  # (B, 1, K)
    of_all = log_probs.masked_fill(~own, 0.0).sum(-1) / own.sum(-1)  # (B, W)
    losses = -((1 - smoothing) * of_tags + smoothing * of_all)
    return losses[known].sum() / known.sum().clamp(min=1)


def without_foreign(scores: Tensor, batch: Batch) -> Tensor:
    """Return scores (B, W, K) in which tags that are foreign to a window's corpus can no longer be chosen."""
    return scores if batch.foreign is None else scores.masked_fill(batch.foreign.unsqueeze(1), FORBIDDEN)


def copy_tag_rows(
    pairs: Sequence[tuple[Tensor, Tensor]],
    target_tags: Sequence[str],
    source_tags: Sequence[str],
    parents: Mapping[str, str] | None = None,
    *,
    spread: float = 1.0,
) -> tuple[str, ...]:
    """Copy the rows of shared tags in pairs (target, source) of tensors; return these tags in the target's order.

    A tag that only the target has gets the row of its nearest ancestor in the source, added to `spread` of its own
    initial values, so that siblings can diverge.
    """
    shared = []
    with torch.no_grad():
        for to, come, own in _matches(target_tags, source_tags, parents):
            for mine, theirs in pairs:
                mine[to] = theirs[come] + (0.0 if own else spread * mine[to])
            if own:
                shared.append(target_tags[to])
    return tuple(shared)


def copy_pairs(
    target: Chain,
    target_tags: Sequence[str],
    source: Chain,
    source_tags: Sequence[str],
    parents: Mapping[str, str] | None = None,
) -> None:
    """Copy the scores of first tags, last tags and transitions of tags that both have, directly or by an ancestor.

    Two types with the same ancestor stay distinct: the source's transitions within one type are not used between them.
    """
    matches = [(to, come) for to, come, _ in _matches(target_tags, source_tags, parents)]
    with torch.no_grad():
        for to, come in matches:
            target.start[to], target.end[to] = source.start[come], source.end[come]
            for then, then_come in matches:
                one_type = _type(target_tags[to]) == _type(target_tags[then])
                if one_type == (_type(source_tags[come]) == _type(source_tags[then_come])):
                    target.transitions[to, then] = source.transitions[come, then_come]


def _matches(
    target_tags: Sequence[str], source_tags: Sequence[str], parents: Mapping[str, str] | None
) -> Iterator[tuple[int, int, bool]]:
    """Yield for each matched target tag its index, that of its match, and whether both are the same tag."""
    index = {tag: number for number, tag in enumerate(source_tags)}
    for to, tag in enumerate(target_tags):
        if tag in index:
            yield to, index[tag], True
        elif (known := _ancestor_tag(tag, index, parents or {})) is not None:
            yield to, index[known], False


def _type(tag: str) -> str:
    return tag.partition("-")[2]


def _ancestor_tag(tag: str, known: Mapping[str, int], parents: Mapping[str, str]) -> str | None:
    prefix, _, name = tag.partition("-")
    seen: set[str] = set()
    while name in parents and name not in seen:
        seen.add(name)
        name = parents[name]
        if f"{prefix}-{name}" in known:
            return f"{prefix}-{name}"
    return None
