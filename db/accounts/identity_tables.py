"""Tables of people as a sign-in provider knows them, and of the sessions that it opened."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.tables import User
from db.types import Base, now


class Identity(Base):
    """Somebody at a provider, who is known by issuer and subject alone, and the account that they sign in to."""

    __tablename__ = "identity"
    __table_args__ = (sa.UniqueConstraint("issuer", "subject"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(sa.ForeignKey("user_account.id", ondelete="CASCADE"), index=True)
    issuer: Mapped[str]
    subject: Mapped[str]
    shown_as: Mapped[str] = mapped_column(default="")
    """Name or e-mail address at the provider, for people to read; nothing is matched by it."""
    waits_since: Mapped[dt.datetime | None]
    """Set while nobody has let the person in yet; their account is closed meanwhile."""
    role_by_groups: Mapped[bool] = mapped_column(default=False)
    """Whether the account has its role by the groups at the last sign-in."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    user: Mapped[User] = relationship(lazy="joined")


class ProviderSession(Base):
    """What a browser's session needs to be ended at the provider, or by it."""

    __tablename__ = "provider_session"

    id: Mapped[int] = mapped_column(primary_key=True)
    login_session_id: Mapped[int] = mapped_column(sa.ForeignKey("login_session.id", ondelete="CASCADE"), unique=True)
    identity_id: Mapped[int] = mapped_column(sa.ForeignKey("identity.id", ondelete="CASCADE"), index=True)
    sid: Mapped[str] = mapped_column(default="", index=True)
    """The session's id at the provider, empty if it gave none."""
    id_token: Mapped[str] = mapped_column(default="")
    """A hint for the provider's sign-out page; it opens nothing."""
