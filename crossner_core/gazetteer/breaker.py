"""A circuit breaker: an endpoint that failed is left alone for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from crossner_core.errors import InvalidConfig


class CircuitBreaker:
    """Opens after a failure for `cooldown` seconds, twice as long after each further one, `longest` at most.

    Once the time is over one caller is let through to try; until its result is in, the others are refused.
    """

    def __init__(
        self, *, cooldown: float = 30.0, longest: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not 0 < cooldown <= longest:
            raise InvalidConfig(f"Breaker: cooldown is {cooldown}, must be above 0 and at most {longest} seconds.")
        self._cooldown, self._longest, self._clock = cooldown, longest, clock
        self._failures, self._open_until, self._reason = 0, 0.0, ""
        self._lock = threading.Lock()

    def refusal(self) -> str | None:
        """Return why the endpoint may not be asked now, None if it may; the one that may is the trial."""
        with self._lock:
            wait = self._open_until - self._clock()
            if self._failures and wait > 0:
                return f"not asked again for {wait:.0f} s after: {self._reason}"
            if self._failures:
                self._open_until = self._clock() + self._cooldown
            return None

    def failed(self, reason: str, retry_after: float | None = None) -> None:
        """Open, at least for as long as the endpoint itself asked."""
        with self._lock:
            pause = min(self._longest, self._cooldown * 2 ** min(self._failures, 30))
            self._failures += 1
            self._open_until = self._clock() + max(pause, retry_after or 0.0)
            self._reason = reason

    def succeeded(self) -> None:
        """Close."""
        with self._lock:
            self._failures, self._open_until, self._reason = 0, 0.0, ""


_breakers: dict[str, CircuitBreaker] = {}
_breakers_lock = threading.Lock()


def breaker_for(endpoint: str) -> CircuitBreaker:
    """Return the process's one breaker of an endpoint, so that every campaign learns from one failure."""
    with _breakers_lock:
        return _breakers.setdefault(endpoint, CircuitBreaker())
