"""Run a round: suggest in the next few sentences, score the pool with its model, and reorder the queue."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crossner_core.acquisition import signals
from crossner_core.acquisition.ordering import PoolOrdering, Scorer
from crossner_core.acquisition.queue import with_random_share
from crossner_core.acquisition.selecting import strategy, without_idle_weights
from crossner_core.domains import Domain
from crossner_core.errors import CheckpointError, NotFound, WorkbenchError
from crossner_core.schema import LabelledSentence, Sentence, Span
from db import campaign_rows, round_rows, run_rows, suggestion_rows
from db.engine import Session, Store
from db.training_tables import Round, Run
from db.types import now
from workbench.accounts.access import enter
from workbench.accounts.actors import SYSTEM
from workbench.campaigns.domains import domain_of
from workbench.data import layers
from workbench.data.values import sentence_of
from workbench.jobs.context import JobContext
from workbench.jobs.kind import PATIENT_ABOVE, Fields, JobKind, register
from workbench.runs import rounds
from workbench.runs.predicting import checkpoint_folder, predictor_for
from workbench.runs.rounds import CHANCE
from workbench.suggestions.feeding import held_back
from workbench.suggestions.preannotating import add_model_suggestions, unlabelled_pool
from workbench.suggestions.proposing import proposed_without_model
from workbench.webhooks import events

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.training.predictor import Predictor

# Number of sentences that the strategy chooses; the rest of the queue stays random until the next round.
AHEAD = 1000
# Sentences expected to be annotated until the next round, in a campaign that does not retrain automatically.
BATCH = 25
# Sentences next in the queue in which a new model suggests at once: in the others when the queue is in its order.
SOON = 16
# The note of a round whose model cannot be used.
_WITHOUT = "The queue was ordered without a model; suggestions stay as they were."


@dataclass(frozen=True)
class _Plan:
    """What a round orders, and with what; `folder` is its model's, None before there is any."""

    campaign_id: int
    strategy: str
    share: float
    batch: int
    seed: int
    domain: Domain
    ids: tuple[int, ...]
    sentences: tuple[Sentence, ...]
    gold: tuple[LabelledSentence, ...]
    run_id: int | None
    folder: Path | None
    key: str
    earlier: tuple[str, ...]
    notes: tuple[str, ...]


class Asked(Fields):
    """The round to make."""

    turn_id: int


def order_queue(context: JobContext, asked: Asked) -> str:
    """Run the job's round; return a summary. Scores are kept if it is stopped.

    A model that is gone, or has types that the campaign lacks, neither orders nor suggests. If its folder disappears
    while it scores, it still orders, as it is in memory, but does not suggest. The round's notes state this.
    """
    round_id, began = asked.turn_id, time.monotonic()
    plan = _begin(context, round_id)
    predictor, notes = _predictor(context, plan)
    _suggest_soon(context, plan, predictor)
    encoder, more = _encoder(context)
    scorer = Scorer(predictor, plan.key, plan.earlier, encoder)

    ordering = PoolOrdering(
        context.settings.checkpoints.parent / "signals" / f"campaign-{plan.campaign_id}",
        scorer,
        predictor.types if predictor is not None else plan.domain.type_names,
        should_stop=context.should_stop,
        on_progress=context.report,
    )
    rng = np.random.default_rng([plan.seed, round_id])
    chosen = strategy(plan.strategy)
    reads = signals.PROPOSED in chosen.needs or predictor is None
    proposed = _proposed(context.store, plan) if reads else None
    try:
        selection = ordering.order(
            plan.sentences, AHEAD, chosen, rng, gold=plan.gold, proposed=proposed, batch=plan.batch
        )
    except CheckpointError:
        if context.should_stop():  # what was scored is kept, and need not be scored again
            return "Stopped before all of the pool was scored."
        raise
    if context.should_stop():
        return "Stopped before the queue was ordered."
    places = with_random_share(selection.order.tolist(), len(plan.ids), plan.share, rng)
    order = [(plan.ids[drawn.index], CHANCE if drawn.by_chance else chosen.functions) for drawn in places]
    usable, gone = _can_suggest(plan, predictor)
    notes = (*plan.notes, *notes, *more, *selection.notes, *gone)
    return _write(context.store, plan, round_id, order, ordering.scored, time.monotonic() - began, notes, usable)


def _begin(context: JobContext, round_id: int) -> _Plan:
    with context.store.write() as session:
        _round(session, round_id).state = "running"
    with context.store.read() as session:  # reading a large pool takes seconds; people must be able to save
        return _plan(context, session, round_id)


def _round(session: Session, round_id: int) -> Round:
    round_ = round_rows.get(session, round_id)
    if round_ is None:
        raise NotFound(f"There is no round {round_id}.")
    return round_


def _plan(context: JobContext, session: Session, round_id: int) -> _Plan:
    round_ = _round(session, round_id)
    _, campaign = enter(session, SYSTEM, round_.campaign_id, "system")
    rows = round_rows.movable(session, campaign.id)
    models = dict.fromkeys(past.run_id for past in reversed(round_rows.listed(session, campaign.id)) if past.run_id)
    runs = {run.id: _key(run) for run in run_rows.some(session, list(models))}
    folder, notes = _folder(context, session, round_.run_id)
    return _Plan(
        campaign.id,
        without_idle_weights(round_.strategy) or "random",
        campaign.random_share,
        campaign.retrain_every or BATCH,
        campaign.seed,
        domain_of(campaign),
        tuple(row.id for row in rows),
        tuple(sentence_of(row) for row in rows),
        tuple(row.labelled for row in layers.gold_to_learn_from(session, campaign.id) if row.split == "pool"),
        round_.run_id,
        folder,
        runs.get(round_.run_id or 0, ""),
        tuple(runs[run_id] for run_id in models if run_id != round_.run_id and run_id in runs),
        notes,
    )


def _key(run: Run) -> str:
    """Return the key of a run's pool scores: ids alone recur in a store that was emptied or restored."""
    return f"run-{run.id}-{run.created_at:%Y%m%d%H%M%S%f}"


def _proposed(store: Store, plan: _Plan) -> tuple[tuple[Span, ...], ...] | None:
    with store.read() as session:
        _, campaign = enter(session, SYSTEM, plan.campaign_id, "system")
        return proposed_without_model(session, campaign, plan.ids)


def _folder(context: JobContext, session: Session, run_id: int | None) -> tuple[Path | None, tuple[str, ...]]:
    run = run_rows.get(session, run_id) if run_id is not None else None
    if run is None:
        return None, ()
    try:
        return checkpoint_folder(run, context.settings.checkpoints), ()
    except CheckpointError as error:
        return None, (f"{error} {_WITHOUT}",)


def _predictor(context: JobContext, plan: _Plan) -> tuple[Predictor | None, tuple[str, ...]]:
    """Load the round's model; None, with a note, if it is gone or cannot be used."""
    if plan.folder is None or plan.run_id is None:
        return None, ()
    try:
        predictor, missing = predictor_for(plan.folder, plan.domain, context.encoder, run_id=plan.run_id)
    except CheckpointError as error:
        return None, (f"{error} {_WITHOUT}",)
    if not missing:
        return predictor, ()
    note = f"Run {plan.run_id} cannot predict {', '.join(missing)}: it orders and suggests without them."
    return predictor, (f"{note} Train a run on the domain as it is now.",)


def _suggest_soon(context: JobContext, plan: _Plan, predictor: Predictor | None) -> None:
    """Suggest in the sentences that people open while the queue is being ordered, if the model is new and may."""
    if predictor is None or plan.run_id is None:
        return
    with context.store.read() as session:
        run, campaign = run_rows.get(session, plan.run_id), campaign_rows.find(session, plan.campaign_id)
        shown = suggestion_rows.run_shown(session, plan.campaign_id)
        is_shown = shown is not None and shown.id == plan.run_id
        if run is None or campaign is None or not campaign.suggestions_on or is_shown:
            return
        if held_back(session, campaign, run):
            return
        soon = unlabelled_pool(session, campaign.id, SOON)
    predicted = predictor.predict([sentence for _, sentence in soon])
    suggestions = {id_: spans for (id_, _), spans in zip(soon, predicted, strict=True)}
    add_model_suggestions(context.store, SYSTEM, plan.campaign_id, run_id=plan.run_id, suggestions=suggestions)


def _can_suggest(plan: _Plan, predictor: Predictor | None) -> tuple[bool, tuple[str, ...]]:
    """Return whether the round's model can suggest in the next sentences; a note if its folder is gone meanwhile."""
    if predictor is None or plan.folder is None:
        return False, ()
    if plan.folder.is_dir():
        return True, ()
    note = f"The checkpoint of run {plan.run_id} was deleted during the round. The queue is in its order;"
    return False, (f"{note} suggestions stay as they were. Train again, or choose another run.",)


def _encoder(context: JobContext) -> tuple[Encoder | None, tuple[str, ...]]:
    """Load the bundled encoder for sentence embeddings; without it, similar sentences are not recognised."""
    try:
        return context.encoder("minilm"), ()
    except WorkbenchError as error:
        return None, (f"No sentence embeddings: {error}",)


def _write(
    store: Store,
    plan: _Plan,
    round_id: int,
    order: Sequence[tuple[int, str]],
    scored: int,
    seconds: float,
    notes: Sequence[str],
    suggests: bool,
) -> str:
    """Move what can still be moved, end the round, and queue a usable model's suggestions, in one transaction."""
    with store.write() as session:
        moved = round_rows.place(session, order)
        round_ = _round(session, round_id)
        round_.state, round_.scored, round_.ordered, round_.seconds = "done", scored, moved, seconds
        round_.notes, round_.finished_at = list(notes), now()
        if suggests:
            waits = rounds.have_suggested(session, plan.campaign_id, plan.run_id)
            round_.notes = [*notes, *([waits] if waits else [])]
        events.round_ended(session, round_)
    return f"{moved} sentences in the order of {plan.strategy}; {scored} were scored in {seconds:.0f} s."


register(
    JobKind(
        name="turn",
        title="round",
        priority=PATIENT_ABOVE,  # before the cells of a curve, after what a person waits for
        payload=Asked,
        handle=order_queue,
        idle="No round is queued or running in this campaign",
        tick=rounds.tick,
    )
)
