"""Suggestions that people make for many places at once: written and withdrawn under a source of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crossner_core.schema import Span, Suggestion
from db import suggestion_rows
from db.engine import Session
from workbench.data.values import suggestion_values

SCORE = 0.75
"""What such a suggestion counts before gold has shown what they are worth.

More than a hint, and less than a campaign's *accept all* takes along by default: nobody has read each place.
"""


def write_suggestions(
    session: Session, campaign_id: int, spans: Mapping[int, Iterable[Span]], *, source: str, score: float = SCORE
) -> int:
    """Add a source's suggestions by sentence id, where nobody has begun and there is no gold; return how many.

    The caller has authorised the actor and checked spans and types. What the source already suggests stays as it is.
    """
    still = open_sentences(session, campaign_id, spans)
    rows = [
        suggestion_values(id_, Suggestion(span.start, span.end, span.type, source, score))
        for id_ in sorted(still)
        for span in sorted(set(spans[id_]))
    ]
    return suggestion_rows.add(session, rows)


def open_sentences(session: Session, campaign_id: int, sentence_ids: Iterable[int]) -> set[int]:
    """Return the sentences that suggestions can still reach: begun by nobody, and without gold."""
    return suggestion_rows.within_reach(session, campaign_id, set(sentence_ids))


def withdraw_source(session: Session, campaign_id: int, source: str) -> tuple[int, int]:
    """Delete a source's suggestions where nobody has begun; return how many, and how many stay."""
    ids = suggestion_rows.sentences_with(session, campaign_id, source)
    still = open_sentences(session, campaign_id, ids)
    removed = suggestion_rows.remove(session, [id_ for id_ in ids if id_ in still], source)
    return removed, suggestion_rows.count_of(session, campaign_id, source)
