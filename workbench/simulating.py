"""Play simulated campaigns on a campaign's gold. The worker does it."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.simulation.config import Simulation
from db import simulation_rows
from db.engine import Session
from workbench.runs.training_data import for_simulation, suggested_by_names

if TYPE_CHECKING:
    from crossner_core.simulation.campaign import Suggested
    from crossner_core.training.data import TrainingData
    from workbench.lease import Lease
    from workbench.running import Workplace


def play_simulations(place: Workplace, lease: Lease) -> str:
    """Play those of the job's campaigns that have no result yet; return what became of them.

    One that was stopped, or gave way to other work, goes on in the round it was in.
    """
    from crossner_core.simulation.campaign import play

    _sweep(place)
    with place.store.read() as session:
        rows = [(row.id, row.points is not None) for row in simulation_rows.of_job(session, lease.job.id)]
    for number, (row_id, is_done) in enumerate(rows):
        if is_done:
            continue
        simulation, data, suggested = _told(place, lease.job.id, row_id)
        folder = _folder(place, row_id)
        points: list[RoundPoint] = []
        is_through = False
        for one in play(
            simulation, data, place.encoder(simulation.recipe.encoder), folder, suggested=suggested,
            source_cache=place.checkpoints / "source", should_stop=lease.should_stop,
        ):  # fmt: skip
            points += [one.point] if one.point is not None else []
            share = len(points) / len(simulation.options.at)
            lease.progress, lease.message = (number + share) / len(rows), f"{simulation.options}: {one.message}"
            is_through = one.done
        if not is_through:
            if lease.cancelled.is_set():  # nobody goes on with its rounds; a job that was only stopped does
                shutil.rmtree(folder, ignore_errors=True)
            return "Stopped; what was played until then is kept."
        with place.store.write() as session:
            simulation_rows.save_points(session, row_id, [asdict(point) for point in points])
        shutil.rmtree(folder, ignore_errors=True)
    return f"{len(rows)} simulated campaigns played."


def _told(place: Workplace, job_id: int, row_id: int) -> tuple[Simulation, TrainingData, Suggested | None]:
    with place.store.read() as session:
        row = next(one for one in simulation_rows.of_job(session, job_id) if one.id == row_id)
        simulation = Simulation.from_dict(row.settings)
        data = for_simulation(session, row.snapshot_id, simulation.models_recipe)
        return simulation, data, _suggested(session, row.snapshot.campaign_id)


def _suggested(session: Session, campaign_id: int) -> Suggested | None:
    """Return what tells the suggestions of gazetteer and links in gold sentences; None where nobody was asked."""
    found = suggested_by_names(session, campaign_id, splits=("pool", "dev"))
    return (lambda sentences: [found.get(one.content_hash) for one in sentences]) if found else None


def _sweep(place: Workplace) -> None:
    """Remove what was kept of campaigns that nobody goes on with: their job failed, or was cancelled as it waited."""
    with place.store.read() as session:
        needed = {_folder(place, row_id) for row_id in simulation_rows.open_ids(session)}
    for folder in place.checkpoints.glob("simulation-*"):
        if folder not in needed:
            shutil.rmtree(folder, ignore_errors=True)


def _folder(place: Workplace, row_id: int) -> Path:
    return place.checkpoints / f"simulation-{row_id}"
