"""How much of the gold pre-annotation finds: with a campaign's stored suggestions, or computed afresh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crossner_core.domains import Domain
from crossner_core.errors import NotFound, UnknownType
from crossner_core.evaluation.coverage import CoverageTable, coverage
from crossner_core.schema import LabelledSentence, Suggestion
from db import dataset_rows, layer_rows
from db.engine import Session, Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns.domains import domain_of, find_domain
from workbench.data import frozen, layers
from workbench.suggestions.gazetteers import open_gazetteer
from workbench.suggestions.proposing import shown_to_people

if TYPE_CHECKING:
    from crossner_core.gazetteer.lookup import Source

MOST = 2_000
"""Maximum number of sentences that are pre-annotated afresh."""


@dataclass(frozen=True, slots=True)
class CoverageView:
    """Coverage of the first `table.sentences` of `total` gold sentences; `domain` names and colours the types."""

    table: CoverageTable
    domain: Domain
    total: int
    problems: tuple[str, ...] = ()


def campaign_coverage(store: Store, actor: Actor, campaign_id: int) -> CoverageView:
    """Compare a campaign's gold with the suggestions as people were shown them, models' among them."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        domain = domain_of(campaign)
        gold = layers.gold(session, campaign_id)
        rows = layer_rows.suggestions(session, campaign_id)
        shown = shown_to_people(campaign)
        suggested = [shown(rows.get(item.sentence_id, ())) for item in gold]
    pairs = [(item.labelled.sentence, item.labelled.spans) for item in gold]
    return CoverageView(coverage(pairs, suggested, domain.type_names), domain, len(gold))


def campaign_coverage_afresh(
    store: Store, actor: Actor, campaign_id: int, gazetteer: str | None, *, most: int = MOST
) -> CoverageView:
    """Pre-annotate a campaign's gold sentences anew, writing nothing, and compare.

    The gazetteer, if one is named, and the bundled sample are queried; no endpoint.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        domain, gold = domain_of(campaign), layers.gold(session, campaign_id)
    return _afresh(store, [item.labelled for item in gold], domain, gazetteer, most)


def dataset_coverage(
    store: Store,
    actor: Actor,
    name: str,
    split: str,
    gazetteer: str | None,
    *,
    domain: str | None = None,
    most: int = MOST,
) -> CoverageView:
    """Pre-annotate a split of a data set and compare with its gold.

    `domain` maps classes to its types; by default the data set's own. Raises UnknownType where the data set
    has a type that the domain lacks.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        content, own, types = _dataset(session, name, split)
        wanted = domain or own
        if wanted is None:
            raise NotFound(f"The data set {name!r} names no domain; choose the one whose types it has.")
        target = find_domain(session, wanted)
    foreign = sorted(set(types) - set(target.type_names))
    if foreign:
        raise UnknownType(
            f"The data set {name!r} has the type {foreign[0]!r}; the domain {target.name} has "
            f"{', '.join(target.type_names)}; choose one that has the types."
        )
    return _afresh(store, [item for item, _ in frozen.read_lines(content)], target, gazetteer, most)


def _dataset(session: Session, name: str, split: str) -> tuple[str, str | None, Sequence[str]]:
    row = dataset_rows.find(session, name)
    if row is None:
        known = ", ".join(row.name for row in dataset_rows.listed(session)) or "none yet"
        raise NotFound(f"There is no data set {name!r}; there are: {known}.")
    content = dataset_rows.content(session, dataset_id=row.id, split=split)
    if content is None:
        has = ", ".join(part.split for part in row.splits)
        raise NotFound(f"The data set {name!r} has no split {split!r}; it has {has}.")
    return content, row.domain_name, tuple(row.types)


def _afresh(
    store: Store, gold: Sequence[LabelledSentence], domain: Domain, gazetteer: str | None, most: int
) -> CoverageView:
    from crossner_core.gazetteer.lookup import EmbeddedSource
    from crossner_core.gazetteer.preannotate import Preannotator

    chosen, problems = gold[:most], list[str]()
    sources: list[Source] = [] if gazetteer is None else [open_gazetteer(store, gazetteer)]
    machine = Preannotator([*sources, EmbeddedSource()], domain, on_problem=problems.append)
    suggested: list[tuple[Suggestion, ...]] = machine.suggest(item.sentence for item in chosen)
    table = coverage([(item.sentence, item.spans) for item in chosen], suggested, domain.type_names)
    return CoverageView(table, domain, len(gold), tuple(dict.fromkeys(problems)))
