"""A length of time in words: hours, and minutes or seconds where it is shorter."""

from __future__ import annotations


def time_words(seconds: float) -> str:
    """Return a length of time as `1.4 hours`, `12 minutes` or `1 second`; one below zero has a minus before it."""
    length = abs(seconds)
    if round(length) < 60:
        words = _counted(round(length), "second")
    elif round(length / 60) < 60:
        words = _counted(round(length / 60), "minute")
    else:
        words = f"{length / 3600:.1f} hours"
    return f"-{words}" if seconds < 0 and round(length) else words


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
