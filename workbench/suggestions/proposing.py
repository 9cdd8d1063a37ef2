"""Proposals for a sentence, and the weights of their sources, learnt from gold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from crossner_core.calibration.proposals import Proposal, learn, propose
from crossner_core.calibration.sources import SourceWeights
from crossner_core.schema import Span, Suggestion
from crossner_core.suggest.base import is_from_names
from db import campaign_rows, layer_rows, suggestion_rows
from db.engine import Session, Store
from db.tables import Campaign, SuggestionRow
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS
from workbench.data.values import best_suggestions, suggestion_of

RELEARN_EVERY, RELEARN_SHARE = 5, 20
"""The weights are updated after this many new gold sentences, in a large campaign after a twentieth of its gold.

Counting 2,000 gold sentences of eight suggestions takes half a second, and the expert's Enter waits for it.
"""


def weights_of(campaign: Campaign) -> SourceWeights:
    """Return the source weights as last counted; empty before there is gold."""
    return SourceWeights.from_dict(campaign.source_weights) if campaign.source_weights else SourceWeights()


def proposals_json(rows: Iterable[SuggestionRow], weights: SourceWeights, hint_below: float) -> list[dict[str, Any]]:
    """Return a sentence's proposals as the editor's JSON, in the order of the text."""
    proposals = propose([suggestion_of(row) for row in rows], weights)
    return [
        _json(proposal, hint_below)
        for proposal in sorted(proposals, key=lambda proposal: (proposal.start, -proposal.score))
    ]


def shown_to_people(campaign: Campaign) -> Callable[[Iterable[SuggestionRow]], tuple[Suggestion, ...]]:
    """Return a function that reduces a sentence's suggestions to those people see now: no hints, no overlaps."""
    weights, hint_below = weights_of(campaign), campaign.hint_below
    return lambda rows: best_suggestions(map(suggestion_of, rows), weights, hint_below=hint_below)


def _json(proposal: Proposal, hint_below: float) -> dict[str, Any]:
    return {
        "start": proposal.start,
        "end": proposal.end,
        "type": proposal.type,
        "source": proposal.sources[0],
        "sources": list(proposal.sources),
        "score": round(proposal.score, 4),
        "entity": proposal.entity,
        "hint": proposal.score < hint_below,
    }


def without_models(rows: Mapping[int, Iterable[SuggestionRow]]) -> dict[int, tuple[Suggestion, ...]]:
    """Return what gazetteer and links suggest, of the sentences in which they suggest anything."""
    by_sentence = {
        id_: tuple(suggestion_of(row) for row in some if is_from_names(row.source)) for id_, some in rows.items()
    }
    return {id_: some for id_, some in by_sentence.items() if some}


def proposed_without_model(
    session: Session, campaign: Campaign, sentence_ids: Sequence[int]
) -> tuple[tuple[Span, ...], ...] | None:
    """Return what gazetteer and links propose in each of these sentences; None if they propose nothing in any."""
    rows, weights = without_models(layer_rows.suggestions(session, campaign.id)), weights_of(campaign)
    if not any(id_ in rows for id_ in sentence_ids):
        return None
    return tuple(
        tuple(suggestion.span for suggestion in best_suggestions(rows.get(id_, ()), weights)) for id_ in sentence_ids
    )


def source_weights(store: Store, actor: Actor, campaign_id: int) -> SourceWeights:
    """Recount the weights of a campaign's sources from its gold, without storing them. For those who oversee."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return learn_from_gold(session, campaign_id)


def learn_from_gold(session: Session, campaign_id: int) -> SourceWeights:
    """Compare every suggestion in a sentence with gold with that gold; controls, which showed none, count too.

    Test gold is left out: nothing measured on it may be learnt from it.
    """
    gold: dict[int, set[Span]] = {id_: set() for id_ in suggestion_rows.ids_to_learn_from(session, campaign_id)}
    for sentence_id, start, end, kind in suggestion_rows.gold_spans(session, campaign_id):
        gold[sentence_id].add(Span(start, end, kind))
    suggested: dict[int, list[Suggestion]] = {}
    for sentence_id, start, end, kind, source, score in suggestion_rows.suggested_in_gold(session, campaign_id):
        suggested.setdefault(sentence_id, []).append(Suggestion(start, end, kind, source, score))
    return learn((suggestions, gold[id_]) for id_, suggestions in sorted(suggested.items()))


def relearn(session: Session, campaign_id: int) -> None:
    """Store the weights of the sources as of now, for the sentences handed out from here on."""
    weights = learn_from_gold(session, campaign_id)
    campaign = campaign_rows.find(session, campaign_id)
    if campaign is not None:
        campaign.source_weights = weights.to_dict() if weights.sentences else None
        session.flush()


def gold_came(session: Session, campaign: Campaign) -> None:
    """Update the weights if there is enough new gold; called when a sentence outside test becomes gold."""
    gold = len(suggestion_rows.ids_to_learn_from(session, campaign.id))
    if gold % max(RELEARN_EVERY, gold // RELEARN_SHARE) == 0:
        relearn(session, campaign.id)
