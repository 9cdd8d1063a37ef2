"""What a trained model would suggest in the next open sentences, before anybody else sees it."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.errors import NotAllowed
from crossner_core.schema import Sentence, Suggestion
from db import campaign_rows
from db.engine import Store
from workbench.accounts.access import enter_run
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.runs.predicting import checkpoint_folder, missing_types
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


def preview(store: Store, actor: Actor, run_id: int) -> Preview:
    """Return what a run's checkpoint would suggest in the first open sentences of its campaign; nothing is written.

    Loads the model: call it in a process of its own. Raises NotAllowed for a run on a data set, CheckpointError if its
    checkpoint is gone or predicts types that the campaign lacks.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        run = enter_run(session, actor, run_id, *KEEPERS)
        campaign = campaign_rows.find(session, run.campaign_id) if run.campaign_id is not None else None
        if campaign is None:
            raise NotAllowed(f"Run {run_id} belongs to no campaign, so nobody is shown its suggestions.")
        folder = checkpoint_folder(run, settings_of(store).checkpoints)
        types, waits = domain_of(campaign).type_names, held_back(session, campaign, run)
        queue = unlabelled_pool(session, campaign.id)
    from crossner_core.training.predictor import load_tagger

    predictor = load_tagger(folder)
    lacks = missing_types(predictor.types, types, run_id)
    chosen = [sentence for _, sentence in queue[:SENTENCES]]
    predicted = predictor.predict(chosen)
    shown = tuple(PreviewedSentence(sentence, spans) for sentence, spans in zip(chosen, predicted, strict=True))
    return Preview(shown, len(queue), lacks, waits)
