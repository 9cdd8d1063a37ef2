"""What else a page is called, by rules on its title."""

from __future__ import annotations

import re
from enum import IntFlag

from crossner_core.gazetteer.class_sets import COMMON, PLACE
from crossner_core.gazetteer.titles import strip_suffix


class Flag(IntFlag):
    """The ways from a surface to a page, most direct first; one entry may have several."""

    TITLE = 1
    LABEL = 2
    REDIRECT = 4
    SUFFIX = 8
    """without `(band)`"""
    COMMA = 16
    """a place without `, Ontario`"""
    POSSESSIVE = 32
    """`Alzheimer disease`, `McDonalds`: an `'s` left out, or its apostrophe"""
    LOWERCASED = 64
    """`hard bop`: the first letter of a title is always a capital"""
    PLURAL = 128
    """`hard bops`, `Grammy Awards`: the last word in the plural"""


_POSSESSIVE = re.compile(r"(?<=\w)['’]s(?= \w)")
_APOSTROPHE = re.compile(r"(?<=\w)['’]s(?!\w)")
_NOUN = re.compile(r"[A-Za-z]{3,}")
_SIBILANT = ("x", "z", "ch", "sh")
_SUFFIX, _COMMA, _BARE, _SMALL, _PLURAL = (
    flag.value for flag in (Flag.SUFFIX, Flag.COMMA, Flag.POSSESSIVE, Flag.LOWERCASED, Flag.PLURAL)
)
_MOST_WORDS = 5  # in a title whose last word is put into the plural


def aliases(name: str, traits: int) -> list[tuple[str, int]]:
    """Return other spellings of a name and how they are made, as a Flag's value; `traits` are those of its classes.

    `Jazz (genre)` → `Jazz`, and from there `jazz`. Only what may be a common noun gets a plural, or loses the capital
    of a single word; several words lose it where all the others are small (`Hard bop`). A bare `'s` behind a name
    needs no alias: it is a token of its own, as is an apostrophe behind a final s.
    """
    found: list[tuple[str, int]] = []
    base, how = name, 0
    if name[-1:] == ")" and " (" in name and (bare := strip_suffix(name)):
        base, how = bare, _SUFFIX
        found.append((base, how))
    if traits & PLACE and ", " in base and (bare := base.split(", ", 1)[0].rstrip()):
        base, how = bare, how | _COMMA
        found.append((base, how))
    if "'" in base or "’" in base:
        spelt = (_POSSESSIVE.sub("", base), _APOSTROPHE.sub("s", base))
        found += [(one, how | _BARE) for one in dict.fromkeys(spelt) if one != base]
    rest = base[1:]
    common = traits & COMMON
    small = rest.islower() and (common or " " in rest) and base[0].isupper()
    if small:
        found.append((base[0].lower() + rest, how | _SMALL))
    if common and (many := plural(base)):
        found.append((many, how | _PLURAL))
        if small:
            found.append((many[0].lower() + many[1:], how | _PLURAL | _SMALL))
    return found


def plural(name: str) -> str:
    """Return an English name with its last word in the plural; "" where it seems to be plural already or is no word."""
    *words, last = name.split(" ")
    if len(words) >= _MOST_WORDS or not _NOUN.fullmatch(last) or last.endswith("s") or last.isupper():
        return ""
    if last.endswith(_SIBILANT):
        ending = last + "es"
    elif last.endswith("y") and last[-2] not in "aeiou":
        ending = last[:-1] + "ies"
    else:
        ending = last + "s"
    return " ".join((*words, ending))
