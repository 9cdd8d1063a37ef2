"""The audit trail: search it, export it, and forget what is older than it has to be kept."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.schema import UNSTORABLE, is_storable
from db.audit import rows
from db.audit.rows import Line, Place, Wanted
from db.engine import Session, Store
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import KEEPERS

FORMATS = ("csv", "jsonl")
MOST_IN_PAGE = 500
MOST_CHARACTERS = 200
MOST_EXPORTED = 1_000_000
COLUMNS = (
    "done_at",
    "actor",
    "via",
    "token_id",
    "action",
    "campaign_id",
    "campaign",
    "subject_kind",
    "subject",
    "details",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CURSOR = re.compile(r"(\d{1,17})([es])(\d{1,18})", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """The conditions of a search; those that are empty do not narrow it. Times are half-open: `[since, until)`."""

    actor: str = ""
    """The account's name."""
    action: str = ""
    campaign_id: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    text: str = ""
    """A part of any name, of the subject or of the details."""


EVERYTHING = Asked()


@dataclass(frozen=True, slots=True)
class Entry:
    """Something somebody did; `id` is never given to another entry."""

    id: str
    done_at: dt.datetime
    actor: str
    """The account's name as it was, `system` for the workbench itself, empty for somebody not signed in."""
    via: str
    token_id: int | None
    action: str
    campaign_id: int | None
    campaign: str
    """Empty for a campaign that is deleted."""
    subject_kind: str
    subject: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Entries, newest first, and the cursor of those that follow; None at the end."""

    entries: tuple[Entry, ...]
    next: str | None


def search(
    store: Store, actor: Actor, asked: Asked = EVERYTHING, *, cursor: str | None = None, limit: int = 100
) -> Part:
    """Return the entries that match, newest first. Admins see all, researchers those of campaigns.

    Raises BadInput for an action that was never recorded and for a cursor that is none, NotFound for a campaign.
    """
    require(actor, *KEEPERS)
    if not 1 <= limit <= MOST_IN_PAGE:
        raise BadInput(f"The limit is {limit}; 1 to {MOST_IN_PAGE} entries are allowed.")
    after = _place(cursor) if cursor else None
    with store.read() as session:
        wanted = _wanted(session, actor, asked)
        lines = rows.search(session, wanted, after=after, limit=limit + 1)
    part = lines[:limit]
    return Part(tuple(map(_entry, part)), _cursor(part[-1].place) if len(lines) > len(part) else None)


def actions(store: Store, actor: Actor) -> tuple[str, ...]:
    """Return the actions there are entries of. For admins and researchers."""
    require(actor, *KEEPERS)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        return tuple(rows.actions(session))


def export(store: Store, actor: Actor, asked: Asked = EVERYTHING, *, format: str = "csv") -> bytes:
    """Return what matches as CSV or JSON lines, newest first; that it was taken out is recorded, too.

    Raises as `search` does, and BadInput for another format or for more than a million entries.
    """
    if format not in FORMATS:
        raise BadInput(f"There is no format {format!r} of the audit trail; choose {' or '.join(FORMATS)}.")
    entries = list(_all(store, actor, asked))
    made = _csv(entries) if format == "csv" else _json_lines(entries)
    campaign = asked.campaign_id
    audit.record_alone(store, actor, "export_audit", ("audit", format), campaign, entries=len(entries))
    return made


def forget(store: Store, actor: Actor, before: dt.datetime) -> int:
    """Delete the entries of before a time, and record that; return how many. For admins.

    What was submitted stays: it is kept with the sentences. Raises BadInput for a time to come.
    """
    require(actor, "admin")
    before = _aware(before)
    if before > now():
        raise BadInput(f"{before:%Y-%m-%d %H:%M} UTC is yet to come; give a time before now.")
    with store.write() as session:
        current = fresh(session, actor, "admin")
        gone = rows.forget(session, before)
        audit.record(session, current, "forget_audit", ("audit", "entries"), before=before.isoformat(), entries=gone)
    return gone


def _all(store: Store, actor: Actor, asked: Asked) -> Iterator[Entry]:
    cursor, count = None, 0
    while True:
        part = search(store, actor, asked, cursor=cursor, limit=MOST_IN_PAGE)
        count += len(part.entries)
        if count > MOST_EXPORTED:
            raise BadInput(f"More than {MOST_EXPORTED:,} entries match; narrow the time and export in parts.")
        yield from part.entries
        if part.next is None:
            return
        cursor = part.next


def _wanted(session: Session, actor: Actor, asked: Asked) -> Wanted:
    if asked.campaign_id is None:
        current = fresh(session, actor, *KEEPERS)
    else:
        current, _ = enter(session, actor, asked.campaign_id, *KEEPERS)
    text = asked.text.strip()
    if len(text) > MOST_CHARACTERS:
        raise BadInput(f"The search has {len(text)} characters; up to {MOST_CHARACTERS} are allowed.")
    for value in (text, asked.actor, asked.action):
        if not is_storable(value):
            raise BadInput(f"The text {value[:40]!a} {UNSTORABLE}.")
    if asked.action and asked.action not in (known := rows.actions(session)):
        raise BadInput(f"There is no entry of the action {asked.action!r}; there are {', '.join(known)}.")
    return Wanted(
        actor=asked.actor.strip() or None,
        action=asked.action or None,
        campaign_id=asked.campaign_id,
        since=_aware(asked.since) if asked.since is not None else None,
        until=_aware(asked.until) if asked.until is not None else None,
        text=text,
        every=current.role == "admin",
    )


def _aware(moment: dt.datetime) -> dt.datetime:
    """Return a time with its zone, which is UTC where none is given."""
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment


def _entry(line: Line) -> Entry:
    return Entry(
        id=f"{'entry' if line.place.is_entry else 'version'}-{line.place.number}",
        done_at=line.place.moment,
        actor=line.actor_name,
        via=line.via,
        token_id=line.token_id,
        action=line.action,
        campaign_id=line.campaign_id,
        campaign=line.campaign or "",
        subject_kind=line.subject_kind,
        subject=line.subject,
        details=json.loads(line.details),
    )


def _cursor(place: Place) -> str:
    micros = (place.moment - _EPOCH) // dt.timedelta(microseconds=1)
    return f"{micros}{'e' if place.is_entry else 's'}{place.number}"


def _place(cursor: str) -> Place:
    matched = _CURSOR.fullmatch(cursor)
    try:
        if matched is None:
            raise ValueError
        moment = _EPOCH + dt.timedelta(microseconds=int(matched[1]))
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{cursor[:60]!r} is no cursor; take `next` of the part before, or leave it out.") from error
    return Place(moment, matched[2] == "e", min(int(matched[3]), 2**31 - 1))


def _values(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in COLUMNS} | {"done_at": entry.done_at.isoformat()}


def _json_lines(entries: list[Entry]) -> bytes:
    lines = (json.dumps({"id": entry.id, **_values(entry)}, ensure_ascii=False) for entry in entries)
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _csv(entries: list[Entry]) -> bytes:
    """Write CSV in which a spreadsheet takes no text for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("id", *COLUMNS))
    for entry in entries:
        values = _values(entry) | {"details": json.dumps(dict(entry.details), ensure_ascii=False)}
        cells = ("" if value is None else str(value) for value in values.values())
        writer.writerow((entry.id, *(f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells)))
    return out.getvalue().encode("utf-8")
