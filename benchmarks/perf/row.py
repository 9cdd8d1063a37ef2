"""What a part of the measurement yields: rows of the page."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from crossner_core.encoders.base import Encoder


@dataclass(frozen=True, slots=True)
class Row:
    """A figure in words, what it is compared with, and the bar; `met` is None where there is no bar.

    `limit` is what the machine allows: the time of the matrix products alone, or of what must be done in any case;
    `spent` tells where the time goes, which is shown where a bar is missed.
    """

    what: str
    ours: str
    peer: str = ""
    limit: str = ""
    bar: str = ""
    met: bool | None = None
    spent: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        verdict = {None: "", True: "met", False: "**missed**"}[self.met]
        end = " ".join(filter(None, (self.bar, verdict)))
        return self.what, self.ours, self.peer or "–", self.limit or "–", end or "–"


def products_a_second() -> float:
    """Return the floating-point operations a second of a matrix product as an encoder has them, on all threads."""
    import torch

    rows, weight = torch.randn(768, 384), torch.randn(1536, 384)
    for _ in range(20):
        torch.nn.functional.linear(rows, weight)
    began, times = time.perf_counter(), 300
    for _ in range(times):
        torch.nn.functional.linear(rows, weight)
    return times * 2 * rows.numel() * len(weight) / (time.perf_counter() - began)


def reading_operations(encoder: Encoder) -> float:
    """Return the operations to read one subword: two for each weight of the layers (Kaplan et al. 2020, section 2.1).

    Learning from it takes three times as many.
    """
    layers = (value for name, value in encoder.model.named_parameters() if ".layer." in f".{name}" and value.dim() > 1)
    return 2.0 * sum(value.numel() for value in layers)


def growth(what: str, sizes: Sequence[int], seconds: Sequence[float], unit: str) -> Row:
    """Return how seconds grow with size: the exponent between the smallest and the largest, 1 where it is linear."""
    exponent = math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])
    steps = ", ".join(f"{size:,}: {took:.2f} s" for size, took in zip(sizes, seconds, strict=True))
    last = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
    return Row(f"growth of {what}", f"{steps}; exponent {exponent:.2f}, of the last step {last:.2f} ({unit})")
