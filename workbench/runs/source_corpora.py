"""The source corpora a recipe names: data sets, and the gold of campaigns, frozen when a run is queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from crossner_core.domains import Domain
from crossner_core.domains.texts import texts_of
from crossner_core.errors import InvalidConfig, NotFound
from crossner_core.training.data import SourceCorpus
from crossner_core.training.recipe import APART, Recipe, source_weights, type_entries
from crossner_core.training.settings.registry import needs_source
from crossner_core.training.sources import prepared
from crossner_core.type_maps import load_type_map
from db import campaign_rows, dataset_rows, snapshot_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.training_tables import Dataset, Snapshot
from workbench.accounts.access import enter
from workbench.accounts.actors import SYSTEM, Actor, fresh, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of, find_domain
from workbench.data.datasets import dataset_parts
from workbench.data.snapshots import content_of, freeze_gold

GOLD, FROZEN = "gold:", "snapshot:"
"""`gold:3` is the gold of campaign 3 as it is now, `snapshot:HASH` gold that was frozen."""
GOLD_WORD = " · gold"
"""What follows a campaign's name where its gold is a source."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Source:
    """A corpus that a recipe can name as a source, and what it is in words."""

    name: str
    words: str


def list_sources(store: Store, actor: Actor, *, without_campaign: int | None = None) -> tuple[Source, ...]:
    """Return what a recipe can name: data sets with a train split, then the gold of campaigns that the actor may read.

    The campaign that is to be trained on is left out.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        sources = [
            Source(row.name, f"{row.name} · data set")
            for row in dataset_rows.listed(session)
            if any(part.split == "train" for part in row.splits)
        ]
        campaigns = [row for row in campaign_rows.everything(session) if row.id != without_campaign]
        counts = campaign_rows.pool_gold_counts(session)
        for row in campaigns:
            if gold := counts.get(row.id):
                sources.append(Source(f"{GOLD}{row.id}", f"{row.name} · gold, {gold:,} sentences"))
        return tuple(sources)


def settled(
    session: Session, actor: Actor, recipe: Recipe, *, dataset_id: int | None = None, campaign_id: int | None = None
) -> Recipe:
    """Return the recipe with the gold it names frozen now, and check its sources, within a transaction.

    Raises NotFound for a source that is not here or that the actor may not read, and InvalidConfig for one that is the
    data set or campaign to be trained on.
    """
    if not needs_source(recipe.setting):
        return recipe
    frozen: dict[str, str] = {}
    parts = []
    for given, weight in source_weights(recipe.source).items():
        name = frozen[given] = _frozen(session, actor, given) if given.startswith(GOLD) else given
        corpus = named_corpus(session, recipe, name)
        if isinstance(corpus, Snapshot):
            enter(session, actor, corpus.campaign_id, *KEEPERS, SYSTEM.role)
        is_target = corpus.id == dataset_id if isinstance(corpus, Dataset) else corpus.campaign_id == campaign_id
        if is_target:
            raise InvalidConfig(
                f"source is {name!r}, the same data as is to be trained on; the setting {recipe.setting!r} needs other "
                "data. Name them, or choose direct."
            )
        parts.append(name if weight == 1 else f"{name}*{weight:g}")
    return _settled_types(session, replace(recipe, source=", ".join(parts)), frozen, dataset_id, campaign_id)


def sources_of(session: Session, recipe: Recipe, types: Sequence[str]) -> tuple[SourceCorpus, ...]:
    """Return the source corpora that a recipe names, as a run on a target with these types learns from them.

    None if its setting uses none. Test sentences are left out.
    """
    if not needs_source(recipe.setting):
        return ()
    weights = source_weights(recipe.source)
    sources = [_sentences(session, named_corpus(session, recipe, name), name, weights[name]) for name in weights]
    return prepared(recipe, sources, types)


def source_words(session: Session, names: Sequence[str]) -> dict[str, str]:
    """Return what people read for sources by the names that a settled recipe has."""
    words = {}
    for name in names:
        rows = snapshot_rows.by_prefix(session, prefix=name.removeprefix(FROZEN)) if name.startswith(FROZEN) else []
        campaign = campaign_rows.find(session, rows[0].campaign_id) if rows else None
        if campaign is not None:
            words[name] = f"{campaign.name}{GOLD_WORD}"
        else:
            words[name] = f"a deleted campaign{GOLD_WORD}" if name.startswith(FROZEN) else f"{name} · data set"
    return words


def domain_of_source(session: Session, corpus: Dataset | Snapshot) -> Domain | None:
    """Return the domain that defines a source's types; None for a data set without one."""
    if isinstance(corpus, Dataset):
        return find_domain(session, corpus.domain_name) if corpus.domain_name else None
    campaign = campaign_rows.find(session, corpus.campaign_id)
    return domain_of(campaign) if campaign else None


def bare_source(name: str, types: Sequence[str], domain: Domain | None) -> SourceCorpus:
    """Return a source by its types alone, without reading its sentences."""
    parents, texts = (domain.parents, texts_of(domain)) if domain else ({}, {})
    return SourceCorpus((), annotates=frozenset(types), name=name, parents=parents, texts=texts)


def target_types(session: Session, dataset_id: int | None, campaign_id: int | None) -> tuple[str, ...]:
    """Return the types of the data set, or of the campaign's domain, that is to be trained on."""
    if dataset_id is not None:
        row = dataset_rows.get(session, dataset_id)
        return tuple(row.types) if row is not None else ()
    campaign = campaign_rows.find(session, campaign_id) if campaign_id is not None else None
    return domain_of(campaign).type_names if campaign is not None else ()


def _settled_types(
    session: Session, recipe: Recipe, frozen: Mapping[str, str], dataset_id: int | None, campaign_id: int | None
) -> Recipe:
    """Return the recipe with sources in `source_types` by their frozen names, and what a type map's file says now."""
    entries = {(name, frozen.get(of, of)): ours for (name, of), ours in type_entries(recipe.source_types).items()}
    recipe = replace(recipe, source_types=_as_text(entries))
    sources = []
    for name in source_weights(recipe.source):
        corpus = named_corpus(session, recipe, name)
        sources.append(bare_source(name, corpus.types, domain_of_source(session, corpus)))
    prepared(recipe, sources, target_types(session, dataset_id, campaign_id))  # what does not fit is refused here
    if not recipe.source_map.endswith(".toml"):
        return recipe
    theirs = {name for source in sources for name in source.types}
    named = {(name, ""): ours for name, ours in load_type_map(recipe.source_map).types.items() if name in theirs}
    return replace(recipe, source_map="name", source_types=_as_text({**named, **entries}))


def _as_text(entries: Mapping[tuple[str, str], str | None]) -> str:
    """Write what `type_entries` reads; raise InvalidConfig for a name that cannot be written there."""
    lines = (
        f"{name}{APART if source else ''}{source}{'' if ours is None else f'={ours}'}"
        for (name, source), ours in entries.items()
    )
    text = ", ".join(lines)
    if type_entries(text) != entries:
        bad = next(name for name, _ in entries if set(name) & set(f",={APART}"))
        raise InvalidConfig(f"source_map names the type {bad!r}; a type with ',', '=' or '{APART}' cannot be mapped.")
    return text


def _sentences(session: Session, corpus: Dataset | Snapshot, name: str, weight: float) -> SourceCorpus:
    source = replace(bare_source(name, corpus.types, domain_of_source(session, corpus)), weight=weight)
    if isinstance(corpus, Dataset):
        parts = dataset_parts(session, corpus)
        return replace(source, train=parts["train"], dev=parts["dev"])
    _, parts = content_of(session, corpus.id)
    return replace(source, train=parts["pool"], dev=parts["dev"])


def named_campaign(session: Session, actor: Actor, name: str) -> Campaign:
    """Return the campaign whose gold a name means; raise InvalidConfig, NotFound or NotAllowed."""
    number = name.removeprefix(GOLD)
    if not number.isdecimal() or len(number) > 9:
        raise InvalidConfig(f"source has {name!r}; after {GOLD} comes the number of a campaign, as in {GOLD}3.")
    return enter(session, actor, int(number), *KEEPERS, SYSTEM.role)[1]


def _frozen(session: Session, actor: Actor, name: str) -> str:
    """Freeze the gold of the campaign that a name gives, and return its snapshot's name."""
    campaign = named_campaign(session, actor, name)
    return f"{FROZEN}{freeze_gold(session, actor, campaign).hash[:_SHOWN]}"


def named_corpus(session: Session, recipe: Recipe, name: str) -> Dataset | Snapshot:
    """Return the data set or frozen gold that a recipe names as a source; raise NotFound."""
    if name.startswith(FROZEN):
        prefix = name.removeprefix(FROZEN)
        rows = snapshot_rows.by_prefix(session, prefix=prefix) if len(prefix) >= _SHOWN else []
        if not rows:
            raise NotFound(
                f"The setting {recipe.setting!r} needs the frozen gold {name!r}, which is not here: its campaign may "
                f"have been deleted. Name other data, {GOLD}NUMBER for a campaign's gold, or choose direct."
            )
        return rows[0]
    dataset = dataset_rows.find(session, name)
    if dataset is None or not any(part.split == "train" for part in dataset.splits):
        known = ", ".join(row.name for row in dataset_rows.listed(session)) or "none yet"
        raise NotFound(
            f"The setting {recipe.setting!r} needs a data set {name!r} with a train split; "
            f"data sets here: {known}. Import it (workbench import --dataset {name} …), name a campaign's gold "
            f"({GOLD}NUMBER), or choose direct."
        )
    return dataset
