"""Measure the search of Sentences on a large campaign: how long each kind of search takes, and its first page.

    python -m benchmarks.search [--sentences 200000] [--worked 20000] [--keep FILE] [--url URL] [--out FILE]

A store is filled with sentences, a share of them annotated, checked and gold, all with suggestions. Each search is
asked three times by the researcher and by an annotator; the first is stated, and the quickest of the others: seconds,
and in brackets those of processor time, with those of the process that matches expressions. `--url` is
the URL of an empty PostgreSQL database; without it a SQLite file is made. `--keep` names a SQLite file that is filled
once and used again.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crossner_core.errors import BadInput
from crossner_core.schema import Sentence, sentence_from_words
from db.engine import Store
from db.migrate import migrate
from db.tables import Annotation, SentenceRow, SpanRow, SuggestionRow, Task, User
from db.types import now
from tests.support import builders
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.data import browsing
from workbench.data.searching import Search
from workbench.suggestions import from_search

_CHUNK = 20_000
_SYLLABLES = ("ba", "dor", "mi", "len", "tus", "ka", "rel", "vo", "shi", "gan", "pe", "lo", "nar", "qui", "zem")
_TYPES = ("song", "band", "album", "musicalartist")

SEARCHES: Mapping[str, Search] = {
    "no condition": Search(),
    "rare text": Search(text="paper lanterns"),
    "frequent text": Search(text="a"),
    "rare expression": Search(text=r"\bpaper\s+lanterns?\b", regex=True),
    "frequent expression": Search(text=r"[a-z]+", regex=True),
    "two names": Search(text=r"(?-i:[A-Z]\w+ [A-Z]\w+)", regex=True),
    "type, any layer": Search(type="song"),
    "type, gold": Search(type="song", layer="gold"),
    "source": Search(source="model"),
    "source and type": Search(source="model", type="band"),
    "differ: any": Search(differ="any"),
    "differ: type": Search(differ="type"),
    "differ: second": Search(differ="second"),
    "stage: gold": Search(place="gold"),
    "stage: annotate": Search(place="annotate"),
    "split and text": Search(split="test", text="lanterns"),
    "expression, type, stage": Search(text=r"lantern", regex=True, type="song", place="gold"),
}


def main() -> None:
    """Fill a store, measure, and print a table."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        file = options.keep or Path(folder) / "search.sqlite3"
        filled = options.keep is not None and options.keep.exists()
        store = Store(options.url or f"sqlite:///{file}")
        migrate(store)
        people = _people(store) if filled else builders.make_people(store)
        campaign = 1 if filled else builders.make_campaign(store, people, name="Large")
        if not filled:
            begun = time.perf_counter()
            fill(store, people, campaign, options.sentences, options.worked)
            print(f"filled in {time.perf_counter() - begun:.0f} s", flush=True)
        rows = measure(store, people, campaign)
        rows.append(_endless(store, people["res"], campaign))
        rows += _bulk(store, people["res"], campaign)
        store.close()
    for row in rows:
        first, again = (f"{row[key]:5.2f} ({row[f'{key}_cpu']:.2f})" for key in ("first", "again"))
        print(f"{row['what']:30} {row['who']:5} {row['hits']:>8,} hits  first {first}  again {again}")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1), "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=200_000)
    parser.add_argument("--worked", type=int, default=20_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--url", default="")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _people(store: Store) -> dict[str, Actor]:
    with store.read() as session:
        users = session.scalars(sa.select(User))
        return {user.name: Actor(user.id, user.name, user.display_name, user.role) for user in users}


def fill(store: Store, people: Mapping[str, Actor], campaign: int, count: int, worked: int) -> None:
    """Add made-up sentences; the first `worked` get three layers, one in five of them with a difference."""
    rng = random.Random(1)
    for first in range(0, count, _CHUNK):
        made = [_sentence(rng, number) for number in range(first, min(first + _CHUNK, count))]
        split = "test" if first + _CHUNK >= count and count > _CHUNK else "pool"
        sentences.add_sentences(store, people["res"], campaign, made, split=split)
    with store.write() as session:
        ids = list(session.scalars(sa.select(SentenceRow.id).where(SentenceRow.campaign_id == campaign)))
        for first in range(0, len(ids), _CHUNK):
            some = ids[first : first + _CHUNK]
            session.execute(sa.insert(SuggestionRow), [row for id_ in some for row in _suggestions(rng, id_)])
        _work(session, people, campaign, ids[:worked], rng)
        session.execute(sa.text("ANALYZE"))


def _sentence(rng: random.Random, number: int) -> Sentence:
    words = ["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 3))) for _ in range(rng.randint(15, 32))]
    for position in rng.sample(range(len(words)), 4):
        words[position] = words[position].capitalize()
    if number % 1000 == 7:
        words[3:5] = ["Paper", "Lanterns"]
    return sentence_from_words([*words, str(number), "."], id=f"made-{number}")


def _suggestions(rng: random.Random, sentence_id: int) -> list[dict[str, Any]]:
    return [
        {"sentence_id": sentence_id, "start": start, "end": start + 2, "type": rng.choice(_TYPES), "source": source,
         "score": 0.5}
        for start, source in ((0, "dbpedia"), (3, "link"), (6, "model:run 1"))
        if source != "model:run 1" or sentence_id % 4 == 0
    ]  # fmt: skip


def _work(session: Any, people: Mapping[str, Actor], campaign: int, ids: Sequence[int], rng: random.Random) -> None:
    moment, authors = now(), {"annotate": "ann1", "check": "ann2", "adjudicate": "eva"}
    session.execute(sa.delete(Task).where(Task.sentence_id.in_(ids), Task.stage == "annotate"))
    spans: dict[int, list[tuple[int, int, str]]] = {
        id_: [(start, start + 2, rng.choice(_TYPES)) for start in (0, 3, 6)] for id_ in ids
    }
    for stage, name in authors.items():
        user_id = people[name].id
        tasks = [
            {"sentence_id": id_, "campaign_id": campaign, "position": float(id_), "stage": stage, "state": "done",
             "done_by": user_id, "done_at": moment}
            for id_ in ids
        ]  # fmt: skip
        task_ids = _inserted(session, Task, tasks)
        works = [
            {"task_id": id_, "user_id": user_id, "state": "submitted", "revision": 1, "submitted_at": moment}
            for id_ in task_ids
        ]
        rows = [
            {"annotation_id": work, "start": start, "end": end, "type": _TYPES[0] if differs else kind,
             "surface": "made up"}
            for work, id_ in zip(_inserted(session, Annotation, works), ids, strict=True)
            for differs in [stage == "check" and id_ % 5 == 0]
            for start, end, kind in spans[id_][: 2 if differs else 3]
        ]  # fmt: skip
        session.execute(sa.insert(SpanRow), rows)


def _inserted(session: Any, table: Any, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return list(session.scalars(sa.insert(table).returning(table.id, sort_by_parameter_order=True), list(rows)))


def measure(store: Store, people: Mapping[str, Actor], campaign: int) -> list[dict[str, Any]]:
    """Return what each search took, as the researcher and as an annotator sees it."""
    rows = []
    for what, search in SEARCHES.items():
        for name in ("res", "ann1"):
            if name == "ann1" and search.differ:
                continue
            rows.append(_measured(what, name, partial(_hits, store, people[name], campaign, search), times=3))
    return rows


def _measured(what: str, who: str, call: Callable[[], int], *, times: int = 1) -> dict[str, Any]:
    taken, hits = [], 0
    for _ in range(times):
        begun, cpu = time.perf_counter(), _cpu()
        hits = call()
        taken.append((time.perf_counter() - begun, _cpu() - cpu))
    first, again = taken[0], min(taken[1:] or taken)
    return {"what": what, "who": who, "hits": hits, "first": first[0], "first_cpu": first[1], "again": again[0],
            "again_cpu": again[1]}  # fmt: skip


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def _hits(store: Store, actor: Actor, campaign: int, search: Search) -> int:
    return browsing.browse(store, actor, campaign, search).total


def _endless(store: Store, actor: Actor, campaign: int) -> dict[str, Any]:
    def refused() -> int:
        try:
            return _hits(store, actor, campaign, Search(text=r"(\w+\s?)+$x", regex=True))
        except BadInput:
            return 0

    return _measured("endless expression, refused", actor.name, refused)


def _bulk(store: Store, actor: Actor, campaign: int) -> list[dict[str, Any]]:
    """Return what previewing, proposing, listing and withdrawing a type in some thousand hits takes."""
    search = Search(text=r"\bka 1\d*", regex=True)
    source = ""

    def propose() -> int:
        nonlocal source
        source, number = from_search.propose(store, actor, campaign, search, "song")
        return number

    steps: Mapping[str, Callable[[], int]] = {
        "search": lambda: _hits(store, actor, campaign, search),
        "preview": lambda: len(from_search.preview(store, actor, campaign, search, "song").places),
        "propose": propose,
        "list": lambda: from_search.proposed(store, actor, campaign)[0].suggestions,
        "withdraw": lambda: from_search.withdraw(store, actor, campaign, source)[0],
    }
    return [_measured(f"bulk: {what}", actor.name, call) for what, call in steps.items()]


if __name__ == "__main__":
    main()
