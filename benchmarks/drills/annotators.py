"""Annotators who do not give up: when a server goes they come back and send again what was not acknowledged."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from websockets.exceptions import WebSocketException

from benchmarks.drills.drill import Outcome
from benchmarks.latency_store import Scene, lost_events
from benchmarks.streamlit_client import Annotator, Saved, enter, work_on
from db.engine import Store
from db.tables import Annotation, AppliedEvent
from tests.support.serving import Server

KEYSTROKES = 3
DRAFTS = 3
_GONE = (OSError, EOFError, TimeoutError, httpx.TransportError, WebSocketException, asyncio.IncompleteReadError)


@dataclass
class Persistent:
    """One person in one tab: it keeps its name and its numbers over every return, as a browser's storage does."""

    person: Mapping[str, Any]
    campaign: int
    addresses: Sequence[str]
    rng: random.Random
    think: tuple[float, float] = (0.0, 0.1)
    client: str = field(default_factory=lambda: uuid.uuid4().hex)
    saved: list[Saved] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    returns: int = 0
    troubles: int = 0
    rejected: list[str] = field(default_factory=list)
    _seq: int = 0
    _pending: dict[str, Any] | None = None
    _finished: set[int] = field(default_factory=set)
    _item: dict[str, Any] | None = None
    _revision: int = 0
    _step: int = 0

    async def work(self, stop: asyncio.Event) -> None:
        """Annotate until `stop` is set and nothing is unacknowledged."""
        while not (stop.is_set() and self._pending is None):
            annotator = None
            try:
                annotator = await enter(self.rng.choice(self.addresses), self.person, self.campaign, self.rng)
                annotator.client = self.client
                await self._work_with(annotator, stop)
            except _GONE:
                self.returns += 1
                await asyncio.sleep(0.2)
            except RuntimeError as error:
                # A server or store that is in trouble answers, but not as an editor needs it.
                self.returns += 1
                self._hear(str(error))
                await asyncio.sleep(0.2)
            finally:
                if annotator is not None:
                    annotator.line.close()
                    with suppress(*_GONE):
                        await annotator.connection.close()

    def _hear(self, words: str) -> None:
        """Leave a sentence that somebody else has by now, as a browser does."""
        if self._pending is not None and any(f": {reason}: " in words for reason in ("lease", "conflict", "invalid")):
            self.rejected.append(words[:300])
            if self._pending["kind"] == "submit" or "lease" in words:
                self._finished.add(self._pending["task"])
            self._pending = self._item = None
        else:
            self.troubles += 1

    async def _work_with(self, annotator: Annotator, stop: asyncio.Event) -> None:
        while self._pending is not None or not stop.is_set():
            if self._pending is None:
                await asyncio.sleep(self.rng.uniform(*self.think))
                if stop.is_set():
                    return
                self._pending = self._next_event(annotator)
            await self._send(annotator, self._pending)

    def _next_event(self, annotator: Annotator) -> dict[str, Any]:
        if self._item is None:
            items = annotator.editor.payload["items"]
            self._item = next((dict(item) for item in items if item["task"] not in self._finished), None)
            if self._item is None:
                raise RuntimeError("nothing left to annotate")
            self._revision, self._step = self._item["revision"], 0
        self._seq, self._step = self._seq + 1, self._step + 1
        kind = "submit" if self._step > DRAFTS else "draft"
        work = work_on(self._item, len(self._item["suggestions"]) if kind == "submit" else self._step)
        return {
            "seq": self._seq, "key": uuid.uuid4().hex, "kind": kind, "task": self._item["task"], "base": self._revision,
            "revision": self._revision + 1, "work": work, "reason": "", "active_ms": 900, "keystrokes": KEYSTROKES,
        }  # fmt: skip

    async def _send(self, annotator: Annotator, event: dict[str, Any]) -> None:
        self.sent.add(event["key"])
        began = time.monotonic()
        await exchange(annotator, self.client, self.person["id"], event)
        spans = [(span["start"], span["end"], span["type"]) for span in event["work"]["spans"]]
        milliseconds = (time.monotonic() - began) * 1000
        self.saved.append(
            Saved(self.person["id"], event["task"], event["key"], event["kind"], spans, began, milliseconds)
        )  # fmt: skip
        self._pending, self._revision = None, event["revision"]
        if event["kind"] == "submit":
            self._finished.add(event["task"])
            self._item = None


async def exchange(annotator: Annotator, client: str, user: int, event: Mapping[str, Any]) -> None:
    """Send one event and wait for its acknowledgement: the one place that knows how a tab speaks to the server."""
    annotator._seq = event["seq"]
    message = {"client": client, "events": [event], "sent": event["seq"], "user": user}
    await asyncio.wait_for(annotator._exchange(message), 30)


def crowd(
    scene: Scene, servers: Sequence[Server], seed: int, think: tuple[float, float] = (0.0, 0.1)
) -> list[Persistent]:
    """Return everybody of a scene."""
    addresses = [server.url for server in servers]
    return [
        Persistent(person, scene.campaign, addresses, random.Random(seed + number), think)
        for number, person in enumerate(scene.people)
    ]


def acknowledged(people: Iterable[Persistent]) -> int:
    """Return how many events were acknowledged so far."""
    return sum(len(person.saved) for person in people)


async def until_acknowledged(people: Sequence[Persistent], more: int = 1) -> None:
    """Wait until so many more events are acknowledged."""
    goal = acknowledged(people) + more
    while acknowledged(people) < goal:
        await asyncio.sleep(0.01)


def drill(people: Sequence[Persistent], servers: Sequence[Server], harm: Callable[[], Any]) -> None:
    """Start the servers, let people work while the coroutine function `harm` runs, and kill the servers."""
    try:
        for server in servers:
            server.start()
        asyncio.run(_work_during(people, harm))
    finally:
        for server in servers:
            server.kill()


async def _work_during(people: Sequence[Persistent], harm: Callable[[], Any]) -> None:
    """Let people work while the coroutine function `harm` runs, then until all is acknowledged."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(person.work(stop)) for person in people]
    try:
        await harm()
    finally:
        stop.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 120)


def judge(people: Iterable[Persistent], home: Path, url: str | None = None, *, may_reject: bool = False) -> Outcome:
    """Count what was acknowledged, lost and doubled; doubled work shows in the keystrokes, which add up.

    `may_reject`: sentences may go to others, as when leases run out.
    """
    people = list(people)
    saved = [asdict(event) for person in people for event in person.saved]
    store = Store(url or f"sqlite:///{home.resolve() / 'workbench.sqlite3'}")
    try:
        with store.read() as session:
            applied = list(session.scalars(sa.select(AppliedEvent.key)))
            keystrokes = session.scalar(sa.select(sa.func.sum(Annotation.keystrokes))) or 0
    finally:
        store.close()
    lost = lost_events(home, saved, url)
    sent = set().union(*(person.sent for person in people))
    doubled = keystrokes // KEYSTROKES - len(applied)
    outcome = Outcome(
        {
            "annotators": len(people), "acknowledged": len(saved), "applied": len(applied), "lost": len(lost),
            "doubled": doubled, "returns after a lost connection": sum(person.returns for person in people),
        }
    )  # fmt: skip
    outcome.check(not lost, f"acknowledged, but not there: {lost[:3]}")
    outcome.check(keystrokes == KEYSTROKES * len(applied), f"{keystrokes} keystrokes of {len(applied)} events")
    outcome.check(len({event["key"] for event in saved}) == len(saved), "an event was acknowledged twice")
    outcome.check(set(applied) <= sent, "an event was applied that nobody sent")
    outcome.check(bool(saved), "nobody was acknowledged anything")
    rejected = [words for person in people for words in person.rejected]
    outcome.figures["rejected"] = len(rejected)
    outcome.figures["answers of a server in trouble"] = sum(person.troubles for person in people)
    outcome.check(may_reject or not rejected, f"rejected: {rejected[:3]}")
    return outcome
