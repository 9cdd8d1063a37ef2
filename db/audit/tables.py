"""The table of the audit trail: who did what, when, by which way."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from db.types import Base, now, one_of

WAYS = ("page", "api", "command", "worker")
"""By what somebody acted."""


class AuditEntry(Base):
    """One thing somebody did, written with it and never changed. It refers to no row, as that may be gone later."""

    __tablename__ = "audit_entry"
    __table_args__ = (
        one_of("via", WAYS, "via"),
        sa.Index("ix_audit_entry_campaign", "campaign_id", "done_at"),
        {"sqlite_autoincrement": True},  # the number of an entry is never given again
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    done_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)
    actor_id: Mapped[int | None]
    """None for the workbench itself, and for somebody who was not signed in."""
    actor_name: Mapped[str]
    """The account's name as it was; empty for somebody who was not signed in."""
    via: Mapped[str]
    token_id: Mapped[int | None]
    """The API's token they acted with."""
    action: Mapped[str]
    campaign_id: Mapped[int | None]
    subject_kind: Mapped[str]
    """What kind of thing it was about, such as account or run."""
    subject: Mapped[str]
    """That thing's name or number."""
    details: Mapped[str]
    """A small JSON object, as text that can be searched."""
