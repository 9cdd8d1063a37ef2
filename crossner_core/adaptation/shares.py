"""Shares of a text to learn from, for curves over its size; what is measured on is the same for every share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from crossner_core.adaptation.blocks import CHUNK, is_held_out
from crossner_core.adaptation.texts import Texts
from crossner_core.options.dapt import DaptOptions
from crossner_core.subsets import check_percent, keys_of, uniform

Chosen = Callable[[Sequence[str]], npt.NDArray[np.bool_]]


def share_of(
    texts: Texts, held_out: Texts | None, percent: float, options: DaptOptions, seed: int = 0
) -> tuple[Texts, Texts | None]:
    """Give about `percent` of a text's documents to learn from, and what to measure on.

    Each document is drawn by what it says: equal ones go the same way, and a smaller share lies within a larger one of
    the same seed. Without held-out text of its own, `options` say what part of the whole is held out, whatever the
    share. All of it (100) is left as it is. Raises InvalidConfig for no percentage.
    """
    check_percent(percent)
    if percent == 100:
        return texts, held_out

    def away(documents: Sequence[str]) -> npt.NDArray[np.bool_]:
        return is_held_out(documents, options.held_out_share, options.seed)

    def drawn(documents: Sequence[str]) -> npt.NDArray[np.bool_]:
        return uniform(keys_of(documents, seed=seed)) < percent / 100

    if held_out is None:
        return _where(texts, lambda documents: drawn(documents) & ~away(documents)), _where(texts, away)
    return _where(texts, drawn), held_out


def _where(texts: Texts, chosen: Chosen) -> Texts:
    """Give the documents that are chosen, in their order."""

    def read() -> Iterator[Sequence[str]]:
        stream = texts()
        while chunk := list(itertools.islice(stream, CHUNK)):
            yield from itertools.compress(chunk, chosen([" ".join(words) for words in chunk]))

    return read
