"""Sends what is due to webhooks: in a thread of the worker, so that a long training holds nothing back."""

from __future__ import annotations

import datetime as dt
import logging
import random
import threading
import time
import urllib.request
from dataclasses import dataclass

from crossner_core import web
from crossner_core.errors import StorageError, WorkbenchError
from db.engine import Session, Store
from db.programs import webhook_rows
from db.programs.webhook_rows import Due
from db.types import now
from workbench.settings import Settings
from workbench.webhooks import signing
from workbench.webhooks.addresses import reachable

log = logging.getLogger(__name__)

TIMEOUT = 15.0
"""Seconds for one attempt, the look-up of the host included."""
PAUSES = (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600)
"""Seconds after the first attempt, the second and so on; those that Standard Webhooks proposes."""
LEASE = dt.timedelta(seconds=120)
"""How long a claim holds if its worker dies; much longer than an attempt takes, however slow the host's look-up is."""
AT_ONCE = 8
"""Webhooks that a worker sends to at the same time; each gets one delivery at a time."""
KEPT_FOR = dt.timedelta(days=30)
"""How long the log keeps what was delivered or given up."""
_GONE = 410
_TIDY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """How an attempt ended: the status of an answer, or why there is none; `retry_after` is in seconds."""

    status: int | None
    error: str
    retry_after: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Sender:
    """A thread that looks every `period` seconds for deliveries that are due, and sends each in a thread of its own."""

    def __init__(self, store: Store, settings: Settings, *, period: float = 1.0) -> None:
        self.store, self.settings, self.period = store, settings, period
        self._ending, self._wake, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._busy: dict[int, threading.Thread] = {}
        self._tidied: float | None = None
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, seconds: float = 2.0) -> None:
        """Begin nothing more; wait for what is being sent, not longer than `seconds`.

        What has no outcome by then is sent again by the next worker, under the same id.
        """
        self._ending.set()
        self._wake.set()
        until = time.monotonic() + seconds
        with self._lock:
            threads = [self._thread, *self._busy.values()]
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def send_due(self) -> int:
        """Begin to send what is due, as far as there is room; return how many were begun."""
        begun = 0
        while not self._ending.is_set() and (due := self._claim()) is not None:
            thread = threading.Thread(target=self._send, args=(due,), name=f"webhook {due.webhook_id}", daemon=True)
            with self._lock:
                self._busy[due.webhook_id] = thread
            thread.start()
            begun += 1
        return begun

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is being sent; return whether that came true in time."""
        until = time.monotonic() + seconds
        with self._lock:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._tidy()
                self.send_due()
            except StorageError as error:
                log.warning("Webhooks wait: %s", error)
            self._wake.wait(self.period)
            self._wake.clear()

    def _claim(self) -> Due | None:
        with self._lock:
            busy = tuple(self._busy)
        if len(busy) >= AT_ONCE:
            return None
        with self.store.read() as session:
            if not webhook_rows.is_any_due(session, busy=busy):
                return None
        with self.store.write() as session:
            return webhook_rows.claim(session, busy=busy, lease=LEASE)

    def _send(self, due: Due) -> None:
        try:
            outcome = attempt(due, self.settings)
            with self.store.write() as session:
                record(session, due, outcome)
        except StorageError as error:
            log.warning("Delivery %d has no outcome, so it is sent again: %s", due.id, error)
        finally:
            with self._lock:
                self._busy.pop(due.webhook_id, None)
            self._wake.set()

    def _tidy(self) -> None:
        """Delete old lines of the log, now and then."""
        if self._tidied is None or time.monotonic() - self._tidied > _TIDY_SECONDS:
            with self.store.write() as session:
                webhook_rows.forget_settled(session, before=now() - KEPT_FOR)
            self._tidied = time.monotonic()


def attempt(due: Due, settings: Settings, *, timeout: float | None = None) -> Attempt:
    """Send a delivery once, outside of any transaction."""
    allowed = TIMEOUT if timeout is None else timeout
    began = time.monotonic()
    try:
        addresses = reachable(due.url, settings)
        left = allowed - (time.monotonic() - began)
        if left <= 0:
            return Attempt(None, f"the host was not found within {allowed:g} s")
        body = signing.body_of(due.payload)
        request = urllib.request.Request(due.url, data=body, method="POST")
        signed = signing.headers(due.secret, due.message_id, int(time.time()), body)
        for name, value in {"content-type": "application/json", "user-agent": "crossner-workbench", **signed}.items():
            request.add_header(name, value)
        with web.PinnedWatch(left, addresses) as watch:
            status, retry_after = web.send_unread(request, timeout=left, watch=watch)
    except web.TimedOut:
        return Attempt(None, f"no complete answer within {allowed:g} s")
    except (WorkbenchError, web.Transient) as error:
        return Attempt(None, str(error))
    except Exception as error:  # whatever a receiver does must not stop the others; the traceback goes to the log
        log.exception("Delivery %d failed", due.id)
        return Attempt(None, f"an error of the workbench, {type(error).__name__}; the worker's log has the details")
    return Attempt(status, _problem(status), retry_after)


def _problem(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"it answers {status}, a redirect, which is not followed"
    return f"it answers {status}"


def record(session: Session, due: Due, outcome: Attempt) -> None:
    """Record an attempt: delivered, to be tried again, or given up; 410 switches the webhook off."""
    known = {"last_status": outcome.status, "last_error": outcome.error}
    if outcome.is_delivered:
        webhook_rows.settle(session, due, state="delivered", next_at=None, finished_at=now(), **known)
    elif outcome.status == _GONE:
        if webhook_rows.settle(session, due, state="given up", next_at=None, finished_at=now(), **known):
            webhook_rows.switch_off(session, due.webhook_id, "The receiver answered 410, that it is gone for good.")
    elif due.attempts > len(PAUSES):
        webhook_rows.settle(session, due, state="given up", next_at=None, finished_at=now(), **known)
    else:
        pause = PAUSES[due.attempts - 1] * random.SystemRandom().uniform(1.0, 1.1)
        again = now() + dt.timedelta(seconds=max(pause, outcome.retry_after or 0.0))
        webhook_rows.settle(session, due, state="failed", next_at=again, **known)
