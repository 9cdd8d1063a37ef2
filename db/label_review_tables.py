"""The table of label review: what may be wrong in the gold, and what the expert decided about it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from db.types import Base, now, one_of, valid_offsets

FINDING_STATES = ("open", "kept", "changed", "reopened", "left_out")


class FindingRow(Base):
    """One place in the gold that a check doubts; a decided one is kept for good, an open one until the next review."""

    __tablename__ = "second_look_finding"
    __table_args__ = (
        valid_offsets(),
        one_of("state", FINDING_STATES, "state"),
        sa.CheckConstraint("score BETWEEN 0 AND 1", name="score"),
        sa.CheckConstraint("(state = 'open') = (decided_at IS NULL)", name="decided"),
        sa.CheckConstraint("(state = 'left_out') = (left_out_id IS NOT NULL)", name="left_out"),
        sa.Index("ix_second_look_finding_queue", "campaign_id", "found_by", "state"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaign.id", ondelete="CASCADE"))
    sentence_id: Mapped[int] = mapped_column(sa.ForeignKey("sentence.id", ondelete="CASCADE"), index=True)
    found_by: Mapped[str]
    """The id of the check."""
    kind: Mapped[str]
    start: Mapped[int]
    """The tokens `[start, end)` that the finding is about."""
    end: Mapped[int]
    there: Mapped[list[Any]]
    """All gold spans that touch these tokens, as `[start, end, type]`; once the gold differs, the finding is stale."""
    proposed: Mapped[list[Any]]
    """The spans proposed instead."""
    score: Mapped[float]
    why: Mapped[str]
    other_id: Mapped[int | None] = mapped_column(sa.ForeignKey("sentence.id", ondelete="CASCADE"), index=True)
    """The sentence that this one is compared with."""
    other_there: Mapped[list[Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    """The gold spans at the same place there."""
    proposed_probability: Mapped[float | None]
    """What models that did not learn from the sentence give the proposal, or its share among the same words in gold;
    NULL if the check has neither."""
    present_probability: Mapped[float | None]
    history: Mapped[list[Any]] = mapped_column(default=list, server_default="[]")
    """Every decision and its reversal, oldest first: `state`, `by` (an account's name), `at`, `split`;
    and the `key` under which a browser sent it, so that it is applied once."""
    state: Mapped[str] = mapped_column(default="open")
    decided_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"))
    decided_at: Mapped[dt.datetime | None]
    left_out_id: Mapped[int | None] = mapped_column(sa.ForeignKey("sentence.id", ondelete="CASCADE"), index=True)
    """The one of the two sentences that training leaves out, if that was decided."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
