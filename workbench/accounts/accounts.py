"""Accounts: who may sign in, as what; passwords, and the admin's list of people."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from dataclasses import dataclass

from crossner_core.errors import Conflict, InvalidAccount, NotAllowed, NotFound
from db import account_rows, people_rows
from db.accounts import identity_rows
from db.engine import Session, Store
from db.tables import User
from workbench.accounts import audit, passwords
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import EVERYONE
from workbench.accounts.sign_in import token_hash

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


@dataclass(frozen=True, slots=True)
class Person:
    """An account as the admin sees it; `browsers` counts the sessions that are open now."""

    id: int
    name: str
    display_name: str
    role: str
    active: bool
    created_at: dt.datetime
    last_sign_in: dt.datetime | None
    browsers: int


def create_user(store: Store, actor: Actor | None, *, name: str, display_name: str, password: str, role: str) -> Actor:
    """Add an account; without an actor only the first admin of a store that has none can be made.

    Raises InvalidAccount for an unusable name, password or role, Conflict for a name that is taken.
    """
    tidy = checked_name(name)
    _check_role(role)
    passwords.check_strength(password, name=tidy)
    shown = checked_display_name(display_name or tidy)
    if actor is not None:
        require(actor, "admin")
    hashed = passwords.hash_password(password)
    with store.write() as session:
        if actor is not None:
            fresh(session, actor, "admin")
        elif role != "admin" or account_rows.active_admins(session):
            raise NotAllowed("Only an admin adds accounts; the first account of an empty store is an admin's.")
        if account_rows.by_name(session, name=tidy) is not None:
            raise Conflict(f"There is already an account {tidy!r}; choose another name.")
        user = account_rows.add(session, name=tidy, display_name=shown, password_hash=hashed, role=role)
        made = _actor(user)
        audit.record(session, actor or made, "create_user", ("account", made.name), role=role)
        return made


def checked_name(name: str) -> str:
    """Return the account name in its one spelling; raise InvalidAccount for one that cannot be used."""
    tidy = unicodedata.normalize("NFKC", name).strip().casefold()
    if not _NAME.fullmatch(tidy):
        raise InvalidAccount(
            f"{name!r} cannot be an account name: 1 to 40 of a–z, 0–9, '.', '_' and '-', a letter or digit first."
        )
    return tidy


def operator(store: Store) -> Actor:
    """Return the oldest active admin: whoever can run commands on the server's machine acts as them.

    Raises NotFound in a store without an admin.
    """
    with store.read() as session:
        admins = account_rows.active_admins(session)
        if not admins:
            raise NotFound("This store has no admin yet; make one first.")
        return _actor(admins[0])


def current(store: Store, actor_id: int) -> Actor | None:
    """Return the person with the role they have now, or None when the account is gone or not active."""
    with store.read() as session:
        user = people_rows.find(session, actor_id)
        return _actor(user) if user is not None and user.active else None


def list_people(store: Store, actor: Actor) -> tuple[Person, ...]:
    """Return every account, the active ones first."""
    require(actor, "admin")
    with store.read() as session:
        fresh(session, actor, "admin")
        browsers, last = account_rows.open_sessions(session), account_rows.last_sign_ins(session)
        return tuple(
            Person(
                id=user.id,
                name=user.name,
                display_name=user.display_name,
                role=user.role,
                active=user.active,
                created_at=user.created_at,
                last_sign_in=last.get(user.id),
                browsers=browsers.get(user.id, 0) if user.active else 0,
            )
            for user in account_rows.everyone(session)
        )


def list_admins(store: Store, actor: Actor) -> tuple[str, ...]:
    """Return the display names of those who manage accounts, for people to know whom to ask."""
    with store.read() as session:
        fresh(session, actor, *EVERYONE)
        users = account_rows.everyone(session)
        return tuple(sorted(user.display_name for user in users if user.active and user.role == "admin"))


def set_role(store: Store, actor: Actor, user_id: int, role: str) -> None:
    """Give a person another role; the last active admin keeps theirs (Conflict)."""
    _check_role(role)
    require(actor, "admin")
    with store.write() as session:
        user = _managed(session, actor, user_id)
        if role != "admin":
            _keep_an_admin(session, user)
        audit.record(session, actor, "set_role", ("account", user.name), role=[user.role, role])
        user.role = role


def set_active(store: Store, actor: Actor, user_id: int, active: bool) -> None:
    """Open or close an account; closing signs the person out everywhere and revokes their tokens, their work stays.

    Somebody who waits to be let in no longer does.
    """
    require(actor, "admin")
    with store.write() as session:
        user = _managed(session, actor, user_id)
        identity_rows.end_waiting(session, user.id)
        if not active:
            _keep_an_admin(session, user)
            account_rows.revoke_sessions_of(session, user_id=user.id)
            account_rows.revoke_tokens(session, user_id=user.id)
        audit.record(session, actor, "open_account" if active else "close_account", ("account", user.name))
        user.active = active


def set_display_name(store: Store, actor: Actor, user_id: int, display_name: str) -> None:
    """Change the name shown to others: one's own, or anyone's for an admin."""
    shown = checked_display_name(display_name)
    with store.write() as session:
        user = _own_or_managed(session, actor, user_id)
        changes = audit.changed({"display_name": user.display_name}, {"display_name": shown})
        audit.record(session, actor, "set_display_name", ("account", user.name), **changes)
        user.display_name = shown


def set_password(store: Store, actor: Actor, user_id: int, password: str) -> None:
    """Give a person a new password, sign them out everywhere and revoke their tokens; for admins."""
    require(actor, "admin")
    passwords.check_strength(password)
    hashed = passwords.hash_password(password)
    with store.write() as session:
        user = _managed(session, actor, user_id)
        user.password_hash = hashed
        audit.record(session, actor, "reset_password", ("account", user.name))
        account_rows.revoke_sessions_of(session, user_id=user.id)
        account_rows.revoke_tokens(session, user_id=user.id)


def change_password(store: Store, actor: Actor, *, present: str, new: str, token: str) -> None:
    """Change one's own password, which needs the current one; other browsers are signed out.

    `token` is this browser's session, which stays. Raises NotAllowed when `present` is wrong.
    """
    passwords.check_strength(new, name=actor.name)
    with store.read() as session:
        user = fresh(session, actor, *EVERYONE)
        stored = _found(session, user.id).password_hash
    if not passwords.verify(present, stored):
        raise NotAllowed("The present password is not right; nothing was changed.")
    hashed = passwords.hash_password(new)
    with store.write() as session:
        _found(session, fresh(session, actor, *EVERYONE).id).password_hash = hashed
        audit.record(session, actor, "change_password", ("account", actor.name))
        account_rows.revoke_sessions_of(session, user_id=actor.id, but=token_hash(token))


def sign_out_everywhere(store: Store, actor: Actor, user_id: int, *, keep_token: str | None = None) -> None:
    """Revoke every session of a person (one's own, or anyone's for an admin), except the one to keep."""
    with store.write() as session:
        user = _own_or_managed(session, actor, user_id)
        but = token_hash(keep_token) if keep_token is not None else None
        audit.record(session, actor, "sign_out_everywhere", ("account", user.name))
        account_rows.revoke_sessions_of(session, user_id=user.id, but=but)


def _actor(user: User) -> Actor:
    return Actor(id=user.id, name=user.name, display_name=user.display_name, role=user.role)


def _check_role(role: str) -> None:
    if role not in EVERYONE:
        raise InvalidAccount(f"There is no role {role!r}; the roles are {', '.join(EVERYONE)}.")


def checked_display_name(display_name: str) -> str:
    """Return the name shown to others, with single spaces; raise InvalidAccount for one that cannot be used."""
    tidy = " ".join(display_name.split())
    if not 1 <= len(tidy) <= 80 or not tidy.isprintable():
        raise InvalidAccount(f"A display name has 1 to 80 printable characters; this one has {len(tidy)}.")
    return tidy


def _found(session: Session, user_id: int) -> User:
    user = people_rows.find(session, user_id)
    if user is None:
        raise NotFound(f"There is no account number {user_id}.")
    return user


def _managed(session: Session, actor: Actor, user_id: int) -> User:
    fresh(session, actor, "admin")
    return _found(session, user_id)


def _own_or_managed(session: Session, actor: Actor, user_id: int) -> User:
    fresh(session, actor, *(EVERYONE if actor.id == user_id else ("admin",)))
    return _found(session, user_id)


def _keep_an_admin(session: Session, user: User) -> None:
    if user.role == "admin" and [admin.id for admin in account_rows.active_admins(session)] == [user.id]:
        raise Conflict(f"{user.display_name} is the last active admin; make someone else admin first.")
