"""How many requests a token may make: so many a minute, and as many at once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

_MOST_TOKENS = 10_000


class Limits:
    """A bucket for each token, filled at an even pace; full, it holds a minute's requests. Kept in this process."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self.clock = per_minute, clock
        self._left: dict[int, tuple[float, float]] = {}
        """Requests left and the moment that was so, by token."""
        self._lock = threading.Lock()

    def wait(self, token_id: int) -> int:
        """Count a request; return 0, or the whole seconds until the next one is possible, which is not counted."""
        moment = self.clock()
        with self._lock:
            left, since = self._left.get(token_id, (float(self.per_minute), moment))
            left = min(float(self.per_minute), left + (moment - since) * self.per_minute / 60)
            if left < 1:
                return max(1, math.ceil((1 - left) * 60 / self.per_minute))
            if len(self._left) >= _MOST_TOKENS:
                self._left.clear()
            self._left[token_id] = (left - 1, moment)
        return 0
