"""Adjudication: units to decide, questions to the annotators, and sentences set aside."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound
from db import annotation_rows, question_rows, task_rows
from db.engine import Session, Store
from db.tables import ASKED, Annotation, Campaign, Question, Task
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import ARBITERS, LABELLERS, OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.labelling.handout import lease_end
from workbench.labelling.items import layers_of
from workbench.labelling.steps import find_task

_MAX_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One annotator's answer to a question."""

    who: str
    text: str
    answered_at: dt.datetime


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question of the expert with the sentence it is about; `mine` is whether the reader asked it."""

    id: int
    task_id: int
    sentence_id: int
    sentence_text: str
    asked_by: str
    mine: bool
    text: str
    asked_at: dt.datetime
    closed: bool
    answers: tuple[AnswerView, ...]
    my_answer: str | None
    first: tuple[str, ...]
    second: tuple[str, ...]
    """The two annotators' spans in words: `surface (type)`."""
    asks: str = "both"
    """Whom it asks: both, first or second."""


@dataclass(frozen=True, slots=True)
class ParkedView:
    """A sentence that was set aside because people skipped it, with their reasons."""

    task_id: int
    sentence_id: int
    stage: str
    text: str
    reasons: tuple[str, ...]


def ask(store: Store, actor: Actor, task_id: int, text: str, *, asks: str = "both") -> int:
    """Ask both annotators, the first or the second about a sentence under adjudication; return the question's id.

    The task stays the expert's and comes back when those asked have answered; until then it comes after all others. No
    other expert is given it before that, unless the question is closed or the one who asked is no longer an expert
    here. For experts.
    """
    require(actor, "expert")
    wanted = _text(text, "question")
    if asks not in ASKED:
        raise BadInput(f"A question asks {asks!r}; allowed are {', '.join(ASKED)}.")
    with store.write() as session:
        task, campaign, current = find_task(session, actor, task_id, "expert")
        refuse_archived(campaign)
        if task.stage != "adjudicate" or task.state not in ("open", "leased"):
            raise Conflict("A question can be asked about a sentence under adjudication only; this one is not.")
        if task.leased_to not in (None, current.id) and task.lease_expires is not None and task.lease_expires >= now():
            raise Conflict("Another expert has this sentence at the moment.")
        if not question_rows.people_asked(session, task.sentence_id, asks):
            raise Conflict("Nobody who annotated this sentence can answer here, so there is nobody to ask.")
        if task.leased_to != current.id:
            task_rows.give_back(task, user_id=current.id, until=lease_end(campaign))
        question_id = question_rows.add(session, task_id=task.id, user_id=current.id, text=wanted, asks=asks).id
        audit.record(session, current, "ask_question", ("question", question_id), campaign.id, task=task.id, asks=asks)
        return question_id


def answer(store: Store, actor: Actor, question_id: int, text: str) -> None:
    """Answer a question put to oneself; a second answer replaces the first."""
    require(actor, *LABELLERS)
    wanted = _text(text, "answer")
    with store.write() as session:
        question, task, current = _question(session, actor, question_id)
        if current.id not in question_rows.people_asked(session, task.sentence_id, question.asks):
            whom = {"both": "the two annotators", "first": "annotator 1", "second": "annotator 2"}[question.asks]
            raise NotAllowed(f"Only {whom} of the sentence can answer this question.")
        if question.closed_at is not None:
            raise Conflict("The expert has decided meanwhile; the question is closed.")
        question_rows.answer(session, question_id=question.id, user_id=current.id, text=wanted)
        audit.record(session, current, "answer_question", ("question", question.id), task.campaign_id, task=task.id)


def close_question(store: Store, actor: Actor, question_id: int) -> None:
    """Close a question, one's own or another's, without waiting for more answers. For experts."""
    require(actor, "expert")
    with store.write() as session:
        question, task, current = _question(session, actor, question_id, "expert")
        audit.record(session, current, "close_question", ("question", question.id), task.campaign_id, task=task.id)
        question.closed_at = question.closed_at or now()


def my_questions(store: Store, actor: Actor, campaign_id: int) -> tuple[QuestionView, ...]:
    """Return the questions put to the actor and those they asked, the open ones first, then the newest first."""
    require(actor, *LABELLERS)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *LABELLERS)
        who = {"campaign_id": campaign.id, "user_id": current.id}
        threads = {thread[0].id: thread for thread in question_rows.put_to(session, **who)}
        threads |= {thread[0].id: thread for thread in question_rows.asked_by(session, **who)}
        views = _question_views(session, list(threads.values()), current, campaign)
        return tuple(sorted(views, key=lambda view: (view.closed, view.my_answer is not None, -view.id)))


def open_questions(store: Store, actor: Actor, campaign_id: int) -> tuple[QuestionView, ...]:
    """Return the campaign's open questions, whoever asked them, the oldest first. For experts."""
    require(actor, "expert")
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, "expert")
        return tuple(_question_views(session, question_rows.open_in(session, campaign.id), current, campaign))


def parked(store: Store, actor: Actor, campaign_id: int) -> tuple[ParkedView, ...]:
    """Return the sentences that were set aside, with the reasons people gave."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return parked_views(session, campaign_id)


def parked_views(session: Session, campaign_id: int) -> tuple[ParkedView, ...]:
    """Return the parked sentences of a campaign, inside a transaction that is open already."""
    tasks = task_rows.parked(session, campaign_id)
    reasons: dict[int, list[str]] = {}
    for task_id, _, reason in annotation_rows.skips(session, [task.id for task, _ in tasks]):
        reasons.setdefault(task_id, []).append(reason)
    return tuple(
        ParkedView(task.id, row.id, task.stage, row.text, tuple(reasons.get(task.id, ()))) for task, row in tasks
    )


def unpark(store: Store, actor: Actor, task_id: int) -> None:
    """Put a parked sentence back into the queue, for those who skipped it too. For experts and admins."""
    require(actor, *ARBITERS)
    with store.write() as session:
        task, campaign, current = find_task(session, actor, task_id, *ARBITERS)
        if task.state != "parked":
            raise Conflict(f"The task {task_id} is {task.state}, not parked.")
        for annotation, _ in annotation_rows.of_task(session, task.id):
            if annotation.state == "skipped":
                annotation.state = "draft"
        task_rows.release(task)
        audit.record(session, current, "unpark", ("task", task.id), campaign.id, stage=task.stage)


def _text(text: str, what: str) -> str:
    wanted = text.strip()
    if not 0 < len(wanted) <= _MAX_TEXT:
        raise BadInput(f"The {what} has {len(wanted)} characters; 1 to {_MAX_TEXT} are allowed.")
    return wanted


def _question(session: Session, actor: Actor, question_id: int, *roles: str) -> tuple[Question, Task, Actor]:
    fresh(session, actor, *(roles or LABELLERS))
    question = question_rows.find(session, question_id)
    if question is None:
        raise NotFound(f"There is no question {question_id}.")
    task, campaign, current = find_task(session, actor, question.task_id, *(roles or LABELLERS))
    refuse_archived(campaign)
    return question, task, current


def _question_views(
    session: Session, threads: Sequence[question_rows.Thread], actor: Actor, campaign: Campaign
) -> list[QuestionView]:
    sentences = annotation_rows.sentences_of_tasks(session, [question.task_id for question, _, _ in threads])
    layers = layers_of(session, [row.id for row in sentences.values()])
    views, titles = [], domain_of(campaign).titles
    for question, asker, answers in threads:
        row = sentences[question.task_id]
        mine = next((given.text for given, person in answers if person.id == actor.id), None)
        views.append(
            QuestionView(
                id=question.id,
                task_id=question.task_id,
                sentence_id=row.id,
                sentence_text=row.text,
                asked_by=asker.display_name,
                mine=asker.id == actor.id,
                text=question.text,
                asked_at=question.asked_at,
                closed=question.closed_at is not None,
                answers=tuple(AnswerView(p.display_name, given.text, given.answered_at) for given, p in answers),
                my_answer=mine,
                first=_in_words(layers[row.id].first, titles),
                second=_in_words(layers[row.id].second, titles),
                asks=question.asks,
            )
        )
    return views


def _in_words(annotation: Annotation | None, titles: Mapping[str, str]) -> tuple[str, ...]:
    spans = annotation.spans if annotation else ()
    return tuple(f"{span.surface} ({titles.get(span.type, span.type)})" for span in spans)
