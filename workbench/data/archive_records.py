"""What a campaign's archive holds, as records: a line of sentences with every layer, people, settings, snapshots."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from crossner_core.records import Record
from db.label_review_tables import FINDING_STATES
from db.tables import ANNOTATION_STATES, ASKED, CHOICES, ORIGINS, SPLITS, STAGES, TASK_STATES
from workbench.campaigns.settings import names
from workbench.labelling.json_fields import Object, Text, Truth, Whole, among
from workbench.labelling.work import Flag, Rejected, WorkSpan

FORMAT, VERSION = "crossner-campaign", 1
QUEUE = ("strategy", "random_share", "retrain_every", "turn_recipe")
SETTINGS = ("name", "domain_name", *names("rules", "new"), *QUEUE, "archived")

Count = Annotated[Whole, Field(le=2**31 - 1)]  # what an integer column holds in every store
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
UnitSpan = tuple[Count, Count, Text] | tuple[Count, Count, Text, Text]  # with its entity, if it is linked to one
Spans = tuple[tuple[Count, Count, Text], ...]  # start, end and type of each


@dataclass(frozen=True, slots=True)
class LinkRecord(Record):
    """A hyperlink over tokens."""

    start: Count
    end: Count
    target: Text


@dataclass(frozen=True, slots=True)
class SuggestionRecord(Record):
    """A machine's suggestion."""

    start: Count
    end: Count
    type: Text
    source: Text
    score: Annotated[Number, Field(ge=0, le=1)]
    entity: Text | None = None


@dataclass(frozen=True, slots=True)
class DecisionRecord(Record):
    """The expert's choice for one unit, with the unit itself."""

    unit: Count
    kind: Text
    choice: Annotated[Text, among(CHOICES)]
    first: UnitSpan | None
    second: UnitSpan | None


@dataclass(frozen=True, slots=True)
class VersionRecord(Record):
    """A submitted version of an annotation."""

    revision: Count
    work: Object
    submitted_at: AwareDatetime


@dataclass(frozen=True, slots=True)
class AnnotationRecord(Record):
    """One person's work on a task; `user` is an account's name."""

    user: Text
    origin: Annotated[Text, among(ORIGINS)]
    revision: Count
    state: Annotated[Text, among(ANNOTATION_STATES)]
    no_entities: Truth
    comment: Text
    skip_reason: Text | None
    active_ms: Count
    keystrokes: Count
    created_at: AwareDatetime
    updated_at: AwareDatetime
    submitted_at: AwareDatetime | None
    spans: tuple[WorkSpan, ...]
    flags: tuple[Flag, ...]
    rejected: tuple[Rejected, ...]
    decisions: tuple[DecisionRecord, ...]
    versions: tuple[VersionRecord, ...]
    example: Truth = False


@dataclass(frozen=True, slots=True)
class AnswerRecord(Record):
    """An annotator's answer to a question."""

    user: Text
    text: Text
    answered_at: AwareDatetime


@dataclass(frozen=True, slots=True)
class QuestionRecord(Record):
    """An expert's question about a sentence."""

    asked_by: Text
    text: Text
    asked_at: AwareDatetime
    closed_at: AwareDatetime | None
    answers: tuple[AnswerRecord, ...]
    asks: Annotated[Text, among(ASKED)] = "both"


@dataclass(frozen=True, slots=True)
class TaskRecord(Record):
    """One stage of a sentence."""

    stage: Annotated[Text, among(STAGES)]
    state: Annotated[Text, among(TASK_STATES)]
    done_at: AwareDatetime | None
    created_at: AwareDatetime
    done_by: Text | None
    annotations: tuple[AnnotationRecord, ...]
    questions: tuple[QuestionRecord, ...]


@dataclass(frozen=True, slots=True)
class PastDecision(Record):
    """A decision of label review, or its reversal; `by` is an account's name, which need not exist elsewhere."""

    state: Annotated[Text, among((*FINDING_STATES[1:], "reverted"))]
    by: Text
    at: Text
    split: Annotated[Text, among(SPLITS)]
    key: Text = ""


@dataclass(frozen=True, slots=True)
class FindingRecord(Record):
    """What was decided in label review; `other` is the content hash of the sentence compared with."""

    found_by: Text
    kind: Text
    start: Count
    end: Count
    there: Spans
    proposed: Spans
    score: Annotated[Number, Field(ge=0, le=1)]
    why: Text
    other_there: Spans | None
    state: Annotated[Text, among(FINDING_STATES[1:])]
    decided_at: AwareDatetime
    decided_by: Text
    other: Text | None
    left_out: Annotated[Text, among(("this", "other"))] | None = None  # older archives could leave none out
    proposed_probability: Annotated[Number, Field(ge=0, le=1)] | None = None
    present_probability: Annotated[Number, Field(ge=0, le=1)] | None = None
    history: tuple[PastDecision, ...] = ()


@dataclass(frozen=True, slots=True)
class OriginRecord(Record):
    """The document a sentence came in, where it begins in it, and the file whose layout was kept."""

    document: Text | None = None
    offset: Count | None = None
    file: Text | None = None


@dataclass(frozen=True, slots=True)
class SentenceRecord(Record):
    """A line of `sentences.jsonl`: a sentence with all that people and machines added."""

    external_id: Text
    text: Text
    tokens: tuple[tuple[Count, Count], ...]
    meta: Object
    split: Annotated[Text, among(SPLITS)]
    position: Number
    control: Truth
    links: tuple[LinkRecord, ...]
    suggestions: tuple[SuggestionRecord, ...]
    tasks: tuple[TaskRecord, ...]
    created_at: AwareDatetime
    # What older archives do not have.
    blind: Truth = False
    chosen_by: Text | None = None
    preannotated_at: AwareDatetime | None = None
    second_look: tuple[FindingRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonRecord(Record):
    """Somebody who worked on a campaign, or is a member of it."""

    name: Text
    display_name: Text
    role: Text


@dataclass(frozen=True, slots=True)
class SnapshotRecord(Record):
    """A snapshot, whose sentences lie in a file named by its hash."""

    hash: Text
    domain_name: Text
    types: list[Text]
    counts: Object
    created_at: AwareDatetime | None = None


def columns(record: type[Any], table: type[Any]) -> tuple[str, ...]:
    """Return the fields of a record that are also columns of a table."""
    return tuple(spec.name for spec in fields(record) if spec.name in table.__table__.columns)


def iso(moment: dt.datetime | None) -> str | None:
    """Format a time as ISO 8601 in UTC."""
    return moment.astimezone(dt.UTC).isoformat() if moment is not None else None


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as plain JSON."""
    return {key: iso(value) if isinstance(value, dt.datetime) else value for key, value in values.items()}
