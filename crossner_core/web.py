"""One HTTP request within a time, to an http or https address: no redirects, no more bytes than expected."""

from __future__ import annotations

import email.utils
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from crossner_core.errors import InvalidConfig

LONGEST_WAIT = 86_400.0  # seconds; the longest Retry-After that is read as it is
RETRIED = frozenset({408, 429, 502, 503, 504})


class Transient(Exception):
    """The same request may be answered later; `retry_after` is what the other side asked for, in seconds."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class TimedOut(Transient):
    """No complete answer came in time."""


class Incomplete(Exception):
    """The answer was cut short or is not valid."""


class Refused(Exception):
    """The other side will not answer this request, however often it is sent."""


def check_address(url: str, *, what: str, example: str) -> str:
    """Return an address; InvalidConfig unless it is http or https, with a host and no password."""
    try:
        parts = urlsplit(url)
        ok = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # includes host names that cannot be encoded
        ok = False
    if not ok or any(char.isspace() or ord(char) < 32 for char in url):
        raise InvalidConfig(f"{what} is {url!r}; give an http or https URL such as {example}.")
    if "@" in parts.netloc:
        raise InvalidConfig(f"{what} at {parts.hostname} carries a user name; give the URL without it.")
    return url


class Watch:
    """Shuts the connection down when the time is up, whatever it is doing.

    A socket's own timeout restarts with each byte, so a slowly dripping server could hold a request forever.
    """

    def __init__(self, seconds: float) -> None:
        self.fired = False
        self._twins: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self.fire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        self._timer.join()
        for twin in self._twins:
            twin.close()

    def connect(self, *args: Any, **kwargs: Any) -> socket.socket:
        """Open a socket and remember its twin, which still reaches the connection once TLS has taken it over."""
        sock = socket.create_connection(*args, **kwargs)
        with self._lock:
            self._twins.append(sock.dup())
            if self.fired:
                _shut(self._twins[-1])
        return sock

    def fire(self) -> None:
        """Shut down what is open, and what is opened from now on."""
        with self._lock:
            self.fired = True
            for twin in self._twins:
                _shut(twin)


class PinnedWatch(Watch):
    """Connects to these IP addresses only, whatever the URL's host resolves to by now; TLS checks its name."""

    def __init__(self, seconds: float, addresses: Sequence[str]) -> None:
        super().__init__(seconds)
        self._addresses = tuple(addresses)

    def connect(self, address: tuple[str, int], *args: Any, **kwargs: Any) -> socket.socket:
        """Open a socket to the first of the addresses that answers."""
        refused: OSError = OSError("no address to connect to")
        for ip in self._addresses:
            try:
                return super().connect((ip, address[1]), *args, **kwargs)
            except OSError as error:
                refused = error
        raise refused


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side was faster


def _opener(watch: Watch, proxies: Mapping[str, str] | None = None) -> urllib.request.OpenerDirector:
    """Build an opener that accepts http and https only, follows no redirect, and connects under the watch.

    `proxies` replace those of the environment.
    """

    def connection(kind: type[http.client.HTTPConnection]) -> Callable[..., http.client.HTTPConnection]:
        def make(host: str, **kwargs: Any) -> http.client.HTTPConnection:
            made = kind(host, **kwargs)
            made._create_connection = watch.connect  # type: ignore[attr-defined]
            return made

        return make

    class Http(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(connection(http.client.HTTPConnection), req)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(connection(http.client.HTTPSConnection), req)

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(None if proxies is None else dict(proxies)),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        Http(),
        Https(),
    ):
        opener.add_handler(handler)
    return opener


def send(
    request: urllib.request.Request, *, timeout: float, largest: int, watch: Watch
) -> tuple[http.client.HTTPMessage, bytes]:
    """Return headers and body of the answer to a request that is made under `watch`, which is armed for `timeout`.

    Raises urllib's HTTPError for any status but 2xx, Transient where nothing came, Incomplete for part of an answer.
    """
    with _failures(watch, timeout), _opener(watch).open(request, timeout=timeout) as response:
        body = response.read(largest + 1)
        if len(body) > largest:
            raise Incomplete(f"the answer is longer than {_size(largest)}")
        if response.length:
            raise http.client.IncompleteRead(body, response.length)
        return response.headers, body


def send_unread(request: urllib.request.Request, *, timeout: float, watch: PinnedWatch) -> tuple[int, float | None]:
    """Return the status of the answer, whatever it is, and its Retry-After in seconds; no proxy is used.

    The body is not read. Raises Transient where no answer came. `watch` is armed for `timeout`.
    """
    try:
        with _failures(watch, timeout), _opener(watch, {}).open(request, timeout=timeout) as response:
            status, wanted = response.status, response.headers.get("Retry-After")
    except urllib.error.HTTPError as error:
        error.close()
        status, wanted = error.code, error.headers.get("Retry-After")
    if watch.fired:  # of a line that was cut off any beginning can look like a status
        raise TimedOut(f"no complete answer within {timeout:g} s")
    return status, retry_after(wanted)


@contextmanager
def _failures(watch: Watch, timeout: float) -> Iterator[None]:
    """Turn what fails on the way into Transient or Incomplete; an HTTPError passes."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except http.client.IncompleteRead as error:
        if watch.fired:
            raise TimedOut(f"no complete answer within {timeout:g} s") from error
        raise Incomplete("the connection ended in the middle of the answer") from error
    except (OSError, http.client.HTTPException) as error:
        if watch.fired or isinstance(error, TimeoutError) or isinstance(_cause(error), TimeoutError):
            raise TimedOut(f"no complete answer within {timeout:g} s") from error
        raise Transient(f"connection failed ({_cause(error)})") from error


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 2**20 else f"{count} bytes"


def _cause(error: BaseException) -> object:
    return error.reason if isinstance(error, urllib.error.URLError) else error


def status_of(error: urllib.error.HTTPError) -> str:
    """Describe an HTTP status in words."""
    return f"it answers {error.code} {error.reason}".rstrip()


def retry_after(header: str | None) -> float | None:
    """Read a Retry-After header: seconds or an HTTP date, a day at most."""
    if header is None:
        return None
    if (plain := header.strip()).isdecimal():
        return min(float(plain), LONGEST_WAIT)
    try:
        seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0 if plain[:1] == "-" else None
    return min(max(0.0, seconds), LONGEST_WAIT)
