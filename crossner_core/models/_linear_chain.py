"""Sums over all tag paths of a linear chain, for padded batches, in log space."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Chain(NamedTuple):
    """Scores of a path besides its tokens': of its first tag, its transitions, and its last tag."""

    start: Tensor  # (K,); in decoding also (B, K)
    transitions: Tensor  # (K, K) [from, to]
    end: Tensor  # (K,); in decoding also (B, K)

    def first(self, count: int | None) -> Chain:
        """Return the chain over the first `count` tags only."""
        return Chain(self.start[:count], self.transitions[:count, :count], self.end[:count])


def log_partition(scores: Tensor, mask: Tensor, chain: Chain) -> Tensor:
    """Return the log of the summed exponentials of all paths' scores (B,), for token scores (B, W, K).

    `mask` (B, W) is True where there is a token; each row has at least one, followed by padding.
    """
    return torch.logsumexp(_forward(scores, mask, chain)[-1] + chain.end, dim=1)


def marginals(scores: Tensor, mask: Tensor, chain: Chain) -> Tensor:
    """Return each token's log-probabilities of its tags over all paths (B, W, K); values at padding are meaningless."""
    before = torch.stack(_forward(scores, mask, chain), dim=1)  # (B, W, K) including the token's own score
    after = chain.end.expand_as(scores[:, 0])  # (B, K) everything after a token
    behind = [after]
    for position in range(scores.shape[1] - 1, 0, -1):
        coming = (scores[:, position] + after).unsqueeze(1) + chain.transitions  # (B, K, K) [from, to]
        after = torch.where(mask[:, position].unsqueeze(1), torch.logsumexp(coming, dim=2), after)
        behind.append(after)
    return (before + torch.stack(behind[::-1], dim=1)).log_softmax(-1)


def path_score(scores: Tensor, mask: Tensor, chain: Chain, tags: Tensor) -> Tensor:
    """Return the score of one path per sentence (B,); `tags` (B, W) may hold any valid index at padding."""
    tokens = scores.gather(2, tags.unsqueeze(2)).squeeze(2)  # (B, W)
    steps = chain.transitions[tags[:, :-1], tags[:, 1:]]  # (B, W - 1)
    last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)  # (B,)
    inside = (tokens * mask).sum(1) + (steps * mask[:, 1:]).sum(1)
    return chain.start[tags[:, 0]] + inside + chain.end[last]


def _forward(scores: Tensor, mask: Tensor, chain: Chain) -> list[Tensor]:
    """Return for each token the log-sums (B, K) of the paths up to it; padding repeats the last token's."""
    so_far = chain.start + scores[:, 0]  # (B, K)
    sums = [so_far]
    for position in range(1, scores.shape[1]):
        coming = torch.logsumexp(so_far.unsqueeze(2) + chain.transitions, dim=1) + scores[:, position]  # (B, K)
        so_far = torch.where(mask[:, position].unsqueeze(1), coming, so_far)
        sums.append(so_far)
    return sums
