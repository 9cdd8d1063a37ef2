"""Masks of masked-LM training: the released code's spans, no special or padded position, 80/10/10."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crossner_core.adaptation.dapt import Mask, hide, span_masks, token_masks


def one_row(masked: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return a row's span mask, one position after the other, as the released code does it."""
    made, waiting = masked.copy(), -1
    for at in np.flatnonzero(masked):
        if waiting == -1:
            waiting = -1 if at and made[at - 1] else at
        elif waiting == at - 1:
            waiting = -1
        elif allowed[at - 1]:
            made[waiting], made[at - 1], waiting = False, True, -1
        else:
            waiting = at
    return made


def random_masks(share: float, seed: int, shape: tuple[int, int] = (300, 40)) -> tuple[Mask, Mask]:
    rng = np.random.default_rng(seed)
    allowed = rng.random(shape) < 0.9
    return token_masks(allowed, share, rng), allowed


def test_span_masks_are_the_released_codes(shared: Path) -> None:
    golden = np.load(shared / "golden" / "span_masking.npz")
    assert np.array_equal(span_masks(golden["token_mask"]), golden["span_mask"])


@pytest.mark.parametrize("share", [0.0, 0.05, 0.15, 0.5, 1.0])
def test_span_masks_equal_a_loop_over_each_row(share: float) -> None:
    masked, allowed = random_masks(share, seed=1)
    expected = [one_row(*pair) for pair in zip(masked, allowed, strict=True)]
    assert np.array_equal(span_masks(masked, allowed), np.stack(expected))


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_span_masks_keep_counts_and_leave_special_positions_alone(share: float) -> None:
    masked, allowed = random_masks(share, seed=2)
    spans = span_masks(masked, allowed)
    assert np.array_equal(spans.sum(1), masked.sum(1))
    assert not (spans & ~allowed).any()
    assert not np.array_equal(spans, masked)
    free = span_masks(masked, np.ones_like(allowed))
    assert np.array_equal(free, span_masks(masked)) and (free & ~allowed).any()


def test_span_masks_make_longer_stretches() -> None:
    masked = token_masks(np.ones((500, 100), bool), 0.15, np.random.default_rng(3))
    spans = span_masks(masked)

    def lone(mask: Mask) -> int:
        wide = np.pad(mask, ((0, 0), (1, 1)))
        return int((mask & ~wide[:, :-2] & ~wide[:, 2:]).sum())

    assert lone(spans) < 0.1 * lone(masked)


def test_span_masks_take_no_rows_and_one_position() -> None:
    assert span_masks(np.zeros((0, 5), bool)).shape == (0, 5)
    assert span_masks(np.ones((2, 1), bool)).tolist() == [[True], [True]]


def test_token_masks_have_the_share_and_follow_the_seed() -> None:
    allowed = np.ones((400, 100), bool)
    allowed[:, 0] = False
    first, again, other = (token_masks(allowed, 0.15, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert not first[:, 0].any() and first[:, 1:].mean() == pytest.approx(0.15, abs=0.01)


def test_hide_shows_mask_random_and_same_as_eighty_ten_ten() -> None:
    rng = np.random.default_rng(0)
    ids = np.full((200, 200), 7)
    masked = token_masks(np.ones_like(ids, bool), 0.5, rng)
    ordinary = np.arange(100, 200)
    shown = hide(ids, masked, 4, ordinary, rng)
    assert (shown[~masked] == 7).all()
    inside = shown[masked]
    assert (inside == 4).mean() == pytest.approx(0.8, abs=0.01)
    assert (inside == 7).mean() == pytest.approx(0.1, abs=0.01)
    assert set(np.unique(inside)) - {4, 7} == set(ordinary)
