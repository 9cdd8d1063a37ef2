"""A person's desk in one campaign: what to do next, what waits, what became of one's work, what the models brought."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crossner_core.errors import WorkbenchError
from db import job_rows, layer_rows, people_rows, question_rows, run_rows, task_rows
from db.engine import Session, Store
from db.tables import STAGES, Campaign
from db.training_tables import Run
from db.types import now
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, admit, require
from workbench.accounts.roles import EVERYONE, LABELLERS, OVERSEERS, STAGE_ROLES
from workbench.doctor.examining import Examination, last_examination
from workbench.jobs.queue import JobView, view
from workbench.labelling.handout import Progress, next_in, progress_in
from workbench.reports.my_work import WorkRow, rows_in
from workbench.runs.rounds import QueueState, RoundView, queue_state_in, rounds_in
from workbench.settings import settings_of

PACE_DAYS = 30
_NEWEST_WORK = 5
_NEWEST_ROUNDS = 50
Points = tuple[tuple[int, float], ...]
"""(gold sentences, F1 in [0, 1]), by gold."""


@dataclass(frozen=True, slots=True)
class NextSentence:
    """The sentence that its stage would show the person now."""

    stage: str
    text: str


@dataclass(frozen=True, slots=True)
class Questions:
    """Open questions: put to the person and not answered by them; asked by them and answered; and not yet."""

    to_answer: int
    answered: int
    awaited: int


@dataclass(frozen=True, slots=True)
class Pace:
    """Active seconds a sentence at a stage in the last `PACE_DAYS` days: the person's and the whole campaign's."""

    stage: str
    sentences: int
    seconds: float
    campaign_seconds: float


@dataclass(frozen=True, slots=True)
class Labelling:
    """The desk of somebody who labels."""

    next: NextSentence | None
    progress: dict[str, Progress]
    questions: Questions
    work: tuple[WorkRow, ...]
    pace: tuple[Pace, ...]


@dataclass(frozen=True, slots=True)
class Models:
    """What the models of a campaign are at; `curve` is that of its rounds, before there are two its few-shot curve."""

    newest_run: int | None
    newest_f1: float | None
    bought: float | None
    """F1 of the newest round's model less that of the round before; None before there are two."""
    curve: Points
    at_work: tuple[JobView, ...]
    queue: QueueState


@dataclass(frozen=True, slots=True)
class Desk:
    """What a person needs to go on in a campaign; a part that is not their role's is None."""

    labelling: Labelling | None
    models: Models | None


@dataclass(frozen=True, slots=True)
class House:
    """The state of the installation; `doctor` is None before the first examination, or with `trouble` reading it."""

    people: dict[str, int]
    """Open accounts by role."""
    free_bytes: int
    doctor: Examination | None
    trouble: str


def desk(store: Store, actor: Actor, campaign_id: int) -> Desk:
    """Return the actor's desk in a campaign; nothing is leased for it."""
    require(actor, *EVERYONE)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *EVERYONE)
        return Desk(
            labelling=_labelling(session, current, campaign) if current.role in LABELLERS else None,
            models=_models(session, campaign) if current.role in OVERSEERS else None,
        )


def house(store: Store, actor: Actor) -> House:
    """Return the state of accounts, disk and the last examination. For admins."""
    admit(store, actor, "admin")
    with store.read() as session:
        people = people_rows.count_by_role(session)
    examination, trouble = None, ""
    try:
        examination = last_examination(store, actor)
    except WorkbenchError as error:
        trouble = str(error)
    home = settings_of(store).home.resolve()
    existing = next(folder for folder in (home, *home.parents) if folder.exists())  # the home is made when first needed
    return House(people, shutil.disk_usage(existing).free, examination, trouble)


def _labelling(session: Session, actor: Actor, campaign: Campaign) -> Labelling:
    stages = [stage for stage in STAGES if actor.role in STAGE_ROLES[stage]]
    progress = progress_in(session, actor, campaign, stages)
    newest = layer_rows.submitted_by(session, campaign.id, actor.id, newest=_NEWEST_WORK)
    return Labelling(
        next=None if campaign.archived else _next(session, actor, campaign, progress),
        progress=progress,
        questions=_questions(session, actor, campaign),
        work=rows_in(session, actor, campaign, newest),
        pace=_pace(session, actor, campaign),
    )


def _next(session: Session, actor: Actor, campaign: Campaign, progress: dict[str, Progress]) -> NextSentence | None:
    """Return the next sentence of the last stage that has one: what is nearest to gold comes first."""
    for stage in reversed(STAGES):
        if stage in progress and progress[stage].left:
            task_id = next_in(session, actor, campaign, stage)
            task = task_rows.find(session, task_id) if task_id is not None else None
            if task is not None:
                return NextSentence(stage, task.sentence.text)
    return None


def _questions(session: Session, actor: Actor, campaign: Campaign) -> Questions:
    who = {"campaign_id": campaign.id, "user_id": actor.id}
    put = [thread for thread in question_rows.put_to(session, **who) if thread[0].closed_at is None]
    asked = [thread[0].task_id for thread in question_rows.asked_by(session, **who) if thread[0].closed_at is None]
    awaited = {question.task_id for question, _ in question_rows.awaited(session, asked)}
    return Questions(
        to_answer=sum(all(person.id != actor.id for _, person in answers) for _, _, answers in put),
        answered=sum(task_id not in awaited for task_id in asked),
        awaited=sum(task_id in awaited for task_id in asked),
    )


def _pace(session: Session, actor: Actor, campaign: Campaign) -> tuple[Pace, ...]:
    mine: Counter[str] = Counter()
    my_ms: Counter[str] = Counter()
    sentences: Counter[str] = Counter()
    ms: Counter[str] = Counter()
    for stage, user_id, number, spent in layer_rows.effort_since(
        session, campaign.id, now() - dt.timedelta(days=PACE_DAYS)
    ):
        sentences[stage] += number
        ms[stage] += spent
        if user_id == actor.id:
            mine[stage], my_ms[stage] = number, spent
    return tuple(
        Pace(stage, mine[stage], my_ms[stage] / mine[stage] / 1000, ms[stage] / sentences[stage] / 1000)
        for stage in STAGES
        if mine[stage]
    )


def _models(session: Session, campaign: Campaign) -> Models:
    runs = run_rows.listed(session, campaign_id=campaign.id, states=("done",))
    rounds = _round_points(rounds_in(session, campaign.id, limit=_NEWEST_ROUNDS))
    return Models(
        newest_run=runs[0].id if runs else None,
        newest_f1=_f1(runs[0]) if runs else None,
        bought=rounds[-1][1] - rounds[-2][1] if len(rounds) > 1 else None,
        curve=rounds if len(rounds) > 1 else _few_shot_points(runs),
        at_work=tuple(view(job) for job in job_rows.under_way(session, campaign.id)),
        queue=queue_state_in(session, campaign),
    )


def _f1(run: Run) -> float | None:
    return run.test_f1 if run.test_f1 is not None else run.dev_f1


def _round_points(rounds: Sequence[RoundView]) -> Points:
    """Return the points of the rounds that trained a model; of those with the same gold, the newest."""
    points = {round_.gold: round_.run_f1 for round_ in reversed(rounds) if round_.run_f1 is not None}
    return tuple(sorted(points.items()))


def _few_shot_points(runs: Sequence[Run]) -> Points:
    """Return the newest few-shot curve, its F1 the mean of the seeds; `runs` has the newest first."""
    scored = [(run, f1) for run in runs if run.group_id is not None and (f1 := _f1(run)) is not None]
    cells = [(run.group_id, run.training_sentences, f1) for run, f1 in scored]
    by_size: dict[int, list[float]] = {}
    for group, size, f1 in cells:
        if group == cells[0][0]:
            by_size.setdefault(size, []).append(f1)
    return tuple((size, sum(scores) / len(scores)) for size, scores in sorted(by_size.items()))
