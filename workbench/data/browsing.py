"""Find a campaign's sentences: the place of each, and every layer of one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import NotAllowed, NotFound
from crossner_core.schema import Sentence, Span, Suggestion
from db import annotation_rows, browse_rows, label_review_rows, search_rows
from db.engine import Session, Store
from db.tables import Annotation
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import EVERYONE, KEEPERS, OVERSEERS
from workbench.data import searching
from workbench.data.patterns import Ranges
from workbench.data.searching import EVERYTHING, Search
from workbench.data.values import best_suggestions, checked_spans, sentence_of, suggestion_of
from workbench.suggestions.proposing import weights_of

_LAYER = {"annotate": "first", "check": "second", "adjudicate": "gold"}


@dataclass(frozen=True, slots=True)
class SentenceLine:
    """A sentence in a list; `place` is one of `PLACES`, `ranges` are the characters that the search matches."""

    id: int
    external_id: str
    text: str
    split: str
    place: str
    links: int
    suggestions: int
    ranges: Ranges = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Some of the sentences that match, and how many match in all."""

    lines: tuple[SentenceLine, ...]
    total: int


@dataclass(frozen=True, slots=True)
class LayerView:
    """One person's work at one stage; `flagged` are spans of annotator 1 that annotator 2 doubts.

    Suggestions that were open at the last submit: `left_open` are those that stayed so, `opened` is what was done with
    the others (accept, refuse), empty where there were none or nothing is known.
    """

    layer: str
    who: str
    state: str
    imported: bool
    when: dt.datetime
    spans: tuple[Span, ...]
    flagged: tuple[Span, ...]
    note: str
    left_open: tuple[Span, ...] = ()
    opened: str = ""


@dataclass(frozen=True, slots=True)
class SentenceLayers:
    """A sentence with all its layers; `shown` are the suggestions that do not overlap.

    `left_out` states who left it out of training, when and why; it is empty if nobody did.
    """

    sentence: Sentence
    split: str
    place: str
    control: bool
    blind: bool
    meta: Mapping[str, Any]
    work: tuple[LayerView, ...]
    suggestions: tuple[Suggestion, ...]
    shown: tuple[Suggestion, ...]
    preannotated: bool
    left_out: str = ""


def browse(
    store: Store, actor: Actor, campaign_id: int, search: Search = EVERYTHING, *, offset: int = 0, limit: int = 100
) -> Found:
    """Return the sentences that match a search, in the order of the queue.

    Annotators and experts find by their own work and by gold, experts also by what they may settle.
    """
    require(actor, *EVERYONE)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *EVERYONE)
        total, ids = searching.matching(store, session, campaign, current, search, offset=offset, limit=limit)
        rows = search_rows.sentences(session, ids)
        parts = browse_rows.part_counts(session, ids)
    matches = searching.ranges(search, [row.text for row, _ in rows])
    lines = []
    for (row, place), ranges in zip(rows, matches, strict=True):
        links, suggestions = parts[row.id]
        withheld = current.role not in KEEPERS and (row.control or not campaign.suggestions_on)
        shown = 0 if withheld else suggestions
        lines.append(SentenceLine(row.id, row.external_id, row.text, row.split, place, links, shown, ranges))
    return Found(tuple(lines), total)


def sentence_layers(store: Store, actor: Actor, campaign_id: int, sentence_id: int) -> SentenceLayers:
    """Return a sentence with every layer; raise NotFound if the campaign has no such sentence.

    An expert may see only those of gold: whoever still annotates or checks a sentence must not see the others' work.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        result = browse_rows.one(session, campaign_id, sentence_id)
        if result is None:
            raise NotFound(f"The campaign has no sentence {sentence_id}; it may have been deleted.")
        row, stands_at = result
        if stands_at != "gold" and actor.role not in KEEPERS:
            raise NotAllowed("The work of others on a sentence can be seen once it is gold; this one is not finished.")
        sentence = sentence_of(row, row.links)
        suggestions = tuple(suggestion_of(suggestion) for suggestion in row.suggestions)
        return SentenceLayers(
            sentence=sentence,
            split=row.split,
            place=stands_at,
            control=row.control,
            blind=row.blind,
            meta={key: value for key, value in row.meta.items() if not key.startswith("_")},
            work=tuple(_view(session, stage, work, sentence) for stage, work in browse_rows.work_on(session, row.id)),
            suggestions=suggestions,
            shown=best_suggestions(suggestions, weights_of(campaign)),
            preannotated=row.preannotated_at is not None,
            left_out=_left_out(session, row.id),
        )


def layer_counts(store: Store, actor: Actor, campaign_id: int) -> dict[str, int]:
    """Return how many sentences each layer holds: first, second, gold, suggestions."""
    require(actor, *KEEPERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
        counts = browse_rows.layer_counts(session, campaign_id)
        by_layer = {layer: counts.get(stage, 0) for stage, layer in _LAYER.items()}
        return by_layer | {"suggestions": counts["suggestions"]}


def _left_out(session: Session, sentence_id: int) -> str:
    names = label_review_rows.who_left_out(session, sentence_id)
    if names is None:
        return ""
    row, user = names
    return f"{user.display_name}, {row.decided_at:%Y-%m-%d %H:%M} UTC. {row.why}"


def _view(session: Session, stage: str, work: Annotation, sentence: Sentence) -> LayerView:
    submitted = [version.work for version in annotation_rows.versions(session, work.id) if "late" not in version.work]
    last = submitted[-1] if submitted else {}
    note = " ".join(part for part in (work.comment, work.skip_reason) if part)
    return LayerView(
        layer=_LAYER[stage],
        who=work.user.display_name,
        state=work.state,
        imported=work.origin == "import",
        when=work.submitted_at or work.updated_at,
        spans=checked_spans(sentence, work.spans),
        flagged=tuple(Span(flag.start, flag.end, flag.type) for flag in work.flags),
        note=note,
        left_open=tuple(Span(*span) for span in last.get("left_open", ())),
        opened=last.get("opened", ""),
    )
