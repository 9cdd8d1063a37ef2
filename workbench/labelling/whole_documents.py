"""A person's own work on a whole document, sent by a program of theirs as the editor sends a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crossner_core.errors import Conflict, NotFound
from crossner_core.formats.base import NamedFile
from crossner_core.schema import Sentence, Span
from db import annotation_rows, task_rows
from db.engine import Session, Store
from db.tables import Annotation, Campaign, Task
from workbench.accounts import audit
from workbench.accounts.access import enter, enter_alone, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import LABELLERS
from workbench.campaigns.domains import domain_of
from workbench.data.documents import document_in, spans_in
from workbench.labelling import steps
from workbench.labelling.saving import save
from workbench.labelling.units import linked
from workbench.labelling.work import Work, WorkSpan, work_of


def work_on_document(
    store: Store,
    actor: Actor,
    campaign_id: int,
    document_id: int,
    files: Sequence[NamedFile],
    *,
    format: str,
    is_complete: bool,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Make the annotation in files the actor's work as annotator 1 on every sentence of a document, or on none.

    It is submitted if it `is_complete`, else a draft that the actor holds for the length of a lease. Raises Conflict
    where a sentence is not theirs to annotate (any more). For annotators and experts.
    """
    require(actor, *LABELLERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *LABELLERS)
        document, types = document_in(session, campaign, document_id), domain_of(campaign).type_names
    spans = spans_in(document, files, types, format=format, options=options)
    with store.write() as session:
        current, campaign = enter_alone(session, actor, campaign_id, *LABELLERS)
        refuse_archived(campaign)
        for id, sentence, given in zip(document.ids, document.sentences, spans, strict=True):
            _write(session, campaign, current, id, _work(sentence, given), is_complete=is_complete)
        about = ("document", document.name)
        audit.record(session, current, "work_on_document", about, campaign_id, is_complete=is_complete)


def set_document_state(store: Store, actor: Actor, campaign_id: int, document_id: int, *, is_complete: bool) -> None:
    """Submit the actor's drafts as annotator 1 in a document, or take what they submitted back to change it.

    Raises NotFound where they have no work in it, Conflict where a sentence is not theirs any more.
    """
    require(actor, *LABELLERS)
    with store.write() as session:
        current, campaign = enter_alone(session, actor, campaign_id, *LABELLERS)
        refuse_archived(campaign)
        document = document_in(session, campaign, document_id)
        own = [(id, mine) for id in document.ids if (mine := _mine(session, current, id)) is not None]
        if not own:
            raise NotFound(f"{current.display_name} has no work as annotator 1 in the document {document.name!r}.")
        for id, mine in own:
            if is_complete and mine.state == "draft":
                work = work_of(mine)
                work = replace(work, no_entities=not work.spans)
                _write(session, campaign, current, id, work, is_complete=True)
            elif not is_complete and mine.state == "submitted":
                steps.take_up(session, campaign, current, mine.task)
        about = ("document", document.name)
        audit.record(session, current, "set_document_state", about, campaign_id, is_complete=is_complete)


def _mine(session: Session, actor: Actor, sentence_id: int) -> Annotation | None:
    task = task_rows.of_sentence(session, sentence_id).get("annotate")
    return annotation_rows.find(session, task_id=task.id, user_id=actor.id) if task is not None else None


def _work(sentence: Sentence, spans: Sequence[Span]) -> Work:
    marked = tuple(
        WorkSpan(span.start, span.end, span.type, sentence.surface(span.start, span.end), entity=span.entity)
        for span in spans
    )
    return Work(spans=marked, no_entities=not marked)


def _write(
    session: Session, campaign: Campaign, actor: Actor, sentence_id: int, work: Work, *, is_complete: bool
) -> None:
    """Save work on a sentence as the editor does, and submit it if it is complete; what stands so already stays."""
    task = _task(session, sentence_id)
    mine = annotation_rows.find(session, task_id=task.id, user_id=actor.id)
    if task.state == "done" and mine is not None and mine.state == "submitted":
        if is_complete and linked(work_of(mine).plain_spans) == linked(work.plain_spans):
            return
        mine = steps.take_up(session, campaign, actor, task)
    elif task.leased_to != actor.id and (lost := steps.lost_to(session, actor, task)) is not None:
        raise Conflict(f"Sentence {_name(session, task)}: {lost} Nothing of the document was changed.")
    steps.check_work(session, task, work, submitting=is_complete)
    steps.hold(session, campaign, actor, task)
    annotation = mine or annotation_rows.add(session, task_id=task.id, user_id=actor.id)
    save(session, annotation, work, task, revision=annotation.revision + 1, client=None)
    if is_complete:
        steps.submit(session, campaign, actor, task, annotation, work)


def _task(session: Session, sentence_id: int) -> Task:
    task = task_rows.of_sentence(session, sentence_id).get("annotate")
    if task is None:
        raise Conflict("A sentence of the document came with its gold, so nobody annotates it.")
    session.refresh(task, with_for_update=True)
    return task


def _name(session: Session, task: Task) -> str:
    return annotation_rows.sentences_of_tasks(session, [task.id])[task.id].external_id
