"""Store functions of accounts: people, browser sessions, sign-in attempts, tokens of the API and its kept replies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import sqlalchemy as sa

from db.engine import Session, in_turn, insert_new
from db.tables import ApiReply, ApiToken, LoginAttempt, LoginSession, User
from db.types import now


def by_name(session: Session, *, name: str) -> User | None:
    return session.scalar(sa.select(User).where(User.name == name))


def everyone(session: Session) -> list[User]:
    """Return all accounts, the active ones first, by name."""
    return list(session.scalars(sa.select(User).order_by(User.active.desc(), User.name)))


def add(session: Session, *, name: str, display_name: str, password_hash: str, role: str) -> User:
    user = User(name=name, display_name=display_name, password_hash=password_hash, role=role)
    session.add(user)
    session.flush()
    return user


def active_admins(session: Session) -> list[User]:
    """Return the active admins, the oldest account first."""
    return list(session.scalars(sa.select(User).where(User.role == "admin", User.active).order_by(User.id)))


def open_session(session: Session, *, user_id: int, token_hash: str, expires_at: dt.datetime) -> None:
    session.add(LoginSession(user_id=user_id, token_hash=token_hash, expires_at=expires_at))


_LOGIN = sa.select(LoginSession).where(LoginSession.token_hash == sa.bindparam("token_hash"))
"""Asked with every request, so it is made once."""


def valid_session(session: Session, *, token_hash: str) -> LoginSession | None:
    """Return the session of a token, if it is neither expired nor revoked and its account is active."""
    login = session.scalar(_LOGIN, {"token_hash": token_hash})
    if login is None or login.revoked_at is not None or login.expires_at <= now() or not login.user.active:
        return None
    return login


def revoke_session(session: Session, *, token_hash: str) -> None:
    _revoke(session, LoginSession.token_hash == token_hash)


def revoke_sessions_of(session: Session, *, user_id: int, but: str | None = None) -> None:
    """Revoke every session of a person, except the one whose token hash is `but`."""
    conditions = [LoginSession.user_id == user_id]
    if but is not None:
        conditions.append(LoginSession.token_hash != but)
    _revoke(session, *conditions)


def _revoke(session: Session, *conditions: sa.ColumnElement[bool]) -> None:
    _quietly(
        session, sa.update(LoginSession).where(LoginSession.revoked_at.is_(None), *conditions).values(revoked_at=now())
    )


def open_sessions(session: Session) -> dict[int, int]:
    """Return how many browsers each person is signed in with, by account id."""
    counted = (
        sa.select(LoginSession.user_id, sa.func.count())
        .where(LoginSession.revoked_at.is_(None), LoginSession.expires_at > now())
        .group_by(LoginSession.user_id)
    )
    return dict(session.execute(counted).all())


def last_sign_ins(session: Session) -> dict[int, dt.datetime]:
    """Return when each person last signed in, by account id."""
    latest = sa.select(LoginSession.user_id, sa.func.max(LoginSession.created_at)).group_by(LoginSession.user_id)
    return dict(session.execute(latest).all())


def add_attempt(session: Session, *, name: str, address: str) -> int:
    """Record a sign-in attempt as failed until `attempt_succeeded` is called; return its id."""
    attempt = LoginAttempt(name=name, address=address, succeeded=False)
    session.add(attempt)
    session.flush()
    return attempt.id


def attempt_succeeded(session: Session, *, attempt_id: int) -> None:
    session.execute(sa.update(LoginAttempt).where(LoginAttempt.id == attempt_id).values(succeeded=True))


def count_in_turn(session: Session) -> None:
    """Let others count attempts once this transaction has ended: parallel ones would not see each other's."""
    in_turn(session, "login_attempt")


def failures(
    session: Session, *, since: dt.datetime, name: str | None = None, address: str | None = None
) -> list[dt.datetime]:
    """Return the times of failed attempts after `since`, newest first, by name, address, or both."""
    query = sa.select(LoginAttempt.at).where(LoginAttempt.at > since, LoginAttempt.succeeded.is_(False))
    if name is not None:
        query = query.where(LoginAttempt.name == name)
    if address is not None:
        query = query.where(LoginAttempt.address == address)
    return list(session.scalars(query.order_by(LoginAttempt.at.desc())))


def last_success(session: Session, *, name: str, address: str) -> dt.datetime | None:
    """Return when this name last signed in from this address."""
    return session.scalar(
        sa.select(sa.func.max(LoginAttempt.at)).where(
            LoginAttempt.name == name, LoginAttempt.address == address, LoginAttempt.succeeded
        )
    )


def forget_old(session: Session, *, failures_before: dt.datetime, others_before: dt.datetime) -> None:
    """Delete old attempts and expired sessions that nothing reads any more."""
    statements: Iterable[sa.Delete] = (
        sa.delete(LoginAttempt).where(LoginAttempt.succeeded.is_(False), LoginAttempt.at < failures_before),
        sa.delete(LoginAttempt).where(LoginAttempt.at < others_before),
        sa.delete(LoginSession).where(LoginSession.expires_at < others_before),
    )
    for statement in statements:
        _quietly(session, statement)


_TOKEN = sa.select(ApiToken).where(ApiToken.secret_hash == sa.bindparam("secret_hash"))


def valid_token(session: Session, *, secret_hash: str) -> ApiToken | None:
    """Return a token with its person, if it is neither expired nor revoked and the account is active."""
    token = session.scalar(_TOKEN, {"secret_hash": secret_hash})
    if token is None or token.revoked_at is not None or token.expires_at <= now() or not token.user.active:
        return None
    return token


def add_token(
    session: Session, *, user_id: int, name: str, secret_hash: str, scope: str, expires_at: dt.datetime
) -> ApiToken:
    token = ApiToken(user_id=user_id, name=name, secret_hash=secret_hash, scope=scope, expires_at=expires_at)
    session.add(token)
    session.flush()
    return token


def token(session: Session, token_id: int) -> ApiToken | None:
    return session.get(ApiToken, token_id)


def tokens_of(session: Session, *, user_id: int) -> list[ApiToken]:
    """Return a person's tokens, those revoked and expired too, newest first."""
    return list(session.scalars(sa.select(ApiToken).where(ApiToken.user_id == user_id).order_by(ApiToken.id.desc())))


def token_used(session: Session, *, token_id: int) -> None:
    _quietly(session, sa.update(ApiToken).where(ApiToken.id == token_id).values(last_used_at=now()))


def revoke_tokens(session: Session, *, user_id: int, token_id: int | None = None) -> None:
    """Revoke a person's tokens, or one of them."""
    query = sa.update(ApiToken).where(ApiToken.user_id == user_id, ApiToken.revoked_at.is_(None))
    if token_id is not None:
        query = query.where(ApiToken.id == token_id)
    _quietly(session, query.values(revoked_at=now()))


def reply(session: Session, *, token_id: int, key: str) -> ApiReply | None:
    """Return what was kept under an idempotency key of a token."""
    return session.scalar(sa.select(ApiReply).where(ApiReply.token_id == token_id, ApiReply.key == key))


def claim_reply(session: Session, *, token_id: int, key: str, request_hash: str) -> bool:
    """Reserve a key for a request that is about to be carried out; False if the key is in use."""
    row = {"token_id": token_id, "key": key, "request_hash": request_hash, "body": "", "created_at": now()}
    return insert_new(session, ApiReply, row, keys=["token_id", "key"])


def keep_reply(session: Session, *, token_id: int, key: str, status: int, body: str) -> None:
    where = (ApiReply.token_id == token_id, ApiReply.key == key)
    _quietly(session, sa.update(ApiReply).where(*where).values(status=status, body=body))


def drop_reply(session: Session, *, token_id: int, key: str) -> None:
    """Free a key whose request was refused."""
    _quietly(session, sa.delete(ApiReply).where(ApiReply.token_id == token_id, ApiReply.key == key))


def forget_replies(session: Session, *, before: dt.datetime) -> None:
    _quietly(session, sa.delete(ApiReply).where(ApiReply.created_at < before))


def _quietly(session: Session, statement: sa.Update | sa.Delete) -> None:
    """Run a statement that no object in the session has to hear of."""
    session.execute(statement.execution_options(synchronize_session=False))
