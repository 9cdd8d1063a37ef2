"""What a handler gets: its job, the store, folders and encoders, and ways to report progress, log and stop."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from crossner_core.errors import CheckpointMismatch, StorageError
from db import job_rows
from db.engine import Store
from db.training_tables import Job
from workbench.settings import Settings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from crossner_core.encoders.base import Encoder

log = logging.getLogger(__name__)
E = TypeVar("E")
V = TypeVar("V", bound="DataclassInstance")

# How often a job that can give way checks whether other work waits.
SECONDS_BETWEEN_LOOKS = 5.0
# Optimizer and best weights of a BERT-base run take about 2 GB at their largest; a small encoder far less.
LEAST_FREE_BYTES = 400_000_000


def of_row(kind: type[V], row: Any, **more: Any) -> V:
    """Fill a dataclass from a row's columns of the same names; `more` adds or overrides fields."""
    names = kind.__dataclass_fields__.keys() - more.keys()
    return kind(**{name: getattr(row, name) for name in names}, **more)


class LeaseLost(Exception):
    """Another worker has the job now: write nothing more about it."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job as its kind sees it."""

    id: int
    kind: str
    priority: int
    payload: Mapping[str, Any]
    run_id: int | None
    campaign_id: int | None
    created_by: int | None
    attempts: int
    max_attempts: int

    @classmethod
    def of(cls, job: Job) -> Claimed:
        """Read a row."""
        return of_row(cls, job)


class JobContext:
    """A job that a worker runs: what to report at the next heartbeat, and whether to stop.

    `others_first` returns whether work waits that this job must not hold up; it is called every few seconds.
    """

    def __init__(
        self,
        job: Claimed,
        store: Store,
        settings: Settings,
        *,
        worker: str = "",
        encoders: dict[str, Encoder] | None = None,
        others_first: Callable[[], bool] = lambda: False,
    ) -> None:
        self.job, self.store, self.settings, self.worker = job, store, settings, worker
        self.progress = 0.0
        self.message = ""
        self.cancelled = threading.Event()
        self.lost = threading.Event()
        self.shutdown = threading.Event()
        self.gave_way = threading.Event()
        self._encoders = {} if encoders is None else encoders
        self._others_first, self._looked = others_first, time.monotonic()

    @property
    def campaign_id(self) -> int:
        """The job's campaign, of a kind that has one."""
        assert self.job.campaign_id is not None, f"a job of kind {self.job.kind} has a campaign"
        return self.job.campaign_id

    def encoder(self, name: str) -> Encoder:
        """Load an encoder, or reuse the one loaded for the previous job."""
        from crossner_core.encoders.loading import load_encoder

        if name not in self._encoders:
            self._encoders.clear()
            self._encoders[name] = load_encoder(name, self.settings.encoders)
        return self._encoders[name]

    def report(self, progress: float, message: str) -> None:
        """Record the job's progress, in [0, 1] and in words, for the next heartbeat."""
        self.progress, self.message = progress, message

    def say(self, *messages: str) -> None:
        """Write lines into the job's log."""
        with self.store.write() as session:
            for message in messages:
                job_rows.add_line(session, self.job.id, message)

    def should_stop(self) -> bool:
        """Return whether to stop at the next step: cancelled, lease lost, worker ending, or other work goes first."""
        return self.cancelled.is_set() or self.lost.is_set() or self.shutdown.is_set() or self._gives_way()

    def why_back(self) -> str:
        """Return why a job that stopped without being cancelled goes back to the queue; empty if it does not."""
        if self.gave_way.is_set():
            return "Other work goes first; this job resumes from here afterwards."
        return "The worker was stopped; the next one resumes from here." if self.shutdown.is_set() else ""

    def resumed(self, start: Callable[[], Iterator[E]], anew: Callable[[], None]) -> Iterator[E]:
        """Yield the events of a training, resumed from its saved state; `anew` drops a state that does not fit.

        Raises LeaseLost once another worker has the job.
        """
        try:
            yield from self._held(start())
        except CheckpointMismatch as error:
            log.warning("%s", error)
            anew()
            yield from self._held(start())

    def _held(self, events: Iterator[E]) -> Iterator[E]:
        for event in events:
            if self.lost.is_set():
                raise LeaseLost
            yield event

    def _gives_way(self) -> bool:
        if not self.gave_way.is_set() and time.monotonic() - self._looked >= SECONDS_BETWEEN_LOOKS:
            if self._others_first():
                self.gave_way.set()
            self._looked = time.monotonic()
        return self.gave_way.is_set()


def saved_step(state: Path) -> int:
    """Return how many steps the state of a training in this folder has behind it; 0 without a readable one."""
    try:
        meta = json.loads((state / "meta.json").read_text(encoding="utf-8"))
        progress = meta["progress"]
        return int(meta.get("before", {}).get("steps", 0) + progress.get("head_step", 0) + progress["step"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return 0  # what cannot be read cannot be resumed either


def require_space(folder: Path) -> None:
    """Raise StorageError unless there is room for a run."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise StorageError(
            f"Only {free / 1e6:.0f} MB are free at {folder}; a run needs {LEAST_FREE_BYTES / 1e6:.0f} MB. "
            "Free some space (checkpoints of old runs are there), then start the job again."
        )
