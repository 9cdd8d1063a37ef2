"""What the span editor shows of a stage, and the answer to each of its messages."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from crossner_core.domains import Domain
from crossner_core.errors import InvalidSpan, NotFound
from crossner_core.records import read
from db.engine import Store
from db.tables import ASKED
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.labelling import adjudication, handout, outbox
from workbench.labelling.events import Client, clamped
from workbench.labelling.json_fields import Text, Truth, Whole, among
from workbench.suggestions import identical

_MAX_QUIET_MS = 7 * 24 * 60 * 60 * 1000
_NOT_QUIET = dt.timedelta(0)


@dataclass(frozen=True, slots=True)
class Screen:
    """The next sentences, the current one first, with the domain's entity types and the person's progress."""

    items: tuple[dict[str, Any], ...]
    types: list[dict[str, Any]]
    progress: handout.Progress


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a message; what is None has not changed, or need not be known yet."""

    acks: dict[str, int] = field(default_factory=dict)
    rejections: list[dict[str, Any]] = field(default_factory=list)
    items: tuple[dict[str, Any], ...] | None = None
    types: list[dict[str, Any]] | None = None
    progress: handout.Progress | None = None
    occurrences: identical.Occurrences | None = None


@dataclass(frozen=True, slots=True)
class _Words:
    """Tokens `[start, end)` of a task's sentence whose words are to be counted elsewhere."""

    task: Whole
    start: Whole
    end: Whole


@dataclass(frozen=True, slots=True)
class _Message:
    """What a message holds beside its events: how long nobody has done anything, whether all is to be shown, of which
    tasks the browser has the sentences, and what is to be counted.
    """

    client: Client
    events: list[Any] = field(default_factory=list)
    quiet: Annotated[int, clamped(_MAX_QUIET_MS)] = 0
    ask: Truth = False
    known: Annotated[list[Whole], Field(max_length=100)] = field(default_factory=list)
    look: _Words | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    """A question of the expert to the annotators of a task's sentence."""

    task: Whole
    text: Text
    asks: Annotated[Text, among(ASKED)] = "both"


def screen(store: Store, actor: Actor, campaign_id: int, stage: str, *, quiet: dt.timedelta = _NOT_QUIET) -> Screen:
    """Return what the editor shows, its sentences leased to the actor; `quiet` as `handout.items` explains it."""
    return Screen(
        items=handout.items(store, actor, campaign_id, stage, quiet=quiet),
        types=types_json(campaigns.get_domain(store, actor, campaign_id)),
        progress=handout.progress(store, actor, campaign_id, stage),
    )


def answer(store: Store, actor: Actor, campaign_id: int, stage: str, message: object) -> Answer:
    """Apply a message's events, as `outbox.apply` does, and return what has changed for the editor.

    A draft changes nothing but the store; what moves a task brings the next sentences, those the browser has already
    as their task's number; a rejection, and a message that asks for it, bring all. Raises BadInput for a message that
    cannot be read; a single event of that kind is rejected.
    """
    wish = read(_Message, message, "message")
    applied = outbox.apply(store, actor, campaign_id, stage, message)
    counted = _occurrences(store, actor, campaign_id, stage, wish.look)
    quiet = dt.timedelta(milliseconds=wish.quiet)
    if wish.ask or applied.rejections:
        shown = screen(store, actor, campaign_id, stage, quiet=quiet)
        return Answer(applied.acks, applied.rejections, shown.items, shown.types, shown.progress, counted)
    if not applied.moved:
        return Answer(applied.acks, occurrences=counted)
    items = handout.items(store, actor, campaign_id, stage, quiet=quiet, moved=True, known=frozenset(wish.known))
    return Answer(applied.acks, items=items, occurrences=counted)


def _occurrences(
    store: Store, actor: Actor, campaign_id: int, stage: str, words: _Words | None
) -> identical.Occurrences | None:
    """Count the words that a message asks about; what cannot be counted must not keep its events from an answer."""
    if words is None or stage != "annotate":
        return None
    try:
        return identical.occurrences(store, actor, campaign_id, words.task, start=words.start, end=words.end)
    except (NotFound, InvalidSpan):
        return None


def ask(store: Store, actor: Actor, campaign_id: int, message: object) -> Answer:
    """Ask the annotators of a sentence, as `adjudication.ask` does, and return what comes next; it comes last now.

    Raises BadInput for a message that cannot be read.
    """
    wish = read(_Question, message, "question")
    adjudication.ask(store, actor, wish.task, wish.text, asks=wish.asks)
    shown = screen(store, actor, campaign_id, "adjudicate")
    return Answer(items=shown.items, types=shown.types, progress=shown.progress)


def types_json(domain: Domain) -> list[dict[str, Any]]:
    """Return the domain's entity types as the editor's payload names them."""
    return [
        {
            "name": kind.name,
            "title": kind.title,
            "parent": kind.parent,
            "key": kind.key,
            "color": kind.color,
            "guideline": kind.guideline,
        }
        for kind in domain.types
    ]
