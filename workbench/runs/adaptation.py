"""From gold to a trained tagger: freeze, start runs and curves, watch, cancel. The worker does the training."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crossner_core.encoders.names import TRANSFORMER, kind_named, no_recompute
from crossner_core.errors import InvalidConfig, NotFound
from crossner_core.training.recipe import SOURCE_ONLY, Recipe
from crossner_core.training.settings.registry import setting
from crossner_core.training.sources import SourceLine
from db import dataset_rows, job_rows, layer_rows, run_rows, snapshot_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.training_tables import Job, Run
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter, enter_run
from workbench.accounts.actors import SYSTEM, Actor, fresh, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.data.snapshots import freeze_gold
from workbench.jobs import queue
from workbench.jobs.context import of_row
from workbench.jobs.queue import JobView
from workbench.reports.curves import recipe_family
from workbench.runs.recipe_names import recipe_name
from workbench.runs.source_corpora import settled, source_words

SIZES = (10, 25, 40, 55, 70, 85, 100, 150, 200, 300, 400)
SEEDS = (555, 666, 777)
MOST_CELLS = 200
# Runs that a person waits for go before the many of a curve.
CELL_PRIORITY = 20


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
    """A run with its log and, once done, its result (RunResult.to_dict); `reasons` state what it lacks.

    `sources` are what a done run had from its source corpora, `source_words` their names for people.
    """

    run: RunView
    events: tuple[EventView, ...]
    result: Mapping[str, Any] | None
    reasons: tuple[str, ...]
    sources: tuple[SourceLine, ...] = ()
    source_words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FewShot:
    """A started curve: its group, its runs by (size, seed), and how many of them already existed.

    `note` names the sizes above the number of sentences; empty if there are none.
    """

    group_id: str
    runs: Mapping[tuple[int, int], int]
    started: int
    reused: int
    note: str = ""


def start_run(
    store: Store,
    actor: Actor,
    *,
    campaign_id: int | None = None,
    snapshot_id: int | None = None,
    dataset_id: int | None = None,
    recipe: Recipe | Mapping[str, Any],
    size: int | None = None,
) -> int:
    """Queue a training of a recipe on a snapshot or a data set; return the run's id.

    `size` trains on a random subset (drawn with the recipe's seed). Raises InvalidConfig for a recipe or size out of
    range, or a source corpus that is the data set to train on, and NotFound for a missing source corpus.
    """
    allowed = (*KEEPERS, SYSTEM.role)
    require(actor, *allowed)
    chosen = trainable(recipe)
    with store.write() as session:
        target = _target(session, actor, campaign_id, snapshot_id, dataset_id, allowed)
        chosen = settled(session, actor, chosen, dataset_id=target.dataset_id, campaign_id=target.campaign_id)
        if size is not None and not 1 <= size <= target.sentences:
            raise InvalidConfig(f"size is {size}; choose 1 to {target.sentences}, the number of training sentences.")
        run_id = _add(session, actor, target, chosen, size=size)
        audit.record(
            session, actor, "start_run", ("run", run_id), target.campaign_id, setting=chosen.setting, size=size
        )
        return run_id


def start_run_on_gold(session: Session, actor: Actor, campaign: Campaign, recipe: Recipe) -> int:
    """Freeze a campaign's gold and queue a training on it, within a transaction; return the run's id.

    The caller has authorised the actor. Raises BadInput without gold, NotFound for a missing source corpus.
    """
    snapshot = freeze_gold(session, actor, campaign)
    recipe = settled(session, actor, recipe, campaign_id=campaign.id)
    target = _Target(campaign.id, snapshot.id, None, int(snapshot.counts["pool"]))
    return _add(session, actor, target, recipe)


def start_few_shot(
    store: Store,
    actor: Actor,
    *,
    campaign_id: int | None = None,
    snapshot_id: int | None = None,
    dataset_id: int | None = None,
    recipe: Recipe | Mapping[str, Any],
    sizes: Iterable[int] = SIZES,
    seeds: Iterable[int] = SEEDS,
) -> FewShot:
    """Queue a run for every size and seed; sizes above the number of sentences become one point on all of them.

    A cell already trained (or queued) with the same data, recipe, size and seed is reused; of those that read a
    campaign's guidelines only one that waits.
    """
    require(actor, *KEEPERS)
    chosen, sizes, seeds = trainable(recipe), sorted(set(sizes)), tuple(dict.fromkeys(seeds))
    if chosen.setting == SOURCE_ONLY:
        raise InvalidConfig(f"setting {SOURCE_ONLY!r} trains on no target sentence, so it has no curve; start one run.")
    with store.write() as session:
        target = _target(session, actor, campaign_id, snapshot_id, dataset_id, KEEPERS)
        chosen = settled(session, actor, chosen, dataset_id=target.dataset_id, campaign_id=target.campaign_id)
        capped = _sizes(sizes, target.sentences)
        if not seeds or len(capped) * len(seeds) > MOST_CELLS:
            raise InvalidConfig(
                f"{len(capped)} sizes × {len(seeds)} seeds are too many or none; choose 1 to {MOST_CELLS} runs."
            )
        group_id, runs, reused = uuid.uuid4().hex[:12], {}, 0
        for seed in seeds:
            for size in capped:
                cell = replace(chosen, seed=seed)
                known = _twin(session, target, cell, size)
                reused += known is not None
                runs[size, seed] = known or _add(
                    session, actor, target, cell, size=size, group_id=group_id, priority=CELL_PRIORITY
                )
        cut = ", ".join(str(size) for size in sizes if size > target.sentences)
        note = f"{cut} became {target.sentences}, all there is." if cut else ""
        counts = {"started": len(runs) - reused, "reused": reused}
        audit.record(session, actor, "start_few_shot", ("curve", group_id), target.campaign_id, **counts)
        return FewShot(group_id, runs, len(runs) - reused, reused, note)


def job_of_run(store: Store, actor: Actor, run_id: int) -> JobView:
    """Return the newest job of a run; raise NotFound as `get_job` does."""
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        _run(session, run_id)
        job = job_rows.for_runs(session, [run_id]).get(run_id)
    if job is None:
        raise NotFound(f"Run {run_id} has no job.")
    return queue.get_job(store, actor, job.id)


def cancel(store: Store, actor: Actor, run_id: int) -> str:
    """Cancel a run; return its state now (`running` until the worker has stopped at its next step)."""
    return queue.cancel_job(store, actor, job_of_run(store, actor, run_id).id)


def resume(store: Store, actor: Actor, run_id: int) -> None:
    """Queue a failed run again: it resumes from its last saved step, or starts over if nothing was saved.

    Raises Conflict for a run that did not fail. A cancelled one has no state to resume from.
    """
    queue.resume_job(store, actor, job_of_run(store, actor, run_id).id)


def list_runs(
    store: Store,
    actor: Actor,
    campaign_id: int | None = None,
    *,
    dataset_id: int | None = None,
    group_id: str | None = None,
    states: Sequence[str] = (),
    before: int | None = None,
    limit: int = 1000,
) -> tuple[RunView, ...]:
    """Return runs, newest first: a campaign's, a data set's, a curve's, or all; those with numbers below `before`."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        if campaign_id is not None:
            enter(session, actor, campaign_id, *OVERSEERS)
        elif dataset_id is not None:
            fresh(session, actor, *OVERSEERS)
        else:
            fresh(session, actor, *KEEPERS)
        rows = run_rows.listed(
            session,
            campaign_id=campaign_id,
            dataset_id=dataset_id,
            group_id=group_id,
            states=states,
            before=before,
            limit=limit,
        )
        ids = [row.id for row in rows]
        jobs, awaited = job_rows.for_runs(session, ids), job_rows.awaited_by(session, ids)
        return tuple(_run_view(row, jobs.get(row.id), awaited.get(row.id)) for row in rows)


def get_run(store: Store, actor: Actor, run_id: int, *, after: int = 0) -> RunDetail:
    """Return a run with the lines of its log after number `after`."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        run = enter_run(session, actor, run_id, *OVERSEERS)
        events = tuple(of_row(EventView, line) for line in run_rows.events(session, run_id, after=after))
        job, awaited = job_rows.for_runs(session, [run_id]), job_rows.awaited_by(session, [run_id])
        shown = _run_view(run, job.get(run_id), awaited.get(run_id))
        lines = tuple(SourceLine.from_dict(line) for line in (run.result or {}).get("sources", ()))
        words = source_words(session, [line.name for line in lines])
        return RunDetail(shown, events, run.result, _reasons(run), lines, words)


@dataclass(frozen=True, slots=True)
class _Target:
    """What to train on; `sentences` counts its training sentences."""

    campaign_id: int | None
    snapshot_id: int | None
    dataset_id: int | None
    sentences: int


def _target(
    session: Session,
    actor: Actor,
    campaign_id: int | None,
    snapshot_id: int | None,
    dataset_id: int | None,
    roles: Sequence[str],
) -> _Target:
    if (snapshot_id is None) == (dataset_id is None):
        raise InvalidConfig("Name either a snapshot or a data set to train on.")
    if dataset_id is not None:
        fresh(session, actor, *roles)
        if campaign_id is not None:
            enter(session, actor, campaign_id, *roles)
        dataset = dataset_rows.get(session, dataset_id)
        if dataset is None:
            raise NotFound(f"There is no data set {dataset_id}.")
        if not dataset.train_sentences:
            raise InvalidConfig(f"The data set {dataset.name!r} has no train split; import one.")
        return _Target(campaign_id, None, dataset_id, dataset.train_sentences)
    assert snapshot_id is not None
    snapshot = snapshot_rows.get(session, snapshot_id)
    if snapshot is None or campaign_id not in (None, snapshot.campaign_id):
        raise NotFound(f"There is no snapshot {snapshot_id} of this campaign.")
    enter(session, actor, snapshot.campaign_id, *roles)
    return _Target(snapshot.campaign_id, snapshot_id, None, int(snapshot.counts["pool"]))


def _add(
    session: Session,
    actor: Actor,
    target: _Target,
    recipe: Recipe,
    *,
    size: int | None = None,
    group_id: str | None = None,
    priority: int | None = None,
) -> int:
    whole = size is None or size >= target.sentences
    run_id = run_rows.add(
        session,
        {
            "campaign_id": target.campaign_id,
            "snapshot_id": target.snapshot_id,
            "dataset_id": target.dataset_id,
            "group_id": group_id,
            "size": None if whole else size,
            "order_seed": None if whole else recipe.seed,
            "recipe": recipe.to_dict(),
            "recipe_hash": recipe.hash,
            "seed": recipe.seed,
            "created_by": actor.id or None,
        },
    )
    queue.start(session, "run", {}, by=actor, campaign_id=target.campaign_id, run_id=run_id, priority=priority)
    return run_id


def _twin(session: Session, target: _Target, recipe: Recipe, size: int) -> int | None:
    """Return a run of the same cell; one that uses the gazetteer differs if pre-annotation ran after it began.

    One that reads a campaign's guidelines counts only if it waits: nobody knows what they were when it began.
    """
    whole = size >= target.sentences
    since = None
    if target.campaign_id is not None and target.snapshot_id is not None:
        asked = layer_rows.last_preannotated(session, target.campaign_id) if recipe.uses_gazetteer else None
        since = now() if recipe.reads_texts else asked
    same = run_rows.twin(
        session,
        snapshot_id=target.snapshot_id,
        dataset_id=target.dataset_id,
        recipe_hash=recipe.hash,
        size=None if whole else size,
        order_seed=None if whole else recipe.seed,
        since=since,
    )
    return same.id if same else None


def _sizes(sizes: Sequence[int], most: int) -> list[int]:
    if not sizes or sizes[0] < 1:
        raise InvalidConfig(f"sizes are {sizes}; give whole numbers from 1 up.")
    return sorted({min(size, most) for size in sizes})


def trainable(recipe: Recipe | Mapping[str, Any]) -> Recipe:
    """Return a recipe that its setting can train, as far as that can be told now; else raise InvalidConfig."""
    chosen = recipe if isinstance(recipe, Recipe) else Recipe.from_dict(recipe)
    setting(chosen.setting).check(chosen)
    if chosen.recompute and kind_named(chosen.encoder) != TRANSFORMER:
        raise no_recompute(chosen.encoder)
    return chosen


def _run(session: Session, run_id: int) -> Run:
    run = run_rows.get(session, run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.")
    return run


def waits_for(job_id: int) -> str:
    """Describe what a run waits for if another job makes its encoder."""
    return f"begins when job {job_id} has made its encoder"


def _run_view(run: Run, job: Job | None, awaited: int | None = None) -> RunView:
    """Return the view of a run with the progress of its job; `awaited` is the job that has to end first."""
    return of_row(
        RunView,
        run,
        snapshot=run.snapshot.hash if run.snapshot else None,
        dataset=run.dataset.name if run.dataset else None,
        size=run.training_sentences,
        is_whole=run.size is None,
        family=recipe_family(run.recipe),
        progress=job.progress if job else 0.0,
        message=f"It {waits_for(awaited)}." if awaited is not None else job.message if job else "",
        cancel_requested=bool(job and job.cancel_requested),
        has_checkpoint=run.checkpoint is not None,
    )


def _reasons(run: Run) -> tuple[str, ...]:
    """Describe how a finished run ended and what it lacks."""
    if run.state != "done" or run.result is None:
        return ()
    reasons = list(run.result.get("notes", ()))
    if run.test_f1 is None:
        reasons.append("No test score: its snapshot or data set has no test gold.")
    if run.dev_f1 is None:
        reasons.append("No dev score: its snapshot or data set has no dev gold.")
    if run.size is not None:
        reasons.append("Its weights were not kept: it is a point of a curve, trained on a part of the gold.")
    return tuple(reasons)
