"""Limits on what programs ask for: requests of a token, bytes of a body, and requests worked on at a time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import anyio
from starlette.requests import Request
from starlette.types import Message, Receive

_MOST_TOKENS = 10_000
_SLOTS = MappingProxyType({"lookup": 4, "short": 4, "long": 2, "model": 4})
"""Requests worked on at a time; the others wait without holding a thread."""


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


class Slots:
    """Threads by what is waited for: `lookup` of a token, `short`, `long` (whole files) or `model`."""

    def __init__(self, sizes: Mapping[str, int] = _SLOTS) -> None:
        self.sizes = sizes
        self._limiters: dict[str, anyio.CapacityLimiter] = {}

    async def run(self, slots: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns that is called in a thread, once one of these is free."""
        if slots not in self._limiters:
            self._limiters[slots] = anyio.CapacityLimiter(self.sizes[slots])
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._limiters[slots])


class TooLarge(Exception):
    """Ends the reading of a body that has more than `most` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    @property
    def detail(self) -> str:
        return f"The body has more than {self.most:,} bytes, the most for this route; send it in parts."


def limited(request: Request, most: int) -> Receive:
    """Return a request's messages; raise TooLarge for a body that says it is, or is, larger than `most` bytes."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise TooLarge(most)
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > most:
            raise TooLarge(most)
        return message

    return receive
