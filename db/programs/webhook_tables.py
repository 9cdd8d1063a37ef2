"""Tables of webhooks: where a campaign's events are sent, and each delivery with its payload."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from db.tables import Campaign, User
from db.types import Base, now, one_of

DELIVERY_STATES = ("waiting", "failed", "delivered", "given up")
"""`failed` is sent again later, `given up` is not."""


class Webhook(Base):
    """An address that a campaign's events are sent to; its secret is kept as it is, for it signs."""

    __tablename__ = "webhook"

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey(Campaign.id, ondelete="CASCADE"), index=True)
    url: Mapped[str]
    events: Mapped[list[Any]]
    """Types of events it wants."""
    secret: Mapped[str] = mapped_column(deferred=True)  # so that only what signs reads it
    active: Mapped[bool] = mapped_column(default=True)
    off_reason: Mapped[str] = mapped_column(default="")
    """Why it is off; empty while it is on."""
    created_by: Mapped[int | None] = mapped_column(sa.ForeignKey(User.id))
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class Delivery(Base):
    """An event on its way to a webhook; its row is written in the transaction of what happened."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        one_of("state", DELIVERY_STATES, "state"),
        sa.UniqueConstraint("webhook_id", "message_id"),
        sa.Index("ix_webhook_delivery_due", "state", "next_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    webhook_id: Mapped[int] = mapped_column(sa.ForeignKey(Webhook.id, ondelete="CASCADE"), index=True)
    message_id: Mapped[str]
    """Sent as `webhook-id`, the same at each attempt."""
    type: Mapped[str]
    payload: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="waiting")
    attempts: Mapped[int] = mapped_column(default=0)
    next_at: Mapped[dt.datetime | None] = mapped_column(default=now)
    """When it is due; None once it has been delivered or given up."""
    claimed_until: Mapped[dt.datetime | None]
    """While a worker sends it, no other one does before this time."""
    last_status: Mapped[int | None]
    """The HTTP status of the last answer; None where none came."""
    last_error: Mapped[str] = mapped_column(default="")
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)
    finished_at: Mapped[dt.datetime | None]
