"""People as a sign-in provider knows them: by issuer and subject, never by name or e-mail address."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from crossner_core.errors import BadInput, Conflict, InvalidAccount, NotAllowed, NotFound
from crossner_core.schema import is_storable
from db import account_rows, people_rows
from db.accounts import identity_rows
from db.accounts.identity_tables import Identity
from db.engine import Session, Store
from db.tables import User
from db.types import now
from workbench.accounts import audit
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.oidc.arrivals import Arrival
from workbench.accounts.oidc.id_tokens import LogoutNotice
from workbench.accounts.oidc.provider_settings import WAIT, ProviderSettings
from workbench.accounts.passwords import NO_PASSWORD
from workbench.accounts.roles import EVERYONE
from workbench.accounts.sign_in import SignedIn, open_session, token_hash

log = logging.getLogger(__name__)

_LONGEST_NAME, _LONGEST_SHOWN, _LONGEST_SUBJECT = 40, 80, 255
_SAME_SECOND = dt.timedelta(seconds=1)
"""A logout token's time is in whole seconds."""


@dataclass(frozen=True, slots=True)
class IdentityView:
    """An identity and its account; `waits_since` is set while nobody has let the person in yet."""

    id: int
    user_id: int
    account: str
    issuer: str
    subject: str
    shown_as: str
    waits_since: dt.datetime | None

    @property
    def label(self) -> str:
        """What the provider calls the person, and the subject that it knows them by."""
        return f"{self.shown_as} ({self.subject})" if self.shown_as else self.subject


@dataclass(frozen=True, slots=True)
class WaysIn:
    """How a person can sign in."""

    has_password: bool
    identities: tuple[IdentityView, ...]


def sign_in_by_provider(
    store: Store, arrival: Arrival, settings: ProviderSettings, *, hours: float, old_token: str | None = None
) -> SignedIn:
    """Open a session for somebody the provider has signed in; who is new gets an account, by the settings' policy.

    Raises NotAllowed if an admin has to let them in first, or their account is closed.
    """
    with store.write() as session:
        identity = identity_rows.find(session, issuer=arrival.issuer, subject=arrival.subject)
        if identity is None:
            identity = _newcomer(session, arrival, settings)
        user = identity.user
        identity.shown_as = _shown(arrival)
        _take_role(session, identity, settings, arrival)
        if user.active:
            signed_in = open_session(session, user, hours=hours, old_token=old_token)
            audit.record(session, signed_in.actor, "sign_in", ("account", user.name), issuer=arrival.issuer)
            identity_rows.open_provider_session(
                session,
                token_hash=token_hash(signed_in.token),
                identity_id=identity.id,
                sid=arrival.sid,
                id_token=arrival.id_token,
            )
            return signed_in
        waits, name = identity.waits_since is not None, user.name
        audit.record(session, None, "fail_sign_in", ("account", name), issuer=arrival.issuer, waits=waits)
    if waits:
        raise NotAllowed(f"Your account {name!r} is here, and an admin has to let you in. Then sign in again.")
    raise NotAllowed(f"Your account {name!r} is closed; an admin can open it again.")


def _newcomer(session: Session, arrival: Arrival, settings: ProviderSettings) -> Identity:
    """Add account and identity; a name that is taken gets a number."""
    waits = settings.first_sign_in == WAIT
    role = "annotator" if waits else settings.first_sign_in
    shown = (_printable(arrival.display_name) or _printable(arrival.name))[:_LONGEST_SHOWN].strip()
    for name in _names(arrival.name):
        made = identity_rows.add_account(
            session,
            name=name,
            display_name=shown or name,
            role=role,
            active=not waits,
            password_hash=NO_PASSWORD,
        )
        if made:
            break
    user = account_rows.by_name(session, name=name)
    assert user is not None, "it was added just now"
    return _added(session, user.id, arrival, waits=waits)


def _added(session: Session, user_id: int, arrival: Arrival, *, waits: bool = False) -> Identity:
    identity = identity_rows.add(
        session,
        user_id=user_id,
        issuer=arrival.issuer,
        subject=arrival.subject,
        shown_as=_shown(arrival),
        waits=waits,
    )
    if identity is None:
        raise Conflict("You have just signed in from another window; try again.")
    return identity


def _names(wanted: str) -> Iterator[str]:
    """Yield account names, the one most like the name at the provider first."""
    plain = unicodedata.normalize("NFKD", wanted.partition("@")[0]).casefold()
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    base = re.sub(r"[^a-z0-9._-]+", "-", plain).strip("._-")[:_LONGEST_NAME] or "person"
    yield base
    for number in itertools.count(2):
        end = f"-{number}"
        yield base[: _LONGEST_NAME - len(end)] + end


def _shown(arrival: Arrival) -> str:
    return _printable(arrival.name or arrival.display_name)[:_LONGEST_SHOWN]


def _printable(text: str) -> str:
    kept = "".join(char for char in text if char.isprintable() or char.isspace())
    return " ".join(kept.split()) if is_storable(kept) else ""


def _take_role(session: Session, identity: Identity, settings: ProviderSettings, arrival: Arrival) -> None:
    """Give the account the role of its groups, if groups have roles; it lets in whoever waits.

    Who had a role by groups and is in none of them any more is treated like somebody new. An admin with a password, and
    the last active admin, stay admins: a mistake at the provider must not lock the workbench.
    """
    user = identity.user
    if not settings.roles:
        return
    role = settings.role_of(arrival.groups)
    if role is None and not identity.role_by_groups:
        return
    if role != "admin" and user.role == "admin" and user.active and _must_stay(session, user):
        log.warning("%s stays admin, though the groups at the provider give the role %s", user.name, role)
        return
    identity.role_by_groups = role is not None
    if role is None and settings.first_sign_in == WAIT:
        if user.active:
            user.active = False
            identity.waits_since = now()
            account_rows.revoke_sessions_of(session, user_id=user.id)
            account_rows.revoke_tokens(session, user_id=user.id)
        return
    user.role = role or settings.first_sign_in
    if identity.waits_since is not None and role is not None:
        user.active = True
        identity_rows.end_waiting(session, user.id)
        audit.record(session, None, "let_in", ("account", user.name), role=role, issuer=arrival.issuer)


def _must_stay(session: Session, user: User) -> bool:
    return user.password_hash != NO_PASSWORD or [each.id for each in account_rows.active_admins(session)] == [user.id]


def list_identities(store: Store, actor: Actor) -> tuple[IdentityView, ...]:
    """Return all identities, those that wait to be let in too."""
    require(actor, "admin")
    with store.read() as session:
        fresh(session, actor, "admin")
        return tuple(_view(identity) for identity in identity_rows.everything(session))


def own_ways_in(store: Store, actor: Actor) -> WaysIn:
    """Return how the actor can sign in."""
    with store.read() as session:
        user = people_rows.find(session, fresh(session, actor, *EVERYONE).id)
        assert user is not None, "`fresh` has read it just now"
        own = tuple(_view(identity) for identity in identity_rows.of_user(session, user.id))
        return WaysIn(user.password_hash != NO_PASSWORD, own)


def let_in(store: Store, actor: Actor, user_id: int, role: str) -> None:
    """Open the account of somebody who waits, with a role; raise Conflict if they do not wait."""
    require(actor, "admin")
    if role not in EVERYONE:
        raise InvalidAccount(f"There is no role {role!r}; the roles are {', '.join(EVERYONE)}.")
    with store.write() as session:
        current = fresh(session, actor, "admin")
        waiting = [each for each in identity_rows.of_user(session, user_id) if each.waits_since is not None]
        if not waiting:
            raise Conflict(f"Account number {user_id} does not wait to be let in; look at the list again.")
        user = waiting[0].user
        user.active, user.role = True, role
        identity_rows.end_waiting(session, user_id)
        audit.record(session, current, "let_in", ("account", user.name), role=role)


def link_identity(store: Store, actor: Actor, user_id: int, *, issuer: str, subject: str) -> None:
    """Let an identity sign in to an account; one that is known already moves there, and its sessions end.

    An account that was made for it and that nobody was let in to is deleted.
    """
    require(actor, "admin")
    if not 1 <= len(subject) <= _LONGEST_SUBJECT or not subject.isprintable() or not is_storable(subject):
        raise BadInput(f"A subject has 1 to {_LONGEST_SUBJECT} printable characters; this one has {len(subject)}.")
    if not issuer.startswith(("https://", "http://")) or not issuer.isprintable() or not is_storable(issuer):
        raise BadInput(f"The issuer is {issuer!r}; give the provider's URL as its settings have it.")
    with store.write() as session:
        current = fresh(session, actor, "admin")
        user = people_rows.find(session, user_id)
        if user is None:
            raise NotFound(f"There is no account number {user_id}.")
        identity = identity_rows.find(session, issuer=issuer, subject=subject)
        audit.record(session, current, "link_identity", ("account", user.name), issuer=issuer, subject=subject)
        if identity is None:
            _added(session, user.id, Arrival(issuer, subject, "", ""))
            return
        former, waited = identity.user, identity.waits_since is not None
        if former.id == user.id:
            raise Conflict(f"This identity signs in to {user.name!r} already.")
        identity_rows.revoke_sessions(session, identity_id=identity.id)
        identity.user, identity.waits_since, identity.role_by_groups = user, None, False
        session.flush()
        if waited and former.password_hash == NO_PASSWORD and not identity_rows.of_user(session, former.id):
            identity_rows.remove_account(session, former)


def link_own(store: Store, actor: Actor, arrival: Arrival) -> None:
    """Let an identity, which the provider has just confirmed, sign in to the actor's account.

    Raises Conflict if it signs in to another account.
    """
    with store.write() as session:
        person = fresh(session, actor, *EVERYONE)
        known = identity_rows.find(session, issuer=arrival.issuer, subject=arrival.subject)
        if known is None:
            _added(session, person.id, arrival)
            about = {"issuer": arrival.issuer, "subject": arrival.subject}
            audit.record(session, person, "link_identity", ("account", person.name), **about)
        elif known.user_id != person.id:
            raise Conflict("This identity belongs to another account here; an admin can link it to yours, on People.")


def unlink_identity(store: Store, actor: Actor, identity_id: int) -> None:
    """Take an identity from its account, one's own or for an admin anyone's; its sessions end.

    Raises Conflict if its person could not sign in any more, NotFound also for an identity of somebody else.
    """
    with store.write() as session:
        person = fresh(session, actor, *EVERYONE)
        identity = identity_rows.get(session, identity_id)
        if identity is None or (identity.user_id != person.id and person.role != "admin"):
            raise NotFound(f"You have no identity {identity_id}; see the list of yours.")
        user = identity.user
        if user.password_hash == NO_PASSWORD and len(identity_rows.of_user(session, user.id)) == 1:
            raise Conflict(
                f"Nobody could sign in to {user.name!r} any more: it has no password; an admin can give it one first."
            )
        about = {"issuer": identity.issuer, "subject": identity.subject}
        audit.record(session, person, "unlink_identity", ("account", user.name), **about)
        identity_rows.remove(session, identity)


def provider_of(store: Store, token: str) -> tuple[str, str] | None:
    """Return issuer and ID token of a browser's session, None if no provider opened it."""
    with store.read() as session:
        return identity_rows.provider_session(session, token_hash=token_hash(token))


def end_sessions(store: Store, notice: LogoutNotice) -> int:
    """Revoke the sessions that a provider has ended; return how many."""
    with store.write() as session:
        identity_id = None
        if notice.subject:
            identity = identity_rows.find(session, issuer=notice.issuer, subject=notice.subject)
            if identity is None:
                return 0
            identity_id = identity.id
        before = notice.made_at + _SAME_SECOND
        ended = identity_rows.revoke_sessions(session, identity_id=identity_id, sid=notice.sid, before=before)
        audit.record(session, None, "end_sessions", ("issuer", notice.issuer), subject=notice.subject, sessions=ended)
        return ended


def _view(identity: Identity) -> IdentityView:
    return IdentityView(
        identity.id,
        identity.user_id,
        identity.user.name,
        identity.issuer,
        identity.subject,
        identity.shown_as,
        identity.waits_since,
    )
