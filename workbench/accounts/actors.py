"""Who is doing something, and the role check that every use case begins with."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.errors import NotAllowed
from db import people_rows
from db.engine import Session, Store
from db.tables import User


@dataclass(frozen=True, slots=True)
class Actor:
    """The signed-in person a use case acts for; `role` is as it was when the person was last looked up."""

    id: int
    name: str
    display_name: str
    role: str


SYSTEM = Actor(id=0, name="system", display_name="Workbench", role="system")
"""The worker process itself; only the use cases that its jobs need permit it."""


def require(actor: Actor, *roles: str) -> None:
    """Raise NotAllowed unless the actor has one of the roles."""
    if actor.role not in roles:
        raise NotAllowed(f"{actor.display_name} is {_with_article(actor.role)}; this is for {' or '.join(roles)}.")


def fresh(session: Session, actor: Actor, *roles: str) -> Actor:
    """Return the actor with the role the store gives them now; raise NotAllowed if it does not permit this."""
    if actor == SYSTEM:
        require(actor, *roles)
        return actor
    return permitted(actor, people_rows.find(session, actor.id), *roles)


def permitted(actor: Actor, user: User | None, *roles: str) -> Actor:
    """Return the actor as their account, read just now, has them; raise NotAllowed if it does not permit this."""
    if user is None or not user.active:
        raise NotAllowed(f"The account {actor.name!r} is no longer active; ask an admin.")
    now = Actor(id=user.id, name=user.name, display_name=user.display_name, role=user.role)
    require(now, *roles)
    return now


def admit(store: Store, actor: Actor, *roles: str) -> None:
    """Raise NotAllowed unless the actor has one of the roles, now in the store too."""
    require(actor, *roles)
    with store.read() as session:
        fresh(session, actor, *roles)


def _with_article(role: str) -> str:
    return f"{'an' if role[:1] in 'aeiou' else 'a'} {role}"
