"""The store a latency run works on: people, a large synthetic campaign, and checks of what arrived."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crossner_core.domains import load_domain
from crossner_core.schema import Link, Sentence, sentence_from_words
from db.engine import Store, upsert
from db.migrate import migrate
from db.tables import Annotation, AppliedEvent, SentenceRow, SpanRow, SuggestionRow
from tests.support.paths import ROOT
from workbench.accounts import accounts, passwords
from workbench.campaigns import campaigns
from workbench.campaigns import sentences as campaign_sentences

_SYLLABLES = "ka lo mi ren ta su vel or an di pe ru go sha ni ber to la mon e"
_FILLERS = "the of and a in with for to on by from after their his her was that which at as"
_SUGGESTED = 4
_PATIENCE = 300


@dataclass(frozen=True, slots=True)
class Scene:
    """What was made: the campaign, and people as (id, name, password) mappings."""

    campaign: int
    people: tuple[dict[str, Any], ...]


def make_scene(home: Path, *, annotators: int, sentences: int, seed: int, url: str | None = None) -> Scene:
    """Make a migrated store in `home`, or at `url`, with a music campaign that all annotators are members of."""
    home.mkdir(parents=True, exist_ok=True)
    store = Store(url or _url(home))
    try:
        migrate(store)
        return _fill(store, annotators, sentences, random.Random(seed))
    finally:
        store.close()


def _fill(store: Store, annotators: int, sentences: int, rng: random.Random) -> Scene:
    password = passwords.random_password()
    admin = accounts.create_user(store, None, name="admin", display_name="Admin", password=password, role="admin")
    people: list[dict[str, Any]] = []
    for number in range(1, annotators + 1):
        name, password = f"annotator{number}", passwords.random_password()
        actor = accounts.create_user(
            store, admin, name=name, display_name=f"Annotator {number}", password=password, role="annotator"
        )
        people.append({"id": actor.id, "name": name, "password": password})
    domain = load_domain("music")
    campaign = campaigns.create_campaign(
        store,
        admin,
        name="Latency",
        domain=domain,
        control_share=0.0,
        member_ids=[int(person["id"]) for person in people],
    )
    made = [make_sentence(number, domain.type_names, rng) for number in range(sentences)]
    campaign_sentences.add_sentences(store, admin, campaign, [sentence for sentence, _ in made])
    _add_suggestions(store, campaign, {sentence.id: suggested for sentence, suggested in made})
    return Scene(campaign, tuple(people))


def make_sentence(number: int, types: Sequence[str], rng: random.Random) -> tuple[Sentence, list[dict[str, Any]]]:
    """Make a sentence of 30 to 45 tokens; return it with its suggestions: start, end, type, source, score, entity."""
    words = [rng.choice(_FILLERS.split()) if rng.random() < 0.4 else _word(rng) for _ in range(rng.randint(29, 44))]
    suggestions, links = [], []
    for slot in range(_SUGGESTED):
        start = slot * len(words) // _SUGGESTED + rng.randint(0, 3)
        end = start + rng.randint(1, 3)
        words[start:end] = [_word(rng).title() for _ in range(start, end)]
        title = " ".join(words[start:end])
        kind, score = rng.choice(types), round(rng.uniform(0.5, 1.0), 2)
        suggestions.append(
            {"start": start, "end": end, "type": kind, "source": "dictionary", "score": score, "entity": title}
        )
        links.append(Link(start, end, title))
    return sentence_from_words([*words, "."], id=f"latency-{number}", links=links), suggestions


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(_SYLLABLES.split()) for _ in range(rng.randint(1, 4)))


def _add_suggestions(store: Store, campaign: int, suggestions: Mapping[str, list[dict[str, Any]]]) -> None:
    with store.write() as session:
        query = sa.select(SentenceRow.external_id, SentenceRow.id).where(SentenceRow.campaign_id == campaign)
        ids = dict(session.execute(query).all())
        rows = [
            {"sentence_id": ids[name], **suggestion}
            for name, suggested in suggestions.items()
            for suggestion in suggested
        ]
        upsert(session, SuggestionRow, rows, keys=("sentence_id", "source", "start", "end", "type"))


def _url(home: Path) -> str:
    return f"sqlite:///{home.resolve() / 'workbench.sqlite3'}"


@contextmanager
def crowd(
    home: Path, address: str, scene: Scene, people: Sequence[Mapping[str, Any]], **options: float
) -> Iterator[dict[str, Any]]:
    """Run annotators in a process of their own; the mapping holds their report afterwards.

    `options` are those of `benchmarks.streamlit_client`, such as `period` and `seed`.
    """
    members, out = home / "people.json", home / "crowd.json"
    members.write_text(json.dumps(people), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.streamlit_client", address, "--people", str(members)]
    command += ["--campaign", str(scene.campaign), "--out", str(out)]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    report: dict[str, Any] = {}
    try:
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("The annotators did not start; see their output above.")
        process.stdin.write("go\n")
        process.stdin.flush()
        yield report
        process.communicate(timeout=_PATIENCE)
        if process.returncode:
            raise RuntimeError("The annotators failed; see their output above.")
        report |= json.loads(out.read_text(encoding="utf-8"))
    finally:
        members.unlink()
        process.kill()
        process.wait()


def lost_events(home: Path, acknowledged: Iterable[Mapping[str, Any]], url: str | None = None) -> list[str]:
    """List every acknowledged event that is not in the store, and every submit whose spans differ from those sent."""
    store = Store(url or _url(home))
    lost = []
    try:
        with store.read() as session:
            applied = set(session.scalars(sa.select(AppliedEvent.key)))
            submitted = _submitted(session)
    finally:
        store.close()
    for event in acknowledged:
        where = (event["task"], event["user"])
        if event["key"] not in applied:
            lost.append(f"{event['kind']} {event['key']} of user {event['user']} on task {event['task']}")
        elif event["kind"] == "submit" and submitted.get(where) != sorted(map(tuple, event["spans"])):
            lost.append(f"spans of the submit {event['key']} of user {event['user']} on task {event['task']}")
    return lost


def _submitted(session: Any) -> dict[tuple[int, int], list[tuple[int, int, str]]]:
    """Return the spans of all submitted work by (task id, user id)."""
    work = sa.select(Annotation.id, Annotation.task_id, Annotation.user_id).where(Annotation.state == "submitted")
    keys = {id_: (task, user) for id_, task, user in session.execute(work)}
    by_work: dict[tuple[int, int], list[tuple[int, int, str]]] = {where: [] for where in keys.values()}
    for id_, start, end, kind in session.execute(
        sa.select(SpanRow.annotation_id, SpanRow.start, SpanRow.end, SpanRow.type)
    ):
        if id_ in keys:
            by_work[keys[id_]].append((start, end, kind))
    return {where: sorted(spans) for where, spans in by_work.items()}


def applied_count(home: Path, url: str | None = None) -> int:
    """Return how many events the store has applied."""
    store = Store(url or _url(home))
    try:
        with store.read() as session:
            return session.scalar(sa.select(sa.func.count()).select_from(AppliedEvent)) or 0
    finally:
        store.close()
