"""A sentence that is imported again with other gold: the campaign keeps the first, the expert reviews the second."""

from __future__ import annotations

from collections.abc import Sequence

from crossner_core.schema import LabelledSentence
from db import annotation_rows, campaign_rows, label_review_rows
from db.engine import Session
from workbench.campaigns.domains import domain_of
from workbench.data.values import spans_of

IMPORTED = "imported"
"""The queue of findings that no check can repeat, since the second sentence is not kept."""


def note_again(session: Session, campaign_id: int, again: Sequence[LabelledSentence], *, split: str) -> int:
    """Queue the places where duplicates differ from the gold for the expert; return how many are new."""
    if not again:
        return 0
    from crossner_core.label_review.base import in_words
    from crossner_core.label_review.checks.near_duplicates import differences

    ids = campaign_rows.ids_of(session, campaign_id, [item.sentence.content_hash for item in again])
    gold = annotation_rows.submitted(session, list(ids.values()), "adjudicate")
    campaign = campaign_rows.find(session, campaign_id)
    titles = domain_of(campaign).titles if campaign is not None else {}
    rows = []
    for item in again:
        sentence_id = ids[item.sentence.content_hash]
        if sentence_id not in gold:
            continue
        stands = LabelledSentence(item.sentence, spans_of(gold[sentence_id]))
        for start, end, current, proposed in differences(stands, item):
            rows.append(
                {
                    "sentence_id": sentence_id,
                    "kind": "conflict",
                    "start": start,
                    "end": end,
                    "there": [[span.start, span.end, span.type] for span in current],
                    "proposed": [[span.start, span.end, span.type] for span in proposed],
                    "score": 1.0,
                    "why": f"It came in again, as {split}, where it is {in_words(item.sentence, proposed, titles)}.",
                    "other_id": None,
                    "other_there": None,
                }
            )
    return label_review_rows.add(session, campaign_id=campaign_id, found_by=IMPORTED, rows=rows)[0]
