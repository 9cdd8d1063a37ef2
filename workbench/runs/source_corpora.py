"""The source corpora a recipe names: data sets, and the gold of campaigns, frozen when a run is queued."""

from __future__ import annotations

from dataclasses import dataclass, replace

from crossner_core.domains import Domain
from crossner_core.domains.texts import texts_of
from crossner_core.errors import InvalidConfig, NotFound
from crossner_core.training.data import SourceCorpus
from crossner_core.training.recipe import Recipe, source_weights
from crossner_core.training.settings.registry import needs_source
from db import campaign_rows, dataset_rows, snapshot_rows
from db.engine import Session, Store
from db.training_tables import Dataset, Snapshot
from workbench.accounts.access import enter
from workbench.accounts.actors import SYSTEM, Actor, fresh, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of, find_domain
from workbench.data.datasets import dataset_parts
from workbench.data.snapshots import content_of, freeze_gold

GOLD, FROZEN = "gold:", "snapshot:"
"""`gold:3` is the gold of campaign 3 as it is now, `snapshot:HASH` gold that was frozen."""
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
        counts = campaign_rows.task_counts(session, [row.id for row in campaigns])
        for row in campaigns:
            if gold := counts.get((row.id, "adjudicate", "done")):
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
    parts = []
    for name, weight in source_weights(recipe.source).items():
        name = _frozen(session, actor, name) if name.startswith(GOLD) else name
        corpus = _corpus(session, recipe, name)
        if isinstance(corpus, Snapshot):
            enter(session, actor, corpus.campaign_id, *KEEPERS, SYSTEM.role)
        is_target = corpus.id == dataset_id if isinstance(corpus, Dataset) else corpus.campaign_id == campaign_id
        if is_target:
            raise InvalidConfig(
                f"source is {name!r}, the same data as is to be trained on; the setting {recipe.setting!r} needs other "
                "data. Name them, or choose direct."
            )
        parts.append(name if weight == 1 else f"{name}*{weight:g}")
    return replace(recipe, source=", ".join(parts))


def sources_of(session: Session, recipe: Recipe) -> tuple[SourceCorpus, ...]:
    """Return the source corpora that a recipe names; none if its setting uses none. Test sentences are left out."""
    if not needs_source(recipe.setting):
        return ()
    return tuple(
        _sentences(session, _corpus(session, recipe, name), weight)
        for name, weight in source_weights(recipe.source).items()
    )


def _sentences(session: Session, corpus: Dataset | Snapshot, weight: float) -> SourceCorpus:
    if isinstance(corpus, Dataset):
        parts = dataset_parts(session, corpus)
        known = find_domain(session, corpus.domain_name) if corpus.domain_name else None
        return SourceCorpus(parts["train"], parts["dev"], weight, frozenset(corpus.types), _texts(known))
    row, parts = content_of(session, corpus.id)
    campaign = campaign_rows.find(session, row.campaign_id)
    known = domain_of(campaign) if campaign else None
    return SourceCorpus(parts["pool"], parts["dev"], weight, frozenset(row.types), _texts(known))


def _texts(domain: Domain | None) -> dict[str, tuple[str, ...]]:
    return texts_of(domain) if domain else {}


def _frozen(session: Session, actor: Actor, name: str) -> str:
    """Freeze the gold of the campaign that a name gives, and return its snapshot's name."""
    number = name.removeprefix(GOLD)
    if not number.isdecimal() or len(number) > 9:
        raise InvalidConfig(f"source has {name!r}; after {GOLD} comes the number of a campaign, as in {GOLD}3.")
    _, campaign = enter(session, actor, int(number), *KEEPERS, SYSTEM.role)
    return f"{FROZEN}{freeze_gold(session, actor, campaign).hash[:_SHOWN]}"


def _corpus(session: Session, recipe: Recipe, name: str) -> Dataset | Snapshot:
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
