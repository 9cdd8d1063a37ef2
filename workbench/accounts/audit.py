"""The audit trail: each use case that changes something writes an entry in its own transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from crossner_core.schema import is_storable
from db.audit import rows
from db.engine import Session, Store
from workbench.accounts.actors import SYSTEM, Actor
from workbench.accounts.ways import way

LONGEST_TEXT, MOST_VALUES = 200, 20
_IN_ADDRESS = re.compile(r"(?<=//)[^/@\s]+(?=@)")
"""Name and password in an address."""


def record(
    session: Session,
    actor: Actor | None,
    action: str,
    about: tuple[str, object],
    campaign_id: int | None = None,
    /,
    **details: Any,
) -> None:
    """Write an entry within the transaction of what was done, whose caller has authorised the actor.

    `about` is the kind of the thing and its name or number; None acts who is not signed in. Long texts and lists are
    cut; no password or token may be among the details.
    """
    who = actor if actor is not None and actor != SYSTEM else None
    by = way()
    rows.add(
        session,
        actor_id=who.id if who is not None else None,
        actor_name=actor.name if actor is not None else "",
        via=by.via,
        token_id=by.token_id,
        action=action,
        campaign_id=campaign_id,
        subject_kind=about[0],
        subject=_text(str(about[1])),
        details=json.dumps({key: _small(value) for key, value in details.items()}, ensure_ascii=False),
    )


def record_alone(
    store: Store,
    by: Actor,
    action: str,
    about: tuple[str, object],
    campaign_id: int | None = None,
    /,
    **details: Any,
) -> None:
    """Write an entry about what changes nothing in the store, such as an export, before it is handed out."""
    with store.write() as session:
        record(session, by, action, about, campaign_id, **details)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the old and the new value of each key that differs."""
    return {key: [before.get(key), value] for key, value in after.items() if before.get(key) != value}


def _small(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {_text(str(key)): _small(part) for key, part in list(value.items())[:MOST_VALUES]}
    if isinstance(value, list | tuple | set | frozenset):
        listed = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
        more = [f"… and {len(listed) - MOST_VALUES} more"] if len(listed) > MOST_VALUES else []
        return [*map(_small, listed[:MOST_VALUES]), *more]
    return _text(str(value))


def _text(text: str) -> str:
    """Return a text that every store can hold, without the password of an address, and not long."""
    if not is_storable(text):
        text = text.encode("ascii", "backslashreplace").decode().replace("\x00", "\\x00")
    text = _IN_ADDRESS.sub("…", text)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
