"""What use cases hand to pages: frozen values, never rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from db.tables import STAGES, Campaign, User


@dataclass(frozen=True, slots=True)
class MemberView:
    """A person who works in a campaign."""

    id: int
    name: str
    display_name: str
    role: str
    active: bool


@dataclass(frozen=True, slots=True)
class StageCounts:
    """Tasks of one stage by state; `waiting` sentences have not reached the stage yet."""

    stage: str
    open: int
    leased: int
    done: int
    parked: int
    waiting: int


@dataclass(frozen=True, slots=True)
class CampaignView:
    """A campaign with its settings and how far it has come."""

    id: int
    name: str
    domain_name: str
    domain_toml: str
    blind_share: float
    control_share: float
    lease_minutes: int
    seed: int
    endpoint: str | None
    gazetteer: str | None
    suggestions_on: bool
    hint_below: float
    archived: bool
    created_at: dt.datetime
    sentences: int
    splits: dict[str, int]
    stages: tuple[StageCounts, ...]
    members: tuple[MemberView, ...] = ()
    left_out: int = 0
    """How many of the gold sentences snapshots leave out."""

    @property
    def sources(self) -> tuple[str, ...]:
        """What pre-annotation asks, in this order, in words."""
        named = (f"the gazetteer {self.gazetteer}" if self.gazetteer else None, self.endpoint, "the bundled sample")
        return tuple(one for one in named if one)

    @property
    def gold(self) -> int:
        """Number of sentences with gold."""
        return next((stage.done for stage in self.stages if stage.stage == "adjudicate"), 0)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of an import: sentences added, duplicates left out, and how many of the added came with gold.

    `doubts` are places where a duplicate brought other gold than stands; they wait under Second look.
    """

    added: int
    duplicates: int
    gold: int
    doubts: int = 0


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One annotator's answer to a question."""

    who: str
    text: str
    answered_at: dt.datetime


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question of the expert with the sentence it is about; `mine` says whether the reader asked it."""

    id: int
    task_id: int
    sentence_id: int
    sentence_text: str
    asked_by: str
    mine: bool
    text: str
    asked_at: dt.datetime
    closed: bool
    answers: tuple[AnswerView, ...]
    my_answer: str | None
    first: tuple[str, ...]
    second: tuple[str, ...]
    """The two annotators' spans in words: `surface (type)`."""


@dataclass(frozen=True, slots=True)
class ParkedView:
    """A sentence that was set aside because people skipped it, with their reasons."""

    task_id: int
    sentence_id: int
    stage: str
    text: str
    reasons: tuple[str, ...]


def member_view(user: User) -> MemberView:
    """Make the view of a member."""
    return MemberView(user.id, user.name, user.display_name, user.role, user.active)


def stage_counts(
    campaign: Campaign, counts: dict[tuple[int, str, str], int], sentences: int
) -> tuple[StageCounts, ...]:
    """Make the counts of the three stages; sentences imported with gold have a task at the last one only."""
    states = ("open", "leased", "done", "parked")
    of = {stage: {state: counts.get((campaign.id, stage, state), 0) for state in states} for stage in STAGES}
    totals = {stage: sum(of[stage].values()) for stage in STAGES}
    waiting = {
        "annotate": 0,
        "check": totals["annotate"] - totals["check"],
        "adjudicate": sentences - totals["adjudicate"],
    }
    return tuple(StageCounts(stage=stage, waiting=waiting[stage], **of[stage]) for stage in STAGES)


def campaign_view(
    campaign: Campaign,
    *,
    splits: dict[str, int],
    counts: dict[tuple[int, str, str], int],
    members: Iterable[User],
    left_out: int,
) -> CampaignView:
    """Make the view of a campaign."""
    total = sum(splits.values())
    return CampaignView(
        id=campaign.id,
        name=campaign.name,
        domain_name=campaign.domain_name,
        domain_toml=campaign.domain_toml,
        blind_share=campaign.blind_share,
        control_share=campaign.control_share,
        lease_minutes=campaign.lease_minutes,
        seed=campaign.seed,
        endpoint=campaign.endpoint,
        gazetteer=campaign.gazetteer,
        suggestions_on=campaign.suggestions_on,
        hint_below=campaign.hint_below,
        archived=campaign.archived,
        created_at=campaign.created_at,
        sentences=total,
        splits=splits,
        stages=stage_counts(campaign, counts, total),
        members=tuple(member_view(user) for user in members),
        left_out=left_out,
    )
