"""The order of a queue: a strategy's choice, with a share of random places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossner_core.errors import InvalidConfig

# 0.1 added ten times is slightly less than 1.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the queue: the index of its sentence in the pool, and whether it was drawn at random."""

    index: int
    by_chance: bool


def with_random_share(chosen: Sequence[int], total: int, share: float, rng: np.random.Generator) -> tuple[Place, ...]:
    """Order 0 … total − 1: the chosen in order, then the rest at random, with a share of all places drawn at random.

    Of any n consecutive places, share × n (rounded up or down) are drawn from all remaining sentences: a fair sample of
    the pool whatever the strategy prefers. The phase is random too, so the share holds over many rounds even if each
    round hands out only one or two places. Raises InvalidConfig for a share outside [0, 1].
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
        if index is None:  # the strategy's choices are used up
            left = 0
            continue
        owed -= 1.0 if due else 0.0
        taken.add(index)
        places.append(Place(index, by_chance))
    return tuple(places)
