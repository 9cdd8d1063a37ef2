"""Sign in and out: a limit on attempts, opaque tokens, sessions kept in the store."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import secrets
import unicodedata
from dataclasses import dataclass

from crossner_core.errors import RateLimited, SignInRefused
from db import account_rows, people_rows
from db.engine import Session, Store
from db.tables import User
from db.types import now
from workbench.accounts import audit, passwords
from workbench.accounts.actors import Actor

_BY_PROVIDER = "by provider"
"""Stands for the name in attempts with a provider; no account can have it."""
REFUSED = "This name and password do not open an account. Check both, or ask an admin."


@dataclass(frozen=True, slots=True)
class SignInLimit:
    """How many failed attempts are allowed in a sliding window.

    A name from an address where it has signed in before is judged by `pair` alone, so that nobody
    can lock out colleagues by failing in their name elsewhere, or from the same address.
    """

    pair: int = 5
    """Failures of one name from one address."""
    address: int = 40
    """Failures of any names from one address."""
    name: int = 30
    """Failures of one name from any addresses."""
    window: dt.timedelta = dt.timedelta(minutes=15)
    remembered: dt.timedelta = dt.timedelta(days=60)
    """How long a successful sign-in vouches for its name and address."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session; `token` exists only here and in the browser's cookie."""

    token: str
    actor: Actor
    expires_at: dt.datetime


def sign_in(
    store: Store,
    *,
    name: str,
    password: str,
    address: str,
    hours: float = 12.0,
    old_token: str | None = None,
    limit: SignInLimit = SignInLimit(),
) -> SignedIn:
    """Open a session for name and password; `old_token`, the browser's former session, is revoked.

    Raises SignInRefused, the same for an unknown name and a wrong password, and RateLimited.
    """
    tidy = unicodedata.normalize("NFKC", name).strip().casefold()[:100]
    if not tidy.isprintable():  # no account has such a name, and PostgreSQL cannot hold every one
        raise SignInRefused(REFUSED)
    try:
        return _signed_in(store, tidy, password, address, hours=hours, old_token=old_token, limit=limit)
    except SignInRefused:
        _record_refusal(store, name=tidy, address=address)
        raise


def _signed_in(
    store: Store, name: str, password: str, address: str, *, hours: float, old_token: str | None, limit: SignInLimit
) -> SignedIn:
    with store.write() as session:  # counted before the slow check, so that parallel attempts count too
        account_rows.count_in_turn(session)
        _check_limit(session, limit, name=name, address=address)
        attempt = account_rows.add_attempt(session, name=name, address=address)
        user = account_rows.by_name(session, name=name)
        stored = user.password_hash if user is not None else None
    fits = passwords.verify(password[: passwords.LONGEST], stored)
    if not fits or user is None or stored is None:
        raise SignInRefused(REFUSED)
    renewed = passwords.hash_password(password) if passwords.is_outdated(stored) else None
    with store.write() as session:
        account = people_rows.find(session, user.id)
        if account is None or not account.active or account.password_hash != stored:
            raise SignInRefused(REFUSED)
        if renewed is not None:
            account.password_hash = renewed
        account_rows.attempt_succeeded(session, attempt_id=attempt)
        signed = open_session(session, account, hours=hours, old_token=old_token, limit=limit)
        audit.record(session, signed.actor, "sign_in", ("account", account.name), address=address)
        return signed


def open_session(
    session: Session, account: User, *, hours: float, old_token: str | None, limit: SignInLimit = SignInLimit()
) -> SignedIn:
    """Open a browser's session for somebody who has shown who they are; its former one is revoked."""
    token, expires_at = secrets.token_urlsafe(32), now() + dt.timedelta(hours=hours)
    if old_token:
        account_rows.revoke_session(session, token_hash=token_hash(old_token))
    account_rows.open_session(session, user_id=account.id, token_hash=token_hash(token), expires_at=expires_at)
    account_rows.forget_old(
        session, failures_before=now() - dt.timedelta(days=1), others_before=now() - limit.remembered
    )
    actor = Actor(id=account.id, name=account.name, display_name=account.display_name, role=account.role)
    return SignedIn(token=token, actor=actor, expires_at=expires_at)


def attempt_by_provider(store: Store, address: str, *, limit: SignInLimit = SignInLimit()) -> int:
    """Count a sign-in with a provider as failed until it succeeds; return its id. Raises RateLimited."""
    with store.write() as session:
        account_rows.count_in_turn(session)
        failures = account_rows.failures(session, since=now() - limit.window, address=address)
        _refuse_many([(limit.address, failures)], limit)
        return account_rows.add_attempt(session, name=_BY_PROVIDER, address=address)


def attempt_settled(store: Store, attempt: int) -> None:
    """Count an attempt as no failure: it succeeded, or the provider did not answer."""
    with store.write() as session:
        account_rows.attempt_succeeded(session, attempt_id=attempt)


def _record_refusal(store: Store, *, name: str, address: str) -> None:
    """Record a failed attempt; a name that no account has is left out, as people type passwords there."""
    with store.write() as session:
        known = account_rows.by_name(session, name=name) is not None
        audit.record(session, None, "fail_sign_in", ("account", name if known else ""), address=address)


def actor_for_token(store: Store, token: str) -> Actor | None:
    """Return who holds the token, with the role they have now; None if it is not valid (any more)."""
    if not token:
        return None
    with store.look() as session:
        login = account_rows.valid_session(session, token_hash=token_hash(token))
        if login is None:
            return None
        user = login.user
        return Actor(id=user.id, name=user.name, display_name=user.display_name, role=user.role)


def sign_out(store: Store, token: str) -> None:
    """Revoke the token's session; an unknown token is no error."""
    with store.write() as session:
        login = account_rows.valid_session(session, token_hash=token_hash(token))
        if login is not None:
            user = login.user
            actor = Actor(id=user.id, name=user.name, display_name=user.display_name, role=user.role)
            audit.record(session, actor, "sign_out", ("account", user.name))
        account_rows.revoke_session(session, token_hash=token_hash(token))


def token_hash(token: str) -> str:
    """Return what the store keeps of a token; it is random, so a plain SHA-256 is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _check_limit(session: Session, limit: SignInLimit, *, name: str, address: str) -> None:
    since = now() - limit.window
    vouched = account_rows.last_success(session, name=name, address=address)
    since_success = max(since, vouched or since)
    judged = [(limit.pair, account_rows.failures(session, since=since_success, name=name, address=address))]
    if vouched is None or vouched < now() - limit.remembered:
        judged.append((limit.address, account_rows.failures(session, since=since, address=address)))
        judged.append((limit.name, account_rows.failures(session, since=since, name=name)))
    _refuse_many(judged, limit)


def _refuse_many(judged: list[tuple[int, list[dt.datetime]]], limit: SignInLimit) -> None:
    free_at = [moments[allowed - 1] + limit.window for allowed, moments in judged if len(moments) >= allowed]
    if free_at:
        minutes = max(1, math.ceil((max(free_at) - now()).total_seconds() / 60))
        clock = max(free_at).strftime("%H:%M")
        raise RateLimited(
            f"Too many failed attempts. Try again in {minutes} {'minute' if minutes == 1 else 'minutes'} "
            f"(at {clock} UTC); an admin can give you a new password, too."
        )
