"""Suggest entities with a trained model, in the order in which people will open the sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crossner_core.errors import CheckpointError, NotFound
from crossner_core.schema import Sentence
from db import campaign_rows, run_rows
from db.engine import Session
from workbench.accounts.access import enter_run, refuse_archived
from workbench.accounts.actors import SYSTEM, Actor
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.jobs.context import JobContext
from workbench.jobs.kind import Fields, JobKind, register
from workbench.jobs.kinds.preannotate import waits_already
from workbench.runs.predicting import checkpoint_folder, predictor_for
from workbench.suggestions.preannotating import add_model_suggestions, unlabelled_pool
from workbench.suggestions.proposing import relearn

FIRST, MOST = 4, 64
"""Sentences per transaction: at first as many as one person holds, then increasingly more."""


class Wanted(Fields):
    """The run whose checkpoint to use; None for the best one."""

    run_id: int | None = None

    def to_dict(self) -> dict[str, int | None]:
        """Return the field, even if it was not given."""
        return self.model_dump()


def suggest(context: JobContext, wanted: Wanted) -> str:
    """Write a run's suggestions for all sentences that nobody has begun; return a summary.

    Raises CheckpointError if the checkpoint is missing or disappears meanwhile, or if the model has types that the
    campaign lacks; suggestions not replaced by then stay.
    """
    campaign_id, run_id = context.campaign_id, wanted.run_id
    with context.store.read() as session:
        run = run_rows.get(session, run_id) if run_id else run_rows.best_done(session, campaign_id=campaign_id)
        campaign = campaign_rows.find(session, campaign_id)
        if run is None or campaign is None:
            raise NotFound("This campaign has no finished run whose checkpoint was kept; train one on all of its gold.")
        refuse_archived(campaign)
        folder, run_id = checkpoint_folder(run, context.settings.checkpoints), run.id
        domain = domain_of(campaign)
        queue = unlabelled_pool(session, campaign_id)
    predictor, unknown = predictor_for(
        folder, domain, context.encoder, run_id=run_id, elsewhere=run.campaign_id != campaign_id
    )
    count = reached = 0
    for start, chunk in _chunks(queue):
        if context.should_stop():
            break
        if not folder.is_dir():
            raise CheckpointError(
                f"The checkpoint of run {run_id} was deleted while it was in use, after {start} of {len(queue)} "
                "sentences. The others keep the suggestions they had. Choose another run, or train again."
            )
        predicted = predictor.predict([sentence for _, sentence in chunk])
        suggestions = {row_id: spans for (row_id, _), spans in zip(chunk, predicted, strict=True)}
        reached += add_model_suggestions(context.store, SYSTEM, campaign_id, run_id=run_id, suggestions=suggestions)
        count += sum(len(spans) for spans in predicted)
        done = start + len(chunk)
        context.report(done / len(queue), f"{done} of {len(queue)} sentences")
    with context.store.write() as session:
        relearn(session, campaign_id)
    begun = f"; {len(queue) - reached} that people have begun meanwhile keep theirs" if reached < len(queue) else ""
    note = f" It cannot predict {', '.join(unknown)}." if unknown else ""
    return f"Run {run_id} found {count} entities in {len(queue)} sentences{begun}.{note}"


def _chunks(queue: Sequence[tuple[int, Sentence]]) -> Iterator[tuple[int, Sequence[tuple[int, Sentence]]]]:
    """Yield chunks of the queue with their offsets: the first ones small, so that they are ready soon."""
    start, size = 0, FIRST
    while start < len(queue):
        yield start, queue[start : start + size]
        start, size = start + size, min(2 * size, MOST)


def _may_use(session: Session, actor: Actor, wanted: Wanted) -> None:
    """Raise NotAllowed or NotFound where the actor may not see the run, which may be another campaign's."""
    if wanted.run_id is not None:
        enter_run(session, actor, wanted.run_id, *OVERSEERS)


register(
    JobKind(
        name="score_pool",
        title="suggestions of a model",
        priority=10,
        payload=Wanted,
        handle=suggest,
        roles=OVERSEERS,
        meets=waits_already,
        allows=_may_use,
    )
)
