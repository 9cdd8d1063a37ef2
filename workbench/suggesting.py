"""Let a trained model suggest entities, in the order in which people will open the sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from crossner_core.errors import CheckpointError, NotFound
from crossner_core.schema import Sentence
from db import campaign_rows, run_rows
from workbench.accounts.access import refuse_archived
from workbench.accounts.actors import SYSTEM
from workbench.campaigns.settings import domain_of
from workbench.lease import Lease
from workbench.suggestions.preannotating import add_model_suggestions, unlabelled_pool
from workbench.suggestions.proposing import relearn

if TYPE_CHECKING:
    from workbench.running import Workplace

FIRST, MOST = 4, 64
"""Sentences a transaction: as many as one person holds at first, then ever more."""


def suggest(place: Workplace, lease: Lease) -> str:
    """Write a run's suggestions for all sentences that nobody has begun; return what was done, in words.

    Raises CheckpointError where the checkpoint is missing or goes meanwhile, and for a model of types that the campaign
    has not; the suggestions that are not replaced by then stay.
    """
    from crossner_core.training.predictor import load_tagger
    from workbench.running import checkpoint_folder

    campaign_id = lease.job.campaign_id
    assert campaign_id is not None, "a job of kind score_pool has a campaign"
    with place.store.read() as session:
        wanted = lease.job.payload.get("run_id")
        run = run_rows.get(session, wanted) if wanted else run_rows.best_done(session, campaign_id=campaign_id)
        campaign = campaign_rows.find(session, campaign_id)
        if run is None or campaign is None or run.campaign_id != campaign_id:
            raise NotFound("This campaign has no finished run whose checkpoint was kept; train one on all of its gold.")
        refuse_archived(campaign)
        folder, run_id, types = checkpoint_folder(run, place.checkpoints), run.id, domain_of(campaign).type_names
        queue = unlabelled_pool(session, campaign_id)
    predictor = load_tagger(folder)
    unknown = missing_types(predictor.types, types, run_id)
    count = reached = 0
    for at, chunk in _chunks(queue):
        if lease.should_stop():
            break
        if not folder.is_dir():
            raise CheckpointError(
                f"The checkpoint of run {run_id} was deleted while it was at work, after {at} of {len(queue)} "
                "sentences. The others keep the suggestions they had. Choose another run, or train again."
            )
        found = predictor.predict([sentence for _, sentence in chunk])
        suggestions = {row_id: spans for (row_id, _), spans in zip(chunk, found, strict=True)}
        reached += add_model_suggestions(place.store, SYSTEM, campaign_id, run_id=run_id, suggestions=suggestions)
        count += sum(len(spans) for spans in found)
        done = at + len(chunk)
        lease.progress, lease.message = done / len(queue), f"{done} of {len(queue)} sentences"
    with place.store.write() as session:
        relearn(session, campaign_id)
    begun = f"; {len(queue) - reached} that people have begun meanwhile keep theirs" if reached < len(queue) else ""
    said = f" It does not know {', '.join(unknown)}." if unknown else ""
    return f"Run {run_id} found {count} entities in {len(queue)} sentences{begun}.{said}"


def missing_types(known: Sequence[str], types: Sequence[str], run_id: int) -> tuple[str, ...]:
    """Return the campaign's types that a model does not know; raise CheckpointError where it knows any other.

    For a turn as for suggestions: a model that one of them cannot use is of no use to the other.
    """
    foreign = [name for name in known if name not in types]
    if foreign:
        raise CheckpointError(
            f"Run {run_id} knows the entity types {', '.join(foreign)}, which the campaign's domain has not "
            f"(it has {', '.join(types)}). It was not used; train a run on the domain as it is now."
        )
    return tuple(name for name in types if name not in known)


def _chunks(queue: Sequence[tuple[int, Sentence]]) -> Iterator[tuple[int, Sequence[tuple[int, Sentence]]]]:
    """Yield parts of the queue with their places: the first ones small, so that they are ready soon."""
    at, size = 0, FIRST
    while at < len(queue):
        yield at, queue[at : at + size]
        at, size = at + size, min(2 * size, MOST)
