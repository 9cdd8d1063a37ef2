"""Rounds of a campaign: a run after enough new gold, then a reordered queue; on request or automatic."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from crossner_core.acquisition.base import acquisition, acquisition_ids
from crossner_core.acquisition.selecting import without_idle_weights
from crossner_core.errors import Conflict, InvalidConfig, NotFound, StorageError, WorkbenchError
from db import campaign_rows, job_rows, round_rows, run_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.training_tables import Job, Round, Run
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import SYSTEM, Actor, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.round_settings import RoundSettings, checked, recipe_for
from workbench.jobs import queue
from workbench.jobs.context import of_row
from workbench.jobs.kind import job_kind
from workbench.runs import adaptation
from workbench.runs.adaptation import waits_for
from workbench.suggestions.feeding import held_back
from workbench.webhooks import events

log = logging.getLogger(__name__)

CHANCE, IMPORT = "chance", "import"
NO_STRATEGY = (CHANCE, IMPORT)
"""Why a sentence is in its place if no strategy chose it: drawn at random, or in import order."""
_BROKEN = ("failed", "cancelled")


@dataclass(frozen=True, slots=True)
class RoundView:
    """A round as a page shows it; `run_f1` is its run's test F1 (dev F1 without test) in [0, 1]."""

    id: int
    strategy: str
    automatic: bool
    state: str
    gold: int
    run_id: int | None
    run_state: str | None
    run_f1: float | None
    scored: int | None
    ordered: int | None
    seconds: float | None
    notes: tuple[str, ...]
    created_at: dt.datetime
    finished_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A sentence that waits in the queue; `why` is a strategy, `chance` or `import`."""

    id: int
    external_id: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of a campaign's queue: gold in the pool, sentences nobody has begun, and what a run still lacks.

    Sentences left out are not in `gold`, as no run trains on them. `under_way` describes the progress of the round
    `round_id`; both are None if there is none.
    """

    gold: int
    waiting: int
    missing: int | None
    under_way: str | None
    round_id: int | None = None
    cancelling: bool = False


@dataclass(frozen=True, slots=True)
class FunctionView:
    """An acquisition function as a page lists it."""

    id: str
    title: str
    reference: str
    needs_model: bool


def functions() -> tuple[FunctionView, ...]:
    """Return every acquisition function, random first."""
    known = [acquisition(id) for id in acquisition_ids()]
    return tuple(FunctionView(function.id, function.title, function.reference, function.model) for function in known)


def queue_state(store: Store, actor: Actor, campaign_id: int) -> QueueState:
    """Return the state of the queue; the next run needs `missing` more gold sentences, None if none is to come."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        return queue_state_in(session, enter(session, actor, campaign_id, *OVERSEERS)[1])


def queue_state_in(session: Session, campaign: Campaign) -> QueueState:
    """Like `queue_state`, within a transaction."""
    gold, busy = round_rows.gold_in_pool(session, campaign.id), round_rows.under_way(session, campaign.id)
    missing = max(0, campaign.retrain_every - (gold - _learnt(session, campaign.id)))
    waiting = round_rows.count_movable(session, campaign.id)
    state = QueueState(gold, waiting, missing if campaign.retrain_every else None, None)
    if busy is None:
        return state
    job = _job_at_work(session, busy)
    asked = job is not None and job.cancel_requested
    awaited = job_rows.awaited_by(session, [busy.run_id] if busy.run_id is not None else [])
    under_way = _how_far(busy, job, awaited.get(busy.run_id or 0))
    return replace(state, under_way=under_way, round_id=busy.id, cancelling=asked)


def upcoming(store: Store, actor: Actor, campaign_id: int, *, limit: int = 20) -> tuple[Upcoming, ...]:
    """Return the sentences that will be handed out next."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        rows = round_rows.movable(session, campaign_id, limit=limit)
        return tuple(Upcoming(row.id, row.external_id, row.text, row.chosen_by or IMPORT) for row in rows)


def round_settings(store: Store, actor: Actor, campaign_id: int) -> RoundSettings:
    """Return how a campaign's queue is ordered and when it retrains."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        return _settings(campaign)


def change_round_settings(
    store: Store,
    actor: Actor,
    campaign_id: int,
    *,
    strategy: str,
    random_share: float = 0.2,
    retrain_every: int = 0,
    recipe: Mapping[str, Any] | None = None,
) -> RoundSettings:
    """Set how a campaign's queue is ordered and when it retrains; raise InvalidConfig for invalid values.

    `recipe` holds recipe fields that differ from the defaults. The queue itself changes with the next round.
    """
    require(actor, *KEEPERS)
    chosen = checked(strategy, random_share, retrain_every, recipe)
    adaptation.trainable(recipe_for(chosen.strategy, chosen.recipe or {}))
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        changes = audit.changed(asdict(_settings(campaign)), asdict(chosen))
        audit.record(session, current, "change_round_settings", ("campaign", campaign.name), campaign_id, **changes)
        campaign.strategy, campaign.random_share = chosen.strategy, chosen.random_share
        campaign.retrain_every, campaign.turn_recipe = chosen.retrain_every, dict(chosen.recipe or {})
        return chosen


def order_now(store: Store, actor: Actor, campaign_id: int) -> int:
    """Queue a round with the campaign's best model; return its id. Raises Conflict while another is under way."""
    require(actor, *KEEPERS)
    with store.write() as session:
        campaign_rows.hold(session, campaign_id)
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        if not campaign.strategy:
            raise InvalidConfig("This campaign has no strategy; choose one, then order the queue.")
        if (busy := round_rows.under_way(session, campaign_id)) is not None:
            raise Conflict(f"Round {busy.id} is queued or running; wait for it, or cancel it.")
        round_id = _add(session, campaign, by=actor)
        audit.record(session, current, "order_now", ("round", round_id), campaign_id, strategy=campaign.strategy)
        return round_id


def cancel_round(store: Store, actor: Actor, campaign_id: int) -> str:
    """Cancel the round under way, and the run it waits for; return its state: `running` until the worker has stopped.

    The queue keeps its order, and what was scored is kept. Raises Conflict where none is under way.
    """
    require(actor, *KEEPERS)
    with store.write() as session:
        campaign_rows.hold(session, campaign_id)
        current, _ = enter(session, actor, campaign_id, *KEEPERS)
        round_ = round_rows.under_way(session, campaign_id)
        if round_ is None:
            raise Conflict("No round is queued or running in this campaign; there is nothing to cancel.")
        audit.record(session, current, "cancel_round", ("round", round_.id), campaign_id)
        job = _job_at_work(session, round_)
        if job is not None and queue.cancel(session, job) == "running":
            return "running"  # the round ends with its job
        _end(session, round_, "cancelled", "It was cancelled.")
        return round_.state


def list_rounds(store: Store, actor: Actor, campaign_id: int, *, limit: int = 100) -> tuple[RoundView, ...]:
    """Return a campaign's rounds, newest first."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return rounds_in(session, campaign_id, limit=limit)


def rounds_in(session: Session, campaign_id: int, *, limit: int) -> tuple[RoundView, ...]:
    """Like `list_rounds`, within a transaction."""
    listed = round_rows.listed(session, campaign_id, limit=limit)
    runs = {run.id: run for run in run_rows.some(session, [row.run_id for row in listed if row.run_id])}
    return tuple(_view(row, runs.get(row.run_id or 0)) for row in listed)


def job_of_round(store: Store, actor: Actor, campaign_id: int, round_id: int) -> int:
    """Return the job that makes a round; raise NotFound if there is none, as while its run trains."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        round_ = round_rows.get(session, round_id)
        job = round_rows.job_of(session, round_) if round_ is not None and round_.campaign_id == campaign_id else None
        if job is None:
            raise NotFound(f"Round {round_id} of this campaign has no job.")
        return job.id


def gold_by_choice(store: Store, actor: Actor, campaign_id: int) -> Mapping[str, int]:
    """Count gold sentences by what placed them in the queue: a strategy, `chance`, or import."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return by_choice(session, campaign_id)


def by_choice(session: Session, campaign_id: int) -> Mapping[str, int]:
    """Like `gold_by_choice`, within a transaction."""
    return {why or IMPORT: count for why, count in round_rows.chosen_by(session, campaign_id).items()}


def tick(store: Store) -> int:
    """Do what is due in automatic campaigns; return the number of steps taken. For the worker.

    A round is queued when there is enough new gold, and its job when its run is done. At most one is under way in a
    campaign; after a failed one, the same amount of gold has to come in again.
    """
    with store.read() as session:
        due = [campaign.id for campaign in round_rows.automatic_campaigns(session)]
    return sum(_tick_safely(store, campaign_id) for campaign_id in due)


def _tick_safely(store: Store, campaign_id: int) -> bool:
    """Do what is due in a campaign; an error becomes a failed round with the reason."""
    try:
        return _tick_one(store, campaign_id)
    except StorageError:
        raise
    except WorkbenchError as error:
        log.error("Campaign %s: %s", campaign_id, error)
        with store.write() as session:
            campaign_rows.hold(session, campaign_id)
            _, campaign = enter(session, SYSTEM, campaign_id, SYSTEM.role)
            if not _is_due(session, campaign):  # another worker hit the same error and recorded it
                return False
            gold = round_rows.gold_in_pool(session, campaign_id)
            round_id = round_rows.add(
                session, campaign_id=campaign_id, strategy=campaign.strategy, automatic=True, gold=gold,
                state="failed", notes=[str(error)], finished_at=now(),
            )  # fmt: skip
            if (failed := round_rows.get(session, round_id)) is not None:
                events.round_ended(session, failed)
            audit.record(session, SYSTEM, "fail_round", ("campaign", campaign.name), campaign_id, why=str(error))
        return True


def _tick_one(store: Store, campaign_id: int) -> bool:
    """Do what is due, in one transaction that excludes other workers': a run is never without its round."""
    with store.read() as session:
        if not _is_due(session, enter(session, SYSTEM, campaign_id, SYSTEM.role)[1]):
            return False
    with store.write() as session:
        campaign_rows.hold(session, campaign_id)
        _, campaign = enter(session, SYSTEM, campaign_id, SYSTEM.role)
        if not _is_due(session, campaign):
            return False
        if (busy := round_rows.under_way(session, campaign_id)) is not None:
            _go_on(session, campaign, busy)
            audit.record(session, SYSTEM, "continue_round", ("round", busy.id), campaign_id, state=busy.state)
            return True
        run_id = None
        if _wants_run(session, campaign):
            gold = round_rows.gold_in_pool(session, campaign.id)
            recipe = recipe_for(_settings(campaign).strategy, campaign.turn_recipe, gold)
            run_id = adaptation.start_run_on_gold(session, SYSTEM, campaign, recipe)
        round_id = _add(session, campaign, by=SYSTEM, run_id=run_id)
        audit.record(session, SYSTEM, "start_round", ("round", round_id), campaign_id, run=run_id)
        return True


def _is_due(session: Session, campaign: Campaign) -> bool:
    """Return whether a campaign's next step is due: a run, a first ordering, or the next step of its round."""
    busy = round_rows.under_way(session, campaign.id)
    if busy is None:
        is_first = bool(campaign.strategy) and not round_rows.listed(session, campaign.id, limit=1)
        return is_first or _wants_run(session, campaign)
    job = round_rows.job_of(session, busy)
    if job is not None:
        return job.state in _BROKEN
    return _state_of_run(session, busy) in (*_BROKEN, "done")


def _wants_run(session: Session, campaign: Campaign) -> bool:
    if not campaign.retrain_every:
        return False
    return round_rows.gold_in_pool(session, campaign.id) - _learnt(session, campaign.id) >= campaign.retrain_every


def _learnt(session: Session, campaign_id: int) -> int:
    """Return how many of the pool's gold sentences the newest run had, or the last round whose run failed."""
    newest = round_rows.newest_automatic(session, campaign_id)
    tried = newest.gold if newest is not None and _in_vain(session, newest) else 0
    return max(round_rows.gold_of_newest_run(session, campaign_id), tried)


def _in_vain(session: Session, round_: Round) -> bool:
    """Return whether a round's run failed, or could not even be queued; a round that only orders has no run."""
    if round_.run_id is not None:
        return _state_of_run(session, round_) in _BROKEN
    return round_.state in _BROKEN and round_rows.job_of(session, round_) is None


def _go_on(session: Session, campaign: Campaign, round_: Round) -> None:
    """Queue the job of a round whose run is done; end one whose run or job failed, or that is no longer wanted."""
    job, run = round_rows.job_of(session, round_), _state_of_run(session, round_)
    if job is not None:
        _end(session, round_, job.state, job.error or "It was cancelled.")
    elif run in _BROKEN:
        _end(session, round_, run, f"Its run {round_.run_id or ''} {'was cancelled' if run == 'cancelled' else run}.")
    elif campaign.archived:
        _end(session, round_, "cancelled", "The campaign was archived meanwhile.")
    elif round_.strategy and campaign.strategy:
        _queue(session, round_)
    else:  # the order stays; the new model suggests
        waits = have_suggested(session, round_.campaign_id, round_.run_id)
        _end(session, round_, "done", f"The queue keeps its order. {waits}".strip())


def _job_at_work(session: Session, round_: Round) -> Job | None:
    """Return the job of a round; while the round waits for its run, that of the run."""
    job = round_rows.job_of(session, round_)
    if job is None and round_.run_id is not None:
        job = job_rows.for_runs(session, [round_.run_id]).get(round_.run_id)
    return job


def _how_far(round_: Round, job: Job | None, awaited: int | None) -> str:
    at_work = job is not None and job.state == "running"
    if job is None or job.run_id is None or job.state not in ("queued", "running"):
        what = f"is being made: {job.message or 'it begins'}" if job is not None and at_work else "is queued"
    elif at_work:
        what = f"waits for its run {job.run_id}, {job.progress:.0%}: {job.message or 'it begins'}"
    elif awaited is not None:
        what = f"waits for its run {job.run_id}, which {waits_for(awaited)}"
    else:
        what = f"waits for its run {job.run_id}, which is queued"
    return f"Round {round_.id} {what}."


def _state_of_run(session: Session, round_: Round) -> str:
    """Return the state of a round's run, failed where it is gone; a round without one continues at once."""
    if round_.run_id is None:
        return "done"
    return round_rows.run_state(session, round_.run_id) or "failed"


def _add(session: Session, campaign: Campaign, *, by: Actor, run_id: int | None = None) -> int:
    """Add a round; without a run of its own it takes the best model there is, and its job is queued at once."""
    best = run_rows.best_done(session, campaign_id=campaign.id) if run_id is None else None
    round_id = round_rows.add(
        session,
        campaign_id=campaign.id,
        run_id=run_id if best is None else best.id,
        strategy=_settings(campaign).strategy,
        automatic=by == SYSTEM,
        gold=round_rows.gold_in_pool(session, campaign.id),
    )
    if run_id is None:
        round_ = round_rows.get(session, round_id)
        assert round_ is not None
        _queue(session, round_)
    return round_id


def have_suggested(session: Session, campaign_id: int, run_id: int | None) -> str:
    """Queue a run's suggestions in the pool, with the priority of a round; return why they wait instead, if so."""
    campaign = campaign_rows.find(session, campaign_id)
    run = run_rows.get(session, run_id) if run_id is not None else None
    if campaign is None or run is None:
        return ""
    if waits := held_back(session, campaign, run):
        return waits
    payload, priority = {"run_id": run_id}, job_kind("turn").priority
    queue.start(session, "score_pool", payload, by=SYSTEM, campaign_id=campaign_id, priority=priority)
    return ""


def _queue(session: Session, round_: Round) -> None:
    queue.start(session, "turn", {"turn_id": round_.id}, by=SYSTEM, campaign_id=round_.campaign_id)


def _end(session: Session, round_: Round, state: str, note: str) -> None:
    round_.state, round_.finished_at, round_.notes = state, now(), [*round_.notes, note]
    events.round_ended(session, round_)


def _settings(campaign: Campaign) -> RoundSettings:
    kept, recipe = without_idle_weights(campaign.strategy), dict(campaign.turn_recipe) or None
    return RoundSettings(kept, campaign.random_share, campaign.retrain_every, recipe)


def _view(round_: Round, run: Run | None) -> RoundView:
    f1 = None if run is None else run.test_f1 if run.test_f1 is not None else run.dev_f1
    return of_row(RoundView, round_, run_state=run.state if run else None, run_f1=f1, notes=tuple(round_.notes))
