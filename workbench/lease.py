"""The worker's pulse: says that it is alive, renews the lease on its job, and hears when to stop."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable

from crossner_core.errors import StorageError
from db import job_rows, worker_rows
from db.engine import Store
from workbench.jobs import STALE_SECONDS, Claimed

log = logging.getLogger(__name__)

# So often a job that gives way is asked whether others wait.
SECONDS_BETWEEN_LOOKS = 5.0


class Lease:
    """A job in hand: what to report at the next heartbeat, and why to stop.

    `others_first` says whether work waits that must not be held up by this job; it is asked every few seconds.
    """

    def __init__(self, job: Claimed, others_first: Callable[[], bool] = lambda: False) -> None:
        self.job = job
        self.progress = 0.0
        self.message = ""
        self.cancelled = threading.Event()
        self.lost = threading.Event()
        self.shutdown = threading.Event()
        self.gave_way = threading.Event()
        self._others_first, self._looked = others_first, time.monotonic()

    def should_stop(self) -> bool:
        """Say whether to stop at the next step: cancelled, lease lost, the worker is ending, or others go first."""
        return self.cancelled.is_set() or self.lost.is_set() or self.shutdown.is_set() or self._gives_way()

    def why_back(self) -> str:
        """Say why a job that stopped and was not cancelled goes back into the queue; empty where it does not."""
        if self.gave_way.is_set():
            return "Other work goes first; this goes on after it, from here."
        return "The worker was stopped; the next one goes on from here." if self.shutdown.is_set() else ""

    def _gives_way(self) -> bool:
        if not self.gave_way.is_set() and time.monotonic() - self._looked >= SECONDS_BETWEEN_LOOKS:
            if self._others_first():
                self.gave_way.set()
            self._looked = time.monotonic()
        return self.gave_way.is_set()


class Pulse:
    """A thread with sessions of its own that writes heartbeats every `period` seconds until `stop`."""

    def __init__(self, store: Store, *, period: float = 1.0) -> None:
        self.store, self.period = store, period
        self.host, self.pid = socket.gethostname(), os.getpid()
        self.name = f"{self.host}-{self.pid}-{uuid.uuid4().hex[:6]}"
        self.device = "starting"
        self.lease: Lease | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and forget the worker."""
        self._ending.set()
        self._thread.join()
        with self.store.write() as session:
            worker_rows.remove(session, name=self.name)

    def _run(self) -> None:
        heard = time.monotonic()
        while not self._ending.wait(self.period):
            try:
                self._beat()
                heard = time.monotonic()
            except StorageError as error:
                log.warning("Heartbeat failed: %s", error)
                # Another worker may have the job by now: two must not train it.
                if self.lease is not None and time.monotonic() - heard > STALE_SECONDS:
                    self.lease.lost.set()

    def _beat(self) -> None:
        lease = self.lease
        with self.store.write() as session:
            worker_rows.beat(session, name=self.name, host=self.host, pid=self.pid, device=self.device)
            if lease is None:
                return
            told = job_rows.beat(
                session, job_id=lease.job.id, worker=self.name, progress=lease.progress, message=lease.message
            )
        if told is None and self.lease is lease:
            lease.lost.set()
        elif told:
            lease.cancelled.set()
