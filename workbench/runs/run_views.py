"""Runs as pages show them: a line in a list, a log, a result."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from db.training_tables import Job, Run, RunEvent
from workbench.jobs.context import of_row
from workbench.reports.curves import recipe_family
from workbench.runs.recipe_names import recipe_name


@dataclass(frozen=True, slots=True)
class RunView:
    """A run in a list; F1 in [0, 1]. `size` is the number of training sentences, all of them where `is_whole`."""

    id: int
    campaign_id: int | None
    snapshot: str | None
    dataset: str | None
    group_id: str | None
    size: int
    is_whole: bool
    seed: int
    recipe: Mapping[str, Any]
    family: str
    state: str
    progress: float
    message: str
    error: str | None
    dev_f1: float | None
    test_f1: float | None
    cancel_requested: bool
    has_checkpoint: bool
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @property
    def title(self) -> str:
        """Name the run in a few words."""
        return f"run {self.id} · {recipe_name(self.recipe)} · {self.size} sentences · seed {self.seed}"


@dataclass(frozen=True, slots=True)
class EventView:
    """One line of a run's log; F1 in [0, 1]."""

    number: int
    phase: str
    step: int
    epoch: float
    loss: float | None
    dev_f1: float | None
    is_best: bool
    message: str
    at: dt.datetime


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with its log and, once done, its result (RunResult.to_dict); `reasons` say what it lacks."""

    run: RunView
    events: tuple[EventView, ...]
    result: Mapping[str, Any] | None
    reasons: tuple[str, ...]


def event_view(row: RunEvent) -> EventView:
    """Show a line of a log."""
    return of_row(EventView, row)


def waits_for(job_id: int) -> str:
    """Say what a run waits for whose encoder is made by another job."""
    return f"begins when job {job_id} has made its encoder"


def run_view(run: Run, job: Job | None, awaited: int | None = None) -> RunView:
    """Show a run with the progress of its job; `awaited` is the job that has to end before."""
    dataset = run.dataset
    total = run.snapshot.counts["pool"] if run.snapshot else 0
    if dataset is not None:
        total = next((part.sentences for part in dataset.splits if part.split == "train"), 0)
    return of_row(
        RunView,
        run,
        snapshot=run.snapshot.hash if run.snapshot else None,
        dataset=dataset.name if dataset else None,
        size=run.size or total,
        is_whole=run.size is None,
        family=recipe_family(run.recipe),
        progress=job.progress if job else 0.0,
        message=waits_for(awaited) if awaited is not None else job.message if job else "",
        cancel_requested=bool(job and job.cancel_requested),
        has_checkpoint=run.checkpoint is not None,
    )


def reasons(run: Run) -> tuple[str, ...]:
    """Say in words how a finished run ended and what it lacks."""
    if run.state != "done" or run.result is None:
        return ()
    found = list(run.result.get("notes", ()))
    if run.test_f1 is None:
        found.append("No test score: there is no test gold in what it was trained on.")
    if run.dev_f1 is None:
        found.append("No dev score: there is no dev gold in what it was trained on.")
    if run.size is not None:
        found.append("Its weights were not kept: it is a point of a curve, trained on a part of the gold.")
    return tuple(found)
