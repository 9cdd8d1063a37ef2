"""Personal tokens for the API: made, shown once, listed, revoked. A token acts as its person, within its scope."""

from __future__ import annotations

import datetime as dt
import logging
import secrets
from dataclasses import dataclass

from crossner_core.errors import BadInput, Conflict, NotFound, StorageError
from crossner_core.schema import is_storable
from db import account_rows
from db.engine import Session, Store
from db.tables import TOKEN_SCOPES, ApiToken
from db.types import now
from workbench.accounts import audit
from workbench.accounts.actors import Actor, fresh
from workbench.accounts.roles import EVERYONE
from workbench.accounts.sign_in import token_hash
from workbench.accounts.ways import acting

log = logging.getLogger(__name__)
PREFIX = "crossner_"
"""What every token begins with, so that scanners for secrets and people recognise one."""
SCOPES = TOKEN_SCOPES
SCOPE_WORDS = {
    "read": "read, and predict with trained models",
    "write": "what read allows; also make campaigns and webhooks, import sentences, freeze snapshots",
    "train": "what write allows; also start, cancel and resume runs",
}
MOST_TOKENS = 50
"""Valid tokens of one person."""
MOST_DAYS = 366
USUAL_DAYS = 90
_SECRET_BYTES = 32
_USED_EVERY = dt.timedelta(minutes=1)
"""How exact the last use is kept: each call would otherwise write to the store."""


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token without its secret; `state` is valid, expired or revoked, `last_used_at` is exact to the minute."""

    id: int
    name: str
    scope: str
    state: str
    created_at: dt.datetime
    expires_at: dt.datetime
    last_used_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made; `secret` exists only here and where its person keeps it."""

    secret: str
    token: TokenView


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who calls with a token, with the role they have now, and what the token allows."""

    actor: Actor
    token_id: int
    scope: str
    expires_at: dt.datetime


def create_token(store: Store, actor: Actor, *, name: str, scope: str = "read", days: int = USUAL_DAYS) -> NewToken:
    """Make a token of the actor's own that is valid for `days`; its secret is returned once and not kept.

    Raises BadInput for a name, scope or number of days that is not allowed, Conflict for too many tokens.
    """
    tidy = " ".join(name.split())
    if not 1 <= len(tidy) <= 80 or not tidy.isprintable() or not is_storable(tidy):
        raise BadInput(f"A token's name has 1 to 80 printable characters; this one has {len(tidy)}.")
    if scope not in SCOPES:
        raise BadInput(f"There is no scope {scope!r}; choose one of {', '.join(SCOPES)}.")
    if not 1 <= days <= MOST_DAYS:
        raise BadInput(f"A token is valid for 1 to {MOST_DAYS} days, not {days}.")
    secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    with store.write() as session:
        person = fresh(session, actor, *EVERYONE)
        valid = [row for row in account_rows.tokens_of(session, user_id=person.id) if _state(row) == "valid"]
        if len(valid) >= MOST_TOKENS:
            raise Conflict(f"You have {len(valid)} valid tokens, and {MOST_TOKENS} is the most; revoke one first.")
        row = account_rows.add_token(
            session,
            user_id=person.id,
            name=tidy,
            secret_hash=token_hash(secret),
            scope=scope,
            expires_at=now() + dt.timedelta(days=days),
        )
        audit.record(session, person, "create_token", ("token", row.id), name=tidy, scope=scope, days=days)
        return NewToken(secret, _view(row))


def list_tokens(store: Store, actor: Actor, *, user_id: int | None = None) -> tuple[TokenView, ...]:
    """Return one's own tokens, newest first; an admin may name somebody else."""
    with store.read() as session:
        owner = _owner(session, actor, user_id)
        return tuple(_view(row) for row in account_rows.tokens_of(session, user_id=owner))


def revoke_token(store: Store, actor: Actor, token_id: int) -> None:
    """Revoke a token for good: one's own, or anyone's for an admin; one that is revoked already stays so.

    Raises NotFound, also for a token of somebody else.
    """
    with store.write() as session:
        person = fresh(session, actor, *EVERYONE)
        row = account_rows.token(session, token_id)
        if row is None or (row.user_id != person.id and person.role != "admin"):
            raise NotFound(f"You have no token {token_id}; see the list of your tokens.")
        audit.record(session, person, "revoke_token", ("token", row.id), name=row.name, account=row.user.name)
        account_rows.revoke_tokens(session, user_id=row.user_id, token_id=row.id)


def bearer_of(store: Store, secret: str) -> Bearer | None:
    """Return who holds a token, with the role they have now; None if it is not valid (any more)."""
    if not secret.startswith(PREFIX):
        return None
    with store.look() as session:
        row = account_rows.valid_token(session, secret_hash=token_hash(secret))
        if row is None:
            return None
        user = row.user
        actor = Actor(id=user.id, name=user.name, display_name=user.display_name, role=user.role)
        known = Bearer(actor, row.id, row.scope, row.expires_at)
        is_noted = row.last_used_at is not None and now() - row.last_used_at < _USED_EVERY
        is_first_today = row.last_used_at is None or row.last_used_at.date() != now().date()
        name = row.name
    if not is_noted:
        try:
            with store.write() as session, acting("api", known.token_id):
                account_rows.token_used(session, token_id=known.token_id)
                if is_first_today:
                    audit.record(session, actor, "use_token", ("token", known.token_id), name=name, scope=known.scope)
        except StorageError as error:  # on a full disk what is there can still be read
            log.warning("The use of token %d was not noted: %s", known.token_id, error)
    return known


def allows(scope: str, needed: str) -> bool:
    """Return whether a token of a scope may do what needs another."""
    return SCOPES.index(scope) >= SCOPES.index(needed)


def _owner(session: Session, actor: Actor, user_id: int | None) -> int:
    is_own = user_id in (None, actor.id)
    person = fresh(session, actor, *(EVERYONE if is_own else ("admin",)))
    return person.id if user_id is None else user_id


def _state(row: ApiToken) -> str:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at <= now() else "valid"


def _view(row: ApiToken) -> TokenView:
    return TokenView(row.id, row.name, row.scope, _state(row), row.created_at, row.expires_at, row.last_used_at)
