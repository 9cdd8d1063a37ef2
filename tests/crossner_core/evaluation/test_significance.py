"""Paired tests on micro F1: against hand-counted cases, a slow reading of the papers, and chance itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from crossner_core.errors import BadInput
from crossner_core.evaluation.scores import score_spans
from crossner_core.evaluation.significance import difference_intervals, f1, paired_test, sentence_counts
from crossner_core.schema import Span

A, B, C = Span(0, 2, "band"), Span(3, 4, "person"), Span(5, 6, "band")


def random_counts(rng: np.random.Generator, sentences: int, skill: float, gold: np.ndarray | None = None) -> np.ndarray:
    """Return counts of a system that finds each entity with a chance, and says a wrong one now and then."""
    there = rng.integers(0, 6, sentences) if gold is None else gold
    right = rng.binomial(there, skill)
    return np.stack([right, right + rng.binomial(2, 1 - skill, sentences), there], axis=1).astype(np.float64)


def test_sentence_counts_count_what_is_right_said_and_there() -> None:
    gold, said = [(A, B), (), (C,)], [(A, Span(3, 4, "band")), (B,), ()]
    assert sentence_counts(gold, said).tolist() == [[1, 2, 2], [0, 1, 0], [0, 0, 1]]
    assert sentence_counts(gold, said, "person").tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert float(f1(sentence_counts(gold, said).sum(axis=0))) == score_spans(gold, said).f1
    with pytest.raises(BadInput, match="3 gold sentences but 2"):
        sentence_counts(gold, said[:2])


def test_permutation_test_agrees_with_all_permutations() -> None:
    rng = np.random.default_rng(1)
    one = random_counts(rng, 8, 0.5)
    two = random_counts(rng, 8, 0.8, one[:, 2].astype(int))
    observed = abs(f1(two.sum(axis=0)) - f1(one.sum(axis=0)))
    reached = 0
    for swap in itertools.product([False, True], repeat=8):
        mask = np.asarray(swap)[:, None]
        a, b = np.where(mask, two, one).sum(axis=0), np.where(mask, one, two).sum(axis=0)
        reached += abs(f1(b) - f1(a)) >= observed - 1e-12
    found = paired_test(one, two, np.random.default_rng(2), resamples=40_000)
    assert found.permutation_p == pytest.approx(reached / 2**8, abs=0.01)


def test_bootstrap_agrees_with_a_loop_over_resamples() -> None:
    rng = np.random.default_rng(3)
    one = random_counts(rng, 60, 0.5)
    two = random_counts(rng, 60, 0.6, one[:, 2].astype(int))
    differences = []
    for _ in range(4000):
        drawn = rng.integers(0, 60, 60)
        differences.append(f1(two[drawn].sum(axis=0)) - f1(one[drawn].sum(axis=0)))
    found = paired_test(one, two, np.random.default_rng(4), resamples=4000)
    low, high = np.percentile(differences, [2.5, 97.5])
    assert (found.low, found.high) == (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01))
    strays = np.abs(np.asarray(differences) - found.difference) >= abs(found.difference)
    assert found.bootstrap_p == pytest.approx(strays.mean(), abs=0.03)
    here, back = difference_intervals([(one, two), (two, one)], np.random.default_rng(5))
    assert here == pytest.approx((low, high), abs=0.015) and back == pytest.approx((-here[1], -here[0]))
    assert difference_intervals([], np.random.default_rng(5)) == []


def test_paired_test_of_a_system_with_itself_finds_nothing() -> None:
    counts = random_counts(np.random.default_rng(0), 30, 0.7)
    found = paired_test(counts, counts, np.random.default_rng(0), resamples=200)
    assert (found.difference, found.low, found.high, found.changed) == (0.0, 0.0, 0.0, 0)
    assert found.permutation_p == found.bootstrap_p == 1.0


def test_paired_test_turns_round_with_its_systems_and_keeps_its_seed() -> None:
    rng = np.random.default_rng(6)
    one = random_counts(rng, 200, 0.5)
    two = random_counts(rng, 200, 0.9, one[:, 2].astype(int))
    there = paired_test(one, two, np.random.default_rng(1), resamples=999)
    back = paired_test(two, one, np.random.default_rng(1), resamples=999)
    assert there == paired_test(one, two, np.random.default_rng(1), resamples=999)
    assert there.difference == -back.difference > 0.2
    assert there.permutation_p == back.permutation_p == there.bootstrap_p == 1 / 1000
    assert (there.low, there.high) == (-back.high, -back.low) and there.low > 0


@pytest.mark.parametrize("which", ["permutation_p", "bootstrap_p"])
def test_paired_test_cries_wolf_about_as_often_as_it_says(which: str) -> None:
    rng = np.random.default_rng(7)
    values = []
    for _ in range(300):
        one = random_counts(rng, 80, 0.6)
        two = random_counts(rng, 80, 0.6, one[:, 2].astype(int))
        values.append(getattr(paired_test(one, two, rng, resamples=200), which))
    share = np.mean(np.asarray(values) <= 0.1)
    assert 0.05 <= share <= 0.16, share


def test_paired_test_refuses_what_cannot_be_compared() -> None:
    rng = np.random.default_rng(0)
    one = random_counts(rng, 5, 0.5)
    other_gold = one + np.asarray([0, 0, 1])
    for two, words in ((one[:4], "same sentences"), (other_gold, "different gold")):
        with pytest.raises(BadInput, match=words):
            paired_test(one, two, rng)
    with pytest.raises(BadInput, match="at least 2 sentences"):
        paired_test(one[:1], one[:1], rng)
    with pytest.raises(BadInput, match="resamples is 0"):
        paired_test(one, one, rng, resamples=0)


def test_paired_test_without_any_entity_is_no_difference() -> None:
    nothing = np.zeros((4, 3))
    found = paired_test(nothing, nothing, np.random.default_rng(0), resamples=50)
    assert (found.first, found.second, found.permutation_p) == (0.0, 0.0, 1.0)
