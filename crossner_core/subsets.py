"""Nested shares of a long stream: 10 % is contained in 25 %, whatever the order of its items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from crossner_core.errors import InvalidConfig

Keys = npt.NDArray[np.uint64]


def keys_of(ids: Iterable[str], *, seed: int, copy: int = 0, use: str = "subset") -> Keys:
    """Return 64 pseudo-random bits per sentence that depend only on its id, the seed, the copy and the use."""
    start = blake2b(f"{use} {seed} {copy} ".encode(), digest_size=8)

    def key(id: str) -> bytes:
        one = start.copy()
        one.update(id.encode())
        return one.digest()

    return np.frombuffer(b"".join(map(key, ids)), np.dtype("<u8")).astype(np.uint64)


def uniform(keys: Keys) -> npt.NDArray[np.float64]:
    """Return the keys as numbers in [0, 1)."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(slots=True)
class Subset:
    """The `size` items with the smallest keys; ties at the limit are taken in order of arrival."""

    size: int
    limit: int | None
    ties: int

    @classmethod
    def of(cls, keys: Keys, percent: float) -> Subset:
        """Find the limit that leaves `round(percent · n)` of the keys; raise InvalidConfig if invalid."""
        check_percent(percent)
        size = round(percent * len(keys) / 100)
        if size == len(keys):
            return cls(size, None, 0)
        if size == 0:
            return cls(0, 0, 0)
        limit = np.partition(keys, size - 1)[size - 1]
        return cls(size, int(limit), size - int(np.count_nonzero(keys < limit)))

    def admit(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return which of the next items belong to it; items must arrive in a fixed order, each once."""
        if self.limit is None:
            return np.ones(len(keys), bool)
        limit = np.uint64(self.limit)
        inside = keys < limit
        for index in np.flatnonzero(keys == limit)[: self.ties]:
            inside[index] = True
            self.ties -= 1
        return inside


def check_percent(percent: float) -> None:
    """Raise InvalidConfig unless it is above 0 and at most 100."""
    if not 0 < percent <= 100:
        raise InvalidConfig(f"percent is {percent:g}; give more than 0 and at most 100.")
