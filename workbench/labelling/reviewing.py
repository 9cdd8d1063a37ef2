"""What a browser shows of a queue of label review, and the answer to each message with decisions made by key."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field

from crossner_core.errors import BadInput, StorageError, WorkbenchError
from crossner_core.records import read
from crossner_core.schema import Sentence, Span
from db import label_review_rows
from db.engine import Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.campaigns import campaigns
from workbench.labelling import label_review
from workbench.labelling.events import Client, rejection
from workbench.labelling.json_fields import Text, Truth, Whole, among
from workbench.labelling.label_review import DECISIONS, FindingView
from workbench.labelling.screen import types_json

log = logging.getLogger(__name__)

BATCH = 12
"""Doubts that a browser holds: enough for half a minute without a connection at two seconds each."""
_PACE_OF = 40
_PAUSE_SECONDS = 120
_KINDS = {
    "type": "another type",
    "boundary": "other boundaries",
    "boundary+type": "other boundaries and type",
    "missing": "missing entity",
    "extra": "no entity",
    "conflict": "labelled differently elsewhere",
    "leak": "repeated across splits",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How many doubts of a queue are decided, and how many are left."""

    done: int
    left: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The next doubts of a queue, the domain's types, and `pace`: the actor's seconds for a decision, if known."""

    items: tuple[dict[str, Any], ...]
    types: list[dict[str, Any]]
    progress: Progress
    pace: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a message; what is None has not changed, or need not be known yet."""

    acks: dict[str, int] = field(default_factory=dict)
    rejections: list[dict[str, Any]] = field(default_factory=list)
    items: tuple[dict[str, Any], ...] | None = None
    progress: Progress | None = None
    pace: float | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a decision says beside its finding: whether the person confirmed that it alters test."""

    test: Truth = False


@dataclass(frozen=True, slots=True)
class _Decision:
    """A decision about the finding `task`, or its reversal; what has the same key is done once."""

    seq: Whole
    key: Annotated[Text, Field(min_length=8, max_length=100)]
    kind: Annotated[Text, among((*DECISIONS, "revert"))]
    task: Whole
    work: _Asked = field(default_factory=_Asked)


@dataclass(frozen=True, slots=True)
class _Message:
    """Decisions of one tab; whether to count anew; which doubts are there; those undone, and those put off in order."""

    client: Client
    events: Annotated[list[Any], Field(max_length=200)] = field(default_factory=list)
    ask: Truth = False
    known: Annotated[list[Whole], Field(max_length=100)] = field(default_factory=list)
    first: Annotated[list[Whole], Field(max_length=10_000)] = field(default_factory=list)
    later: Annotated[list[Whole], Field(max_length=10_000)] = field(default_factory=list)


def batch(store: Store, actor: Actor, campaign_id: int, check_id: str) -> Batch:
    """Return what a browser needs to begin with a queue; for experts of the campaign."""
    require(actor, "expert")
    return Batch(
        items=_items(store, actor, campaign_id, check_id, _Message("page")),
        types=types_json(campaigns.get_domain(store, actor, campaign_id)),
        progress=_progress(store, actor, campaign_id, check_id),
        pace=_pace(store, actor, campaign_id),
    )


def answer(store: Store, actor: Actor, campaign_id: int, check_id: str, message: object) -> Answer:
    """Apply a message's decisions in the order of their numbers, a transaction each, and return the next doubts.

    A decision that the store cannot take (the gold has changed, it was decided already) is rejected with the reason and
    keeps no other from being applied; one that was applied before is acknowledged again. If the store itself fails,
    StorageError is raised: what was applied stays, and the browser sends the rest again. Doubts that the browser holds
    come as their number. Raises BadInput for a message that cannot be read, NotAllowed for one who is no expert of the
    campaign any more.
    """
    require(actor, "expert")
    wish = read(_Message, message, "message")
    with store.read() as session:
        enter(session, actor, campaign_id, "expert")
    acks: dict[str, int] = {}
    decisions, rejections = _in_order(wish)
    for decision in decisions:
        refused = _apply(store, actor, decision)
        if refused:
            rejections.append(rejection(wish.client, decision.seq, decision.task, "refused", refused))
        else:
            acks[wish.client] = decision.seq
    return Answer(
        acks,
        rejections,
        _items(store, actor, campaign_id, check_id, wish),
        _progress(store, actor, campaign_id, check_id) if wish.ask or rejections else None,
        _pace(store, actor, campaign_id),
    )


def _in_order(wish: _Message) -> tuple[list[_Decision], list[dict[str, Any]]]:
    """Return a message's decisions by their numbers, and a rejection for each that cannot be read."""
    decisions, rejections = [], []
    for raw in wish.events:
        try:
            decisions.append(read(_Decision, raw, "decision"))
        except BadInput as error:
            seq, task = ((raw.get(name) if isinstance(raw, dict) else None) for name in ("seq", "task"))
            rejections.append(rejection(wish.client, seq, task, "refused", str(error)))
    return sorted(decisions, key=lambda decision: decision.seq), rejections


def _apply(store: Store, actor: Actor, decision: _Decision) -> str:
    """Apply a decision; return why not, empty if it stands. An unexpected error is logged, and refused."""
    try:
        if decision.kind == "revert":
            label_review.revert(store, actor, decision.task, key=decision.key)
        else:
            label_review.decide(
                store, actor, decision.task, decision.kind, changes_test=decision.work.test, key=decision.key
            )
    except StorageError:
        raise
    except WorkbenchError as error:
        return str(error)
    except Exception:
        log.exception("The decision %s of user %s about finding %s failed", decision.kind, actor.id, decision.task)
        return "The server failed on this decision and wrote it to its log; tell an admin."
    return ""


def _progress(store: Store, actor: Actor, campaign_id: int, check_id: str) -> Progress:
    queues = {queue.id: queue for queue in label_review.queues(store, actor, campaign_id)}
    return Progress(queues[check_id].decided, queues[check_id].open) if check_id in queues else Progress(0, 0)


def _pace(store: Store, actor: Actor, campaign_id: int) -> float | None:
    """Return the median seconds between the actor's last decisions; pauses do not count."""
    with store.read() as session:
        moments = label_review_rows.moments(session, campaign_id=campaign_id, user_id=actor.id, limit=_PACE_OF)
    gaps = [(later - earlier).total_seconds() for later, earlier in pairwise(moments)]
    worked = [gap for gap in gaps if gap <= _PAUSE_SECONDS]
    return statistics.median(worked) if len(worked) >= 3 else None


def _items(store: Store, actor: Actor, campaign_id: int, check_id: str, wish: _Message) -> tuple[dict[str, Any], ...]:
    views = label_review.findings(store, actor, campaign_id, check_id, first=wish.first, later=wish.later, limit=BATCH)
    return tuple({"task": view.id} if view.id in wish.known else _item(view) for view in views)


def _item(view: FindingView) -> dict[str, Any]:
    """Return a doubt as the browser draws it: texts in pieces, what may be decided, and what asks first."""
    doubted = None if view.kind == "leak" else (view.start, view.end)
    stays = view.other_split if view.leaves == view.split else view.split
    return {
        "task": view.id,
        "about": f"{_KINDS.get(view.kind, view.kind)} · {view.split} · doubt {view.score:.2f}",
        "text": view.sentence.text,
        "pieces": list(_pieces(view.sentence, view.spans, doubted)),
        "sides": _sides(view),
        "why": view.why,
        "other": None
        if view.other is None
        else {"split": view.other_split, "pieces": list(_pieces(view.other, view.other_spans, None))},
        "can": ["keep", *(["leave_out"] if view.leaves else ["change"] if view.can_change else []), "reopen"],
        "asks": [decision for decision in DECISIONS if view.alters_test(decision)],
        "leaves": {"from": view.leaves, "stays": stays} if view.leaves else None,
    }


def _sides(view: FindingView) -> list[dict[str, Any]]:
    if view.kind == "leak":
        return []
    sides = [("Gold", view.there, view.present_probability)]
    if view.can_change:
        sides.append(("Proposed", view.proposed, view.proposed_probability))
    return [
        {
            "name": name,
            "spans": [{"text": view.sentence.surface(span.start, span.end), "type": span.type} for span in spans],
            "probability": probability,
        }
        for name, spans, probability in sides
    ]


def _pieces(sentence: Sentence, spans: Iterable[Span], doubted: tuple[int, int] | None) -> Iterator[dict[str, Any]]:
    """Yield the text span by span and between them, each as parts of which those in doubt are marked."""
    low, high = sentence.char_range(*doubted) if doubted else (0, 0)
    done = 0
    for span in sorted(spans):
        start, end = sentence.char_range(span.start, span.end)
        yield from _piece(sentence.text, done, start, low, high, None)
        yield from _piece(sentence.text, start, end, low, high, span.type)
        done = end
    yield from _piece(sentence.text, done, len(sentence.text), low, high, None)


def _piece(text: str, start: int, end: int, low: int, high: int, type: str | None) -> Iterator[dict[str, Any]]:
    if start == end:
        return
    inner = (min(max(low, start), end), min(max(high, start), end))
    parts = ((start, inner[0], False), (*inner, True), (inner[1], end, False))
    yield {"type": type, "parts": [[text[a:b], is_doubted] for a, b, is_doubted in parts if a < b]}
