"""Tasks, leases and gold: the stages of each sentence agree with the work that was submitted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from crossner_core.errors import BadInput
from db import health_rows, task_rows
from db.tables import Campaign, Task, User
from db.types import now
from workbench.accounts.roles import STAGE_ROLES
from workbench.doctor.base import Context, Finding, register
from workbench.labelling.items import layers_of
from workbench.labelling.steps import NEXT_STAGE
from workbench.labelling.units import check_choices
from workbench.labelling.work import work_of

# A lease may end this much later than its campaign's rules say: leases are given slightly apart.
_MARGIN = dt.timedelta(minutes=1)
_FIRST_STAGE = "annotate"


def _open_stages(context: Context) -> None:
    for sentence_id in health_rows.without_task(context.session):
        health_rows.add_task(context.session, sentence_id, _FIRST_STAGE)
    for stage, following in NEXT_STAGE.items():
        for _, sentence_id in health_rows.without_next(context.session, stage, following):
            health_rows.add_task(context.session, sentence_id, following)


@register(
    "stages",
    "Every sentence is at a stage, and every finished stage has opened the next",
    remedy="Opens the missing stage; what was submitted stays.",
    mend=_open_stages,
)
def stages(context: Context) -> Iterator[Finding]:
    """Find sentences that nobody would ever be given again."""
    for sentence_id in health_rows.without_task(context.session):
        yield Finding(f"sentence {sentence_id}", "has no task, so nobody is ever given it")
    for stage, following in NEXT_STAGE.items():
        for task_id, sentence_id in health_rows.without_next(context.session, stage, following):
            problem = f"{stage} is done, but sentence {sentence_id} has no task to {following}"
            yield Finding(f"task {task_id}", problem)


@register(
    "order",
    "No stage begins before the one before it is done",
    remedy="No repair is safe, as work may hang on either stage: restore a backup, or finish the earlier stage.",
)
def order(context: Context) -> Iterator[Finding]:
    """Find tasks to check or adjudicate what is not there; imported gold needs no earlier stage."""
    for stage, following in NEXT_STAGE.items():
        for task_id, sentence_id in health_rows.ahead_of(context.session, following, stage):
            yield Finding(f"task {task_id}", f"is to {following} sentence {sentence_id}, whose {stage} is not done")


def _put_right(context: Context) -> None:
    for task in health_rows.misplaced(context.session):
        task.campaign_id, task.position = task.sentence.campaign_id, task.sentence.position


@register(
    "places",
    "Every task has its sentence's campaign and place in the queue",
    remedy="Copies campaign and position from the sentence.",
    mend=_put_right,
)
def places(context: Context) -> Iterator[Finding]:
    """Compare the copies of campaign and position with the sentence's own."""
    for task in health_rows.misplaced(context.session):
        yield Finding(f"task {task.id}", f"is queued elsewhere than its sentence {task.sentence_id}")


@register(
    "work",
    "Exactly the finished tasks have submitted work",
    remedy="No repair is safe: restore a backup, or reopen the sentence and submit it again.",
)
def work(context: Context) -> Iterator[Finding]:
    """Find done tasks without work, and submitted work whose task is not done."""
    for task in health_rows.done_without_work(context.session):
        yield Finding(f"task {task.id}", f"{task.stage} is done, but there is no submitted work of who did it")
    for task in health_rows.work_without_done(context.session):
        yield Finding(f"task {task.id}", f"{task.stage} has submitted work, but is {task.state}")


def _release(context: Context) -> None:
    for task, _ in _unsound_leases(context):
        task_rows.release(task, state="open" if task.state == "leased" else task.state)


@register(
    "leases",
    "Every lease is of an open task, has a person who may work on it, and ends in time",
    remedy="Releases the lease, so that the sentence is handed out again; drafts stay with the people who wrote them.",
    mend=_release,
)
def leases(context: Context) -> Iterator[Finding]:
    """Find leases that block a sentence; one that has merely expired does not, it is handed out on demand."""
    for task, problem in _unsound_leases(context):
        yield Finding(f"task {task.id}", problem)


def _unsound_leases(context: Context) -> list[tuple[Task, str]]:
    rows = health_rows.leases(context.session)
    problems = [(task, _lease_problem(task, campaign, user, member)) for task, campaign, user, member in rows]
    return [(task, problem) for task, problem in problems if problem]


def _lease_problem(task: Task, campaign: Campaign, user: User | None, is_member: bool) -> str:
    """Return what is wrong with a lease; empty for a sound one."""
    if task.state != "leased":
        return f"is {task.state}, but still has a lease"
    if task.lease_expires is None:
        return "is leased without an end"
    if task.lease_expires < now():
        return ""
    if task.lease_expires > now() + dt.timedelta(minutes=campaign.lease_minutes) + _MARGIN:
        return f"is leased until {task.lease_expires:%Y-%m-%d %H:%M} UTC, beyond {campaign.lease_minutes} minutes"
    if user is None or not user.active:
        return f"is leased to account {task.leased_to}, which is closed or gone"
    if not is_member or user.role not in STAGE_ROLES[task.stage]:
        return f"is leased to {user.name!r}, who may not {task.stage} in campaign {campaign.id}"
    return ""


@register(
    "gold",
    "Every unit of an adjudicated sentence is decided, as its gold has it",
    remedy="No repair is safe: an expert reopens the sentence under My work and decides.",
)
def gold(context: Context) -> Iterator[Finding]:
    """Compare each adjudication with the units of its annotators' work; imported gold has none to decide."""
    for rows in health_rows.gold_tasks(context.session):
        layers = layers_of(context.session, [task.sentence_id for task, _ in rows])
        for task, annotation in rows:
            decided = work_of(annotation)
            try:
                check_choices(layers[task.sentence_id].units, decided.decisions, decided.plain_spans, complete=True)
            except BadInput as error:
                yield Finding(f"sentence {task.sentence_id}", f"is gold, but: {error}")
