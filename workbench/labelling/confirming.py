"""Which of annotator 1's spans annotator 2 has to confirm, and why; and how each span came about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from crossner_core.calibration.proposals import Proposal, propose
from crossner_core.errors import BadInput
from crossner_core.schema import Span
from db import annotation_rows
from db.engine import Session
from db.tables import Annotation, Campaign, SentenceRow, SpanRow, SuggestionRow
from workbench.campaigns.domains import domain_of
from workbench.data.values import suggestion_of
from workbench.labelling.work import Work
from workbench.suggestions.proposing import weights_of

Reasons = Mapping[Span, tuple[str, ...]]
"""Why a span is to be confirmed, for each that is; in words, the reasons side by side."""

_NAMED = 3
"""So many unconfirmed spans a refusal names."""


def proposals_of(campaign: Campaign, rows: Iterable[SuggestionRow]) -> tuple[Proposal, ...]:
    """Return what the sources propose for a sentence, the likeliest first."""
    types = domain_of(campaign).type_names
    return propose([suggestion_of(row) for row in rows if row.type in types], weights_of(campaign))


def to_confirm(
    session: Session, campaign: Campaign, row: SentenceRow, first: Annotation | None, proposals: Sequence[Proposal]
) -> Reasons:
    """Return which spans of annotator 1 the campaign's rule wants confirmed, each with its reasons.

    New and rare spans are those that no other, or few other, checked sentences have with their type; doubted ones have
    an unlikely suggestion, or another type than most other sentences give the same words.
    """
    if campaign.confirm == "none" or first is None or not first.spans:
        return {}
    elsewhere = annotation_rows.marked_elsewhere(
        session, campaign.id, {span.surface for span in first.spans}, but=row.id
    )
    reasons = {}
    for span in first.spans:
        why = [*_rarity(campaign, span, elsewhere), *_doubts(campaign, span, elsewhere, proposals)]
        if not why and campaign.confirm == "all":
            why = ["every span is"]
        elif not why and _drawn(campaign, row, span):
            why = ["drawn at random"]
        if why:
            reasons[_span(span)] = tuple(why)
    return reasons


def confirmed(reasons: Reasons, work: Work) -> dict[str, Any]:
    """Return what became of the spans to confirm, for the kept version; raise BadInput if one is undecided."""
    flagged = {Span(flag.start, flag.end, flag.type) for flag in work.flags}
    origins = {span.span: span.origin for span in work.spans}
    became = {
        span: "flagged" if span in origins and span in flagged else origins.get(span, "changed") for span in reasons
    }
    open_ = [span for span, outcome in became.items() if outcome not in ("flagged", "changed", "confirmed")]
    if open_:
        raise BadInput(_refusal(open_, reasons, {span.span: span.surface for span in work.spans}))
    kept = [[span.start, span.end, span.type, list(why), became[span]] for span, why in reasons.items()]
    return {"to_confirm": kept} if kept else {}


def _refusal(open_: Sequence[Span], reasons: Reasons, surfaces: Mapping[Span, str]) -> str:
    named = "; ".join(f"{surfaces[span]!r}: {', '.join(reasons[span])}" for span in open_[:_NAMED])
    more = f"; and {len(open_) - _NAMED} more" if len(open_) > _NAMED else ""
    return (
        f"Not confirmed yet ({len(open_)}): {named}{more}. Space confirms a span; or change or flag it. "
        "Reload the page if nothing asks for it."
    )


def provenance(
    row: SentenceRow,
    layers: Iterable[tuple[int, Annotation | None]],
    proposals: Sequence[Proposal],
    reasons: Reasons,
    *,
    shown: bool,
) -> list[dict[str, Any]]:
    """Return as the editor's JSON how each span of the annotators (1, 2) came about.

    `shown` is whether annotator 1 saw suggestions. A check that was not blind began from annotator 1's spans.
    """
    made = []
    for by, annotation in layers:
        for span in annotation.spans if annotation is not None else ():
            own = by == 1 or row.blind
            made.append({
                "start": span.start, "end": span.end, "type": span.type, "by": by, "origin": span.origin,
                "imported": annotation is not None and annotation.origin == "import",
                "from": _source(span, proposals) if own else None, "shown": shown and by == 1, "own": own,
                "reasons": list(reasons.get(_span(span), ())) if by == 1 else [],
            })  # fmt: skip
    return made


def _source(span: SpanRow, proposals: Sequence[Proposal]) -> dict[str, Any] | None:
    """Return the proposal that stands behind a span: of the same span, else place, else one that overlaps it."""
    near = [made for made in proposals if made.start < span.end and span.start < made.end]
    same_place = [made for made in near if (made.start, made.end) == (span.start, span.end)]
    same = [made for made in same_place if made.type == span.type]
    best = next(iter(same or same_place or near), None)
    if best is None:
        return None
    place = {"start": best.start, "end": best.end, "type": best.type}
    return {**place, "sources": list(best.sources), "score": round(best.score, 4)}


def _rarity(campaign: Campaign, span: SpanRow, elsewhere: Mapping[tuple[str, str], tuple[int, int]]) -> list[str]:
    checked = elsewhere.get((span.surface, span.type), (0, 0))[1]
    if not checked:
        return ["new here"]
    return [f"rare: {checked} time{'s' if checked > 1 else ''}"] if checked < campaign.rare_below else []


def _doubts(
    campaign: Campaign,
    span: SpanRow,
    elsewhere: Mapping[tuple[str, str], tuple[int, int]],
    proposals: Sequence[Proposal],
) -> list[str]:
    doubts = []
    score = next((made.score for made in proposals if made.span == _span(span)), None)
    if score is not None and score < campaign.doubt_below:
        doubts.append(f"doubted: {round(100 * score)} %")
    types = {kind: marked for (surface, kind), (marked, _) in elsewhere.items() if surface == span.surface}
    usual = max(sorted(types), key=types.__getitem__, default=span.type)
    if types and types[usual] > types.get(span.type, 0):
        titles = {kind.name: kind.title for kind in domain_of(campaign).types}
        doubts.append(f"others mark it {titles.get(usual, usual)}")
    return doubts


def _drawn(campaign: Campaign, row: SentenceRow, span: SpanRow) -> bool:
    """Return whether a span is in the share to confirm, determined by seed, text and place."""
    rng = np.random.default_rng([campaign.seed, int(row.content_hash[:16], 16), span.start, span.end])
    return bool(rng.random() < campaign.confirm_share)


def _span(row: SpanRow) -> Span:
    return Span(row.start, row.end, row.type)
