"""What a recipe's sources would be for a campaign or a data set, before anything is frozen or trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

from crossner_core.domains import Domain
from crossner_core.training.data import SourceCorpus
from crossner_core.training.recipe import APART, Recipe, source_weights, type_entries
from crossner_core.training.settings.registry import needs_source
from crossner_core.training.sources import SourceLine, prepared, source_lines, source_warnings, temperature_weights
from db import campaign_rows, dataset_rows, label_review_rows
from db.engine import Session, Store
from db.training_tables import Snapshot
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of, find_domain
from workbench.runs.source_corpora import (
    GOLD,
    bare_source,
    domain_of_source,
    named_campaign,
    named_corpus,
    target_types,
)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A type that two domains define by different guidelines: the target's text and the source's."""

    type: str
    source: str
    here: str
    there: str
    is_apart: bool

    @property
    def entry(self) -> str:
        """What keeps the source's type apart, as a recipe's `source_types` has it."""
        return f"{self.type}{APART}{self.source}"


@dataclass(frozen=True, slots=True)
class SourcesView:
    """The sources of a recipe (their entities and hashes are counted when they are read), and what is doubtful."""

    lines: tuple[SourceLine, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    warnings: tuple[str, ...] = ()


def preview_sources(
    store: Store, actor: Actor, recipe: Recipe, *, dataset_id: int | None = None, campaign_id: int | None = None
) -> SourcesView:
    """Return what a recipe's sources would be for a target, without reading their sentences.

    Raises what queueing such a run would raise: NotFound, NotAllowed, InvalidConfig.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        if campaign_id is not None:
            enter(session, actor, campaign_id, *KEEPERS)
        if not needs_source(recipe.setting):
            return SourcesView()
        weights = source_weights(recipe.source)
        read = [_source(session, actor, recipe, name, weight) for name, weight in weights.items()]
        drawn = temperature_weights([count for _, _, count in read], recipe.source_temperature)
        counts = {
            source.name: (count, source.weight * weight) for (source, _, count), weight in zip(read, drawn, strict=True)
        }
        types = target_types(session, dataset_id, campaign_id)
        sources = prepared(recipe, [source for source, _, _ in read], types)
        lines = (_counted(line, *counts[line.name]) for line in source_lines(sources, types))
        target = _target_domain(session, dataset_id, campaign_id)
        contradictions = [
            each for source, domain, _ in read for each in _contradictions(recipe, source, domain, target)
        ]
        return SourcesView(tuple(lines), tuple(contradictions), source_warnings(sources, types, recipe))


def _counted(line: SourceLine, sentences: int, weight: float) -> SourceLine:
    return replace(line, sentences=sentences, weight=round(weight, 4), counts=round(sentences * weight))


def _source(
    session: Session, actor: Actor, recipe: Recipe, name: str, weight: float
) -> tuple[SourceCorpus, Domain | None, int]:
    """Return a source by its types, its domain, and the number of its training sentences."""
    if name.startswith(GOLD):
        campaign = named_campaign(session, actor, name)
        domain: Domain | None = domain_of(campaign)
        types, count = domain_of(campaign).type_names, label_review_rows.count_to_train_on(session, campaign.id)
    else:
        corpus = named_corpus(session, recipe, name)
        domain, types = domain_of_source(session, corpus), tuple(corpus.types)
        if isinstance(corpus, Snapshot):
            enter(session, actor, corpus.campaign_id, *KEEPERS)
            count = int(corpus.counts["pool"])
        else:
            count = corpus.train_sentences
    return replace(bare_source(name, types, domain), weight=weight), domain, count


def _target_domain(session: Session, dataset_id: int | None, campaign_id: int | None) -> Domain | None:
    if dataset_id is not None:
        row = dataset_rows.get(session, dataset_id)
        return find_domain(session, row.domain_name) if row is not None and row.domain_name else None
    campaign = campaign_rows.find(session, campaign_id) if campaign_id is not None else None
    return domain_of(campaign) if campaign is not None else None


def _contradictions(
    recipe: Recipe, source: SourceCorpus, theirs: Domain | None, ours: Domain | None
) -> list[Contradiction]:
    """Return the types of both domains whose guidelines differ, without those that the recipe renames."""
    if theirs is None or ours is None:
        return []
    entries, differing = type_entries(recipe.source_types), []
    for kind in theirs.types:
        places = [place for place in ((kind.name, source.name), (kind.name, "")) if place in entries]
        if kind.name not in ours.type_names or (places and entries[places[0]] is not None):
            continue
        own, other = ours.type(kind.name).guideline.strip(), kind.guideline.strip()
        if own and other and own != other:
            differing.append(Contradiction(kind.name, source.name, own, other, bool(places)))
    return differing
