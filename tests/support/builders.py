"""Builders: people, a small campaign, and a stand-in for a browser tab that speaks the outbox protocol."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from crossner_core.domains import load_domain
from crossner_core.schema import Link, Sentence, sentence_from_words
from db import account_rows
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.labelling import handout, outbox

SENTENCES = (
    ("Mara Vell sang with The Tin Gulls in Oslo .", [(0, 2, "Mara Vell"), (4, 7, "The Tin Gulls")]),
    ("The album Paper Lanterns was praised in Norway .", [(2, 4, "Paper Lanterns"), (7, 8, "Norway")]),
    ("Jonas Reik plays the cello on Low Tide .", [(0, 2, "Jonas Reik")]),
    ("Nothing much happened in the winter of that year .", []),
    ("Critics called it a blend of bossa nova and hard bop .", [(6, 8, "Bossa nova"), (9, 11, "Hard bop")]),
    ("The Harbour Prize went to Ada Quill in 1987 .", [(1, 3, "Harbour Prize")]),
)
GOLD = (
    [(0, 2, "musicalartist"), (4, 7, "band"), (8, 9, "location")],
    [(2, 4, "album"), (7, 8, "country")],
    [(0, 2, "musicalartist"), (4, 5, "musicalinstrument"), (6, 8, "album")],
    [],
    [(6, 8, "musicgenre"), (9, 11, "musicgenre")],
    [(1, 3, "award"), (5, 7, "musicalartist")],
)
Triple = tuple[int, int, str]


def make_person(store: Store, name: str, role: str) -> Actor:
    """Add an account nobody can sign in to."""
    with store.write() as session:
        user = account_rows.add(session, name=name, display_name=name.title(), password_hash="!", role=role)
        return Actor(user.id, user.name, user.display_name, user.role)


def make_people(store: Store) -> dict[str, Actor]:
    """Add three annotators, an expert, a researcher and an admin."""
    roles = {"ann1": "annotator", "ann2": "annotator", "ann3": "annotator"}
    roles |= {"eva": "expert", "res": "researcher", "adm": "admin"}
    return {name: make_person(store, name, role) for name, role in roles.items()}


def make_sentences() -> list[Sentence]:
    """Return the six sentences with their links."""
    return [
        sentence_from_words(
            text.split(), id=f"music-{number}", links=[Link(*link) for link in links], meta={"n": number}
        )
        for number, (text, links) in enumerate(SENTENCES, start=1)
    ]


def make_campaign(store: Store, people: Mapping[str, Actor], *, name: str = "Music", **settings: Any) -> int:
    """Create a music campaign of the six sentences with everybody in it; by default no controls, no blind checks."""
    chosen = {"blind_share": 0.0, "control_share": 0.0, **settings}
    campaign_id = campaigns.create_campaign(
        store, people["adm"], name=name, domain=load_domain("music"),
        member_ids=[actor.id for actor in people.values()], **chosen,
    )  # fmt: skip
    sentences.add_sentences(store, people["res"], campaign_id, make_sentences())
    return campaign_id


def make_work(item: Mapping[str, Any], spans: Iterable[Triple] = (), **parts: Any) -> dict[str, Any]:
    """Return the work JSON for these spans of an item; at a check the ones to confirm are confirmed."""
    words = [item["text"][start:end] for start, end in item["tokens"]]
    wanted = [mark for mark in item.get("provenance", ()) if item["units"] is None and mark["reasons"]]
    confirmed = {(mark["start"], mark["end"], mark["type"]) for mark in wanted}
    marked = [
        {"start": start, "end": end, "type": kind, "surface": " ".join(words[start:end]),
         "origin": "confirmed" if (start, end, kind) in confirmed else "new"}
        for start, end, kind in spans
    ]  # fmt: skip
    return {
        "spans": marked,
        "rejected": [],
        "flags": [],
        "decisions": [],
        "no_entities": not marked,
        "comment": "",
        **parts,
    }


def first_choices(item: Mapping[str, Any]) -> tuple[list[Triple], list[dict[str, Any]]]:
    """Return the spans and decisions of an expert who always agrees with annotator 1."""
    units = item["units"]
    spans = [(u["first"]["start"], u["first"]["end"], u["first"]["type"]) for u in units if u["first"]]
    return spans, [{"unit": number, "choice": "first"} for number in range(len(units))]


class Tab:
    """One browser tab of a person at a stage: makes events with rising numbers and hands them in."""

    def __init__(self, store: Store, actor: Actor, campaign_id: int, stage: str) -> None:
        self.store, self.actor, self.campaign_id, self.stage = store, actor, campaign_id, stage
        self.client = str(uuid.uuid4())
        self._numbers = itertools.count(1)

    def items(self, count: int = 4) -> tuple[dict[str, Any], ...]:
        return handout.items(self.store, self.actor, self.campaign_id, self.stage, count=count)

    def event(self, kind: str, item: Mapping[str, Any], spans: Iterable[Triple] = (), **changes: Any) -> dict[str, Any]:
        """Return an event on top of the item's revision; `changes` go over its fields."""
        base = changes.pop("base", item["revision"])
        parts = changes.pop("parts", {})
        event = {
            "seq": next(self._numbers), "key": str(uuid.uuid4()), "kind": kind, "task": item["task"], "base": base,
            "revision": base + 1, "work": make_work(item, spans, **parts), "reason": "", "active_ms": 1000,
            "keystrokes": 5,
        }  # fmt: skip
        return event | changes

    def send(self, *events: Mapping[str, Any]) -> outbox.Applied:
        message = {"client": self.client, "events": list(events)}
        return outbox.apply(self.store, self.actor, self.campaign_id, self.stage, message)

    def do(self, kind: str, item: Mapping[str, Any], spans: Iterable[Triple] = (), **changes: Any) -> outbox.Applied:
        """Make one event and hand it in."""
        return self.send(self.event(kind, item, spans, **changes))

    def submit_all(self, spans_of: Mapping[str, list[Triple]] | None = None) -> int:
        """Submit everything there is; spans by text, else the gold of the six sentences, else none."""
        known = {text: spans for (text, _), spans in zip(SENTENCES, GOLD, strict=True)} | dict(spans_of or {})
        done = 0
        while found := self.items(1):
            spans, parts = list(known.get(found[0]["text"], [])), {}
            if self.stage == "adjudicate":
                spans, parts["decisions"] = first_choices(found[0])
            answer = self.do("submit", found[0], spans, parts=parts)
            if answer.rejections:
                raise AssertionError(answer.rejections)
            done += 1
        return done


def make_gold(store: Store, people: Mapping[str, Actor], campaign_id: int) -> None:
    """Take every sentence of the campaign to gold: ann1 annotates, ann2 checks, eva adjudicates."""
    for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate")):
        Tab(store, people[name], campaign_id, stage).submit_all()
