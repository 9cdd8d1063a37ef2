"""Events of the span editor's outbox, read from untrusted JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crossner_core.errors import BadInput
from workbench.labelling.json_fields import a_list, a_text, an_int, an_object, one_of

EVENT_KINDS = ("draft", "submit", "skip", "reopen")
_MAX_EVENTS = 1_000
_MAX_ACTIVE_MS = 60 * 60 * 1000
_MAX_KEYSTROKES = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    """A full snapshot of somebody's work on a task.

    `active_ms` and `keystrokes` are what was spent since the last event of this tab about this task, so they add up.
    `work` is still untrusted: it can only be checked against its sentence.
    """

    client: str
    seq: int
    key: str
    kind: str
    task: int
    base: int
    revision: int
    work: object
    reason: str
    active_ms: int
    keystrokes: int


def read_outbox(outbox: object) -> tuple[list[Event], list[dict[str, Any]], set[str]]:
    """Return the events in the order of their numbers, a rejection for each that is malformed, and the clients named.

    Nothing that a browser may send raises: what cannot be read becomes a rejection.
    """
    events: list[Event] = []
    rejections: list[dict[str, Any]] = []
    try:
        fields = an_object(outbox, "outbox")
        client = a_text(fields.get("client"), "client", at_least=1, at_most=100)
        raw_events = a_list(fields.get("events", []), "events", at_most=_MAX_EVENTS)
    except BadInput as error:
        return [], [rejection(None, None, None, "invalid", str(error))], set()
    for raw in raw_events:
        try:
            events.append(_event(raw, client))
        except BadInput as error:
            rejections.append(rejection(client, _known(raw, "seq"), _known(raw, "task"), "invalid", str(error)))
    appearance = {name: at for at, name in reversed(list(enumerate(event.client for event in events)))}
    ordered = sorted(events, key=lambda event: (appearance[event.client], event.seq))
    return ordered, rejections, {client, *appearance}


def rejection(
    client: str | None, seq: int | None, task: int | None, reason: str, message: str, item: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a rejection as the editor's JSON; reason is conflict, lease or invalid."""
    return {"client": client, "seq": seq, "task": task, "reason": reason, "message": message, "item": item}


def _event(raw: object, client: str) -> Event:
    fields = an_object(raw, "event")
    base, revision = an_int(fields.get("base"), "base"), an_int(fields.get("revision"), "revision")
    if revision <= base:
        raise BadInput(f"The revision {revision} must be above its base {base}.")
    if fields.get("work") is None:
        raise BadInput("work is missing; every event carries the full work.")
    return Event(
        client=a_text(fields.get("client", client), "client", at_least=1, at_most=100),
        seq=an_int(fields.get("seq"), "seq"),
        key=a_text(fields.get("key"), "key", at_least=8, at_most=100),
        kind=one_of(fields.get("kind"), "kind", EVENT_KINDS),
        task=an_int(fields.get("task"), "task"),
        base=base,
        revision=revision,
        work=fields["work"],
        reason=a_text(fields.get("reason") or "", "reason", at_most=1_000).strip(),
        active_ms=_clamped(fields.get("active_ms", 0), _MAX_ACTIVE_MS),
        keystrokes=_clamped(fields.get("keystrokes", 0), _MAX_KEYSTROKES),
    )


def _clamped(value: object, highest: int) -> int:
    """Return a count between 0 and `highest`: a wrong clock must not cost anybody their work."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(min(max(value, 0), highest))


def _known(raw: object, name: str) -> int | None:
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
