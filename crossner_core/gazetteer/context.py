"""What the page around a sentence says about the names in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\w+")
_ENDINGS = ("ians", "ian", "als", "al", "ics", "ic", "ions", "ion", "s")
_SHORTEST = 4  # letters that must be left
_EMPTY = frozenset(
    {"from", "with", "that", "their", "established", "disestablishment", "entity", "disambiguated", "other"}
)


@dataclass(frozen=True, slots=True)
class PageContext:
    """The page that sentences come from: its title and its categories' titles, without `Category:`."""

    title: str
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signals:
    """What speaks for one resource of several: pages linked nearby (titles) and the word stems of categories."""

    linked: frozenset[str] = frozenset()
    stems: frozenset[str] = frozenset()


NO_SIGNALS = Signals()


@lru_cache(maxsize=1 << 16)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the words that say something: `MusicalArtist`, `music artists` → `music`, `artist`."""
    found = (_stem(word.casefold()) for word in _WORD.findall(text))
    return frozenset(stem for stem in found if len(stem) >= _SHORTEST and stem not in _EMPTY and stem.isalpha())


def stems_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the stems of several texts."""
    return frozenset().union(*map(stems, texts))


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > _SHORTEST + 2:
        return word[:-3] + "y"
    going = True
    while going:
        going = False
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
                word, going = word.removesuffix(ending), True
                break
    return word
