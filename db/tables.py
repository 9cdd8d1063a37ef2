"""Typed tables of people and campaigns: who labels what, and every layer they add."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.types import Base, now, one_of, valid_offsets

ROLES = ("annotator", "expert", "researcher", "admin")
LABELLERS = ("annotator", "expert")
STAGES = ("annotate", "check", "adjudicate")
TASK_STATES = ("open", "leased", "done", "parked")
ANNOTATION_STATES = ("draft", "submitted", "skipped", "superseded")
SPLITS = ("pool", "dev", "test")
CHOICES = ("first", "second", "none", "other")
ASKED = ("both", "first", "second")
"""Whom a question asks."""
ORIGINS = ("person", "import")
TOKEN_SCOPES = ("read", "write", "train")
"""What a token of the API may do; each includes those before it."""


def _id() -> Mapped[int]:
    return mapped_column(primary_key=True)


def _owned(column: str) -> Mapped[int]:
    return mapped_column(sa.ForeignKey(column, ondelete="CASCADE"), index=True)


class User(Base):
    """A person with a local account; `role` decides what every workbench call permits."""

    __tablename__ = "user_account"
    __table_args__ = (one_of("role", ROLES, "role"),)

    id: Mapped[int] = _id()
    name: Mapped[str] = mapped_column(unique=True)
    display_name: Mapped[str]
    password_hash: Mapped[str]
    role: Mapped[str]
    active: Mapped[bool] = mapped_column(default=True)
    last_campaign_id: Mapped[int | None] = mapped_column(deferred=True)  # so that older stores can be read, too
    """The campaign last chosen, for the next visit; it may be gone meanwhile, so nothing refers to it."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class LoginSession(Base):
    """A signed-in browser; only the SHA-256 of its token is kept."""

    __tablename__ = "login_session"

    id: Mapped[int] = _id()
    user_id: Mapped[int] = _owned("user_account.id")
    token_hash: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime]
    revoked_at: Mapped[dt.datetime | None]
    user: Mapped[User] = relationship(lazy="joined")


class LoginAttempt(Base):
    """One sign-in attempt, for the rate limit."""

    __tablename__ = "login_attempt"

    id: Mapped[int] = _id()
    name: Mapped[str] = mapped_column(index=True)
    address: Mapped[str] = mapped_column(index=True)
    at: Mapped[dt.datetime] = mapped_column(default=now, index=True)
    succeeded: Mapped[bool]


class ApiToken(Base):
    """A person's token for the API; only the SHA-256 of its secret is kept."""

    __tablename__ = "api_token"
    __table_args__ = (one_of("scope", TOKEN_SCOPES, "scope"),)

    id: Mapped[int] = _id()
    user_id: Mapped[int] = _owned("user_account.id")
    name: Mapped[str]
    secret_hash: Mapped[str] = mapped_column(unique=True)
    scope: Mapped[str]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    expires_at: Mapped[dt.datetime]
    revoked_at: Mapped[dt.datetime | None]
    last_used_at: Mapped[dt.datetime | None]
    """To the minute."""
    user: Mapped[User] = relationship(lazy="joined")


class ApiReply(Base):
    """What the API answered to a request with an idempotency key, so that a repeated one is not carried out again."""

    __tablename__ = "api_reply"
    __table_args__ = (sa.UniqueConstraint("token_id", "key"),)

    id: Mapped[int] = _id()
    token_id: Mapped[int] = _owned("api_token.id")
    key: Mapped[str]
    request_hash: Mapped[str]
    """SHA-256 of method, path, parameters and body."""
    status: Mapped[int | None]
    """None until the request was carried out."""
    body: Mapped[str] = mapped_column(default="")
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)


class DomainRow(Base):
    """A domain a user defined; the built-in ones are files."""

    __tablename__ = "domain"

    id: Mapped[int] = _id()
    name: Mapped[str] = mapped_column(unique=True)
    toml: Mapped[str]
    created_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"))
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    updated_at: Mapped[dt.datetime] = mapped_column(default=now)


class Campaign(Base):
    """Sentences of one domain, their people and their rules."""

    __tablename__ = "campaign"
    __table_args__ = (
        sa.CheckConstraint("blind_share BETWEEN 0 AND 1", name="blind_share"),
        sa.CheckConstraint("control_share BETWEEN 0 AND 1", name="control_share"),
        sa.CheckConstraint("lease_minutes > 0", name="lease_minutes"),
    )

    id: Mapped[int] = _id()
    name: Mapped[str] = mapped_column(unique=True)
    domain_name: Mapped[str]
    domain_toml: Mapped[str]
    """The domain as of the campaign's start, or of an admin's last change."""
    blind_share: Mapped[float] = mapped_column(default=0.1)
    control_share: Mapped[float] = mapped_column(default=0.1)
    lease_minutes: Mapped[int] = mapped_column(default=30)
    seed: Mapped[int] = mapped_column(default=0)
    endpoint: Mapped[str | None]
    """SPARQL endpoint for pre-annotation; None: no endpoint is queried."""
    gazetteer: Mapped[str | None]
    """Name of a compiled gazetteer in the home folder, queried before all other sources; None: no gazetteer."""
    suggestions_on: Mapped[bool] = mapped_column(default=True)
    hint_below: Mapped[float] = mapped_column(default=0.4, server_default="0.4")
    """Proposals with a lower confidence are hints: shown, but no decision is required."""
    model_floor: Mapped[float] = mapped_column(default=0.3, server_default="0.3")
    """The dev F1 from which a new model suggests by itself."""
    model_gain: Mapped[float] = mapped_column(default=0.0, server_default="0")
    """How much higher its dev F1 must be than that of the model that suggests now."""
    model_error: Mapped[float] = mapped_column(default=0.15, server_default="0.15")
    """The calibration error on dev up to which a new model suggests by itself; 1: any, uncalibrated models too."""
    open_at_submit: Mapped[str] = mapped_column(default="ask", server_default="ask")
    """What a submit does with suggestions that nobody has decided: ask, accept or refuse."""
    accept_from: Mapped[float] = mapped_column(default=0.8, server_default="0.8")
    """Suggestions with a lower confidence are accepted one by one only."""
    confirm: Mapped[str] = mapped_column(default="doubted", server_default="doubted")
    """Which of annotator 1's spans annotator 2 confirms one by one: doubted, all or none."""
    confirm_share: Mapped[float] = mapped_column(default=0.1, server_default="0.1")
    """Share of the other spans that annotator 2 confirms, too."""
    rare_below: Mapped[int] = mapped_column(default=2, server_default="2")
    """A span found with its type in fewer checked sentences is rare."""
    doubt_below: Mapped[float] = mapped_column(default=0.5, server_default="0.5")
    """A span whose suggestion has a lower confidence is doubted."""
    linking: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    """Spans can be linked to the resources that they name."""
    source_weights: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    """The weights of the suggestion sources, learnt from gold; None before there is any."""
    strategy: Mapped[str] = mapped_column(default="", server_default="")
    """The strategy that orders the queue; empty: import order."""
    random_share: Mapped[float] = mapped_column(default=0.2, server_default="0.2")
    """Share of an ordered queue that is filled at random."""
    retrain_every: Mapped[int] = mapped_column(default=0, server_default="0")
    """A run is queued automatically after this many new gold sentences; 0: never."""
    turn_recipe: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """Recipe fields of those runs; the others are at their defaults."""
    archived: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class Member(Base):
    """A person who works in a campaign."""

    __tablename__ = "campaign_member"

    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaign.id", ondelete="CASCADE"), primary_key=True)
    user_id: Mapped[int] = mapped_column(sa.ForeignKey("user_account.id", ondelete="CASCADE"), primary_key=True)


class SentenceRow(Base):
    """A sentence of a campaign; text and tokens never change after import."""

    __tablename__ = "sentence"
    __table_args__ = (
        sa.UniqueConstraint("campaign_id", "content_hash"),
        sa.Index("ix_sentence_campaign_order", "campaign_id", "split", "position"),
        one_of("split", SPLITS, "split"),
    )

    id: Mapped[int] = _id()
    campaign_id: Mapped[int] = _owned("campaign.id")
    external_id: Mapped[str]
    content_hash: Mapped[str]
    text: Mapped[str]
    tokens: Mapped[list[Any]]
    """Character offsets (code points) of the tokens: `[[start, end], …]`."""
    meta: Mapped[dict[str, Any]]
    split: Mapped[str] = mapped_column(default="pool")
    position: Mapped[float]
    """Place in the queue; lower is sooner."""
    control: Mapped[bool] = mapped_column(default=False)
    """A control: suggestions are withheld."""
    blind: Mapped[bool] = mapped_column(default=False)
    """Annotator 2 labels it without seeing annotator 1's spans."""
    chosen_by: Mapped[str | None]
    """What placed it in the queue: `chance`, or a strategy; None: import order."""
    preannotated_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    links: Mapped[list[LinkRow]] = relationship(cascade="all, delete-orphan", order_by="LinkRow.start")
    suggestions: Mapped[list[SuggestionRow]] = relationship(
        cascade="all, delete-orphan", order_by="SuggestionRow.start"
    )


class LinkRow(Base):
    """A hyperlink over tokens `[start, end)` of its sentence."""

    __tablename__ = "link"
    __table_args__ = (valid_offsets(), sa.UniqueConstraint("sentence_id", "start", "end"))

    id: Mapped[int] = _id()
    sentence_id: Mapped[int] = _owned("sentence.id")
    start: Mapped[int]
    end: Mapped[int]
    target: Mapped[str]


class SuggestionRow(Base):
    """A machine's suggestion over tokens `[start, end)`, with its source and score."""

    __tablename__ = "suggestion"
    __table_args__ = (
        valid_offsets(),
        sa.CheckConstraint("score BETWEEN 0 AND 1", name="score"),
        sa.UniqueConstraint("sentence_id", "source", "start", "end", "type"),
    )

    id: Mapped[int] = _id()
    sentence_id: Mapped[int] = _owned("sentence.id")
    start: Mapped[int]
    end: Mapped[int]
    type: Mapped[str]
    source: Mapped[str]
    score: Mapped[float]
    entity: Mapped[str | None]
    run_id: Mapped[int | None]
    """The run whose checkpoint predicted it, for source `model`."""


def _of_sentence(context: Any, column: str) -> Any:
    """Return a column of the sentence that a new task belongs to."""
    sentence_id = context.get_current_parameters()["sentence_id"]
    return context.connection.scalar(sa.select(getattr(SentenceRow, column)).where(SentenceRow.id == sentence_id))


class Task(Base):
    """One stage of one sentence, leased to one person at a time."""

    __tablename__ = "task"
    __table_args__ = (
        sa.UniqueConstraint("sentence_id", "stage"),
        one_of("stage", STAGES, "stage"),
        one_of("state", TASK_STATES, "state"),
        sa.CheckConstraint("(state = 'leased') = (leased_to IS NOT NULL)", name="lease"),
        sa.Index("ix_task_queue", "campaign_id", "stage", "state", "position", "sentence_id"),
    )

    id: Mapped[int] = _id()
    sentence_id: Mapped[int] = mapped_column(sa.ForeignKey("sentence.id", ondelete="CASCADE"))
    campaign_id: Mapped[int] = mapped_column(
        sa.ForeignKey("campaign.id", ondelete="CASCADE"), default=lambda context: _of_sentence(context, "campaign_id")
    )
    """Copy of the sentence's campaign, and below of its position, so that handing out is a single index scan."""
    position: Mapped[float] = mapped_column(default=lambda context: _of_sentence(context, "position"))
    stage: Mapped[str]
    state: Mapped[str] = mapped_column(default="open")
    leased_to: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"), index=True)
    lease_expires: Mapped[dt.datetime | None]
    done_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"), index=True)
    done_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    sentence: Mapped[SentenceRow] = relationship()
    annotations: Mapped[list[Annotation]] = relationship(cascade="all, delete-orphan", back_populates="task")


class Annotation(Base):
    """One person's work on one task at its newest revision; submitted versions are kept in `AnnotationVersion`."""

    __tablename__ = "annotation"
    __table_args__ = (
        sa.UniqueConstraint("task_id", "user_id"),
        one_of("state", ANNOTATION_STATES, "state"),
        one_of("origin", ORIGINS, "origin"),
        sa.CheckConstraint("revision >= 0", name="revision"),
        sa.CheckConstraint("active_ms >= 0 AND keystrokes >= 0", name="effort"),
    )

    id: Mapped[int] = _id()
    task_id: Mapped[int] = _owned("task.id")
    user_id: Mapped[int] = _owned("user_account.id")
    origin: Mapped[str] = mapped_column(default="person")
    revision: Mapped[int] = mapped_column(default=0)
    state: Mapped[str] = mapped_column(default="draft")
    no_entities: Mapped[bool] = mapped_column(default=False)
    comment: Mapped[str] = mapped_column(default="")
    example: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    """The expert shows it to everybody beside the guidelines."""
    skip_reason: Mapped[str | None]
    active_ms: Mapped[int] = mapped_column(default=0)
    keystrokes: Mapped[int] = mapped_column(default=0)
    client: Mapped[str | None]
    """The browser tab that wrote the newest revision."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    updated_at: Mapped[dt.datetime] = mapped_column(default=now)
    submitted_at: Mapped[dt.datetime | None]
    task: Mapped[Task] = relationship(back_populates="annotations")
    user: Mapped[User] = relationship()
    spans: Mapped[list[SpanRow]] = relationship(cascade="all, delete-orphan", order_by="SpanRow.start")
    flags: Mapped[list[FlagRow]] = relationship(cascade="all, delete-orphan", order_by="FlagRow.start")
    rejected: Mapped[list[RejectedRow]] = relationship(cascade="all, delete-orphan", order_by="RejectedRow.start")
    decisions: Mapped[list[Decision]] = relationship(cascade="all, delete-orphan", order_by="Decision.unit")


class SpanRow(Base):
    """A span of an annotation, in tokens; `surface` is asserted against the text when written."""

    __tablename__ = "annotation_span"
    __table_args__ = (
        valid_offsets(),
        sa.UniqueConstraint("annotation_id", "start"),
        sa.Index("ix_annotation_span_surface", "surface", "id"),
    )

    id: Mapped[int] = _id()
    annotation_id: Mapped[int] = _owned("annotation.id")
    start: Mapped[int]
    end: Mapped[int]
    type: Mapped[str]
    surface: Mapped[str]
    elsewhere: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    """Its author had the same words proposed in other sentences."""
    entity: Mapped[str | None]
    """The address of the resource it names, `NIL`, or None while it is linked to none."""
    origin: Mapped[str] = mapped_column(default="new")
    """new · accepted · retyped · moved · identical · kept · confirmed · first · second · other"""


class FlagRow(Base):
    """Annotator 2's mark that a span of annotator 1 may be wrong."""

    __tablename__ = "annotation_flag"
    __table_args__ = (valid_offsets(), sa.UniqueConstraint("annotation_id", "start", "end"))

    id: Mapped[int] = _id()
    annotation_id: Mapped[int] = _owned("annotation.id")
    start: Mapped[int]
    end: Mapped[int]
    type: Mapped[str]
    note: Mapped[str] = mapped_column(default="")


class RejectedRow(Base):
    """A suggestion that a person deleted."""

    __tablename__ = "rejected_suggestion"
    __table_args__ = (valid_offsets(), sa.UniqueConstraint("annotation_id", "source", "start", "end", "type"))

    id: Mapped[int] = _id()
    annotation_id: Mapped[int] = _owned("annotation.id")
    start: Mapped[int]
    end: Mapped[int]
    type: Mapped[str]
    source: Mapped[str]


class Decision(Base):
    """The expert's choice for one unit (agreed or disagreed) of a sentence, with the unit itself."""

    __tablename__ = "decision"
    __table_args__ = (sa.UniqueConstraint("annotation_id", "unit"), one_of("choice", CHOICES, "choice"))

    id: Mapped[int] = _id()
    annotation_id: Mapped[int] = _owned("annotation.id")
    unit: Mapped[int]
    kind: Mapped[str]
    choice: Mapped[str]
    first: Mapped[list[Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    """Annotator 1's span as `[start, end, type]`, its entity last if it is linked to one, or None."""
    second: Mapped[list[Any] | None] = mapped_column(sa.JSON(none_as_null=True))


class AnnotationVersion(Base):
    """A submitted version, kept when the work is reopened and changed."""

    __tablename__ = "annotation_version"
    __table_args__ = (sa.UniqueConstraint("annotation_id", "revision"),)

    id: Mapped[int] = _id()
    annotation_id: Mapped[int] = _owned("annotation.id")
    revision: Mapped[int]
    work: Mapped[dict[str, Any]]
    submitted_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)


class AppliedEvent(Base):
    """An outbox event that has been applied; its key makes a resend harmless."""

    __tablename__ = "applied_event"
    __table_args__ = (sa.UniqueConstraint("client", "seq"),)

    key: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int] = _owned("user_account.id")
    client: Mapped[str]
    seq: Mapped[int]
    at: Mapped[dt.datetime] = mapped_column(default=now)


class Question(Base):
    """The expert's question to the annotators about a sentence under adjudication."""

    __tablename__ = "question"

    id: Mapped[int] = _id()
    task_id: Mapped[int] = _owned("task.id")
    asked_by: Mapped[int] = _owned("user_account.id")
    text: Mapped[str]
    asks: Mapped[str] = mapped_column(default="both", server_default="both")
    """Whom it asks: both, first or second."""
    asked_at: Mapped[dt.datetime] = mapped_column(default=now)
    closed_at: Mapped[dt.datetime | None]
    answers: Mapped[list[Answer]] = relationship(cascade="all, delete-orphan", order_by="Answer.answered_at")


class Answer(Base):
    """One annotator's answer to a question."""

    __tablename__ = "answer"
    __table_args__ = (sa.UniqueConstraint("question_id", "user_id"),)

    id: Mapped[int] = _id()
    question_id: Mapped[int] = _owned("question.id")
    user_id: Mapped[int] = _owned("user_account.id")
    text: Mapped[str]
    answered_at: Mapped[dt.datetime] = mapped_column(default=now)


class OutsideAllowance(Base):
    """That a campaign's sentences may be sent to an outside model, its budget there, and what was spent of it."""

    __tablename__ = "outside_allowance"
    __table_args__ = (
        sa.UniqueConstraint("campaign_id", "name"),
        sa.CheckConstraint("max_requests > 0", name="max_requests"),
    )

    id: Mapped[int] = _id()
    campaign_id: Mapped[int] = _owned("campaign.id")
    name: Mapped[str]
    """The model's name in the file of outside models."""
    address: Mapped[str]
    """Where it was allowed to send to; another address is another permission."""
    model: Mapped[str]
    is_open: Mapped[bool] = mapped_column(default=True)
    max_requests: Mapped[int]
    max_tokens: Mapped[int | None] = mapped_column(sa.BigInteger)
    max_cost: Mapped[float | None]
    requests: Mapped[int] = mapped_column(default=0)
    input_tokens: Mapped[int] = mapped_column(sa.BigInteger, default=0)
    output_tokens: Mapped[int] = mapped_column(sa.BigInteger, default=0)
    cost: Mapped[float] = mapped_column(default=0.0)
    answered: Mapped[int] = mapped_column(default=0)
    """Sentences with a usable answer, each counted when it came."""
    unusable: Mapped[int] = mapped_column(default=0)
    dropped: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Entries of answers that were dropped, by reason."""
    allowed_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"))
    allowed_at: Mapped[dt.datetime] = mapped_column(default=now)


class SparqlCache(Base):
    """A cached answer of an endpoint about a name, or of an outside model about a sentence; complete answers only."""

    __tablename__ = "sparql_cache"

    endpoint: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]
    fetched_at: Mapped[dt.datetime] = mapped_column(default=now)
