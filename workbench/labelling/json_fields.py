"""Read single fields of untrusted JSON; each function raises BadInput that names the field and the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crossner_core.errors import BadInput

_LARGEST = 2**53
"""The largest integer that a browser writes exactly."""


def an_object(value: object, name: str) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise BadInput(f"{name} must be an object, not {_shown(value)}.")
    return value


def a_list(value: object, name: str, *, at_most: int) -> list[Any]:
    """Return a JSON list of at most that many values."""
    if not isinstance(value, list | tuple):
        raise BadInput(f"{name} must be a list, not {_shown(value)}.")
    if len(value) > at_most:
        raise BadInput(f"{name} has {len(value)} values; at most {at_most} are allowed.")
    return list(value)


def a_text(value: object, name: str, *, at_most: int, at_least: int = 0) -> str:
    """Return a text of so many characters that the store can hold."""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a text, not {_shown(value)}.")
    if not at_least <= len(value) <= at_most:
        raise BadInput(f"{name} has {len(value)} characters; {at_least} to {at_most} are allowed.")
    if "\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise BadInput(f"{name} holds a character that cannot be stored (NUL or half a surrogate pair).")
    return value


def an_int(value: object, name: str, *, at_least: int = 0) -> int:
    """Return a whole number; true and false are none, 3.0 is one (browsers do not tell it from 3)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be a whole number, not {_shown(value)}.")
    if not at_least <= value <= _LARGEST:
        raise BadInput(f"{name} is {value}; {at_least} to {_LARGEST} are allowed.")
    return value


def a_bool(value: object, name: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false, not {_shown(value)}.")
    return value


def one_of(value: object, name: str, allowed: Sequence[str]) -> str:
    """Return one of the allowed texts."""
    if not isinstance(value, str) or value not in allowed:
        raise BadInput(f"{name} is {_shown(value)}; allowed are {', '.join(allowed)}.")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
