"""Events of the span editor's outbox, read from untrusted JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from crossner_core.errors import BadInput
from crossner_core.records import read
from workbench.labelling.json_fields import Text, Whole, among

OPENED = ("", "none", "accept", "refuse")
EVENT_KINDS = ("draft", "submit", "skip", "reopen")
_MAX_EVENTS = 1_000
_MAX_ACTIVE_MS = 60 * 60 * 1000
_MAX_KEYSTROKES = 20_000


def clamped(highest: int) -> BeforeValidator:
    """Clamp any value to a count between 0 and `highest`: a wrong clock must not cost anybody their work."""

    def count(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return 0
        return int(min(max(value, 0), highest))

    return BeforeValidator(count)


def _given(value: object) -> object:
    if value is None:
        raise ValueError("is missing; every event carries the full work.")
    return value


Client = Annotated[Text, Field(min_length=1, max_length=100)]
_Reason = Annotated[
    Text, Field(max_length=1_000), BeforeValidator(lambda value: value or ""), AfterValidator(str.strip)
]


@dataclass(frozen=True, slots=True)
class Event:
    """A full snapshot of somebody's work on a task.

    `active_ms` and `keystrokes` are what was spent since the last event of this tab about this task, so they add up.
    `work` is still untrusted: it can only be checked against its sentence. `opened` is what a submit did with
    suggestions that were still open; the work holds it. It is empty from an editor that does not know the question.
    """

    client: Client
    seq: Whole
    key: Annotated[Text, Field(min_length=8, max_length=100)]
    kind: Annotated[Text, among(EVENT_KINDS)]
    task: Whole
    base: Whole
    revision: Whole
    work: Annotated[Any, AfterValidator(_given)] = None
    reason: _Reason = ""
    opened: Annotated[Text, among(OPENED)] = ""
    active_ms: Annotated[int, clamped(_MAX_ACTIVE_MS)] = 0
    keystrokes: Annotated[int, clamped(_MAX_KEYSTROKES)] = 0

    def __post_init__(self) -> None:
        if self.revision <= self.base:
            raise BadInput(f"The revision {self.revision} must be above its base {self.base}.")


@dataclass(frozen=True, slots=True)
class _Outbox:
    client: Client
    events: Annotated[list[Any], Field(max_length=_MAX_EVENTS)] = field(default_factory=list)


def read_outbox(outbox: object) -> tuple[list[Event], list[dict[str, Any]], set[str]]:
    """Return the events in the order of their numbers, a rejection for each that is malformed, and the clients named.

    Nothing that a browser may send raises: what cannot be read becomes a rejection.
    """
    events: list[Event] = []
    rejections: list[dict[str, Any]] = []
    try:
        message = read(_Outbox, outbox, "outbox")
    except BadInput as error:
        return [], [rejection(None, None, None, "invalid", str(error))], set()
    client = message.client
    for raw in message.events:
        try:
            events.append(
                read(Event, {"client": client, "work": None, **raw} if isinstance(raw, dict) else raw, "event")
            )
        except BadInput as error:
            rejections.append(rejection(client, _known(raw, "seq"), _known(raw, "task"), "invalid", str(error)))
    order = {name: number for number, name in reversed(list(enumerate(event.client for event in events)))}
    events.sort(key=lambda event: (order[event.client], event.seq))
    return events, rejections, {client, *order}


def rejection(
    client: str | None, seq: int | None, task: int | None, reason: str, message: str, item: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a rejection as the editor's JSON; reason is conflict, lease or invalid."""
    return {"client": client, "seq": seq, "task": task, "reason": reason, "message": message, "item": item}


def _known(raw: object, name: str) -> int | None:
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
