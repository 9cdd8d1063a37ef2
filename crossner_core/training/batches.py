"""Which windows make a batch, and the tags of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from crossner_core.encoders.windows import Window
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans

# Batches are cut from length-sorted chunks of this many batches: little padding, much randomness.
CHUNK = 16
# Lengths are blurred by this factor before sorting, so that small sets do not form the same batches each time.
BLUR = 0.3
# This many times the windows needed are drawn and sorted by length, to take a contiguous part with little padding.
_POOLS = 4


def tag_indices(items: Sequence[LabelledSentence], tags: Sequence[str]) -> list[list[int]]:
    """Return the index of each token's tag, sentence by sentence; `tags` are the model's."""
    index = {tag: number for number, tag in enumerate(tags)}
    return [[index[tag] for tag in tags_from_spans(item.spans, len(item.sentence.tokens))] for item in items]


def shuffled_batches(lengths: Sequence[int], batch_size: int, rng: np.random.Generator) -> list[list[int]]:
    """Return indices in batches of similar length, in random order; sizes differ by at most one within a chunk."""
    order = rng.permutation(len(lengths))
    blurred = np.asarray(lengths) * (1.0 + BLUR * rng.random(len(lengths)))
    batches: list[list[int]] = []
    for start in range(0, len(order), batch_size * CHUNK):
        chunk = order[start : start + batch_size * CHUNK]
        chunk = chunk[np.argsort(blurred[chunk], kind="stable")]
        batches.extend(part.tolist() for part in np.array_split(chunk, -(-len(chunk) // batch_size)))
    return [batches[index] for index in rng.permutation(len(batches))]


def mixed_batches(lengths: Sequence[int], first: int, batch_size: int, rng: np.random.Generator) -> list[list[int]]:
    """Return batches like `shuffled_batches`, but the `first` indices and the others each have their share in all."""
    count = -(-len(lengths) // batch_size)
    blurred = np.asarray(lengths) * (1.0 + BLUR * rng.random(len(lengths)))
    orders = [rng.permutation(first), first + rng.permutation(len(lengths) - first)]
    batches: list[list[int]] = []
    few = min(first, len(lengths) - first)
    for start, stop in pairwise([*range(0, count, CHUNK), count]):
        # The larger kind takes what the smaller leaves: a chunk has a sentence for each of its batches at least.
        of_few, of_all = ([size * batch // count for batch in (start, stop)] for size in (few, len(lengths)))
        of_many = [both - less for both, less in zip(of_all, of_few, strict=True)]
        ends = (of_few, of_many) if few == first else (of_many, of_few)
        chunks = [order[slice(*end)] for order, end in zip(orders, ends, strict=True)]
        mine, others = (chunk[np.argsort(blurred[chunk], kind="stable")] for chunk in chunks)
        # What is over of the first ones goes into the first batches, of the others into the last.
        parts = np.array_split(mine, stop - start)
        more = [part[::-1] for part in reversed(np.array_split(others[::-1], stop - start))]
        batches.extend(np.concatenate(pair).tolist() for pair in zip(parts, more, strict=True))
    return [batches[index] for index in rng.permutation(len(batches))]


def drawn_alike(windows: Sequence[Window], count: int, rng: np.random.Generator) -> list[int]:
    """Draw the indices of `count` windows of similar length, or of all; each is equally likely."""
    count = min(count, len(windows))
    pools = max(1, min(_POOLS, len(windows) // max(count, 1)))
    drawn = rng.choice(len(windows), pools * count, replace=False).tolist()
    drawn.sort(key=lambda index: len(windows[index].input_ids))
    start = int(rng.integers(pools)) * count
    return drawn[start : start + count]


def ordered_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return indices in batches, longest first: for prediction, where order is free."""
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
