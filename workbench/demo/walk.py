"""Walk the demo's sentences through the stages, as if the people had worked for some hours."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crossner_core.errors import WorkbenchError
from crossner_core.formats.base import Record
from crossner_core.schema import Sentence, Span
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.labelling import adjudication, handout, outbox

STAGES = ("annotate", "check", "adjudicate", "gold")
_SHARES = (("ann", 0.4), ("ben", 0.4), ("cleo", 1.0), ("ann", 1.0))
"""Each person's share of the work at a stage; the last two finish what is left, except their own sentences."""
_SEED = 2021
_NEW_MS, _SUGGESTED_MS, _READING_MS = 6500, 2200, 180  # a new span, a span that was suggested, a token
_BLIND_MISS = 0.12
_BATCH = 8

Answer = Callable[[Mapping[str, Any], Record], dict[str, Any]]
"""Make a piece of work from an item handed out and the sentence with its scripted layers."""


class DemoError(WorkbenchError):
    """The demo's own content does not fit the use cases it goes through."""


def walk(store: Store, people: Mapping[str, Actor], campaign_id: int, records: Sequence[Record]) -> None:
    """Do every stage a sentence has behind it: annotator 1 and 2 in turns, then the expert; ask one question."""
    rng = random.Random(f"{_SEED}-{campaign_id}")
    worker = _Walker(store, campaign_id, records, rng)
    for stage, answer in (("annotate", _first), ("check", _second)):
        for name, share in _SHARES:
            worker.work(people[name], stage, answer, share=share)
    worker.work(people["eva"], "adjudicate", _gold, share=1.0)
    _ask(store, people, campaign_id)


class _Walker:
    """Leases tasks and sends the scripted work for those whose sentence has gone past the stage."""

    def __init__(self, store: Store, campaign_id: int, records: Sequence[Record], rng: random.Random) -> None:
        self._store, self._campaign_id, self._rng = store, campaign_id, rng
        self._all = records
        self._records = {record.sentence.text: record for record in records}

    def work(self, actor: Actor, stage: str, answer: Answer, *, share: float) -> None:
        """Let one person do their share of a stage, a few sentences at a time as in the browser."""
        left = round(share * sum(STAGES.index(item.sentence.meta["stage"]) > STAGES.index(stage) for item in self._all))
        client = str(uuid.uuid4())
        sent = 0
        while left > 0:
            items = handout.items(self._store, actor, self._campaign_id, stage, count=min(left, _BATCH))
            mine = [item for item in items if self._is_past(item, stage)]
            if not mine:
                break
            events = [
                {**self._event(item, answer(item, self._records[item["text"]])), "seq": number}
                for number, item in enumerate(mine, start=sent + 1)
            ]
            sent += len(mine)
            message = {"client": client, "events": events, "sent": sent}
            applied = outbox.apply(self._store, actor, self._campaign_id, stage, message)
            if applied.rejections:
                raise DemoError(f"The demo's {stage} work was refused: {applied.rejections[0]['message']}")
            left -= len(mine)
        handout.release(self._store, actor, self._campaign_id, stage)

    def _is_past(self, item: Mapping[str, Any], stage: str) -> bool:
        reached = str(self._records[item["text"]].sentence.meta["stage"])
        return STAGES.index(reached) > STAGES.index(stage)

    def _event(self, item: Mapping[str, Any], work: dict[str, Any]) -> dict[str, Any]:
        effort = len(item["tokens"]) * _READING_MS
        for span in work["spans"]:
            effort += _NEW_MS if span["origin"] in ("new", "other") else _SUGGESTED_MS
        return {
            "key": str(uuid.uuid4()),
            "kind": "submit",
            "task": item["task"],
            "base": item["revision"],
            "revision": item["revision"] + 1,
            "work": work,
            "active_ms": round(effort * self._rng.uniform(0.7, 1.4)),
            "keystrokes": 3 + sum(4 if span["origin"] in ("new", "other") else 1 for span in work["spans"]),
        }


def _first(item: Mapping[str, Any], record: Record) -> dict[str, Any]:
    spans = _layer(record, "first")
    suggested = {(s["start"], s["end"]): s["type"] for s in item["suggestions"]}
    chosen = {(span.start, span.end) for span in spans}
    rejected = [
        {key: s[key] for key in ("start", "end", "type", "source")}
        for s in item["suggestions"]
        if (s["start"], s["end"]) not in chosen
    ]

    def origin(span: Span) -> str:
        kind = suggested.get((span.start, span.end))
        return "new" if kind is None else "accepted" if kind == span.type else "retyped"

    return _work(
        record.sentence, spans, origin, rejected=rejected, comment=str(record.sentence.meta.get("comment", ""))
    )


def _second(item: Mapping[str, Any], record: Record) -> dict[str, Any]:
    if item["first"] is None:
        return _work(record.sentence, _independent(record), lambda span: "new")
    first = {(s["start"], s["end"], s["type"]) for s in item["first"]}
    wanted = {(s["start"], s["end"], s["type"]) for s in item["provenance"] if s["reasons"]}

    def origin(span: Span) -> str:
        place = (span.start, span.end, span.type)
        if place in first:
            return "confirmed" if place in wanted else "kept"
        if any(place[:2] == other[:2] for other in first):
            return "retyped"
        return "moved" if _overlap(span, [Span(*other) for other in first]) else "new"

    return _work(record.sentence, _layer(record, "second"), origin, flags=_flags(record))


def _independent(record: Record) -> tuple[Span, ...]:
    """What annotator 2 marks without seeing annotator 1's spans: the gold, with now and then a span missed."""
    rng = random.Random(record.sentence.text)
    return tuple(span for span in record.spans or () if rng.random() >= _BLIND_MISS)


def _gold(item: Mapping[str, Any], record: Record) -> dict[str, Any]:
    gold = set(record.spans or ())
    decisions, origins = [], {}
    for number, unit in enumerate(item["units"]):
        sides = {side: Span(**unit[side]) for side in ("first", "second") if unit[side] is not None}
        right = next((side for side, span in sides.items() if span in gold), None)
        choice = right or ("other" if any(_overlap(span, sides.values()) for span in gold) else "none")
        decisions.append({"unit": number, "choice": choice})
        if right:
            origins[sides[right]] = right
    return _work(record.sentence, tuple(sorted(gold)), lambda span: origins.get(span, "other"), decisions=decisions)


def _overlap(span: Span, others: Any) -> bool:
    return any(span.start < other.end and other.start < span.end for other in others)


def _work(sentence: Sentence, spans: Sequence[Span], origin: Callable[[Span], str], **more: Any) -> dict[str, Any]:
    rows = [
        {
            "start": span.start,
            "end": span.end,
            "type": span.type,
            "surface": sentence.surface(span.start, span.end),
            "origin": origin(span),
        }
        for span in spans
    ]
    empty = {"rejected": [], "flags": [], "decisions": [], "comment": ""}
    return {"spans": rows, "no_entities": not rows, **empty, **more}


def _layer(record: Record, name: str) -> tuple[Span, ...]:
    """The scripted layer; where none is written down, that person marked what became gold."""
    if name not in record.sentence.meta:
        return tuple(record.spans or ())
    return tuple(sorted(_to_tokens(record.sentence, mark) for mark in record.sentence.meta[name]))


def _flags(record: Record) -> list[dict[str, Any]]:
    marks = record.sentence.meta.get("flags", ())
    spans = [(_to_tokens(record.sentence, mark), str(mark.get("note", ""))) for mark in marks]
    return [{"start": span.start, "end": span.end, "type": span.type, "note": note} for span, note in spans]


def _to_tokens(sentence: Sentence, mark: Mapping[str, Any]) -> Span:
    """Turn character offsets into a token span."""
    inside = [i for i, t in enumerate(sentence.tokens) if mark["start"] <= t.start and t.end <= mark["end"]]
    return Span(inside[0], inside[-1] + 1, str(mark["type"]))


def _ask(store: Store, people: Mapping[str, Actor], campaign_id: int) -> None:
    waiting = handout.items(store, people["eva"], campaign_id, "adjudicate", count=2)
    disputed = next((item for item in waiting if any(u["kind"] != "agree" for u in item["units"])), None)
    if disputed:
        adjudication.ask(
            store, people["eva"], disputed["task"], "You differ here. What in the sentence decided it for you?"
        )
    handout.release(store, people["eva"], campaign_id, "adjudicate")
