"""The order of a queue: what a strategy chose, with a share of places given to chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossner_core.errors import InvalidConfig

# Ten times a tenth, added up, is a little less than one.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the queue: the index of its sentence in the pool, and whether chance alone put it there."""

    index: int
    by_chance: bool


def with_random_share(chosen: Sequence[int], total: int, share: float, rng: np.random.Generator) -> tuple[Place, ...]:
    """Order all of 0 … total − 1: the chosen in their order, then the rest by chance, every so many places by chance.

    Of any n places that follow each other share × n, rounded up or down, are drawn from all that is left, so that they
    are a fair sample of the pool whatever the strategy prefers; which they are, is chance too: over many rounds the
    share holds even where a round hands out a place or two. Raises InvalidConfig for a share outside [0, 1].
    """
    if not 0 <= share <= 1:
        raise InvalidConfig(f"The random share is {share!r}; it must lie in [0, 1].")
    ahead = list(dict.fromkeys(int(index) for index in chosen))
    taken: set[int] = set()
    shuffled = rng.permutation(total).tolist()
    places: list[Place] = []
    next_chosen, next_random = iter(ahead), iter(shuffled)
    left, owed = len(ahead), float(rng.random())
    while len(places) < total:
        owed += share
        due = owed >= 1.0 - _ROUNDING
        by_chance = due or left <= 0
        source = next_random if by_chance else next_chosen
        index = next((candidate for candidate in source if candidate not in taken), None)
        if index is None:  # the strategy's own are used up
            left = 0
            continue
        owed -= 1.0 if due else 0.0
        taken.add(index)
        places.append(Place(index, by_chance))
    return tuple(places)
