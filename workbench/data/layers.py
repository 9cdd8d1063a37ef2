"""The layers of a campaign: work of annotators 1 and 2, gold, and suggestions, sentence by sentence."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossner_core.errors import NotFound
from crossner_core.formats.base import Work
from crossner_core.schema import LabelledSentence
from db import archive_rows, label_review_rows, layer_rows
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS
from workbench.data.values import best_suggestions, checked_spans, sentence_of, suggestion_of
from workbench.suggestions.proposing import weights_of

LAYERS = ("first", "second", "gold", "suggestions")
STAGES = {"first": "annotate", "second": "check", "gold": "adjudicate"}
"""At which stage the work of a layer is done; suggestions are nobody's work."""


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
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        return [(labelled, split) for _, labelled, split in rows_in(session, campaign, which)]


def version(store: Store, actor: Actor, campaign_id: int, names: Sequence[str]) -> str | None:
    """Return a text that changes whenever layers of people's work do, without reading their spans.

    None where one has no such text: suggestions are weighed anew as gold comes in.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        if not STAGES.keys() >= set(names):
            return None
        marks = [(name, layer_rows.marks_of_work(session, campaign_id, STAGES[name])) for name in names]
        return " ".join(f"{name} {mark}" for name, mark in marks)


def rows_in(session: Session, campaign: Campaign, which: str) -> list[tuple[int, LabelledSentence, str]]:
    """Return what `layer` does with the sentences' ids; the caller has authorised the actor."""
    check_names((which,))
    if which == "gold":
        return [(item.sentence_id, item.labelled, item.split) for item in gold(session, campaign.id)]
    if which == "suggestions":
        return [(id, labelled, split) for id, labelled, split, _ in _suggested(session, campaign)]
    links = layer_rows.links(session, campaign.id)
    items = []
    for row, annotation in layer_rows.submitted(session, campaign.id, STAGES[which]):
        sentence = sentence_of(row, links.get(row.id, ()))
        items.append((row.id, LabelledSentence(sentence, checked_spans(sentence, annotation.spans)), row.split))
    return items


def works_in(
    session: Session, campaign: Campaign, names: Sequence[str], *, with_names: bool
) -> Mapping[int, Mapping[str, Work]]:
    """Return what layers hold of each sentence, by its id: spans, who did it, and when.

    People are called `person-ID`, ID being their account's number, or with names by their user names. What was
    imported is nobody's. The caller has authorised the actor.
    """
    people = archive_rows.names(session) if with_names else {}
    works: dict[int, dict[str, Work]] = {}
    for name in names:
        if name == "suggestions":
            for id, labelled, _, proposed in _suggested(session, campaign):
                works.setdefault(id, {})[name] = Work(labelled.spans, proposed=proposed)
            continue
        for row, annotation in layer_rows.submitted(session, campaign.id, STAGES[name]):
            by = people.get(annotation.user_id, f"person-{annotation.user_id}")
            spans = checked_spans(sentence_of(row), annotation.spans)
            when = annotation.submitted_at or annotation.updated_at
            works.setdefault(row.id, {})[name] = Work(spans, "" if annotation.origin == "import" else by, when)
    return works


def check_names(names: Sequence[str]) -> None:
    """Raise NotFound for what is no layer."""
    if unknown := next((name for name in names if name not in LAYERS), None):
        raise NotFound(f"There is no layer {unknown!r}; layers are {', '.join(LAYERS)}.")


def _suggested(
    session: Session, campaign: Campaign
) -> list[tuple[int, LabelledSentence, str, tuple[tuple[str, float], ...]]]:
    """Return the sentences with suggestions, the best of those that overlap, and the source and score of each."""
    links, weights = layer_rows.links(session, campaign.id), weights_of(campaign)
    items = []
    suggestions = layer_rows.suggestions(session, campaign.id)
    for row in layer_rows.sentences(session, campaign.id):
        rows = suggestions.get(row.id, [])
        if row.preannotated_at is None and not rows:
            continue
        sentence = sentence_of(row, links.get(row.id, ()))
        best = best_suggestions((suggestion_of(suggestion) for suggestion in rows), weights)
        labelled = LabelledSentence(sentence, tuple(suggestion.span for suggestion in best))
        items.append((row.id, labelled, row.split, tuple((each.source, each.score) for each in best)))
    return items
