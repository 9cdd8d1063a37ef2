"""What finished runs add up to: few-shot curves, F1 by type, confusion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.evaluation.confusion import Confusion
from crossner_core.evaluation.scores import Score, Scores
from crossner_core.experiments.few_shot import aggregate
from crossner_core.options.base import value_name
from crossner_core.training.recipe import effective
from db import round_rows, run_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.training_tables import Run
from workbench.accounts.access import enter, enter_run
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.round_settings import on_more_gold
from workbench.runs.recipe_names import MACHINE, field_name, recipe_name

MEASURES = ("test", "dev")
_MOST_EXTRA = 3


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """F1 in [0, 1] at a number of training sentences, over `n` seeds; `sd` is None for one seed."""

    size: int
    mean: float
    sd: float | None
    n: int
    values: tuple[float, ...]
    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a curve: one method on one snapshot or data set, or in rounds, each on a later snapshot."""

    title: str
    family: str
    snapshot: str | None
    dataset: str | None
    recipe: Mapping[str, Any]
    points: tuple[CurvePoint, ...]
    pending: int
    """Cells that are queued or under way."""
    strategies: tuple[str, ...] = ()
    """Strategies of the rounds that ordered the queue; none if the sentences were drawn at random."""
    measured_on: tuple[int, ...] = ()
    """Numbers of sentences that rounds were measured on, in their order: their gold may grow meanwhile."""
    recipes: int = 1
    """How many recipes its points have: rounds on little gold have shorter ones."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """F1 in [0, 1] of one entity type with its counts in gold (support), predicted and both."""

    type: str
    f1: float
    precision: float
    recall: float
    support: int
    predicted: int
    correct: int


def curve(
    store: Store,
    actor: Actor,
    campaign_id: int | None = None,
    *,
    dataset_id: int | None = None,
    snapshot_id: int | None = None,
    group_id: str | None = None,
    measure: str = "test",
) -> tuple[Series, ...]:
    """Return the curves of finished runs: one for each method and snapshot or data set, and one of a campaign's rounds.

    Rounds are one curve for each method, whatever their snapshots: each was trained on all gold at its time, by the
    recipe that its method has on so much.
    """
    require(actor, *OVERSEERS)
    if measure not in MEASURES:
        raise BadInput(f"measure is {measure!r}; choose one of {', '.join(MEASURES)}.")
    with store.read() as session:
        campaign: Campaign | None = None
        if campaign_id is not None:
            _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        else:
            fresh(session, actor, *KEEPERS)
        rows = run_rows.listed(session, campaign_id=campaign_id, dataset_id=dataset_id, group_id=group_id)
        if snapshot_id is not None:
            rows = [row for row in rows if row.snapshot_id == snapshot_id]
        by_rounds = _in_rounds(session, campaign, rows) if campaign is not None and snapshot_id is None else {}
        return _told_apart([_series(part, measure, by_rounds) for part in _by_method(rows, by_rounds).values()])


def per_type(store: Store, actor: Actor, run_id: int, *, measure: str = "test") -> tuple[TypeRow, ...]:
    """Return F1 by entity type with support, in the domain's order; empty where it was not measured."""
    scores = _scores_of(_result(store, actor, run_id), measure)
    return tuple(_type_row(name, score) for name, score in scores.per_type.items()) if scores else ()


def confusion_of(store: Store, actor: Actor, run_id: int) -> Confusion | None:
    """Return which types a run confuses, on test (on dev if there is no test)."""
    values = _result(store, actor, run_id).get("confusion")
    return Confusion.from_dict(values) if values else None


def recipe_changes(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two recipes differ; None where a field has no effect."""
    names = dict.fromkeys([*one, *two])
    return {name: (one.get(name), two.get(name)) for name in names if one.get(name) != two.get(name)}


def recipe_family(recipe: Mapping[str, Any]) -> str:
    """Return a short name for a recipe whatever its seed and the machine it ran on."""
    kept = {name: value for name, value in effective(recipe).items() if name not in MACHINE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class _InRounds:
    """The round that started a run: its strategy, and the recipe that the run stands for."""

    strategy: str
    recipe: Mapping[str, Any]


def _in_rounds(session: Session, campaign: Campaign, runs: Iterable[Run]) -> dict[int, _InRounds]:
    started = round_rows.runs_of(session, campaign.id)
    made = {}
    for run in runs:
        if (round_ := started.get(run.id)) is None:
            continue
        try:
            recipe = on_more_gold(round_.strategy, campaign.turn_recipe, run.recipe, round_.gold)
        except InvalidConfig:  # the strategy, or the recipe with it, is from before a change of settings
            recipe = run.recipe
        made[run.id] = _InRounds(round_.strategy, recipe)
    return made


def _by_method(rows: Iterable[Run], by_rounds: Mapping[int, _InRounds]) -> dict[tuple[Any, ...], list[Run]]:
    grouped: dict[tuple[Any, ...], list[Run]] = {}
    for row in rows:
        turn = by_rounds.get(row.id)
        source = (None, None) if turn else (row.snapshot_id, row.dataset_id)
        grouped.setdefault((*source, recipe_family(turn.recipe if turn else row.recipe)), []).append(row)
    return grouped


def _series(rows: list[Run], measure: str, by_rounds: Mapping[int, _InRounds]) -> Series:
    newest = rows[0]
    turns = [row for row in reversed(rows) if row.id in by_rounds]
    cells: dict[tuple[int, int], Run] = {}
    for row in rows:  # newest first: an older training of the same cell does not count twice
        if row.state == "done" and getattr(row, f"{measure}_f1") is not None:
            cells.setdefault((row.training_sentences, row.seed), row)
    points = []
    for point in aggregate((size, float(getattr(row, f"{measure}_f1"))) for (size, _), row in cells.items()):
        here = [row for (size, _), row in sorted(cells.items()) if size == point.size]
        values = tuple(float(getattr(row, f"{measure}_f1")) for row in here)
        points.append(CurvePoint(point.size, point.mean, point.sd, point.n, values, tuple(row.id for row in here)))
    drawn = {run_id for point in points for run_id in point.runs}
    return Series(
        title=f"{recipe_name(newest.recipe)} · rounds" if turns else _title(newest),
        family=recipe_family(newest.recipe),
        snapshot=newest.snapshot.hash if newest.snapshot and not turns else None,
        dataset=newest.dataset.name if newest.dataset else None,
        recipe=newest.recipe,
        points=tuple(points),
        pending=sum(1 for row in rows if row.state in ("queued", "running")),
        strategies=tuple(dict.fromkeys(by_rounds[row.id].strategy for row in turns)),
        measured_on=tuple(
            int(row.snapshot.counts[measure]) for row in turns if row.id in drawn and row.snapshot is not None
        ),
        recipes=len({recipe_family(row.recipe) for row in rows if row.id in drawn}) or 1,
    )


def _title(run: Run) -> str:
    where = (
        f"snapshot {run.snapshot.hash[:8]}" if run.snapshot else f"data set {run.dataset.name}" if run.dataset else ""
    )
    return f"{recipe_name(run.recipe)} · {where}"


def _told_apart(series: Sequence[Series]) -> tuple[Series, ...]:
    """Add to titles that read the same the recipe fields in which those series differ."""

    def extra(line: Series) -> str:
        twins = [other.recipe for other in series if other.title == line.title]
        names = sorted({name for recipe in twins for name in effective(recipe)} - {*MACHINE})
        differing = [name for name in names if len({json.dumps(recipe.get(name)) for recipe in twins}) > 1]
        return "".join(f" · {field_name(name)} {value_name(line.recipe.get(name))}" for name in differing[:_MOST_EXTRA])

    return tuple(replace(line, title=line.title + extra(line)) for line in series)


def finished(session: Session, actor: Actor, run_id: int) -> Run:
    """Return a finished run that the actor may see, with its result; raise BadInput for one that is not finished."""
    run = enter_run(session, actor, run_id, *OVERSEERS)
    if run.state != "done" or run.result is None:
        raise BadInput(f"Run {run_id} is {run.state}; only finished runs have scores.")
    return run


def _result(store: Store, actor: Actor, run_id: int) -> Mapping[str, Any]:
    require(actor, *OVERSEERS)
    with store.read() as session:
        return finished(session, actor, run_id).result or {}


def _scores_of(result: Mapping[str, Any], measure: str) -> Scores | None:
    return Scores.from_dict(result[measure]) if result.get(measure) else None


def _type_row(name: str, score: Score) -> TypeRow:
    return TypeRow(name, score.f1, score.precision, score.recall, score.support, score.predicted, score.correct)
