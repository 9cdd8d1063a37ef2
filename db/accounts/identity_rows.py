"""Store functions of identities at a sign-in provider, and of the sessions that it opened."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa

from db.accounts.identity_tables import Identity, ProviderSession
from db.engine import Session, insert_new
from db.tables import LoginSession, User
from db.types import now


def find(session: Session, *, issuer: str, subject: str) -> Identity | None:
    return session.scalar(sa.select(Identity).where(Identity.issuer == issuer, Identity.subject == subject))


def get(session: Session, identity_id: int) -> Identity | None:
    return session.get(Identity, identity_id)


def everything(session: Session) -> list[Identity]:
    return list(session.scalars(sa.select(Identity).order_by(Identity.id)))


def of_user(session: Session, user_id: int) -> list[Identity]:
    return list(session.scalars(sa.select(Identity).where(Identity.user_id == user_id).order_by(Identity.id)))


def add(session: Session, *, user_id: int, issuer: str, subject: str, shown_as: str, waits: bool) -> Identity | None:
    """Add an identity; return None if issuer and subject are there already, also where two add them at a time."""
    row = {
        "user_id": user_id,
        "issuer": issuer,
        "subject": subject,
        "shown_as": shown_as,
        "waits_since": now() if waits else None,
        "role_by_groups": False,
        "created_at": now(),
    }
    if not insert_new(session, Identity, row, keys=["issuer", "subject"]):
        return None
    return find(session, issuer=issuer, subject=subject)


def add_account(session: Session, *, name: str, display_name: str, role: str, active: bool, password_hash: str) -> bool:
    """Add an account unless its name is taken, also where two take it at a time."""
    row = {"name": name, "display_name": display_name, "role": role, "active": active, "created_at": now()}
    return insert_new(session, User, row | {"password_hash": password_hash}, keys=["name"])


def end_waiting(session: Session, user_id: int) -> None:
    """Note that it is decided whether this person is let in."""
    session.execute(sa.update(Identity).where(Identity.user_id == user_id).values(waits_since=None))


def remove(session: Session, identity: Identity) -> None:
    """Delete an identity, and revoke the sessions that it opened."""
    revoke_sessions(session, identity_id=identity.id)
    session.delete(identity)
    session.flush()


def remove_account(session: Session, user: User) -> None:
    """Delete an account that nobody was ever let in to."""
    session.delete(user)
    session.flush()


def open_provider_session(session: Session, *, token_hash: str, identity_id: int, sid: str, id_token: str) -> None:
    login = session.scalars(sa.select(LoginSession.id).where(LoginSession.token_hash == token_hash)).one()
    session.add(ProviderSession(login_session_id=login, identity_id=identity_id, sid=sid, id_token=id_token))


def provider_session(session: Session, *, token_hash: str) -> tuple[str, str] | None:
    """Return issuer and ID token of a browser's session, None if no provider opened it."""
    row = session.execute(
        sa.select(Identity.issuer, ProviderSession.id_token)
        .join(ProviderSession, ProviderSession.identity_id == Identity.id)
        .join(LoginSession, LoginSession.id == ProviderSession.login_session_id)
        .where(LoginSession.token_hash == token_hash)
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def revoke_sessions(
    session: Session, *, identity_id: int | None = None, sid: str = "", before: dt.datetime | None = None
) -> int:
    """Revoke open sessions of an identity or of a session at the provider, or both; return how many."""
    chosen = sa.select(ProviderSession.login_session_id)
    if identity_id is not None:
        chosen = chosen.where(ProviderSession.identity_id == identity_id)
    if sid:
        chosen = chosen.where(ProviderSession.sid == sid)
    conditions: list[sa.ColumnElement[bool]] = [LoginSession.id.in_(chosen), LoginSession.revoked_at.is_(None)]
    if before is not None:
        conditions.append(LoginSession.created_at <= before)
    ids = list(session.scalars(sa.select(LoginSession.id).where(*conditions)))
    revoked = sa.update(LoginSession).where(LoginSession.id.in_(ids)).values(revoked_at=now())
    session.execute(revoked.execution_options(synchronize_session=False))
    return len(ids)
