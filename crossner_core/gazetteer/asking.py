"""Asking an endpoint patiently: what may pass is asked again later, with jitter, within a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from crossner_core.errors import InvalidConfig
from crossner_core.gazetteer import transport


class Asker:
    """Sends queries to one endpoint; `timeout` bounds one query, in seconds of wall time.

    A query that failed in passing (429, 503, silence, a dropped connection) is sent up to `retries` times again,
    after `backoff` seconds and twice as long each time, or after what the endpoint asked for (Retry-After).
    """

    def __init__(
        self,
        endpoint: str,
        *,
        timeout: float,
        retries: int,
        backoff: float,
        max_rows: int,
        rng: random.Random,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not timeout > 0:
            raise InvalidConfig(f"SPARQL timeout is {timeout}, must be above 0.")
        for what, value in (("retries", retries), ("backoff", backoff)):
            if not value >= 0:
                raise InvalidConfig(f"SPARQL {what} is {value}, must be 0 or more.")
        self.endpoint = transport.check_endpoint(endpoint)
        self._timeout, self._retries, self._backoff, self._max_rows = timeout, retries, backoff, max_rows
        self._rng, self._sleep = rng, sleep

    def rows(self, query: str, until: float, *, can_shrink: bool = False) -> list[dict[str, str]]:
        """Return all rows of a query before `until` on the monotonic clock; raise what `transport.ask` raises.

        With `can_shrink`, a query that timed out twice is not sent again: the caller will ask for less.
        """
        attempt = 0
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise transport.Transient("no complete answer before the deadline")
            try:
                return transport.ask(self.endpoint, query, timeout=min(self._timeout, left), max_rows=self._max_rows)
            except transport.Transient as error:
                pause = self._backoff * 2**attempt * (0.5 + self._rng.random())
                pause = max(pause, error.retry_after or 0.0)
                attempt += 1
                shrink = can_shrink and attempt > 1 and isinstance(error, transport.TimedOut)
                if shrink or attempt > self._retries or time.monotonic() + pause >= until:
                    raise
            self._sleep(pause)
