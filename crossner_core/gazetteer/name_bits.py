"""Which runs of words are names, and which go on to be one: two sets of bits, asked for many words at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any
from zlib import crc32

import numpy as np

_NAMES_LOG, _BEGINNINGS_LOG = 25, 24  # bits, as powers of two: 4 and 2 MiB
_SEED = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xD6E8FEB86659FD93)  # odd, with its bits well spread


class NameBits:
    """A filter for names by their words: what it turns away is none, what it lets through is still to be looked up.

    `names` holds the hashes of whole names, `beginnings` those of the words that a longer name begins with.
    """

    def __init__(self, names: np.ndarray, beginnings: np.ndarray) -> None:
        self.names, self.beginnings = names, beginnings

    @classmethod
    def empty(cls) -> NameBits:
        """Make one without names."""
        return cls(np.zeros(1 << (_NAMES_LOG - 3), np.uint8), np.zeros(1 << (_BEGINNINGS_LOG - 3), np.uint8))

    def add(self, keys: Sequence[str]) -> None:
        """Add names, their words joined by one space."""
        hashes = _hashes(keys)
        left = np.fromiter((key.count(" ") for key in keys), np.int64, len(keys)) + 1
        at = np.cumsum(left) - left
        state = np.full(len(keys), _SEED)
        while len(at):
            state = (state ^ hashes[at]) * _FACTOR
            left = left - 1
            over = left == 0
            _set(self.names, state[over])
            at, state, left = at[~over] + 1, state[~over], left[~over]
            _set(self.beginnings, state)

    def candidates(self, rows: Sequence[Sequence[str]]) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
        """Return all words of the rows, and which runs of them may be names: (starts, ends, row), longest first.

        No word holds a space. Starts and ends count the words of all rows together; no run goes beyond its row. They
        are ordered by start.
        """
        words = list(chain.from_iterable(rows))
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        hashes, ends = _hashes(words), np.repeat(np.cumsum(sizes), sizes)
        at, state, behind = np.arange(len(words)), np.full(len(words), _SEED), np.arange(len(words))
        found: list[tuple[np.ndarray, np.ndarray]] = []
        while len(at):
            state = (state ^ hashes[behind]) * _FACTOR
            behind = behind + 1
            whole = _among(self.names, state)
            found.append((at[whole], behind[whole]))
            inside = np.flatnonzero(behind < ends[at])
            on = inside[_among(self.beginnings, state[inside])]
            at, state, behind = at[on], state[on], behind[on]
        starts = np.concatenate([one for one, _ in found]) if found else at
        stops = np.concatenate([one for _, one in found]) if found else at
        order = np.lexsort((-stops, starts))
        starts, stops = starts[order], stops[order]
        return words, starts, stops, np.repeat(np.arange(len(rows)), sizes)[starts]


def _hashes(texts: Sequence[str]) -> np.ndarray:
    """Return the hash of each word of the texts."""
    words = " ".join(texts).encode("utf-8", "replace").split(b" ") if texts else []
    return np.fromiter(map(crc32, words), np.uint64, len(words))


def _places(bits: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two bits that stand for each state: its uppermost bits, and those below them."""
    size = np.uint64(len(bits).bit_length() + 2)
    return states >> (_ALL - size), (states << size) >> (_ALL - size)


def _set(bits: np.ndarray, states: np.ndarray) -> None:
    for where in _places(bits, states):
        np.bitwise_or.at(bits, where >> _THREE, _ONE << (where & _SEVEN).astype(np.uint8))


def _among(bits: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the indices of the states whose bits are both set."""
    first, second = _places(bits, states)
    likely = np.flatnonzero(_get(bits, first))
    return likely[_get(bits, second[likely])]


def _get(bits: np.ndarray, where: np.ndarray) -> Any:
    return (bits[where >> _THREE] >> (where & _SEVEN).astype(np.uint8)) & _ONE != 0


_ONE, _THREE, _SEVEN, _ALL = np.uint8(1), np.uint64(3), np.uint64(7), np.uint64(64)
