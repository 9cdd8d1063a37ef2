"""What a part of the measurement yields: rows of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure in words, what it is compared with, and the bar; `met` is None where there is no bar."""

    what: str
    ours: str
    peer: str = ""
    bar: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        verdict = {None: "", True: "met", False: "**missed**"}[self.met]
        return self.what, self.ours, self.peer or "–", " ".join(filter(None, (self.bar, verdict))) or "–"


def growth(what: str, sizes: Sequence[int], seconds: Sequence[float], unit: str) -> Row:
    """Return how seconds grow with size: the exponent between the smallest and the largest, 1 where it is linear."""
    exponent = math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])
    steps = ", ".join(f"{size:,}: {took:.2f} s" for size, took in zip(sizes, seconds, strict=True))
    last = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
    return Row(f"growth of {what}", f"{steps}; exponent {exponent:.2f}, of the last step {last:.2f} ({unit})")
