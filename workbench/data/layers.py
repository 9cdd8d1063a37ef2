"""The layers of a campaign: work of annotators 1 and 2, gold, and suggestions, sentence by sentence."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from crossner_core.errors import NotFound
from crossner_core.schema import LabelledSentence
from db import label_review_rows, layer_rows
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS
from workbench.data.values import best_suggestions, checked_spans, sentence_of, suggestion_of
from workbench.suggestions.proposing import weights_of

LAYERS = ("first", "second", "gold", "suggestions")
_STAGE = {"first": "annotate", "second": "check", "gold": "adjudicate"}


@dataclass(frozen=True, slots=True)
class GoldSentence:
    """A sentence with its gold, its split, and when it became gold."""

    labelled: LabelledSentence
    split: str
    when: dt.datetime
    sentence_id: int


def gold(session: Session, campaign_id: int) -> tuple[GoldSentence, ...]:
    """Return the gold of a campaign in the order it became gold; every surface is asserted against its text."""
    rows = layer_rows.submitted(session, campaign_id, "adjudicate")
    links = layer_rows.links(session, campaign_id)
    items = []
    for row, annotation in rows:
        sentence = sentence_of(row, links.get(row.id, ()))
        labelled = LabelledSentence(sentence, checked_spans(sentence, annotation.spans))
        items.append((annotation.submitted_at or annotation.updated_at, row, labelled))
    items.sort(key=lambda pair: (pair[0], pair[1].position, pair[1].id))
    return tuple(GoldSentence(labelled, row.split, when, row.id) for when, row, labelled in items)


def gold_to_learn_from(session: Session, campaign_id: int) -> tuple[GoldSentence, ...]:
    """Return the gold without the sentences that an expert left out in label review."""
    left_out = label_review_rows.left_out(session, campaign_id)
    return tuple(item for item in gold(session, campaign_id) if item.sentence_id not in left_out)


def layer(store: Store, actor: Actor, campaign_id: int, which: str) -> list[tuple[LabelledSentence, str]]:
    """Return the labelled sentences of a layer (`LAYERS`) with their splits, in the order of the queue.

    Gold comes in the order it became gold. Of overlapping suggestions the best ones are taken; sentences that have not
    been pre-annotated (by gazetteer or model) are left out. For experts, researchers and admins.
    """
    require(actor, *OVERSEERS)
    if which not in LAYERS:
        raise NotFound(f"There is no layer {which!r}; layers are {', '.join(LAYERS)}.")
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        if which == "gold":
            return [(item.labelled, item.split) for item in gold(session, campaign_id)]
        if which == "suggestions":
            return _suggested(session, campaign)
        links = layer_rows.links(session, campaign_id)
        items = []
        for row, annotation in layer_rows.submitted(session, campaign_id, _STAGE[which]):
            sentence = sentence_of(row, links.get(row.id, ()))
            items.append((LabelledSentence(sentence, checked_spans(sentence, annotation.spans)), row.split))
        return items


def version(store: Store, actor: Actor, campaign_id: int, which: str) -> str | None:
    """Return a text that changes whenever a layer of people's work does, without reading its spans.

    None for a layer that there is no such text of: suggestions are weighed anew as gold comes in.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return f"{which} {layer_rows.marks_of_work(session, campaign_id, _STAGE[which])}" if which in _STAGE else None


def _suggested(session: Session, campaign: Campaign) -> list[tuple[LabelledSentence, str]]:
    links, weights = layer_rows.links(session, campaign.id), weights_of(campaign)
    items = []
    suggestions = layer_rows.suggestions(session, campaign.id)
    for row in layer_rows.sentences(session, campaign.id):
        rows = suggestions.get(row.id, [])
        if row.preannotated_at is None and not rows:
            continue
        sentence = sentence_of(row, links.get(row.id, ()))
        best = best_suggestions((suggestion_of(suggestion) for suggestion in rows), weights)
        items.append((LabelledSentence(sentence, tuple(suggestion.span for suggestion in best)), row.split))
    return items
