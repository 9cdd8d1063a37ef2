"""Suggestions that a submit left undecided, where the editor does not say what became of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from crossner_core.calibration.proposals import Proposal, best_of, propose
from crossner_core.schema import Sentence
from db import annotation_rows
from db.engine import Session
from db.tables import Campaign, SentenceRow
from workbench.campaigns.domains import domain_of
from workbench.data.values import sentence_of, suggestion_of
from workbench.labelling.work import Rejected, Work, WorkSpan
from workbench.suggestions.proposing import weights_of


@dataclass(frozen=True, slots=True)
class Settled:
    """Work with its open suggestions decided by the campaign's rule, and a record of that for the kept version."""

    work: Work
    record: dict[str, Any]


def settle(session: Session, campaign: Campaign, row: SentenceRow, work: Work) -> Settled:
    """Decide the open suggestions by the campaign's rule; what may only be asked about stays open, and is recorded."""
    open_ = _open(session, campaign, row, work)
    if not open_:
        return Settled(work, {})
    if campaign.open_at_submit == "refuse":
        return Settled(_refused(work, open_), {"opened": "refuse"})
    accepted: tuple[Proposal, ...] = ()
    if campaign.open_at_submit == "accept":
        accepted = tuple(made for made in open_ if made.score >= campaign.accept_from)
        work = _accepted(work, accepted, sentence_of(row))
    left = [[made.start, made.end, made.type] for made in open_ if made not in accepted]
    return Settled(work, ({"opened": "accept"} if accepted else {}) | ({"left_open": left} if left else {}))


def _open(session: Session, campaign: Campaign, row: SentenceRow, work: Work) -> tuple[Proposal, ...]:
    """Return the suggestions that were shown and are neither rejected nor covered by a span; hints need no decision."""
    if row.control or not campaign.suggestions_on:
        return ()
    types = domain_of(campaign).type_names
    shown = [made for made in annotation_rows.suggestions_of(session, [row.id]).get(row.id, ()) if made.type in types]
    rejected = {(mark.start, mark.end, mark.type) for mark in work.rejected}
    return tuple(
        best_of(
            made
            for made in propose([suggestion_of(row) for row in shown], weights_of(campaign))
            if made.score >= campaign.hint_below
            and (made.start, made.end, made.type) not in rejected
            and not any(made.start < span.end and span.start < made.end for span in work.spans)
        )
    )


def _refused(work: Work, open_: tuple[Proposal, ...]) -> Work:
    marks = [Rejected(made.start, made.end, made.type, source) for made in open_ for source in made.sources]
    return replace(work, rejected=(*work.rejected, *marks))


def _accepted(work: Work, chosen: tuple[Proposal, ...], sentence: Sentence) -> Work:
    spans = [
        WorkSpan(made.start, made.end, made.type, sentence.surface(made.start, made.end), "accepted") for made in chosen
    ]
    both = tuple(sorted((*work.spans, *spans), key=lambda span: span.start))
    return replace(work, spans=both, no_entities=work.no_entities and not both)
