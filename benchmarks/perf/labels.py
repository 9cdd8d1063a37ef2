"""LANER's label part: all positions in one pass against a loop over them, and decoding by batch."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks import label_aware
from benchmarks.perf.profile import shares
from benchmarks.perf.row import Row, products_a_second

BARS = {"training": 8.0, "decoding": 12.0}
EXAMPLE = argparse.Namespace(batch=16, length=64, hidden=384, label_size=100, rounds=5, seed=0)


def rows(data: Path) -> Iterator[Row]:
    """Yield a row for training and one for decoding, on a batch of 16 sentences of up to 64 tokens."""
    apart = label_aware.difference(EXAMPLE)
    # Four gates of size × size for each tag of each prefix, once onward, twice back.
    tags = EXAMPLE.batch * EXAMPLE.length * (EXAMPLE.length - 1) / 2
    least = 3 * 8 * EXAMPLE.label_size**2 * tags / products_a_second()
    floors = {"training": f"products of the backward LSTM alone: {1000 * least:.0f} ms"}
    ways = label_aware.ways(EXAMPLE)
    for name, quick, slow, ratio, _ in label_aware.measure(EXAMPLE):
        spent, products = shares(ways[name][0])
        yield Row(
            f"LANER's label part, {name}",
            f"{1000 * quick:.0f} ms, {ratio:.1f} × the loop; scores and gradients differ by {apart:.0e} at most",
            f"the loop of the released code: {1000 * slow:.0f} ms",
            floors.get(name, ""),
            f"{BARS[name]:.0f} ×",
            ratio >= BARS[name] and apart <= label_aware.SAME,
            f"{spent}. If all but the products took no time: {ratio / products:.1f} ×.",
        )
