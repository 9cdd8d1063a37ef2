"""How a task moves: held, submitted on to the next stage, skipped, parked, taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound
from crossner_core.records import to_json
from crossner_core.schema import Span
from db import annotation_rows, people_rows, question_rows, task_rows
from db.engine import Session, Store
from db.tables import Annotation, Campaign, Task
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter_alone, refuse_archived
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import LABELLERS, STAGE_ROLES
from workbench.labelling.handout import ends_soon, lease_end, renew, renew_all
from workbench.labelling.items import layers_of
from workbench.labelling.saving import save
from workbench.labelling.units import check_choices
from workbench.labelling.work import Work, work_of
from workbench.suggestions.proposing import gold_came
from workbench.webhooks import events

NEXT_STAGE = {"annotate": "check", "check": "adjudicate"}
_SKIPS_TO_PARK = 2


def lost_to(session: Session, actor: Actor, task: Task) -> str | None:
    """Return why the actor cannot take a task that they do not hold; None if they may take it."""
    if task.state == "done":
        return "Somebody else has finished this sentence."
    if task.state == "parked":
        return "This sentence was set aside for the expert."
    if task.state == "leased" and task.lease_expires is not None and task.lease_expires >= now():
        return "This sentence went to somebody else when your time on it had run out."
    stages = annotation_rows.workers_of(session, task.sentence_id).get(actor.id, set())
    if stages - {task.stage}:
        return "You worked on this sentence at another stage."
    return None


def hold(session: Session, campaign: Campaign, actor: Actor, task: Task) -> None:
    """Lease the task to the actor; if it is theirs, renew their leases once half of its time has passed."""
    if task.leased_to == actor.id:
        if not ends_soon(campaign, task.lease_expires):
            return
        renew_all(session, campaign, actor, task.stage)
    else:
        task_rows.give_back(task, user_id=actor.id, until=lease_end(campaign))
    session.flush()
    session.refresh(task)


def check_work(session: Session, task: Task, work: Work, *, submitting: bool) -> None:
    """Raise BadInput when the work does not fit its stage; submitted work is checked more strictly."""
    if task.stage != "annotate":
        layers = layers_of(session, [task.sentence_id])[task.sentence_id]
    if task.stage == "check":
        _check_marks(session, task, work, layers.spans[0])
    elif work.flags:
        raise BadInput("Flags belong to the check; there are none at this stage.")
    elif any(span.origin == "confirmed" for span in work.spans):
        raise BadInput("Spans are confirmed at the check; there are none to confirm at this stage.")
    if task.stage == "adjudicate":
        check_choices(layers.units, work.decisions, work.plain_spans, complete=submitting)
    elif work.decisions:
        raise BadInput("Decisions belong to the adjudication; there are none at this stage.")
    elif work.example:
        raise BadInput("Examples are gold, which the expert marks; there are none at this stage.")
    settled = task.stage == "adjudicate" and bool(work.decisions)
    if submitting and not work.spans and not work.no_entities and not settled:
        raise BadInput("Nothing is marked; confirm that the sentence has no entities, or mark one.")


def _check_marks(session: Session, task: Task, work: Work, first: tuple[Span, ...]) -> None:
    """Raise BadInput unless what is flagged or confirmed is annotator 1's."""
    blind = annotation_rows.sentences_of_tasks(session, [task.id])[task.id].blind
    allowed = set() if blind else set(first)
    for span in work.spans:
        if span.origin == "confirmed" and span.span not in allowed:
            raise BadInput(f"{span.surface!r} is confirmed, but is no span of annotator 1. Drop your changes.")
    for flag in work.flags:
        if Span(flag.start, flag.end, flag.type) not in allowed:
            raise BadInput(f"The flag at [{flag.start}, {flag.end}) is on no span of annotator 1. Drop your changes.")


def submit(
    session: Session,
    campaign: Campaign,
    actor: Actor,
    task: Task,
    annotation: Annotation,
    work: Work,
    *,
    record: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Submit the work, which is the annotation's, and open the next stage; after the adjudication it is gold.

    `record` is kept with this version beside the work: what became of suggestions that were open.
    """
    finished_at = now()
    annotation.state, annotation.submitted_at, annotation.skip_reason = "submitted", finished_at, None
    annotation.no_entities = not work.spans
    kept = replace(work, no_entities=annotation.no_entities)
    annotation_rows.keep_version(session, annotation, to_json(kept) | dict(record), revision=annotation.revision)
    task_rows.finish(task, user_id=actor.id, at=finished_at)
    if task.stage == "adjudicate":
        question_rows.close_all(session, task.id)
        session.flush()
        if annotation_rows.sentences_of_tasks(session, [task.id])[task.id].split != "test":
            gold_came(session, campaign)
    else:
        task_rows.open_stage(session, task, NEXT_STAGE[task.stage])
    session.flush()
    if task.stage == "adjudicate":
        events.gold_made(session, campaign.id, task.sentence_id)


def skip(session: Session, campaign: Campaign, actor: Actor, task: Task, annotation: Annotation, reason: str) -> None:
    """Give the sentence to others with a reason; after two skips, or when nobody else is left, it is parked."""
    if not reason:
        raise BadInput("A skip needs a reason, so that the next person knows what was hard.")
    annotation.state, annotation.skip_reason = "skipped", reason
    session.flush()
    skipped = {user_id for _, user_id, _ in annotation_rows.skips(session, [task.id])}
    parks = len(skipped) >= _SKIPS_TO_PARK or not _others(session, campaign, task, skipped)
    task_rows.release(task, state="parked" if parks else "open")
    session.flush()


def _others(session: Session, campaign: Campaign, task: Task, skipped: set[int]) -> set[int]:
    """Return who else could still be given the task."""
    workers = annotation_rows.workers_of(session, task.sentence_id)
    return {
        user.id
        for user in people_rows.members(session, campaign.id)
        if user.active
        and user.role in STAGE_ROLES[task.stage]
        and user.id not in skipped
        and not workers.get(user.id, set()) - {task.stage}
    }


def obstacle_to_reopen(session: Session, actor: Actor, task: Task, mine: Annotation | None) -> str | None:
    """Return why the actor cannot take back their submitted or skipped work; None if they can."""
    if mine is not None and mine.state == "skipped" and task.state in ("open", "parked"):
        return None
    if mine is None or not _stands(mine, task, actor):
        return "This sentence is no longer yours, so it cannot be reopened."
    following = _following(session, task)
    if following is not None and task_rows.has_begun(session, following):
        return "The next stage of this sentence has begun, so it cannot be reopened."
    return None


def _stands(mine: Annotation, task: Task, actor: Actor) -> bool:
    """Return whether the actor's work is what was submitted for the task."""
    return mine.state == "submitted" and task.state == "done" and task.done_by == actor.id


def _following(session: Session, task: Task) -> Task | None:
    stage = NEXT_STAGE.get(task.stage)
    return task_rows.of_sentence(session, task.sentence_id).get(stage) if stage else None


def take_back(session: Session, campaign: Campaign, actor: Actor, task: Task) -> None:
    """Lease a task again to the one who did or skipped it, ahead of all they hold; close the stage it had opened."""
    following = _following(session, task)
    if following is not None:
        task_rows.remove(session, following)
    held = task_rows.held(session, campaign_id=campaign.id, user_id=actor.id, stage=task.stage, lock=True)
    task_rows.give_back(task, user_id=actor.id, until=lease_end(campaign))
    session.flush()
    # The editor shows the first few of what a person holds: at the end, the sentence would vanish from the screen.
    renew(session, campaign, actor, [task.id, *(task_id for task_id, _ in held if task_id != task.id)])
    session.refresh(task)


def reopen(store: Store, actor: Actor, task_id: int) -> None:
    """Take submitted or skipped work back to change it; an expert may take back any gold.

    Raises Conflict once the next stage has begun. The submitted version is kept; gold stops being gold until it is
    submitted again.
    """
    require(actor, *LABELLERS)
    with store.write() as session:
        task, campaign, current = find_task(session, actor, task_id, *LABELLERS)
        refuse_archived(campaign)
        take_up(session, campaign, current, task)
        audit.record(session, current, "reopen", ("task", task.id), campaign.id, stage=task.stage)


def take_up(session: Session, campaign: Campaign, actor: Actor, task: Task) -> Annotation:
    """Like `reopen`, inside a transaction whose caller has authorised the actor; return the work as a draft."""
    if actor.role not in STAGE_ROLES[task.stage]:
        raise NotAllowed(f"{actor.display_name} cannot reopen gold; only an expert can.")
    session.refresh(task, with_for_update=True)
    mine = annotation_rows.find(session, task_id=task.id, user_id=actor.id)
    standing = annotation_rows.standing(session, task.id)
    if task.stage == "adjudicate" and task.state == "done" and standing is not None and standing is not mine:
        mine = _take_over(session, task, standing, mine, actor)
    else:
        obstacle = obstacle_to_reopen(session, actor, task, mine)
        if obstacle or mine is None:
            raise Conflict(obstacle or "You have no work on this sentence.")
    take_back(session, campaign, actor, task)
    mine.state, mine.submitted_at, mine.client = "draft", None, None
    mine.revision, mine.updated_at = mine.revision + 1, now()
    return mine


def _take_over(session: Session, task: Task, standing: Annotation, mine: Annotation | None, actor: Actor) -> Annotation:
    """Begin the actor's own work where somebody else's gold left off; theirs is superseded and kept."""
    work = work_of(standing)
    if standing.origin == "import":
        work = replace(work, decisions=(), spans=())
    standing.state = "superseded"
    annotation = mine or annotation_rows.add(session, task_id=task.id, user_id=actor.id)
    save(session, annotation, work, task, revision=annotation.revision + 1, client=None)
    return annotation


def find_task(session: Session, actor: Actor, task_id: int, *roles: str) -> tuple[Task, Campaign, Actor]:
    """Return a task to write to, with its campaign and the actor as they are now; raise NotFound or NotAllowed."""
    fresh(session, actor, *roles)
    row = annotation_rows.sentences_of_tasks(session, [task_id]).get(task_id)
    if row is None:
        raise NotFound(f"There is no task {task_id}.")
    current, campaign = enter_alone(session, actor, row.campaign_id, *roles)
    task = task_rows.find(session, task_id)
    if task is None:
        raise NotFound(f"There is no task {task_id}.")
    return task, campaign, current


def reopenable(session: Session, campaign: Campaign, actor: Actor, works: Iterable[Annotation]) -> set[int]:
    """Return the ids of the tasks whose submitted work the actor could take back now; one query for all of them."""
    if campaign.archived:
        return set()
    tasks = [
        work.task for work in works if _stands(work, work.task, actor) and actor.role in STAGE_ROLES[work.task.stage]
    ]
    begun = task_rows.begun(session, (task.sentence_id for task in tasks if task.stage in NEXT_STAGE))
    return {task.id for task in tasks if (task.sentence_id, NEXT_STAGE.get(task.stage)) not in begun}
