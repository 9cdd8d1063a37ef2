"""The best valid IOB2 tag sequence."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

FORBIDDEN = -1e4


def iob2_transitions(tags: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return start scores (K,) and transition scores (K, K) [from, to]: 0 where IOB2 allows it, else FORBIDDEN."""
    start = torch.zeros(len(tags))
    transitions = torch.zeros(len(tags), len(tags))
    for to, tag in enumerate(tags):
        if not tag.startswith("I-"):
            continue
        start[to] = FORBIDDEN
        before = {f"B-{tag[2:]}", tag}
        for come, previous in enumerate(tags):
            if previous not in before:
                transitions[come, to] = FORBIDDEN
    return start, transitions


def first_scores(start: Tensor, transitions: Tensor, before: Tensor | None) -> Tensor:
    """Return the scores of windows' first tags: `start` (K,), or transitions from the preceding tags (B,): (B, K)."""
    return start if before is None else transitions[before]


def viterbi(scores: Tensor, mask: Tensor, start: Tensor, transitions: Tensor, end: Tensor | None = None) -> Tensor:
    """Return the best path (B, W) for token scores (B, W, K); tokens where `mask` is False repeat the last tag.

    `end`, if given, is added to each path's last tag. `start` and `end` are (K,) or (B, K).
    """
    best = scores[:, 0] + start  # (B, K)
    keep = torch.arange(scores.shape[-1], device=scores.device).expand_as(best)  # (B, K)
    back = []
    for position in range(1, scores.shape[1]):
        value, origin = (best.unsqueeze(2) + transitions).max(dim=1)  # (B, K) over `from`
        alive = mask[:, position].unsqueeze(1)  # (B, 1)
        best = torch.where(alive, value + scores[:, position], best)
        back.append(torch.where(alive, origin, keep))
    path = [(best if end is None else best + end).argmax(dim=1)]  # (B,)
    for origin in reversed(back):
        path.append(origin.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(path[::-1], dim=1)  # (B, W)
