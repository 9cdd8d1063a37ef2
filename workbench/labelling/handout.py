"""Hand out work: one task per sentence and stage, leased to one person at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from db import question_rows, task_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.types import now
from workbench.accounts.access import enter, enter_alone
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import stage_roles
from workbench.labelling.items import build

_NOT_QUIET = dt.timedelta(0)
_HERE = dt.timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Progress:
    """How many sentences of a stage a person has done, and how many they could still be given."""

    done: int
    left: int


@dataclass(frozen=True, slots=True)
class _Hand:
    """What a person holds: tasks to work on in the order given, tasks waiting for answers, and the first lease end."""

    ready: tuple[int, ...]
    waiting: tuple[int, ...]
    expires: dt.datetime | None


def items(
    store: Store,
    actor: Actor,
    campaign_id: int,
    stage: str,
    *,
    count: int = 4,
    quiet: dt.timedelta = _NOT_QUIET,
    moved: bool = False,
    known: Collection[int] = (),
) -> tuple[dict[str, Any], ...]:
    """Return the next sentences of a stage as the editor's items, leased to the actor; the current one is first.

    What the actor holds already comes first, in the order it was handed out, so a reload shows the same sentence.
    Tasks whose question is not answered yet come only when nothing else is left. Nobody is given a sentence they have
    worked on at another stage, or one they skipped.

    `quiet` is how long the browser has seen no user activity: after a minute leases are no longer renewed, and after
    the length of a lease nothing new is handed out. With `moved` the person has just sent a sentence on: something
    new will be needed, and nobody looks beforehand whether it is. Of the tasks in `known` only the number is returned.
    """
    require(actor, *stage_roles(stage))
    if not moved:
        with store.read() as session:
            current, campaign = enter(session, actor, campaign_id, *stage_roles(stage))
            if campaign.archived:
                return ()
            hand = _hand(session, campaign, current, stage)
            missing = _missing(hand, campaign, count, quiet)
            nothing_new = missing <= 0 or not _free(session, campaign, current, stage, count=1)
            if nothing_new and not _wants_renewal(hand, campaign, quiet):
                return _build(session, current, campaign, stage, (hand.ready + hand.waiting)[:count], known)
    with store.write() as session:
        current, campaign = enter_alone(session, actor, campaign_id, *stage_roles(stage))
        if campaign.archived:
            return ()
        hand = _hand(session, campaign, current, stage, lock=True)
        missing = _missing(hand, campaign, count, quiet)
        taken = _free(session, campaign, current, stage, count=missing, lock=True) if missing > 0 else []
        held = (*hand.ready, *hand.waiting) if _wants_renewal(hand, campaign, quiet) else ()
        renew(session, campaign, current, (*held, *taken))
        return _build(session, current, campaign, stage, (*hand.ready, *taken, *hand.waiting)[:count], known)


def _build(
    session: Session, actor: Actor, campaign: Campaign, stage: str, task_ids: Sequence[int], known: Collection[int]
) -> tuple[dict[str, Any], ...]:
    made = build(session, actor, campaign, stage, [task_id for task_id in task_ids if task_id not in known])
    items = {item["task"]: item for item in made}
    return tuple(items.get(task_id, {"task": task_id}) for task_id in task_ids)


def progress(store: Store, actor: Actor, campaign_id: int, stage: str) -> Progress:
    """Return how far the actor has come at a stage."""
    require(actor, *stage_roles(stage))
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *stage_roles(stage))
        return progress_in(session, current, campaign, (stage,))[stage]


def progress_in(session: Session, actor: Actor, campaign: Campaign, stages: Sequence[str]) -> dict[str, Progress]:
    """Like `progress`, for several stages and within a transaction; whatever shows these numbers asks here."""
    where: dict[str, Any] = {"campaign_id": campaign.id, "user_id": actor.id, "stages": stages}
    free = task_rows.count_free(session, **where, now=now())
    held, done = task_rows.count_held(session, **where), task_rows.count_done(session, **where)
    return {stage: Progress(done.get(stage, 0), free[stage] + held.get(stage, 0)) for stage in stages}


def next_in(session: Session, actor: Actor, campaign: Campaign, stage: str) -> int | None:
    """Return the task that the actor would open next at a stage, without leasing it."""
    hand = _hand(session, campaign, actor, stage)
    ready = hand.ready or _free(session, campaign, actor, stage, count=1) or hand.waiting
    return ready[0] if ready else None


def release(store: Store, actor: Actor, campaign_id: int, stage: str) -> int:
    """Give back what the actor holds and has not begun; return how many tasks others can have now."""
    require(actor, *stage_roles(stage))
    with store.write() as session:
        current, campaign = enter_alone(session, actor, campaign_id, *stage_roles(stage))
        return task_rows.release_untouched(session, campaign_id=campaign.id, user_id=current.id, stage=stage)


def renew(session: Session, campaign: Campaign, actor: Actor, task_ids: Sequence[int]) -> None:
    """Lease these tasks to the actor from now on, in this order."""
    task_rows.lease(session, task_ids, user_id=actor.id, until=lease_end(campaign))


def renew_all(session: Session, campaign: Campaign, actor: Actor, stage: str) -> None:
    """Renew every lease the actor has at a stage; the order stays as it is."""
    held = task_rows.held(session, campaign_id=campaign.id, user_id=actor.id, stage=stage, lock=True)
    renew(session, campaign, actor, [task_id for task_id, _ in held])


def lease_end(campaign: Campaign) -> dt.datetime:
    """Return when a lease given now ends."""
    return now() + dt.timedelta(minutes=campaign.lease_minutes)


def _hand(session: Session, campaign: Campaign, actor: Actor, stage: str, *, lock: bool = False) -> _Hand:
    held = task_rows.held(session, campaign_id=campaign.id, user_id=actor.id, stage=stage, lock=lock)
    ids = [task_id for task_id, _ in held]
    asked = question_rows.awaited(session, ids) if stage == "adjudicate" else []
    waiting = {question.task_id for question, _ in asked}
    return _Hand(
        ready=tuple(id_ for id_ in ids if id_ not in waiting),
        waiting=tuple(id_ for id_ in ids if id_ in waiting),
        expires=min((expires for _, expires in held), default=None),
    )


def _missing(hand: _Hand, campaign: Campaign, count: int, quiet: dt.timedelta) -> int:
    """Return how many sentences are to be handed out; to an idle tab, none."""
    return 0 if quiet >= dt.timedelta(minutes=campaign.lease_minutes) else count - len(hand.ready)


def _wants_renewal(hand: _Hand, campaign: Campaign, quiet: dt.timedelta) -> bool:
    """Return whether a lease has less than half its time left; an earlier renewal would only cost a write.

    An idle tab renews nothing: it would keep its sentences from everybody until its session ends.
    """
    return quiet < _HERE and ends_soon(campaign, hand.expires)


def ends_soon(campaign: Campaign, end: dt.datetime | None) -> bool:
    """Return whether a lease with this end has less than half its time left."""
    return end is not None and end < now() + dt.timedelta(minutes=campaign.lease_minutes / 2)


def _free(
    session: Session, campaign: Campaign, actor: Actor, stage: str, *, count: int, lock: bool = False
) -> list[int]:
    return task_rows.free(
        session, campaign_id=campaign.id, user_id=actor.id, stage=stage, now=now(), count=count, lock=lock
    )
