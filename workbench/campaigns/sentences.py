"""Add sentences to a campaign: checked, deduplicated, drawn for control and blind check, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossner_core.errors import BadInput, UnknownType
from crossner_core.schema import LabelledSentence, Sentence, check_spans, meta_to_keep
from db import campaign_rows
from db.engine import Session, Store
from db.tables import SPLITS, Campaign
from db.types import now
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.data.double_imports import note_again


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Outcome of an import: sentences added, duplicates left out, and how many of the added came with gold.

    `doubts` counts places where the gold of a duplicate differs from that in the campaign; see Label review.
    """

    added: int
    duplicates: int
    gold: int
    doubts: int = 0


def add_sentences(
    store: Store,
    actor: Actor,
    campaign_id: int,
    labelled: Iterable[LabelledSentence | Sentence],
    *,
    split: str = "pool",
) -> ImportReport:
    """Append sentences to the queue, all or none; a `LabelledSentence` brings its gold with it.

    Sentences the campaign already has (same text and tokens) are left out and counted as duplicates; where their gold
    differs, the places are queued for the expert's label review. Raises BadInput, InvalidSpan or UnknownType that
    name the sentence. For researchers and admins.
    """
    require(actor, *KEEPERS)
    rows = tuple(labelled)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        return append(session, current, campaign, rows, split=split)


def append(
    session: Session,
    actor: Actor,
    campaign: Campaign,
    rows: Sequence[LabelledSentence | Sentence],
    *,
    split: str = "pool",
) -> ImportReport:
    """Like `add_sentences`, inside a transaction whose caller has authorised the actor."""
    if split not in SPLITS:
        raise BadInput(f"There is no split {split!r}; splits are {', '.join(SPLITS)}.")
    refuse_archived(campaign)
    types = domain_of(campaign).type_names
    for row in rows:
        _check_import(row, types)
    fresh_rows = _without_known(session, campaign.id, rows)
    gold = _insert(session, campaign, fresh_rows, split=split, user_id=actor.id)
    added = {id(sentence) for sentence, _ in fresh_rows}
    again = [row for row in rows if isinstance(row, LabelledSentence) and id(row.sentence) not in added]
    doubts = note_again(session, campaign.id, again, split=split)
    return ImportReport(added=len(fresh_rows), duplicates=len(rows) - len(fresh_rows), gold=gold, doubts=doubts)


def _check_import(row: LabelledSentence | Sentence, types: Sequence[str]) -> None:
    sentence = row.sentence if isinstance(row, LabelledSentence) else row
    if not sentence.tokens:
        raise BadInput(f"Sentence {sentence.id}: it has no tokens, so nothing can be labelled; leave it out.")
    if not isinstance(row, LabelledSentence):
        return
    for span in check_spans(sentence, row.spans):
        if span.type not in types:
            raise UnknownType(
                f"Sentence {sentence.id}: the type {span.type!r} of {sentence.surface(span.start, span.end)!r} is not "
                f"one of this campaign: {', '.join(types)}."
            )


def _without_known(
    session: Session, campaign_id: int, rows: Sequence[LabelledSentence | Sentence]
) -> list[tuple[Sentence, LabelledSentence | None]]:
    pairs = [(row.sentence, row) if isinstance(row, LabelledSentence) else (row, None) for row in rows]
    first_of: dict[str, tuple[Sentence, LabelledSentence | None]] = {}
    for sentence, gold in pairs:
        first_of.setdefault(sentence.content_hash, (sentence, gold))
    known = campaign_rows.known_hashes(session, campaign_id, list(first_of))
    return [pair for content_hash, pair in first_of.items() if content_hash not in known]


def _insert(
    session: Session,
    campaign: Campaign,
    pairs: Sequence[tuple[Sentence, LabelledSentence | None]],
    *,
    split: str,
    user_id: int,
) -> int:
    """Write sentences, links and tasks, and imported gold; return how many came with gold."""
    position = campaign_rows.last_position(session, campaign.id) + 1
    values = [
        _sentence_values(campaign, sentence, split, position + number) for number, (sentence, _) in enumerate(pairs)
    ]
    ids = campaign_rows.add_sentences(session, values)
    links = [
        {"sentence_id": id_, "start": link.start, "end": link.end, "target": link.target}
        for id_, (sentence, _) in zip(ids, pairs, strict=True)
        for link in sentence.links
    ]
    campaign_rows.add_links(session, links)
    places = [
        {"sentence_id": id_, "campaign_id": campaign.id, "position": value["position"]}
        for id_, value in zip(ids, values, strict=True)
    ]
    plain = [key for key, (_, gold) in zip(places, pairs, strict=True) if gold is None]
    campaign_rows.add_tasks(session, [{**key, "stage": "annotate"} for key in plain])
    labelled = [(key, gold) for key, (_, gold) in zip(places, pairs, strict=True) if gold is not None]
    _insert_gold(session, labelled, user_id=user_id)
    return len(labelled)


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


def _insert_gold(
    session: Session, labelled: Sequence[tuple[dict[str, Any], LabelledSentence]], *, user_id: int
) -> None:
    finished_at = now()
    done = {"stage": "adjudicate", "state": "done", "done_by": user_id, "done_at": finished_at}
    tasks = campaign_rows.add_tasks(session, [{**key, **done} for key, _ in labelled])
    rows = [
        {"task_id": task_id, "user_id": user_id, "origin": "import", "revision": 1, "state": "submitted",
         "no_entities": not gold.spans, "submitted_at": finished_at}
        for task_id, (_, gold) in zip(tasks, labelled, strict=True)
    ]  # fmt: skip
    spans = [
        {"annotation_id": id_, "start": span.start, "end": span.end, "type": span.type,
         "surface": gold.sentence.surface(span.start, span.end), "origin": "kept"}
        for id_, (_, gold) in zip(campaign_rows.add_annotations(session, rows), labelled, strict=True)
        for span in check_spans(gold.sentence, gold.spans)
    ]  # fmt: skip
    campaign_rows.add_spans(session, spans)


def draw(campaign: Campaign, content_hash: str) -> tuple[bool, bool]:
    """Return whether a sentence is a control and whether its check is blind, determined by seed and text."""
    rng = np.random.default_rng([campaign.seed, int(content_hash[:16], 16)])
    control, blind = rng.random(2)
    return bool(control < campaign.control_share), bool(blind < campaign.blind_share)
