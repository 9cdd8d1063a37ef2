"""Millions of names beside their numbers, without an object for each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

_SLAB = 1 << 16


class Names:
    """A growing list of names (without line ends), kept as UTF-8 in slabs."""

    def __init__(self) -> None:
        self._slabs: list[bytes] = []
        self._open: list[str] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, names: Sequence[str]) -> None:
        """Add names."""
        self._size += len(names)
        self._open += names
        if len(self._open) >= _SLAB:
            self._close()

    def _close(self) -> None:
        if self._open:
            self._slabs.append("\n".join(self._open).encode())
            self._open = []

    def slabs(self) -> Iterator[list[str]]:
        """Yield the names in order, some at a time."""
        self._close()
        for slab in self._slabs:
            yield slab.decode().split("\n")

    def __iter__(self) -> Iterator[str]:
        for names in self.slabs():
            yield from names

    def drain(self) -> Iterator[str]:
        """Yield the names in order and forget them."""
        self._close()
        slabs, self._slabs, self._size = self._slabs, [], 0
        slabs.reverse()
        while slabs:
            yield from slabs.pop().decode().split("\n")


class Index:
    """Finds the numbers of a trie's keys by 64-bit hashes, several times faster than the trie, many at a time.

    An unknown name passes for a known one with a chance of keys / 2^64: for all the names of Wikipedia among all its
    pages together, once in 100,000 builds.
    """

    def __init__(self, trie: Any) -> None:
        size = len(trie)
        hashes = np.fromiter((hash(trie.restore_key(number)) for number in range(size)), np.int64, size)
        order = np.argsort(hashes).astype(np.uint32)
        self._hashes, self._numbers = hashes[order], order
        twins = bool(np.any(self._hashes[1:] == self._hashes[:-1]))
        self._slow = trie.get if twins else None

    def find(self, names: Sequence[str]) -> np.ndarray:
        """Return the number of each name, -1 for one that is unknown."""
        if self._slow is not None:
            return np.fromiter((self._slow(name, -1) for name in names), np.int64, len(names))
        wanted = np.fromiter(map(hash, names), np.int64, len(names))
        if not len(self._hashes):
            return np.full(len(names), -1, np.int64)
        order = np.argsort(wanted)  # neighbours are near each other in memory
        at = np.empty(len(names), np.int64)
        at[order] = np.searchsorted(self._hashes, wanted[order])
        at[at == len(self._hashes)] = 0
        return np.where(self._hashes[at] == wanted, self._numbers[at].astype(np.int64), -1)

    def find_all(self, names: Names) -> np.ndarray:
        """Return the number of each name of a list; all are known."""
        found = [self.find(slab).astype(np.uint32) for slab in names.slabs()]
        return np.concatenate(found) if found else np.zeros(0, np.uint32)


class Hashes:
    """A growing list of 64-bit hashes of names, good within one process."""

    def __init__(self) -> None:
        self._values = array("q")

    def extend(self, names: Iterable[str]) -> None:
        """Add the hashes of names."""
        self._values.extend(map(hash, names))

    def among(self, others: Hashes) -> np.ndarray:
        """Tell for each hash whether the others have it too; the same hash is nearly always the same name."""
        values, known = np.frombuffer(self._values, np.int64), np.sort(np.frombuffer(others._values, np.int64))
        if not len(known):
            return np.zeros(len(values), bool)
        at = np.searchsorted(known, values)
        at[at == len(known)] = 0
        return known[at] == values
