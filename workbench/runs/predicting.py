"""Use a trained checkpoint: find it, check that it fits a campaign, tag a file or some sentences with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.domains import Domain
from crossner_core.domains.texts import texts_of
from crossner_core.errors import BadInput, CheckpointError, NotFound
from crossner_core.formats import read_bytes, write
from crossner_core.formats.base import Record
from crossner_core.schema import Sentence, Suggestion
from db import run_rows
from db.engine import Session, Store
from db.training_tables import Run
from workbench.accounts.access import enter, enter_run
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.runs import warm_tagger
from workbench.settings import settings_of

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.training.predictor import Predictor


def folder_of_run(store: Store, actor: Actor, run_id: int, checkpoints: Path) -> Path:
    """Return the folder of a run's checkpoint; raise CheckpointError if there is none or it is gone."""
    require(actor, *KEEPERS)
    with store.read() as session:
        return checkpoint_folder(enter_run(session, actor, run_id, *KEEPERS), checkpoints)


def checkpoint_folder(run: Run, checkpoints: Path) -> Path:
    """Return the folder of a run's checkpoint; raise CheckpointError where it is gone."""
    if run.checkpoint is None:
        why = "only scores are kept for runs on a part of the gold" if run.size else f"it is {run.state}"
        raise CheckpointError(f"Run {run.id} has no checkpoint: {why}. Choose another run, or train again.")
    folder = checkpoints.parent / run.checkpoint
    if not folder.is_dir():
        raise CheckpointError(
            f"The checkpoint of run {run.id} is gone from {folder}. Train again, or choose another run."
        )
    return folder


def missing_types(known: Sequence[str], types: Sequence[str], run_id: int) -> tuple[str, ...]:
    """Return the campaign's types that a model lacks; raise CheckpointError if it has any other.

    Rounds and suggestions share this check: a model that one of them cannot use is of no use to the other.
    """
    foreign = [name for name in known if name not in types]
    if foreign:
        raise CheckpointError(
            f"Run {run_id} predicts the entity types {', '.join(foreign)}, which the campaign's domain lacks "
            f"(it has {', '.join(types)}). It was not used; train a run on the domain as it is now."
        )
    return tuple(name for name in types if name not in known)


def predictor_for(
    folder: Path,
    domain: Domain,
    encoder: Callable[[str], Encoder],
    *,
    run_id: int,
    elsewhere: bool = False,
) -> tuple[Predictor, tuple[str, ...]]:
    """Load a run's tagger for a campaign's types; return it with those it cannot predict.

    A type-aware tagger predicts any type, by what the campaign's domain says of it: one trained `elsewhere`, and one
    that knows other types or other texts of them. Another tagger must know the campaign's types: raises
    CheckpointError.
    """
    from crossner_core.training.predictor import load_tagger
    from crossner_core.training.zero_shot import for_types, knows

    predictor, texts = load_tagger(folder), texts_of(domain)
    if predictor.recipe.reads_texts and (elsewhere or not knows(predictor, texts)):
        return for_types(predictor, encoder(predictor.recipe.encoder), texts, domain.parents), ()
    if elsewhere:
        raise CheckpointError(
            f"Run {run_id} is not of this campaign, and its architecture knows its own types alone; choose a run of "
            "this campaign, or one of the architecture 'type_aware', which reads what types mean."
        )
    return predictor, missing_types(predictor.types, domain.type_names, run_id)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run's tagger predicts in some sentences; `is_calibrated`: its probabilities were fitted to dev."""

    run_id: int
    is_calibrated: bool
    suggestions: tuple[tuple[Suggestion, ...], ...]


def predict(
    store: Store,
    actor: Actor,
    sentences: Sequence[Sentence],
    *,
    run_id: int | None = None,
    campaign_id: int | None = None,
) -> Prediction:
    """Return what a run's tagger, or the one that a campaign uses now, predicts in sentences; nothing is written.

    A process of its own computes, and keeps the tagger for the next call. The campaign's is the best on dev of its
    newest snapshot. Raises BadInput unless one of both is named, NotFound for a campaign without a model, and
    CheckpointError if the checkpoint is missing or damaged. For researchers and admins.
    """
    require(actor, *KEEPERS)
    if (run_id is None) == (campaign_id is None):
        raise BadInput("Name either a run or a campaign whose model is to predict.")
    with store.read() as session:
        if run_id is not None:
            run = enter_run(session, actor, run_id, *KEEPERS, bare=True)
        else:
            assert campaign_id is not None
            enter(session, actor, campaign_id, *KEEPERS)
            run = _model(session, campaign_id)
        folder, chosen = checkpoint_folder(run, settings_of(store).checkpoints), run.id
    answer = warm_tagger.of(settings_of(store).worker_threads).predict(folder, sentences)
    return Prediction(chosen, answer.is_calibrated, answer.suggestions)


def model_of(store: Store, actor: Actor, campaign_id: int) -> int:
    """Return the run whose model a campaign uses now, as `predict` does; raise NotFound where it has none.

    For researchers and admins.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        return _model(session, campaign_id).id


def is_training(store: Store, actor: Actor, campaign_id: int) -> bool:
    """Return whether a run of a campaign waits for the worker or is being trained. For researchers and admins."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        return bool(run_rows.listed(session, campaign_id=campaign_id, states=("queued", "running"), limit=1))


def _model(session: Session, campaign_id: int) -> Run:
    best = run_rows.best_done(session, campaign_id=campaign_id, bare=True)
    if best is None:
        raise NotFound(f"Campaign {campaign_id} has no model yet; train a run on all of its gold, or name a run.")
    return best


def tag_file(
    checkpoint: Path, data: bytes, *, name: str, format: str | None, to: str, options: Mapping[str, Any] | None = None
) -> bytes:
    """Read sentences of any format and write them with the checkpoint's predicted entities."""
    from crossner_core.training.predictor import load_tagger

    parsed = read_bytes(data, name=name, format=format, **(options or {}))
    sentences = [record.sentence for record in parsed.sentences]
    predicted = load_tagger(checkpoint).predict_spans(sentences)
    records = [Record(sentence, spans) for sentence, spans in zip(sentences, predicted, strict=True)]
    return write(records, to).encode("utf-8")
