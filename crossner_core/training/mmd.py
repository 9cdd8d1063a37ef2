"""Squared maximum mean discrepancy of two sets of vectors, and of two batches' tokens tag by tag."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crossner_core.encoders.windows import IGNORED, sent_ahead

# σ of exp(−d² / 2σ). Source: the 19 widths of La-DTL's code.
FIXED = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 100.0, 1e3, 1e4, 1e5, 1e6)
# Widths of exp(−d² / w) as multiples of the median squared distance.
MEDIANS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Maximum token vectors per tag and domain in the word MMD: O has hundreds per batch, and cost is quadratic.
MOST_TOKENS = 128


def squared_mmd(first: Tensor, second: Tensor, *, estimator: str = "biased", bandwidths: str = "fixed") -> Tensor:
    """Return the squared MMD of two sets of vectors (N, H) and (M, H), a scalar; 0 for sets that are too small.

    The kernel is the mean over the bandwidths (La-DTL sums them: its weights are ours over 19), in single precision.
    Biased needs one vector in each set and never falls below 0; unbiased excludes pairs of a vector with itself, needs
    two, and may fall below 0. With `median`, no gradient flows through the widths.
    Source: PDALN eq. 4 (biased); Gretton et al. 2012, eq. 3 (unbiased).
    """
    n, m = len(first), len(second)
    if min(n, m) < (2 if estimator == "unbiased" else 1):
        return first.new_zeros((), dtype=torch.float32)
    together = torch.cat([first, second]).float()  # (N + M, H)
    # Differences rather than products: the distance between equal vectors is exactly 0, with a gradient of 0.
    distances = torch.cdist(together, together, compute_mode="donot_use_mm_for_euclid_dist").square()
    kernel = _kernel(distances, _widths(distances, bandwidths))  # (N + M, N + M)
    across = kernel[:n, n:].mean()
    if estimator == "unbiased":
        return _mean_of_others(kernel[:n, :n]) + _mean_of_others(kernel[n:, n:]) - 2.0 * across
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2.0 * across


def _widths(distances: Tensor, bandwidths: str) -> Tensor:
    if bandwidths == "fixed":
        return 2.0 * distances.new_tensor(FIXED)
    size = len(distances)
    apart = ~torch.eye(size, dtype=torch.bool, device=distances.device)
    median = distances.detach()[apart].median().clamp(min=1e-12)
    return median * distances.new_tensor(MEDIANS)


def _kernel(distances: Tensor, widths: Tensor) -> Tensor:
    total = torch.zeros_like(distances)
    for width in widths:
        total = total + torch.exp(-distances / width)
    return total / len(widths)


def _mean_of_others(kernel: Tensor) -> Tensor:
    size = len(kernel)
    return (kernel.sum() - kernel.diagonal().sum()) / (size * (size - 1))


def tag_mmd(
    first: Tensor,
    first_tags: Tensor,
    second: Tensor,
    second_tags: Tensor,
    *,
    weights: Sequence[float],
    estimator: str,
    bandwidths: str,
) -> Tensor:
    """Return the sum over tags of weight × squared MMD between the tokens of that tag, a scalar.

    `first` (B, W, H) and `second` (B′, W′, H) are the vectors of tokens with the tags `first_tags` (B, W) and
    `second_tags` (B′, W′); there are K `weights`, a tag each. Tags without tokens in either add nothing; of a tag's
    tokens the first MOST_TOKENS count, which are of the shortest sentences where a batch is sorted. The host waits for
    a GPU twice, to see the tags. Source: La-DTL (Wang et al. 2018), section 3; PDALN eq. 6.
    """
    total = first.new_zeros((), dtype=torch.float32)
    seen = [first_tags.flatten().cpu(), second_tags.flatten().cpu()]
    common = sorted(set.intersection(*(set(tags.tolist()) for tags in seen)) - {IGNORED})
    if not common:
        return total
    sides = [_by_tag(vectors, tags, common) for vectors, tags in zip((first, second), seen, strict=True)]
    for tag, left, right in zip(common, *sides, strict=True):
        total = total + weights[tag] * squared_mmd(left, right, estimator=estimator, bandwidths=bandwidths)
    return total


def _by_tag(vectors: Tensor, tags: Tensor, wanted: Sequence[int]) -> Sequence[Tensor]:
    """Return for each tag wanted its first MOST_TOKENS vectors (N, H), of (B, W, H) with the tags (B · W,)."""
    assert vectors.shape[:2].numel() == len(tags)
    places = [(tags == tag).nonzero()[:MOST_TOKENS, 0] for tag in wanted]
    rows = vectors.flatten(0, 1)[sent_ahead(torch.cat(places), vectors.device)]
    return rows.split([len(part) for part in places])
