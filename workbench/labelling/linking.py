"""What a span may name: the resources that the editor offers while a campaign links its spans."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache

from crossner_core.domains import Domain
from crossner_core.errors import Conflict, InvalidSpan, NotFound, WorkbenchError
from crossner_core.folders import find_folder
from crossner_core.gazetteer.linking import Evidence, LinkCandidate, Linker
from crossner_core.suggest.gazetteer import GazetteerSettings, gazetteer_sources
from db import annotation_rows, context_rows
from db.engine import Store
from db.tables import Campaign
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import stage_roles
from workbench.campaigns.domains import domain_of
from workbench.data.values import sentence_of
from workbench.labelling.context import origin_of
from workbench.settings import settings_of
from workbench.suggestions.preannotating import resources_of

log = logging.getLogger(__name__)
MOST_OFFERED = 9
"""One for each digit; 0 says that there is none."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """What the candidates of a campaign are looked up in, as of now."""

    gazetteer: str | None
    changed_ns: int
    endpoint: str | None
    domain: Domain


def candidates(
    store: Store, actor: Actor, campaign_id: int, stage: str, task_id: int, *, start: int, end: int, type: str = ""
) -> tuple[LinkCandidate, ...]:
    """Return what tokens `[start, end)` of one of the actor's own tasks may name, the likeliest first.

    Sources are the campaign's gazetteer, its endpoint's kept answers and the bundled sample, the sentence's links, and
    to what gold and the actor linked the same words. Raises Conflict where the campaign links nothing, NotFound for
    somebody else's task, InvalidSpan outside the sentence.
    """
    require(actor, *stage_roles(stage))
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *stage_roles(stage))
        if not campaign.linking:
            raise Conflict(f"The campaign {campaign.name!r} does not link spans; an admin can turn it on in its rules.")
        who = {"campaign_id": campaign.id, "user_id": current.id}
        row = context_rows.own(session, stage=stage, task_ids=[task_id], **who).get(task_id)
        if row is None:
            raise NotFound(f"There is no task {task_id} of yours at this stage.")
        sentence = sentence_of(row, annotation_rows.links_of(session, [row.id]).get(row.id, ()))
        if not 0 <= start < end <= len(sentence.tokens):
            raise InvalidSpan(f"The span [{start}, {end}) lies outside the {len(sentence.tokens)} tokens.")
        before = context_rows.linked_before(
            session, campaign.id, sentence.surface(start, end), but=row.id, user_id=current.id
        )
        origin = origin_of(row)
        linker = linker_of(store, campaign)
    words = (origin.title, origin.section) if origin is not None else ()
    evidence = Evidence(words=words, before=before)
    return linker.candidates(sentence, start, end, type=type or None, evidence=evidence)[:MOST_OFFERED]


def linker_of(store: Store, campaign: Campaign) -> Linker:
    """Return what looks up the candidates of a campaign's spans."""
    return _linker(store, _sources(store, campaign))


def _sources(store: Store, campaign: Campaign) -> _Sources:
    changed = 0
    if campaign.gazetteer is not None:
        try:
            folder = find_folder(settings_of(store).gazetteers, "gazetteer", campaign.gazetteer)
            changed = (folder / "manifest.json").stat().st_mtime_ns
        except (WorkbenchError, OSError) as error:
            log.warning("The gazetteer of campaign %s is not read: %s", campaign.id, error)
    return _Sources(campaign.gazetteer, changed, campaign.endpoint, domain_of(campaign))


@lru_cache(maxsize=8)
def _linker(store: Store, sources: _Sources) -> Linker:
    """Open the sources once for all questions until one of them changes."""
    resources = resources_of(store, sources.domain, 0, log.warning)
    settings = GazetteerSettings(sources.gazetteer, sources.endpoint)
    return Linker(gazetteer_sources(settings, resources), sources.domain, on_problem=log.warning)
