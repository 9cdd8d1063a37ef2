"""What a trained model would suggest in the next open sentences, before anybody else sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crossner_core.errors import NotAllowed
from crossner_core.schema import Sentence, Suggestion
from db.engine import Store
from workbench.accounts.access import enter, enter_run
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of, with_guidelines
from workbench.runs.predicting import checkpoint_folder, predictor_for
from workbench.settings import settings_of
from workbench.suggestions.feeding import held_back
from workbench.suggestions.preannotating import unlabelled_pool

SENTENCES = 10


@dataclass(frozen=True, slots=True)
class PreviewedSentence:
    """An open sentence, and what a model would suggest in it."""

    sentence: Sentence
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """The next open sentences with a model's suggestions, of how many in all; what it cannot predict.

    `waits` says why the model does not suggest by itself, if so.
    """

    sentences: tuple[PreviewedSentence, ...]
    open: int
    lacks: tuple[str, ...]
    waits: str


def preview(
    store: Store,
    actor: Actor,
    run_id: int,
    campaign_id: int | None = None,
    guidelines: Mapping[str, str] | None = None,
) -> Preview:
    """Return what a run's checkpoint would suggest in the first open sentences of a campaign; nothing is written.

    Without a campaign, it is the run's own. `guidelines` are tried in place of the campaign's, by type, by a type-aware
    run. Loads the model: call it in a process of its own. Raises NotAllowed for a run on a data set and no campaign,
    UnknownType, and CheckpointError if its checkpoint is gone or cannot predict the campaign's types.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        run = enter_run(session, actor, run_id, *KEEPERS)
        campaign_id = run.campaign_id if campaign_id is None else campaign_id
        if campaign_id is None:
            raise NotAllowed(f"Run {run_id} belongs to no campaign, so nobody is shown its suggestions.")
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        folder = checkpoint_folder(run, settings_of(store).checkpoints)
        domain = with_guidelines(domain_of(campaign), guidelines or {})
        waits = held_back(session, campaign, run) if run.campaign_id == campaign_id else ""
        queue = unlabelled_pool(session, campaign.id)
    from crossner_core.encoders.loading import load_encoder

    predictor, lacks = predictor_for(
        folder,
        domain,
        load_encoder,
        run_id=run_id,
        elsewhere=run.campaign_id != campaign_id,
    )
    chosen = [sentence for _, sentence in queue[:SENTENCES]]
    predicted = predictor.predict(chosen)
    shown = tuple(PreviewedSentence(sentence, spans) for sentence, spans in zip(chosen, predicted, strict=True))
    return Preview(shown, len(queue), lacks, waits)
