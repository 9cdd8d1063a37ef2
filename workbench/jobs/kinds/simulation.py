"""Run simulated campaigns on a campaign's gold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import Conflict
from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.simulation.config import Simulation
from db import simulation_rows
from db.engine import Session
from db.training_tables import Job
from workbench.jobs.context import Claimed, JobContext, require_space
from workbench.jobs.kind import Fields, JobKind, register
from workbench.runs.training_data import for_simulation, suggested_by_names
from workbench.settings import Settings

if TYPE_CHECKING:
    from crossner_core.simulation.campaign import Suggested
    from crossner_core.training.data import TrainingData

_ENDED = 1_000_000
"""What a campaign that has ended counts for: more than one under way can keep."""


class Asked(Fields):
    """What a job stores besides its campaigns, which have rows of their own; older jobs lack it."""

    priced_by: int | None = None
    gold_by_choice: dict[str, int] | None = None


def play_simulations(context: JobContext, _asked: Asked) -> str:
    """Run those of the job's campaigns that have no result yet; return a summary.

    One that was stopped, or gave way to other work, resumes in the round it was in.
    """
    from crossner_core.simulation.campaign import play

    checkpoints = context.settings.checkpoints
    require_space(checkpoints)
    _sweep(context)
    with context.store.read() as session:
        rows = [(row.id, row.points is not None) for row in simulation_rows.of_job(session, context.job.id)]
    for number, (row_id, is_done) in enumerate(rows):
        if is_done:
            continue
        simulation, data, suggested = _read(context, row_id)
        folder = _folder(checkpoints, row_id)
        points: list[RoundPoint] = []
        is_through = False
        for event in play(
            simulation, data, context.encoder(simulation.recipe.encoder), folder, suggested=suggested,
            source_cache=checkpoints / "source", should_stop=context.should_stop,
        ):  # fmt: skip
            points += [event.point] if event.point is not None else []
            done = len(points) / len(simulation.options.at)
            context.report((number + done) / len(rows), f"{simulation.options}: {event.message}")
            is_through = event.done
        if not is_through:
            if context.cancelled.is_set():  # its rounds are never resumed; those of a job that only stopped are
                shutil.rmtree(folder, ignore_errors=True)
            return "Stopped; what was simulated until then is kept."
        with context.store.write() as session:
            simulation_rows.save_points(session, row_id, [asdict(point) for point in points])
        shutil.rmtree(folder, ignore_errors=True)
    return f"{len(rows)} campaigns simulated."


def _read(context: JobContext, row_id: int) -> tuple[Simulation, TrainingData, Suggested | None]:
    with context.store.read() as session:
        row = next(row for row in simulation_rows.of_job(session, context.job.id) if row.id == row_id)
        simulation = Simulation.from_dict(row.settings)
        data = for_simulation(session, row.snapshot_id, simulation.models_recipe)
        return simulation, data, _suggested(session, row.snapshot.campaign_id)


def _suggested(session: Session, campaign_id: int) -> Suggested | None:
    """Return a lookup of what gazetteer and links suggest in gold sentences; None if none was pre-annotated."""
    by_content = suggested_by_names(session, campaign_id, splits=("pool", "dev"))
    return (lambda sentences: [by_content.get(each.content_hash) for each in sentences]) if by_content else None


def _sweep(context: JobContext) -> None:
    """Remove the saved state of campaigns that will not be resumed: their job failed, or was cancelled in the queue."""
    checkpoints = context.settings.checkpoints
    with context.store.read() as session:
        needed = {_folder(checkpoints, row_id) for row_id in simulation_rows.open_ids(session)}
    for folder in checkpoints.glob("simulation-*"):
        if folder not in needed:
            shutil.rmtree(folder, ignore_errors=True)


def _folder(checkpoints: Path, row_id: int) -> Path:
    return checkpoints / f"simulation-{row_id}"


def _saved_step(session: Session, settings: Settings, job: Claimed) -> int:
    """Count what is kept: sentences chosen and rounds measured in each campaign under way, whole campaigns."""
    kept = 0
    for row in simulation_rows.of_job(session, job.id):
        kept += _ENDED if row.points is not None else _rounds_kept(_folder(settings.checkpoints, row.id))
    return kept


def _rounds_kept(folder: Path) -> int:
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        return len(state["labelled"]["spans"]) + len(state["points"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0  # what cannot be read cannot be resumed either


def _meets(job: Job, _payload: Mapping[str, Any]) -> bool:
    raise Conflict(f"Simulated campaigns are queued or running (job {job.id}); wait for them, or cancel them.")


register(
    JobKind(
        name="simulation",
        title="simulation",
        priority=25,  # after rounds, before studies: somebody waits for it, but not the annotators
        payload=Asked,
        handle=play_simulations,
        idle="No simulated campaigns are queued or running on this campaign's gold",
        meets=_meets,
        saved_step=_saved_step,
    )
)
