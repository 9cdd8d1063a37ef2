"""One SPARQL endpoint over HTTP: complete answers or typed errors, retries with jitter, a deadline, a breaker."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.error
from collections.abc import Callable
from typing import Any

from crossner_core import web
from crossner_core.errors import InvalidConfig
from crossner_core.web import RETRIED, Incomplete, Refused, TimedOut, Transient, Watch, retry_after, status_of

AGENT = "crossner-workbench/0.1 (SPARQLWrapper)"
LARGEST_ANSWER = 32 * 2**20  # bytes
TOO_MUCH = frozenset({413, 414, 500})  # Virtuoso returns 500 for a query it estimates to be too costly


def check_endpoint(url: str) -> str:
    """Return the URL of an endpoint; InvalidConfig unless it is http or https, with a host and no password."""
    return web.check_address(url, what="SPARQL endpoint", example="https://dbpedia.org/sparql")


def ask(endpoint: str, query: str, *, timeout: float, max_rows: int) -> list[dict[str, str]]:
    """Return all rows of a SELECT query within `timeout` seconds; raise Transient, Incomplete or Refused."""
    with Watch(timeout) as watch:
        try:
            headers, body = _post(endpoint, query, timeout, watch)
        except urllib.error.HTTPError as error:
            with error:
                raise _by_status(error) from error
    return _complete_rows(headers, body, max_rows)


def _post(endpoint: str, query: str, timeout: float, watch: Watch) -> tuple[http.client.HTTPMessage, bytes]:
    from SPARQLWrapper import JSON, POST, SPARQLWrapper

    wrapper = SPARQLWrapper(endpoint, returnFormat=JSON, agent=AGENT)
    wrapper.setMethod(POST)
    wrapper.setQuery(query)
    wrapper.addParameter("timeout", str(max(1, int(timeout * 1000))))  # Virtuoso's own, in milliseconds
    # The wrapper builds the request; its own sending has no deadline, follows redirects and loses response headers.
    return web.send(wrapper._createRequest(), timeout=timeout, largest=LARGEST_ANSWER, watch=watch)


def _by_status(error: urllib.error.HTTPError) -> Exception:
    """Return what an HTTP status means for the query."""
    message = status_of(error)
    if error.code in RETRIED:
        kind = TimedOut if error.code == 504 else Transient
        return kind(message, retry_after(error.headers.get("Retry-After")))
    if error.code in TOO_MUCH:
        return Incomplete(message)
    if 300 <= error.code < 400:
        return Refused(
            f"{message} and points to {error.headers.get('Location', 'nowhere')}; give that URL if you trust it"
        )
    return Refused(message)


def _complete_rows(headers: http.client.HTTPMessage, body: bytes, max_rows: int) -> list[dict[str, str]]:
    """Read the rows of an answer with status 200, which may still be partial: only headers and counts tell."""
    if state := headers.get("X-SQL-State"):
        raise Incomplete(f"the answer is partial (X-SQL-State {state})")
    try:
        rows = read_rows(json.loads(body))
    except (ValueError, RecursionError) as error:  # includes JSON and UTF-8 errors, and brackets without end
        kind = headers.get_content_type()
        raise Incomplete(f"the answer is not SPARQL JSON but {len(body)} bytes of {kind}") from error
    limit = headers.get("X-SPARQL-MaxRows", "").strip()
    if len(rows) >= min(max_rows, (int(limit) if limit.isdecimal() and len(limit) < 10 else 0) or max_rows):
        raise Incomplete(f"the answer stops at {len(rows)} rows, the most this endpoint returns")
    return rows


def read_rows(document: Any) -> list[dict[str, str]]:
    """Return the rows of SPARQL JSON results; ValueError if the document is anything else."""
    try:
        bindings = document["results"]["bindings"]
        return [{key: str(cell["value"]) for key, cell in row.items()} for row in bindings]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("no SPARQL results in the answer") from error


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
        """Return why the endpoint may not be queried now, None if it may; that one query is the trial."""
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
    """Return the process's one breaker for an endpoint, so that one failure protects every campaign."""
    with _breakers_lock:
        return _breakers.setdefault(endpoint, CircuitBreaker())


class Asker:
    """Sends queries to one endpoint; `timeout` bounds one query, in seconds of wall time.

    A query that failed temporarily (429, 503, silence, a dropped connection) is retried up to `retries` times, after
    `backoff` seconds and twice as long each time, or as long as the endpoint asks (Retry-After).
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
        self.endpoint = check_endpoint(endpoint)
        self._timeout, self._retries, self._backoff, self._max_rows = timeout, retries, backoff, max_rows
        self._rng, self._sleep = rng, sleep

    def rows(self, query: str, until: float, *, can_shrink: bool = False) -> list[dict[str, str]]:
        """Return all rows of a query before `until` on the monotonic clock; raise what `ask` raises.

        With `can_shrink`, a query that timed out twice is not sent again: the caller will ask for less.
        """
        attempt = 0
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise Transient("no complete answer before the deadline")
            try:
                return ask(self.endpoint, query, timeout=min(self._timeout, left), max_rows=self._max_rows)
            except Transient as error:
                pause = self._backoff * 2**attempt * (0.5 + self._rng.random())
                pause = max(pause, error.retry_after or 0.0)
                attempt += 1
                shrink = can_shrink and attempt > 1 and isinstance(error, TimedOut)
                if shrink or attempt > self._retries or time.monotonic() + pause >= until:
                    raise
            self._sleep(pause)
