"""Add sentences to a campaign: checked, deduplicated, drawn for control and blind check, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np

from crossner_core.errors import BadInput, UnknownType
from crossner_core.schema import LabelledSentence, Sentence, Suggestion, check_content, check_spans, meta_to_keep
from crossner_core.suggest.imported import IMPORTED
from db import campaign_rows, suggestion_rows, task_rows
from db.engine import Session, Store
from db.tables import SPLITS, Campaign
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.data.double_imports import note_again
from workbench.data.values import suggestion_values

Annotation = Literal["suggestions", "first", "gold"]
"""What annotation that comes with a sentence becomes: suggestions, the work of annotator 1, or gold."""
ANNOTATIONS: tuple[str, ...] = get_args(Annotation)

PORTION = 5_000
"""Sentences that are added at a time."""
_COUNTS = ("added", "duplicates", "gold", "doubts", "first")
_MOST_LISTED, _SHOWN = 200, 80
(_SOURCE,) = IMPORTED.kinds


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Outcome of an import: sentences added, duplicates left out, and how many of the added came with gold.

    `doubts` counts places where the gold of a duplicate differs from that in the campaign; see Label review.
    `suggestions` and `first` count sentences whose annotation became that, duplicates included. `again` lists the
    first duplicates, a line each.
    """

    added: int
    duplicates: int
    gold: int
    doubts: int = 0
    suggestions: int = 0
    first: int = 0
    again: tuple[str, ...] = ()


def add_sentences(
    store: Store,
    actor: Actor,
    campaign_id: int,
    labelled: Iterable[LabelledSentence | Sentence],
    *,
    split: str = "pool",
    annotation: str = "gold",
) -> ImportReport:
    """Append sentences to the queue, all or none; `annotation` is what that of a `LabelledSentence` becomes.

    Sentences the campaign already has (same text and tokens) are left out and listed as duplicates. Where their gold
    differs, the places are queued for the expert's label review; suggestions go to those that nobody has begun.
    Raises BadInput, InvalidSpan or UnknownType that name the sentence. For researchers and admins.
    """
    require(actor, *KEEPERS)
    rows = tuple(labelled)
    with store.write() as session:
        return add_within(session, actor, campaign_id, rows, split=split, annotation=annotation)


def add_within(
    session: Session,
    actor: Actor,
    campaign_id: int,
    rows: Iterable[LabelledSentence | Sentence],
    *,
    split: str,
    annotation: str,
) -> ImportReport:
    """Like `add_sentences`, inside a transaction; only a portion of the rows is in memory at a time."""
    current, campaign = enter(session, actor, campaign_id, *KEEPERS)
    report = append(session, current, campaign, rows, split=split, annotation=annotation)
    counts = {"added": report.added, "duplicates": report.duplicates, "gold": report.gold}
    audit.record(session, current, "add_sentences", ("campaign", campaign.name), campaign.id, split=split, **counts)
    return report


def append(
    session: Session,
    actor: Actor,
    campaign: Campaign,
    rows: Iterable[LabelledSentence | Sentence],
    *,
    split: str = "pool",
    annotation: str = "gold",
) -> ImportReport:
    """Like `add_sentences`, inside a transaction whose caller has authorised the actor.

    Only a portion of the rows is in memory at a time.
    """
    if split not in SPLITS:
        raise BadInput(f"There is no split {split!r}; splits are {', '.join(SPLITS)}.")
    if annotation not in ANNOTATIONS:
        raise BadInput(f"Annotation cannot become {annotation!r}; it becomes {', '.join(ANNOTATIONS)}.")
    refuse_archived(campaign)
    start = campaign_rows.last_position(session, campaign.id) + 1
    report, coming, suggested = ImportReport(0, 0, gold=0), iter(rows), set[int]()
    while portion := tuple(islice(coming, PORTION)):
        position = start + report.added
        report = _sum(report, _append(session, actor, campaign, portion, start, position, split, annotation, suggested))
    return replace(report, suggestions=len(suggested))


def _sum(report: ImportReport, more: ImportReport) -> ImportReport:
    counts = {key: getattr(report, key) + getattr(more, key) for key in _COUNTS}
    return ImportReport(**counts, again=(*report.again, *more.again)[:_MOST_LISTED])


def _append(
    session: Session,
    actor: Actor,
    campaign: Campaign,
    rows: Sequence[LabelledSentence | Sentence],
    start: float,
    position: float,
    split: str,
    annotation: str,
    suggested: set[int],
) -> ImportReport:
    """Append a portion from a position on, of an import that began at `start`; note the ids that get suggestions."""
    types = domain_of(campaign).type_names
    for row in rows:
        _check_import(row, types)
    new, again = _without_known(session, campaign.id, rows, start)
    places = _insert(session, campaign, [_sentence(row) for row in new], split=split, position=position)
    as_work = annotation != "suggestions"
    works = [(key, row) for key, row in zip(places, new, strict=True) if as_work and isinstance(row, LabelledSentence)]
    with_work = {key["sentence_id"] for key, _ in works}
    untouched = [key for key in places if key["sentence_id"] not in with_work]
    campaign_rows.add_tasks(session, [{**key, "stage": "annotate"} for key in untouched])
    report = ImportReport(len(new), len(rows) - len(new), gold=0, again=tuple(again[:_MOST_LISTED]))
    labelled = [row for row in rows if isinstance(row, LabelledSentence)]
    if annotation == "suggestions":
        suggested |= _insert_suggestions(session, campaign.id, labelled)
        return report
    if annotation == "first":
        _insert_work(session, works, stage="annotate", user_id=actor.id)
        campaign_rows.add_tasks(session, [{**key, "stage": "check"} for key, _ in works])
        return replace(report, first=len(works))
    _insert_work(session, works, stage="adjudicate", user_id=actor.id)
    came = {id(row) for _, row in works}
    doubts = note_again(session, campaign.id, [row for row in labelled if id(row) not in came], split=split)
    return replace(report, gold=len(works), doubts=doubts)


def _sentence(row: LabelledSentence | Sentence) -> Sentence:
    return row.sentence if isinstance(row, LabelledSentence) else row


def _check_import(row: LabelledSentence | Sentence, types: Sequence[str]) -> None:
    sentence = _sentence(row)
    check_content(sentence)
    if not isinstance(row, LabelledSentence):
        return
    for span in check_spans(sentence, row.spans):
        if span.type not in types:
            raise UnknownType(
                f"Sentence {sentence.id}: the type {span.type!r} of {sentence.surface(span.start, span.end)!r} is not "
                f"one of this campaign: {', '.join(types)}."
            )


def _without_known(
    session: Session, campaign_id: int, rows: Sequence[LabelledSentence | Sentence], start: float
) -> tuple[list[LabelledSentence | Sentence], list[str]]:
    """Return the first of each sentence that the campaign does not have, and a line on each of the others."""
    known = campaign_rows.names_and_positions(session, campaign_id, [_sentence(row).content_hash for row in rows])
    new, again = dict[str, LabelledSentence | Sentence](), list[str]()
    for row in rows:
        sentence = _sentence(row)
        if (place := known.get(sentence.content_hash)) is not None:
            what = "is in the campaign as" if place[1] < start else "comes twice, first as"
            again.append(f"{sentence.id} {what} {place[0]}: {sentence.text[:_SHOWN]}")
        elif (first := new.setdefault(sentence.content_hash, row)) is not row:
            again.append(f"{sentence.id} comes twice, first as {_sentence(first).id}: {sentence.text[:_SHOWN]}")
    return list(new.values()), again


def _insert(
    session: Session, campaign: Campaign, sentences: Sequence[Sentence], *, split: str, position: float
) -> list[dict[str, Any]]:
    """Write sentences and links; return what tasks name: each sentence's id, campaign and position."""
    values = [
        _sentence_values(campaign, sentence, split, position + number) for number, sentence in enumerate(sentences)
    ]
    ids = campaign_rows.add_sentences(session, values)
    links = [
        {"sentence_id": id_, "start": link.start, "end": link.end, "target": link.target}
        for id_, sentence in zip(ids, sentences, strict=True)
        for link in sentence.links
    ]
    campaign_rows.add_links(session, links)
    return [
        {"sentence_id": id_, "campaign_id": campaign.id, "position": value["position"]}
        for id_, value in zip(ids, values, strict=True)
    ]


def _sentence_values(campaign: Campaign, sentence: Sentence, split: str, position: float) -> dict[str, Any]:
    control, blind = draw(campaign, sentence.content_hash)
    return {
        "campaign_id": campaign.id,
        "external_id": sentence.id,
        "content_hash": sentence.content_hash,
        "text": sentence.text,
        "tokens": [[token.start, token.end] for token in sentence.tokens],
        "meta": meta_to_keep(sentence),
        "split": split,
        "position": position,
        "control": control,
        "blind": blind,
    }


def _insert_work(
    session: Session, works: Sequence[tuple[dict[str, Any], LabelledSentence]], *, stage: str, user_id: int
) -> None:
    """Write imported annotation as the finished work of a stage."""
    finished_at = now()
    done = {"stage": stage, "state": "done", "done_by": user_id, "done_at": finished_at}
    tasks = campaign_rows.add_tasks(session, [{**key, **done} for key, _ in works])
    rows = [
        {"task_id": task_id, "user_id": user_id, "origin": "import", "revision": 1, "state": "submitted",
         "no_entities": not item.spans, "submitted_at": finished_at}
        for task_id, (_, item) in zip(tasks, works, strict=True)
    ]  # fmt: skip
    spans = [
        {"annotation_id": id_, "start": span.start, "end": span.end, "type": span.type,
         "surface": item.sentence.surface(span.start, span.end), "origin": "kept", "entity": span.entity}
        for id_, (_, item) in zip(campaign_rows.add_annotations(session, rows), works, strict=True)
        for span in check_spans(item.sentence, item.spans)
    ]  # fmt: skip
    campaign_rows.add_spans(session, spans)


def make_gold(session: Session, actor: Actor, campaign: Campaign, labelled: Mapping[int, LabelledSentence]) -> None:
    """Make annotation the gold of sentences (by id) that nobody has begun, as if it had come with them.

    The caller has authorised the actor, and made sure of that.
    """
    for item in labelled.values():
        _check_import(item, domain_of(campaign).type_names)
    works = []
    for id, item in labelled.items():
        task = task_rows.of_sentence(session, id)["annotate"]
        works.append(({"sentence_id": id, "campaign_id": campaign.id, "position": task.position}, item))
        task_rows.remove(session, task)
    _insert_work(session, works, stage="adjudicate", user_id=actor.id)


def _insert_suggestions(session: Session, campaign_id: int, labelled: Sequence[LabelledSentence]) -> set[int]:
    """Write imported annotation as suggestions where nobody has begun yet, replacing earlier imported ones.

    Returns the sentences' ids.
    """
    items = {item.sentence.content_hash: item for item in labelled}
    ids = campaign_rows.ids_of(session, campaign_id, list(items))
    still = suggestion_rows.still_open(session, campaign_id, ids.values())
    still -= set(suggestion_rows.ids_with_gold(session, campaign_id))  # imported gold has no task to annotate
    rows = [
        suggestion_values(ids[content_hash], Suggestion(span.start, span.end, span.type, _SOURCE, 1.0, span.entity))
        for content_hash, item in items.items()
        if ids[content_hash] in still
        for span in check_spans(item.sentence, item.spans)
    ]
    suggestion_rows.replace_suggestions(session, sorted(still), rows, kinds=IMPORTED.kinds)
    return still


def draw(campaign: Campaign, content_hash: str) -> tuple[bool, bool]:
    """Return whether a sentence is a control and whether its check is blind, determined by seed and text."""
    rng = np.random.default_rng([campaign.seed, int(content_hash[:16], 16)])
    control, blind = rng.random(2)
    return bool(control < campaign.control_share), bool(blind < campaign.blind_share)
