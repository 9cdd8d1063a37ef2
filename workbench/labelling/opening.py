"""Open a sentence from a list in the editor of the layer that the person may edit, or say why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.errors import Conflict, NotFound
from crossner_core.schema import Sentence, Span
from db import annotation_rows, browse_rows, campaign_rows, question_rows, task_rows
from db.engine import Session, Store
from db.tables import Annotation, Campaign, Task
from workbench.accounts import audit
from workbench.accounts.access import enter, enter_alone, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import EVERYONE, LABELLERS
from workbench.data.values import checked_spans, sentence_of
from workbench.labelling.steps import lost_to, obstacle_to_reopen, take_back, take_up


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a sentence can be edited: the stage of the editor, or None and the reason.

    `is_gold`: it stops being gold until it is sent again. `own` are the person's spans, by stage.
    """

    sentence: Sentence
    split: str
    place: str
    stage: str | None
    reason: str
    is_gold: bool
    own: dict[str, tuple[Span, ...]]


def opening(store: Store, actor: Actor, campaign_id: int, sentence_id: int) -> Opening:
    """Return where the actor can edit a sentence, and their own work on it; it shows no work of others."""
    require(actor, *EVERYONE)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *EVERYONE)
        row = browse_rows.one(session, campaign_id, sentence_id)
        if row is None:
            raise NotFound(f"The campaign has no sentence {sentence_id}; it may have been deleted.")
        sentence, tasks = sentence_of(row[0]), task_rows.of_sentence(session, sentence_id)
        works = annotation_rows.mine(session, [task.id for task in tasks.values()], user_id=current.id)
        own = {stage: works[task.id] for stage, task in tasks.items() if task.id in works}
        task, reason = _editable(session, campaign, current, tasks, own)
        return Opening(
            sentence=sentence,
            split=row[0].split,
            place=row[1],
            stage=task.stage if task else None,
            reason=reason,
            is_gold=task is not None and task.stage == "adjudicate" and task.state == "done",
            own={stage: checked_spans(sentence, work.spans) for stage, work in own.items()},
        )


def open_in_editor(store: Store, actor: Actor, campaign_id: int, sentence_id: int) -> str:
    """Make a sentence the next one in the actor's editor, reopened where it was sent; return the editor's stage.

    Raises Conflict with the reason if they may not edit it (any more).
    """
    require(actor, *LABELLERS)
    with store.write() as session:
        current, campaign = enter_alone(session, actor, campaign_id, *LABELLERS)
        refuse_archived(campaign)
        tasks = task_rows.of_sentence(session, sentence_id)
        if not any(task.campaign_id == campaign_id for task in tasks.values()):
            raise NotFound(f"The campaign has no sentence {sentence_id}; it may have been deleted.")
        for locked in sorted(tasks.values(), key=lambda task: task.id):
            session.refresh(locked, with_for_update=True)
        works = annotation_rows.mine(session, [task.id for task in tasks.values()], user_id=current.id)
        own = {stage: works[task.id] for stage, task in tasks.items() if task.id in works}
        task, reason = _editable(session, campaign, current, tasks, own)
        if task is None:
            raise Conflict(reason)
        if task.leased_to == current.id or (task.stage == "adjudicate" and task.state != "done"):
            take_back(session, campaign, current, task)  # it is theirs, or free: it only comes to the front
        else:
            take_up(session, campaign, current, task)
            audit.record(session, current, "reopen", ("task", task.id), campaign.id, stage=task.stage)
        return task.stage


def sentence_ids(store: Store, actor: Actor, campaign_id: int, hashes: tuple[str, ...]) -> dict[str, int]:
    """Return the ids of a campaign's sentences by content hash, of those that it has."""
    require(actor, *EVERYONE)
    with store.read() as session:
        enter(session, actor, campaign_id, *EVERYONE)
        return campaign_rows.ids_of(session, campaign_id, hashes)


def _editable(
    session: Session, campaign: Campaign, actor: Actor, tasks: dict[str, Task], own: dict[str, Annotation]
) -> tuple[Task | None, str]:
    """Return the task that the actor may edit, of the last stage first; None with the reason if there is none."""
    if campaign.archived:
        return None, "The campaign is archived."
    if actor.role not in LABELLERS:
        return None, "Only annotators and experts edit: annotators their own work, an expert the gold."
    reasons = []
    if "adjudicate" in tasks and actor.role == "expert":
        obstacle = _obstacle_to_settle(session, actor, tasks["adjudicate"], own.get("adjudicate"))
        if obstacle is None:
            return tasks["adjudicate"], ""
        reasons.append(obstacle)
    for stage in ("check", "annotate"):
        task, work = tasks.get(stage), own.get(stage)
        if task is not None and task.leased_to == actor.id:
            return task, ""
        if task is not None and work is not None:
            obstacle = obstacle_to_reopen(session, actor, task, work)
            if obstacle is None:
                return task, ""
            reasons.append(obstacle)
    return None, reasons[-1] if reasons else _whose(tasks)


def _obstacle_to_settle(session: Session, actor: Actor, task: Task, mine: Annotation | None) -> str | None:
    """Return why an expert cannot open a task to adjudicate; None if they can: gold they always can."""
    if task.state == "done" or task.leased_to == actor.id:
        return None
    if mine is not None and mine.state == "skipped":
        return obstacle_to_reopen(session, actor, task, mine)
    for _, asker in question_rows.awaited(session, [task.id]):
        if asker.id != actor.id:
            return f"{asker.display_name} waits for answers to a question about this sentence."
    return lost_to(session, actor, task)


def _whose(tasks: dict[str, Task]) -> str:
    """Return in words why somebody without work on a sentence cannot open it."""
    if "adjudicate" in tasks:
        gold = tasks["adjudicate"].state == "done"
        return "This is gold; only an expert can reopen it." if gold else "This waits for the expert."
    if any(task.state == "leased" for task in tasks.values()):
        return "Somebody else is working on this sentence."
    if any(task.state == "parked" for task in tasks.values()):
        return "This sentence was set aside for the expert."
    return "Nobody has this sentence yet; it is handed out in the order of the queue."
