"""By which way somebody acts, for the audit trail; loads nothing, as the command line begins with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """A page, the API (with which token), a command, or a job of the worker."""

    via: str = "page"
    token_id: int | None = None


_WAY: ContextVar[Way | None] = ContextVar("way", default=None)


def way() -> Way:
    """Return by what the code that runs now was started; in a thread that did not say, by a page."""
    return _WAY.get() or Way()


@contextmanager
def acting(via: str, token_id: int | None = None) -> Iterator[None]:
    """Have entries say that somebody acts this way."""
    before = _WAY.set(Way(via, token_id))
    try:
        yield
    finally:
        _WAY.reset(before)
