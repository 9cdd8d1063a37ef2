"""Apply what browsers send: every event on its own, once, and never over work the browser has not seen."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from crossner_core.errors import NotAllowed, NotFound, StorageError, WorkbenchError
from crossner_core.records import to_json
from db import annotation_rows, task_rows
from db.engine import Session, Store
from db.tables import Annotation, Campaign, SentenceRow, Task
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter, enter_alone
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import stage_roles
from workbench.campaigns.domains import domain_of
from workbench.data.values import sentence_of
from workbench.labelling import confirming, open_suggestions, steps
from workbench.labelling.events import Event, read_outbox, rejection
from workbench.labelling.items import build, layers_of
from workbench.labelling.saving import save
from workbench.labelling.work import Work, parse_work
from workbench.suggestions import identical

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Applied:
    """The answer to a browser: the highest applied number of each client it named, and the rejections.

    `moved` is False if there were only drafts, and all were applied: then no task changed hands.
    """

    acks: dict[str, int] = field(default_factory=dict)
    rejections: list[dict[str, Any]] = field(default_factory=list)
    moved: bool = False


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why an event was not applied; the transaction is committed all the same."""

    reason: str
    message: str
    item: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Scene:
    """An event with the rows it is about, inside one transaction."""

    session: Session
    actor: Actor
    campaign: Campaign
    stage: str
    event: Event
    task: Task
    row: SentenceRow
    mine: Annotation | None
    filled: annotation_rows.Filled
    """Parts of `mine` that are not empty."""

    def work(self) -> Work:
        """Return the event's work, checked; raise BadInput, InvalidSpan or UnknownType."""
        types = domain_of(self.campaign).type_names
        return parse_work(self.event.work, sentence=sentence_of(self.row), types=types)


def is_of_another(actor: Actor, outbox: object) -> bool:
    """Return whether a message names somebody else as its author.

    A tab that was open when the server restarted sends its message again, under the cookie the browser has by then.
    """
    author = outbox.get("user") if isinstance(outbox, dict) else None
    return author is not None and author != actor.id


def apply(store: Store, actor: Actor, campaign_id: int, stage: str, outbox: object) -> Applied:
    """Apply the events of an outbox in the order of their numbers, one transaction each.

    An event that is not allowed is rejected with a reason and never keeps the others from being applied. An event that
    was applied before is acknowledged again and changes nothing. If an event conflicts, later events of that tab about
    the same task conflict too, since they build on the rejected one. If the store itself fails, StorageError is raised:
    events applied so far stay, and the browser sends the rest again. Raises NotAllowed for a message that names
    another author.
    """
    require(actor, *stage_roles(stage))
    if is_of_another(actor, outbox):
        raise NotAllowed("These changes belong to somebody else; they are sent when that person signs in here again.")
    events, rejections, clients = read_outbox(outbox)
    if not events:  # each event looks for itself whose it is
        with store.read() as session:
            enter(session, actor, campaign_id, *stage_roles(stage))
            reached = {name: annotation_rows.highest_seq(session, client=name, user_id=actor.id) for name in clients}
        acks = {name: highest for name, highest in reached.items() if highest is not None}
        return Applied(acks=acks, rejections=rejections, moved=bool(rejections))
    acks = {}
    refused: dict[tuple[str, int], _Refused] = {}
    for event in events:
        outcome = refused.get((event.client, event.task))
        if outcome is None:
            outcome = _apply_alone(store, actor, campaign_id, stage, event, acks)
        if outcome is not None:
            rejections.append(
                rejection(event.client, event.seq, event.task, outcome.reason, outcome.message, outcome.item)
            )
            if outcome.reason != "invalid":
                refused[event.client, event.task] = outcome
    moved = bool(rejections) or any(event.kind != "draft" for event in events)
    return Applied(acks=acks, rejections=rejections, moved=moved)


def _apply_alone(
    store: Store, actor: Actor, campaign_id: int, stage: str, event: Event, acks: dict[str, int]
) -> _Refused | None:
    """Apply one event in a transaction of its own, and note in `acks` what its client has been acknowledged by then.

    An unexpected error is logged with the event, and refused.
    """
    try:
        with store.write() as session:
            current, campaign = enter_alone(session, actor, campaign_id, *stage_roles(stage))
            refused, highest = _apply_once(session, current, campaign, stage, event)
        if highest is not None:  # and only now: what is acknowledged is committed
            acks[event.client] = highest
        return refused
    except (NotAllowed, NotFound, StorageError):
        raise
    except WorkbenchError as error:
        return _Refused("invalid", str(error))
    except Exception:
        log.exception("Event %s of user %s was not applied; its work: %s", event.key, actor.id, json.dumps(event.work))
        return _Refused("invalid", "The server failed on this change and wrote it to its log; tell an admin.")


def _apply_once(
    session: Session, actor: Actor, campaign: Campaign, stage: str, event: Event
) -> tuple[_Refused | None, int | None]:
    """Apply an event unless it was before; return why not, and its client's highest number afterwards."""
    author, highest = annotation_rows.seen(session, key=event.key, client=event.client, user_id=actor.id)
    if author is not None:
        of_another = _Refused("invalid", "This event belongs to somebody else.")
        return (None if author == actor.id else of_another), highest
    refused = _apply_one(session, actor, campaign, stage, event)
    if refused is not None:
        return refused, highest
    annotation_rows.note_event(
        session, key=event.key, user_id=actor.id, client=event.client, seq=event.seq, highest=highest
    )
    return None, max(highest or 0, event.seq)


def _apply_one(session: Session, actor: Actor, campaign: Campaign, stage: str, event: Event) -> _Refused | None:
    task, row = task_rows.with_sentence(session, event.task)
    if task is None or row is None or row.campaign_id != campaign.id or task.stage != stage:
        return _Refused("invalid", f"There is no task {event.task} at this stage of the campaign.")
    mine, filled = annotation_rows.with_filled(session, task_id=task.id, user_id=actor.id)
    scene = _Scene(session, actor, campaign, stage, event, task, row, mine, filled)
    refused = _refusal_of_archived(scene) if campaign.archived else _refusal(scene)
    if refused is None:
        _write(scene)
    return refused


def _refusal(scene: _Scene) -> _Refused | None:
    """Return why the event cannot be applied, None if it can; work that came too late is kept."""
    task, event, mine = scene.task, scene.event, scene.mine
    held = task.state == "leased" and task.leased_to == scene.actor.id
    if event.kind == "reopen" and not held:
        obstacle = steps.obstacle_to_reopen(scene.session, scene.actor, task, mine)
        return _Refused("lease", obstacle) if obstacle else _conflict(scene)
    if task.state == "done" and mine is not None and mine.state == "submitted":
        _keep_late(scene)
        return _Refused("lease", "You have submitted this sentence already; reopen it to change it.")
    lost = None if held else steps.lost_to(scene.session, scene.actor, task)
    if lost is not None:
        _keep_late(scene)
        return _Refused("lease", f"{lost} Your work on it is kept, but it does not count.")
    return _conflict(scene)


def _refusal_of_archived(scene: _Scene) -> _Refused:
    """Refuse, but keep the work: the browser drops it, and the campaign may be opened again."""
    conflict = _conflict(scene)
    if conflict is not None:
        return conflict
    _keep_late(scene)
    why = f"The campaign {scene.campaign.name!r} is archived; nothing in it changes any more."
    return _Refused("lease", f"{why} Your last work on this sentence is kept beside it.")


def _conflict(scene: _Scene) -> _Refused | None:
    """Reject an event that is not based on the newest revision, unless the same tab wrote that one."""
    event, mine = scene.event, scene.mine
    if mine is None or (event.revision > mine.revision and _stands_on(event, mine)):
        return None
    item = build(scene.session, scene.actor, scene.campaign, scene.stage, [scene.task.id])[0]
    where = "another tab or browser" if mine.client else "another page of the workbench"
    saved = {"where": where, "at": mine.updated_at.isoformat()}
    return _Refused(
        "conflict", "This sentence was changed in another tab or browser in the meantime.", item | {"saved": saved}
    )


def _stands_on(event: Event, mine: Annotation) -> bool:
    return event.base == mine.revision or (event.client == mine.client and event.base > mine.revision)


def _write(scene: _Scene) -> None:
    event, session = scene.event, scene.session
    work = scene.work()
    record: dict[str, Any] = {}
    if event.kind == "submit" and scene.stage == "annotate":
        work, record = _decided(scene, work)
    steps.check_work(session, scene.task, work, submitting=event.kind == "submit")
    if event.kind == "submit" and scene.stage == "check" and not scene.row.blind:
        record = _confirmed(scene, work)
    if event.kind == "reopen":
        steps.take_back(session, scene.campaign, scene.actor, scene.task)
    else:
        steps.hold(session, scene.campaign, scene.actor, scene.task)
    annotation = scene.mine or annotation_rows.add(session, task_id=scene.task.id, user_id=scene.actor.id)
    before = save(
        session, annotation, work, scene.task, revision=event.revision, client=event.client, filled=scene.filled
    )
    if scene.stage == "annotate" and work.proposed_elsewhere.keys() != before:
        identical.follow(session, scene.actor, scene.campaign, scene.row, before, work.proposed_elsewhere)
    annotation.active_ms += event.active_ms
    annotation.keystrokes += event.keystrokes
    if event.kind == "submit":
        steps.submit(session, scene.campaign, scene.actor, scene.task, annotation, work, record=record)
    elif event.kind == "skip":
        steps.skip(session, scene.campaign, scene.actor, scene.task, annotation, event.reason)
    if event.kind in ("skip", "reopen"):
        about = ("task", scene.task.id)
        audit.record(session, scene.actor, event.kind, about, scene.campaign.id, stage=scene.stage)


def _decided(scene: _Scene, work: Work) -> tuple[Work, dict[str, Any]]:
    """Return the work and what became of open suggestions; for an older editor, which does not say, it is looked up."""
    if scene.event.opened:
        return work, {} if scene.event.opened == "none" else {"opened": scene.event.opened}
    settled = open_suggestions.settle(scene.session, scene.campaign, scene.row, work)
    return settled.work, settled.record


def _confirmed(scene: _Scene, work: Work) -> dict[str, Any]:
    """Return what became of the spans that annotator 2 has to confirm; raise BadInput if one is undecided."""
    session, campaign, row = scene.session, scene.campaign, scene.row
    proposals = confirming.proposals_of(campaign, annotation_rows.suggestions_of(session, [row.id]).get(row.id, ()))
    first = layers_of(session, [row.id])[row.id].first
    return confirming.confirmed(confirming.to_confirm(session, campaign, row, first, proposals), work)


def _keep_late(scene: _Scene) -> None:
    """Keep work that came too late: as superseded work, or as a version beside the work that was submitted."""
    session, event, mine = scene.session, scene.event, scene.mine
    work = scene.work()
    if mine is not None and mine.state == "submitted":
        kept = {version.work.get("late") for version in annotation_rows.versions(session, mine.id)}
        if event.key not in kept and event.revision > mine.revision:
            late = {**to_json(work), "late": event.key}
            annotation_rows.keep_version(session, mine, late, revision=event.revision)
        return
    if mine is not None and event.revision <= mine.revision:
        return
    annotation = mine or annotation_rows.add(session, task_id=scene.task.id, user_id=scene.actor.id)
    save(session, annotation, work, scene.task, revision=event.revision, client=event.client, filled=scene.filled)
    annotation.state, annotation.updated_at = "superseded", now()
