"""Is one system better than another on the same sentences beyond chance? Two tests on micro F1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossner_core.errors import BadInput
from crossner_core.schema import Span

RESAMPLES = 10_000
# With fewer, resampling is meaningless.
FEWEST_SENTENCES = 2
# Cells of a block of resamples: bounds memory at about 32 MB whatever the corpus.
_BLOCK = 4_000_000

Counts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Micro F1 of two systems in [0, 1] on the same sentences, and the significance of their difference.

    `difference` is second minus first, `low` and `high` its 95 % interval over resampled sentences. Both p-values are
    two-sided and never 0: they are at least 1 / (resamples + 1). `changed` counts the sentences whose counts differ.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    bootstrap_p: float
    permutation_p: float
    sentences: int
    changed: int
    resamples: int


def sentence_counts(
    gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]], type: str | None = None
) -> Counts:
    """Return (S, 3): entities correct, predicted and in gold for each sentence; only of `type` if given."""
    if len(gold) != len(predicted):
        raise BadInput(f"{len(gold)} gold sentences but {len(predicted)} predicted ones; they must pair up.")
    rows = []
    for wanted, got in zip(gold, predicted, strict=True):
        gold_spans, predicted_spans = (_of_type(spans, type) for spans in (wanted, got))
        rows.append((len(gold_spans & predicted_spans), len(predicted_spans), len(gold_spans)))
    return np.asarray(rows, dtype=np.float64).reshape(-1, 3)


def paired_test(first: Counts, second: Counts, rng: np.random.Generator, *, resamples: int = RESAMPLES) -> PairedTest:
    """Test two systems by their counts (S, 3) on the same sentences; raise BadInput unless the gold is the same.

    The bootstrap draws sentences with replacement; its p-value is how often a difference deviates from the observed one
    by at least the observed one's distance from 0. The permutation test swaps the systems' answers sentence by
    sentence; its p-value is how often the difference is at least as large.
    Source: Berg-Kirkpatrick et al. 2012, section 2 (here two-sided); Yeh 2000, section 3.3 (approximate randomisation).
    """
    _check(first, second, resamples)
    one, two = f1(first.sum(axis=0)), f1(second.sum(axis=0))
    observed = float(two - one)
    drawn = _bootstrap(first, second, rng, resamples)
    low, high = np.percentile(drawn, [2.5, 97.5])
    swapped = _permuted(first, second, rng, resamples)
    return PairedTest(
        first=float(one),
        second=float(two),
        difference=observed,
        low=float(low),
        high=float(high),
        bootstrap_p=_share(np.abs(drawn - observed), abs(observed)),
        permutation_p=_share(np.abs(swapped), abs(observed)),
        sentences=len(first),
        changed=int((first != second).any(axis=1).sum()),
        resamples=resamples,
    )


def difference_intervals(
    pairs: Sequence[tuple[Counts, Counts]], rng: np.random.Generator, *, resamples: int = 2_000
) -> list[tuple[float, float]]:
    """Return the 95 % interval of second minus first for each pair of counts on the same sentences, by bootstrap.

    All pairs, such as the entity types, share the same resamples. Use it where a test would claim too much.
    """
    for first, second in pairs:
        _check(first, second, resamples)
    if not pairs:
        return []
    stacked = np.hstack([part for pair in pairs for part in pair])  # (S, 6 · pairs)
    sums = np.concatenate([weights @ stacked for weights in _weights(len(stacked), rng, resamples)])
    scores = f1(sums.reshape(resamples, len(pairs), 2, 3))
    low, high = np.percentile(scores[..., 1] - scores[..., 0], [2.5, 97.5], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def f1(counts: Counts) -> Counts:
    """Return micro F1 of counts (…, 3); 0 if nothing is predicted and nothing is in gold."""
    both = counts[..., 1] + counts[..., 2]
    made: Counts = 2 * counts[..., 0] / np.where(both > 0, both, 1.0)
    return made


def _bootstrap(first: Counts, second: Counts, rng: np.random.Generator, resamples: int) -> Counts:
    """Return (R,) differences in F1 on resampled sentences, the same ones for both systems."""
    differences = [f1(weights @ second) - f1(weights @ first) for weights in _weights(len(first), rng, resamples)]
    return np.concatenate(differences)


def _weights(sentences: int, rng: np.random.Generator, resamples: int) -> Iterator[Counts]:
    """Yield blocks (R, S) of the number of times each sentence is drawn in each resample."""
    even = np.full(sentences, 1.0 / sentences)
    for size in _blocks(resamples, sentences):
        yield rng.multinomial(sentences, even, size=size).astype(np.float64)


def _permuted(first: Counts, second: Counts, rng: np.random.Generator, resamples: int) -> Counts:
    """Return (R,) differences in F1 after swapping each sentence's answers with probability 0.5."""
    apart = (first != second).any(axis=1)  # swapping equal counts changes nothing
    change = (second - first)[apart]  # (D, 3)
    sums = first.sum(axis=0), second.sum(axis=0)
    results = []
    for size in _blocks(resamples, len(change)):
        swaps = rng.integers(0, 2, size=(size, len(change)), dtype=np.int8).astype(np.float64)  # (R, D)
        moved = swaps @ change
        results.append(f1(sums[1] - moved) - f1(sums[0] + moved))
    return np.concatenate(results)


def _share(values: Counts, observed: float) -> float:
    """Return the share of values at least as large as the observed one, which counts as one of them."""
    # The tolerance keeps permutations that equal the observed difference up to rounding.
    reached = int((values >= observed - 1e-12).sum())
    return (reached + 1) / (len(values) + 1)


def _blocks(resamples: int, width: int) -> Iterator[int]:
    block = max(1, _BLOCK // max(width, 1))
    for start in range(0, resamples, block):
        yield min(block, resamples - start)


def _of_type(spans: Iterable[Span], type: str | None) -> set[Span]:
    return {span for span in spans if type is None or span.type == type}


def _check(first: Counts, second: Counts, resamples: int) -> None:
    if first.shape != second.shape or first.ndim != 2 or first.shape[1] != 3:
        raise BadInput(f"Counts of {first.shape} and {second.shape}; both systems need (S, 3) on the same sentences.")
    if not np.array_equal(first[:, 2], second[:, 2]):
        raise BadInput("The two systems were measured against different gold; score both against the same one.")
    if len(first) < FEWEST_SENTENCES:
        raise BadInput(
            f"A test needs at least {FEWEST_SENTENCES} sentences that both systems predicted, not {len(first)}."
        )
    if resamples < 1:
        raise BadInput(f"resamples is {resamples}; it must be 1 or more.")
