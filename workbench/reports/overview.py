"""The campaign page: progress, the paper's four shares, agreement, acceptance of suggestions, effort, people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from crossner_core.evaluation.agreement import Agreement, agreement
from crossner_core.evaluation.agreement import Layers as AgreementLayers
from crossner_core.schema import Span
from db import campaign_rows, layer_rows, people_rows
from db.engine import Session, Store
from db.layer_rows import SentenceMarks
from db.tables import Annotation, Campaign, SentenceRow
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns.campaigns import StageCounts, stage_counts
from workbench.data.values import spans_of
from workbench.labelling.adjudication import ParkedView, parked_views
from workbench.reports.effort import Effort, PersonRow, efforts, person_rows
from workbench.reports.figures import Acceptance, Figure, Material, acceptance, four_figures
from workbench.reports.lending import Lent, lent
from workbench.suggestions.proposing import shown_to_people

Submitted = dict[str, dict[int, tuple[SentenceRow, Annotation]]]


@dataclass(frozen=True, slots=True)
class BlindAgreement:
    """Agreement of annotators 1 and 2 where annotator 2 did not see annotator 1's spans.

    `coverage` is the share of all checked sentences that were checked blind; None while nothing is checked.
    """

    sentences: int
    checked: int
    planned: int
    agreement: Agreement

    @property
    def coverage(self) -> float | None:
        return self.sentences / self.checked if self.checked else None


@dataclass(frozen=True, slots=True)
class Looked:
    """What annotator 2 did with annotator 1's spans where they saw them: confirmed one by one, changed or flagged."""

    spans: int
    confirmed: int
    changed: int
    flagged: int

    @property
    def left(self) -> int:
        """Spans sent on with their sentence."""
        return self.spans - self.confirmed - self.changed - self.flagged


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything the campaign page shows."""

    sentences: int
    splits: dict[str, int]
    stages: tuple[StageCounts, ...]
    imported_gold: int
    control_sentences: int
    figures: tuple[Figure, ...]
    blind: BlindAgreement
    looked: Looked
    acceptance: tuple[Acceptance, ...]
    effort: tuple[Effort, ...]
    parked: tuple[ParkedView, ...]
    people: tuple[PersonRow, ...]
    lent: Lent | None = None


def overview(store: Store, actor: Actor, campaign_id: int) -> Overview:
    """Return how a campaign stands. For experts, researchers and admins."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        rows = layer_rows.marks(session, campaign_id)
        counts = campaign_rows.task_counts(session, [campaign_id])
        splits = campaign_rows.sentence_counts(session, [campaign_id])
        submitted = _submitted(session, campaign_id)
        material = _material(session, campaign, rows, submitted)
        gold = submitted["adjudicate"]
        return Overview(
            sentences=len(rows),
            splits={split: number for (_, split), number in splits.items()},
            stages=stage_counts(campaign, counts, len(rows)),
            imported_gold=sum(work.origin == "import" for _, work in gold.values()),
            control_sentences=sum(row.control for row in rows),
            figures=four_figures(material),
            blind=_blind(submitted, rows),
            looked=_looked(submitted),
            acceptance=acceptance(material),
            effort=efforts(submitted, suggestions_on=campaign.suggestions_on),
            parked=parked_views(session, campaign_id),
            people=person_rows(submitted, people_rows.by_ids(session, _authors(submitted)), layer_rows.skips_by_person(
                session, campaign_id
            )),
            lent=lent(session, campaign_id),
        )  # fmt: skip


def _submitted(session: Session, campaign_id: int) -> Submitted:
    """Return the submitted work by stage and sentence id."""
    return {
        stage: {row.id: (row, work) for row, work in layer_rows.submitted(session, campaign_id, stage)}
        for stage in ("annotate", "check", "adjudicate")
    }


def _authors(submitted: Submitted) -> set[int]:
    return {work.user_id for stage in submitted.values() for _, work in stage.values()}


def _material(
    session: Session, campaign: Campaign, rows: list[SentenceMarks], submitted: Submitted
) -> tuple[Material, ...]:
    """Return what the figures are counted from, one for each sentence that was pre-annotated or worked on."""
    links, suggestions = layer_rows.link_counts(session, campaign.id), layer_rows.suggestions(session, campaign.id)

    def spans(stage: str, row: SentenceMarks) -> tuple[Span, ...] | None:
        pair = submitted[stage].get(row.id)
        return spans_of(pair[1]) if pair else None

    made, shown = [], shown_to_people(campaign)
    for row in rows:
        if not row.preannotated and not any(row.id in done for done in submitted.values()):
            continue
        first, second = submitted["annotate"].get(row.id), submitted["check"].get(row.id)
        best = shown(suggestions[row.id]) if row.id in suggestions else ()
        rejected = {(r.start, r.end, r.type) for r in first[1].rejected} if first else set()
        made.append(
            Material(
                preannotated=row.preannotated,
                shown=campaign.suggestions_on and not row.control,
                blind=row.blind,
                links=links.get(row.id, 0),
                suggestions=best,
                first=spans("annotate", row),
                rejected=frozenset(rejected),
                second=spans("check", row),
                flags=len(second[1].flags) if second else 0,
                gold=spans("adjudicate", row),
            )
        )
    return tuple(made)


def _looked(submitted: Submitted) -> Looked:
    counts: Counter[str] = Counter()
    for id_, (row, second) in submitted["check"].items():
        if row.blind or id_ not in submitted["annotate"]:
            continue
        origins = {(span.start, span.end, span.type): span.origin for span in second.spans}
        flags = {(flag.start, flag.end, flag.type) for flag in second.flags}
        for span in submitted["annotate"][id_][1].spans:
            place = (span.start, span.end, span.type)
            origin = origins.get(place, "changed")
            counts["flagged" if place in flags and place in origins else origin] += 1
    return Looked(counts.total(), counts["confirmed"], counts["changed"], counts["flagged"])


def _blind(submitted: Submitted, rows: list[SentenceMarks]) -> BlindAgreement:
    pairs = []
    for id_, (row, second) in submitted["check"].items():
        if row.blind and id_ in submitted["annotate"]:
            first = submitted["annotate"][id_][1]
            pairs.append(AgreementLayers(len(row.tokens), spans_of(first), spans_of(second)))
    return BlindAgreement(
        sentences=len(pairs),
        checked=len(submitted["check"]),
        planned=sum(row.blind for row in rows),
        agreement=agreement(pairs),
    )
