"""The guidelines at hand: each type with examples from gold, and what experts decided on hard cases."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_core.gazetteer.titles import title_of_entity
from db import context_rows, question_rows
from db.engine import Session, Store
from db.tables import Annotation, Campaign, Decision, SentenceRow
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import EVERYONE
from workbench.campaigns.domains import domain_of
from workbench.data.values import sentence_of
from workbench.labelling.context import Marked

EXAMPLES = 3
_SPARE = 1  # the open sentence may be one of them, and is left out where it is shown
MOST_DECISIONS = 200
_KEPT = 16
_MADE: dict[tuple[str, int], Guidelines] = {}
"""By store and campaign, the newest that were asked for."""


@dataclass(frozen=True, slots=True)
class Example:
    """A gold sentence with its spans; `name` is the one it is an example of."""

    sentence: int
    name: str
    text: str
    marks: tuple[Marked, ...]


@dataclass(frozen=True, slots=True)
class TypeGuide:
    """An entity type, its guideline, and examples: different sentences with different names, the newest first."""

    name: str
    title: str
    guideline: str
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """A disagreement, and what the expert made of it: each side `name (type's title)`, empty for no entity."""

    kind: str
    first: str
    second: str
    gold: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question of an expert and the annotators' answers."""

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HardCase:
    """A gold sentence that an expert explained or marked as an `example`: what was settled and said about it."""

    sentence: int
    text: str
    marks: tuple[Marked, ...]
    settled: tuple[Settled, ...]
    comment: str
    example: bool
    asked: tuple[Exchange, ...]
    decided_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Guidelines:
    """All of it; `version` changes with the gold and the domain, and what is unchanged comes without its parts."""

    version: str
    types: tuple[TypeGuide, ...] | None = None
    decisions: tuple[HardCase, ...] | None = None


def guidelines(store: Store, actor: Actor, campaign_id: int, *, version: str = "") -> Guidelines:
    """Return the guidelines of a campaign with examples and decisions, or only their version if that is `version`.

    Everything is from gold outside the test split, and the same for all members: nobody's name is in it. It is made
    anew when gold has come since.
    """
    require(actor, *EVERYONE)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *EVERYONE)
        count, newest = context_rows.gold_reached(session, campaign.id)
        domain = hashlib.sha256(campaign.domain_toml.encode()).hexdigest()[:12]
        now = f"{count}-{newest.isoformat() if newest else ''}-{domain}"
        if now == version:
            return Guidelines(now)
        key = (str(store.url), campaign.id)
        made = _MADE.get(key)
        if made is None or made.version != now:
            made = Guidelines(now, _types(session, campaign), _decisions(session, campaign))
            _MADE.pop(key, None)
            _MADE[key] = made
            while len(_MADE) > _KEPT:
                _MADE.pop(next(iter(_MADE)), None)
        return made


def _types(session: Session, campaign: Campaign) -> tuple[TypeGuide, ...]:
    chosen: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
    for kind, name, annotation_id in context_rows.names_in_gold(session, campaign.id):
        names = chosen[kind]
        is_new = all(annotation_id != id_ for _, id_ in names.values())
        if is_new and len(names) < EXAMPLES + _SPARE:
            names.setdefault(name.casefold(), (name, annotation_id))
    wanted = {id_ for names in chosen.values() for _, id_ in names.values()}
    gold = context_rows.with_sentences(session, sorted(wanted))
    return tuple(
        TypeGuide(
            kind.name,
            kind.title,
            kind.guideline,
            tuple(
                Example(gold[id_][0].id, name, gold[id_][0].text, _marks(*gold[id_]))
                for name, id_ in chosen.get(kind.name, {}).values()
            ),
        )
        for kind in domain_of(campaign).types
    )


def _decisions(session: Session, campaign: Campaign) -> tuple[HardCase, ...]:
    cases = context_rows.hard_cases(session, campaign.id, most=MOST_DECISIONS)
    asked: dict[int, list[Exchange]] = defaultdict(list)
    for question, _, answers in question_rows.of_tasks(session, [annotation.task_id for _, annotation in cases]):
        asked[question.task_id].append(Exchange(question.text, tuple(answer.text for answer, _ in answers)))
    titles = {kind.name: kind.title for kind in domain_of(campaign).types}
    return tuple(
        HardCase(
            sentence=row.id,
            text=row.text,
            marks=_marks(row, annotation),
            settled=tuple(_settled(row, annotation, decision, titles) for decision in annotation.decisions
                          if decision.kind != "agree"),
            comment=annotation.comment,
            example=annotation.example,
            asked=tuple(asked[annotation.task_id]),
            decided_at=annotation.submitted_at,
        )
        for row, annotation in cases
    )  # fmt: skip


def _marks(row: SentenceRow, annotation: Annotation) -> tuple[Marked, ...]:
    sentence = sentence_of(row)
    return tuple(Marked(*sentence.char_range(span.start, span.end), span.type) for span in annotation.spans)


def _settled(row: SentenceRow, annotation: Annotation, decision: Decision, titles: dict[str, str]) -> Settled:
    sentence, with_entity = sentence_of(row), decision.kind == "entity"

    def words(spans: Iterable[Sequence[Any]]) -> str:
        return ", ".join(f"{sentence.surface(span[0], span[1])} ({', '.join(named(*span[2:]))})" for span in spans)

    def named(kind: str, entity: str | None = None) -> Iterator[str]:
        yield titles.get(kind, kind)
        if with_entity:
            yield title_of_entity(entity) if entity else "not linked"

    sides = [side for side in (decision.first, decision.second) if side]
    start, end = min(side[0] for side in sides), max(side[1] for side in sides)
    gold = [
        (span.start, span.end, span.type, span.entity)
        for span in annotation.spans
        if span.start < end and start < span.end
    ]
    first, second = (words([side]) if side else "" for side in (decision.first, decision.second))
    return Settled(decision.kind, first, second, words(gold))
