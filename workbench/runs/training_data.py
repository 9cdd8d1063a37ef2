"""The sentences of a run: from its snapshot or data set, cut to its size, with the source corpus it needs."""

from __future__ import annotations

from collections.abc import Collection

from crossner_core.calibration.proposals import best_spans
from crossner_core.domains import Domain
from crossner_core.domains.texts import texts_of
from crossner_core.errors import NotFound
from crossner_core.experiments.few_shot import nested_subsets
from crossner_core.schema import LabelledSentence, Sentence, Span, Suggestion
from crossner_core.training.data import TrainingData
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.registry import needs_unlabelled
from db import campaign_rows, label_review_rows, layer_rows, run_rows
from db.engine import Session
from db.training_tables import Run
from workbench.campaigns.domains import domain_of, find_domain
from workbench.data.datasets import Parts, dataset_hash, dataset_parts
from workbench.data.snapshots import content_of
from workbench.data.values import sentence_of
from workbench.runs.source_corpora import sources_of
from workbench.suggestions.proposing import without_models


def for_run(session: Session, run_id: int) -> tuple[Recipe, TrainingData]:
    """Return a run's recipe and sentences; raise NotFound if its source corpus is not a data set here."""
    run = run_rows.get(session, run_id)
    if run is None:
        raise NotFound(f"Run {run_id} no longer exists.")
    recipe = Recipe.from_dict(run.recipe)
    if run.snapshot_id is not None:
        snapshot, parts = content_of(session, run.snapshot_id)
        types, name, train = snapshot.types, snapshot.hash, parts["pool"]
    else:
        assert run.dataset is not None
        parts = dataset_parts(session, run.dataset)
        types, name, train = run.dataset.types, dataset_hash(run.dataset), parts["train"]
    whole = train
    if run.size is not None:
        train = subset(train, run.size, run.order_seed or 0)
    sources, domain = sources_of(session, recipe, types), _domain(session, run)
    return recipe, TrainingData(
        train=train,
        types=tuple(types),
        dev=parts["dev"],
        test=parts["test"],
        parents=domain.parents if domain and sources else {},
        texts=texts_of(domain) if domain and recipe.reads_texts else {},
        sources=sources,
        snapshot=name,
        unlabelled=_unlabelled(session, run, whole, parts) if needs_unlabelled(recipe.setting) else (),
        proposed=_proposed(session, run) if recipe.uses_gazetteer else {},
    )


def for_simulation(session: Session, snapshot_id: int, recipe: Recipe) -> TrainingData:
    """Return a snapshot's sentences for simulated campaigns of a recipe, whose pool is all but its test sentences."""
    snapshot, parts = content_of(session, snapshot_id)
    sources, domain = sources_of(session, recipe, snapshot.types), _domain_of(session, snapshot.campaign_id)
    return TrainingData(
        train=parts["pool"],
        types=tuple(snapshot.types),
        dev=parts["dev"],
        test=parts["test"],
        parents=domain.parents if domain and sources else {},
        texts=texts_of(domain) if domain and recipe.reads_texts else {},
        sources=sources,
        snapshot=snapshot.hash,
    )


def _unlabelled(session: Session, run: Run, whole: tuple[LabelledSentence, ...], parts: Parts) -> tuple[Sentence, ...]:
    """Return unlabelled target sentences: the campaign's pool outside the snapshot, and training outside the subset.

    They depend on the snapshot, in an order of their own, not on today's gold or queue: a run resumed tomorrow finds
    the same. Dev and test sentences are excluded, with or without gold, and so are those that an expert had left out
    when the run was queued.
    """
    sentences = [item.sentence for item in whole] if run.size is not None else []
    if run.snapshot is not None:
        rows = layer_rows.sentences(session, run.snapshot.campaign_id)
        since = label_review_rows.left_out(session, run.snapshot.campaign_id)
        out = {id_ for id_, when in since.items() if when <= run.created_at}
        sentences += [sentence_of(row) for row in rows if row.split == "pool" and row.id not in out]
    train = subset(whole, run.size, run.order_seed or 0) if run.size is not None else whole
    known = {item.sentence.content_hash for item in (*train, *parts["dev"], *parts["test"])}
    by_hash = {sentence.content_hash: sentence for sentence in sentences}
    return tuple(by_hash[name] for name in sorted(by_hash.keys() - known))


def _proposed(session: Session, run: Run) -> dict[str, tuple[Span, ...]]:
    """Return what gazetteer and links propose in the pre-annotated sentences of a campaign's pool.

    Nothing for a data set. Source weights learnt from gold are not applied: the run learns from its own gold how far
    to trust them.
    """
    if run.snapshot is None:
        return {}
    by_hash = suggested_by_names(session, run.snapshot.campaign_id, splits=("pool",))
    return {content_hash: best_spans(suggested) for content_hash, suggested in by_hash.items()}


def suggested_by_names(
    session: Session, campaign_id: int, *, splits: Collection[str]
) -> dict[str, tuple[Suggestion, ...]]:
    """Return what gazetteer and links suggest, by content hash, in the fully pre-annotated sentences.

    If one of the sources was unreachable, a sentence is left out, whatever the others suggest.
    """
    # The sentences are read first: one that is pre-annotated meanwhile does not count yet.
    rows = [row for row in layer_rows.sentences(session, campaign_id, preannotated=True) if row.split in splits]
    by_sentence = without_models(layer_rows.suggestions(session, campaign_id))
    return {row.content_hash: by_sentence.get(row.id, ()) for row in rows}


def _domain(session: Session, run: Run) -> Domain | None:
    """Return the domain of a run's types; None for a data set without one."""
    if run.snapshot is not None:
        return _domain_of(session, run.snapshot.campaign_id)
    name = run.dataset.domain_name if run.dataset else None
    return find_domain(session, name) if name else None


def _domain_of(session: Session, campaign_id: int) -> Domain | None:
    campaign = campaign_rows.find(session, campaign_id)
    return domain_of(campaign) if campaign else None


def subset(train: tuple[LabelledSentence, ...], size: int, seed: int) -> tuple[LabelledSentence, ...]:
    """Return `size` training sentences in the random order of `seed`; smaller subsets lie within larger ones."""
    size = min(size, len(train))
    return tuple(train[index] for index in nested_subsets(len(train), [size], seed).indices[size])
