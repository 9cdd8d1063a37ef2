"""Masks for masked-LM training: of single subwords or of spans, then 80 % [MASK], 10 % random, 10 % as they are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]

HIDDEN, REPLACED = 0.8, 0.1  # the rest is shown as it is


def token_masks(allowed: Mask, share: float, rng: np.random.Generator) -> Mask:
    """Choose each allowed position with probability `share`, (B, L)."""
    return (rng.random(allowed.shape) < share) & allowed


def span_masks(masked: Mask, allowed: Mask | None = None) -> Mask:
    """Move lone masks next to the following one, all rows at once, (B, L) → (B, L); the count of each row stays.

    Of two masked positions that are neither neighbours nor moved yet, the first goes to the position before the
    second; what stands together already is left alone. Source: CrossNER, "Span-level Pre-training", and its released
    code. A position that is not `allowed` (special, padding) takes no mask: the first one then stays where it is.
    """
    counts = masked.sum(1)
    rows, steps = np.arange(len(masked)), int(counts.max(initial=0))
    # (B, steps) the masked positions of each row in order; what lies past a row's count is not looked at
    places = np.argsort(~masked, axis=1, kind="stable")[:, :steps]
    spans = masked.copy()
    waiting = np.full(len(masked), -1)  # (B,) a lone mask that may still move; -1: none
    for at in range(steps):
        here, real = places[:, at], at < counts
        before = places[:, at - 1] if at else np.full(len(masked), -2)
        none, follows = waiting < 0, here - before == 1
        adjacent = ~none & (waiting == here - 1)
        moves = real & ~none & ~adjacent
        if allowed is not None:
            blocked = moves & ~allowed[rows, np.maximum(here - 1, 0)]
            moves &= ~blocked
        else:
            blocked = np.zeros_like(moves)
        spans[rows[moves], waiting[moves]] = False
        spans[rows[moves], here[moves] - 1] = True
        starts = real & ((none & ~follows) | blocked)
        waiting = np.where(starts, here, np.where(real, -1, waiting))
    return spans


def hide(ids: Ids, masked: Mask, mask_id: int, ordinary: Ids, rng: np.random.Generator) -> Ids:
    """Return the ids as the encoder sees them, (B, L); `ordinary` are the ids that a random subword may be."""
    drawn = rng.random(ids.shape)
    shown = np.where(masked & (drawn < HIDDEN), mask_id, ids)
    random = ordinary[rng.integers(0, len(ordinary), ids.shape)]
    return np.where(masked & (drawn >= HIDDEN) & (drawn < HIDDEN + REPLACED), random, shown)
