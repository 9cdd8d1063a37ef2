"""Runs: start a training, follow and cancel it; and few-shot curves."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from crossner_core.training.recipe import effective
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.http.api.declared import (
    Answer,
    Body,
    Call,
    Id,
    Inputs,
    Page,
    PageInputs,
    cursor_of,
    number_in,
    route,
)
from workbench.http.api.declared import Nothing as NoInputs
from workbench.reports import curves
from workbench.runs import adaptation

State = Literal["queued", "running", "done", "failed", "cancelled"]
Recipe = Annotated[dict[str, Any], Field(max_length=200)]
Settings = Annotated[dict[str, Any], BeforeValidator(effective)]


class Run(Answer):
    """One training of a recipe; F1 in [0, 1], null where it was not measured."""

    id: int
    title: str
    campaign_id: int | None
    snapshot: str | None
    """Hash of the snapshot it trains on."""
    dataset: str | None
    """Name of the data set it trains on."""
    group_id: str | None
    """Runs of one few-shot curve share it."""
    size: int
    """Training sentences."""
    is_whole: bool
    """It trains on all of them."""
    seed: int
    recipe: Settings
    """The fields that matter with its architecture and transfer setting."""
    state: State
    progress: float
    """In [0, 1]."""
    message: str
    error: str | None
    dev_f1: float | None
    test_f1: float | None
    cancel_requested: bool
    has_checkpoint: bool
    """Its model is kept, so that it can predict."""
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None


class TypeScore(Answer):
    """F1, precision and recall of one entity type in [0, 1], with its counts."""

    type: str
    f1: float
    precision: float
    recall: float
    support: int
    predicted: int
    correct: int


class WholeRun(Run):
    """A run with its scores by entity type."""

    reasons: list[str]
    """What a finished run lacks, and why."""
    types: list[TypeScore]
    """On test; empty where that was not measured."""


class Event(Answer):
    """One line of a run's log."""

    number: int
    phase: str
    step: int
    epoch: float
    loss: float | None
    dev_f1: float | None
    is_best: bool
    message: str
    when: Annotated[dt.datetime, Field(validation_alias="at")]


class Events(Answer):
    """Lines of a run's log; ask again with `after` set to `last` until the state is final."""

    items: list[Event]
    last: int
    """Number of the newest line."""
    state: State
    progress: float


class RunState(Answer):
    """What a run is after a request to cancel or resume it."""

    id: int
    state: State
    """`running` until the worker has stopped at its next step."""


class CurvePoint(Answer):
    """F1 in [0, 1] at a number of training sentences, over `n` seeds; `sd` is null for one seed."""

    size: int
    mean: float
    sd: float | None
    n: int
    values: list[float]
    runs: list[int]


class Series(Answer):
    """One line of a curve: one method on one snapshot or data set, or in rounds."""

    title: str
    snapshot: str | None
    dataset: str | None
    recipe: Settings
    points: list[CurvePoint]
    pending: int
    """Cells that are queued or under way."""
    strategies: list[str]


class Curve(Answer):
    """Learning curves."""

    items: list[Series]


class Cell(Answer):
    """A point of a curve that was asked for, and the run that makes it."""

    size: int
    seed: int
    run: int


class StartedCurve(Answer):
    """A started curve."""

    group_id: str
    cells: list[Cell]
    started: int
    reused: int
    """Cells that were trained or queued already."""
    note: str


class RunsAsked(PageInputs):
    """Which runs; without a campaign or a data set all, for researchers and admins."""

    campaign: Id | None = None
    dataset: Id | None = None
    group: Annotated[str, Field(max_length=40)] | None = None
    state: State | None = None


class OneRun(Inputs):
    """A run."""

    run: Id


class EventsAsked(Inputs):
    """The lines of a run's log after a number."""

    run: Id
    after: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


class CurveAsked(Inputs):
    """Which runs a curve is made of."""

    campaign: Id | None = None
    dataset: Id | None = None
    snapshot: Id | None = None
    group: Annotated[str, Field(max_length=40)] | None = None
    measure: Literal["test", "dev"] = "test"


class NewRun(Body):
    """A training to start, on a snapshot or on a data set."""

    snapshot: Id | None = None
    dataset: Id | None = None
    campaign: Id | None = None
    """With a data set: the campaign it belongs to."""
    recipe: Recipe = Field(default={})
    """Fields of the recipe that are not at their defaults; `workbench run --help` describes them."""
    size: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Train on a random subset of so many sentences; the model of such a run is not kept."""


class NewCurve(Body):
    """A few-shot curve to start, on a snapshot or on a data set."""

    snapshot: Id | None = None
    dataset: Id | None = None
    campaign: Id | None = None
    recipe: Recipe = Field(default={})
    sizes: Annotated[list[Annotated[int, Field(ge=1, le=2**31 - 1)]], Field(min_length=1, max_length=200)] = Field(
        default=list(adaptation.SIZES)
    )
    seeds: Annotated[list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(min_length=1, max_length=200)] = Field(
        default=list(adaptation.SEEDS)
    )


@route("GET", "/runs", scope="read", roles=OVERSEERS, use=adaptation.list_runs)
def list_runs(call: Call, inputs: RunsAsked) -> Page[Run]:
    """List runs, newest first; experts name one of their campaigns, or a data set."""
    rows = adaptation.list_runs(
        call.store,
        call.actor,
        inputs.campaign,
        dataset_id=inputs.dataset,
        group_id=inputs.group,
        states=[inputs.state] if inputs.state else (),
        before=number_in(inputs.cursor) or None,
        limit=inputs.limit + 1,
    )
    part = rows[: inputs.limit]
    after = cursor_of(part[-1].id) if len(rows) > len(part) else None
    return Page(items=[Run.model_validate(row) for row in part], next=after)


@route("POST", "/runs", scope="train", roles=KEEPERS, use=adaptation.start_run, status=201, creates=True)
def start_run(call: Call, inputs: NoInputs, body: NewRun) -> Run:
    """Queue a training of a recipe; the worker does it."""
    run = adaptation.start_run(
        call.store,
        call.actor,
        campaign_id=body.campaign,
        snapshot_id=body.snapshot,
        dataset_id=body.dataset,
        recipe=body.recipe,
        size=body.size,
    )
    return Run.model_validate(adaptation.get_run(call.store, call.actor, run).run)


@route("GET", "/runs/{run}", scope="read", roles=OVERSEERS, use=(adaptation.get_run, curves.per_type))
def get_run(call: Call, inputs: OneRun) -> WholeRun:
    """Get a run with its scores."""
    detail = adaptation.get_run(call.store, call.actor, inputs.run, after=2**31 - 1)
    types = curves.per_type(call.store, call.actor, inputs.run) if detail.run.state == "done" else ()
    run = Run.model_validate(detail.run)
    scores = [TypeScore.model_validate(row) for row in types]
    return WholeRun(**run.model_dump(), reasons=list(detail.reasons), types=scores)


@route("GET", "/runs/{run}/events", scope="read", roles=OVERSEERS, use=adaptation.get_run)
def follow_run(call: Call, inputs: EventsAsked) -> Events:
    """Get what a run has logged after a line: loss, F1 on dev, and what it is at."""
    detail = adaptation.get_run(call.store, call.actor, inputs.run, after=inputs.after)
    return Events(
        items=[Event.model_validate(event) for event in detail.events],
        last=max((event.number for event in detail.events), default=inputs.after),
        state=detail.run.state,  # type: ignore[arg-type]
        progress=detail.run.progress,
    )


@route("POST", "/runs/{run}/cancel", scope="train", roles=KEEPERS, use=adaptation.cancel)
def cancel_run(call: Call, inputs: OneRun) -> RunState:
    """Cancel a run; one that has ended stays as it is."""
    state = adaptation.cancel(call.store, call.actor, inputs.run)
    return RunState(id=inputs.run, state=state)  # type: ignore[arg-type]


@route("POST", "/runs/{run}/resume", scope="train", roles=KEEPERS, use=adaptation.resume)
def resume_run(call: Call, inputs: OneRun) -> RunState:
    """Queue a failed run again: it resumes from its last saved step."""
    adaptation.resume(call.store, call.actor, inputs.run)
    state = adaptation.get_run(call.store, call.actor, inputs.run).run.state
    return RunState(id=inputs.run, state=state)  # type: ignore[arg-type]


@route("GET", "/curves", scope="read", roles=OVERSEERS, use=curves.curve)
def get_curves(call: Call, inputs: CurveAsked) -> Curve:
    """Get the learning curves of finished runs; experts name one of their campaigns."""
    lines = curves.curve(
        call.store,
        call.actor,
        inputs.campaign,
        dataset_id=inputs.dataset,
        snapshot_id=inputs.snapshot,
        group_id=inputs.group,
        measure=inputs.measure,
    )
    return Curve(items=[Series.model_validate(line) for line in lines])


@route("POST", "/curves", scope="train", roles=KEEPERS, use=adaptation.start_few_shot, status=201, creates=True)
def start_curve(call: Call, inputs: NoInputs, body: NewCurve) -> StartedCurve:
    """Queue a run for every size and seed; cells that were trained already are used again."""
    made = adaptation.start_few_shot(
        call.store,
        call.actor,
        campaign_id=body.campaign,
        snapshot_id=body.snapshot,
        dataset_id=body.dataset,
        recipe=body.recipe,
        sizes=body.sizes,
        seeds=body.seeds,
    )
    cells = [Cell(size=size, seed=seed, run=run) for (size, seed), run in made.runs.items()]
    return StartedCurve(group_id=made.group_id, cells=cells, started=made.started, reused=made.reused, note=made.note)
