"""Run simulated campaigns in parallel: here, in processes or on Ray; each result is stored once under its key."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import BadInput, WorkbenchError
from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.experiments.corpora import read_corpus, read_sources
from crossner_core.experiments.records import SIMULATIONS, Records
from crossner_core.experiments.training_cells import planned_encoder
from crossner_core.parallel import Queue, ShouldStop, WorkerDied, never, run_here, run_pool, run_ray, threads_for
from crossner_core.simulation.config import Simulation
from crossner_core.training.settings.registry import needs_source

if TYPE_CHECKING:
    from crossner_core.training.data import TrainingData


@dataclass(frozen=True, slots=True)
class Played:
    """A campaign's points, or the error that prevented them."""

    simulation: Simulation
    points: tuple[RoundPoint, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Task:
    """A campaign with the hashes that identify it; `threads` 0 leaves the thread count unchanged."""

    simulation: Simulation
    key: str
    encoder_hash: str
    data: Path
    out: Path
    gazetteer: Path | None = None
    threads: int = 0


def run_all(
    simulations: Sequence[Simulation],
    data: Path,
    out: Path,
    *,
    gazetteer: Path | None = None,
    workers: int = 1,
    ray: str = "",
    should_stop: ShouldStop = never,
) -> Iterator[Played]:
    """Yield the campaigns with a stored result, and play the others; `workers` at a time, or on a Ray cluster.

    `gazetteer` is the folder of a built one, queried if a campaign uses it. An interrupted campaign resumes in its
    current round. Once `should_stop` returns True, running ones stop and no others begin.
    """
    tasks = _tasks(simulations, Path(data), Path(out), gazetteer)
    records, threads, waiting = _records(Path(out)), threads_for(workers), list[_Task]()
    for task in tasks:
        if (played := records.get(task.key)) is not None:
            yield played
        else:
            waiting.append(replace(task, threads=threads))
    if ray:
        yield from run_ray(_play, Queue(waiting), ray, workers, shared=False, should_stop=should_stop, failed=_failed)
    elif workers > 1:
        yield from run_pool(
            _play, Queue(waiting), workers, should_stop=should_stop, failed=_failed, is_last=lambda played: True
        )
    else:
        yield from run_here(_play, waiting, should_stop=should_stop)


def kept(simulations: Iterable[Simulation], data: Path, out: Path, gazetteer: Path | None = None) -> dict[str, Played]:
    """Return the campaigns that have been played, by key."""
    records, tasks = _records(Path(out)), _tasks(simulations, Path(data), Path(out), gazetteer)
    return {task.key: played for task in tasks if (played := records.get(task.key)) is not None}


def _tasks(simulations: Iterable[Simulation], data: Path, out: Path, gazetteer: Path | None) -> list[_Task]:
    from crossner_core.encoders.loading import load_encoder

    encoders: dict[str, str] = {}
    corpora: dict[tuple[Any, ...], str] = {}
    tasks, entries = [], _gazetteer_hash(gazetteer)
    for simulation in simulations:
        name, read = simulation.recipe.encoder, (simulation.corpus, simulation.models_recipe.source_reading)
        if name not in encoders:
            encoders[name] = load_encoder(name).fingerprint
        if read not in corpora:
            corpora[read] = simulation_data(simulation, data).fingerprint
        key = simulation.key(corpora[read], encoders[name], entries)
        tasks.append(_Task(simulation, key, encoders[name], data, out, gazetteer))
    return tasks


def simulation_data(simulation: Simulation, root: Path) -> TrainingData:
    """Read a campaign's corpus, and the sources that its models read."""
    recipe = simulation.models_recipe
    sources = read_sources(recipe, simulation.corpus, root) if needs_source(recipe.setting) else ()
    data = read_corpus(simulation.corpus, root).data(size=None, seed=0, order="file", sources=sources)
    return replace(data, unlabelled=())


def _failed(task: _Task, error: Exception) -> Played:
    if isinstance(error, WorkerDied):
        return Played(task.simulation, error=f"{error} with no other campaign beside it.")
    raise error


def _play(task: _Task, should_stop: ShouldStop) -> Iterator[Played]:
    """Play one campaign, or read it if it has been played meanwhile; its errors do not stop the others."""
    try:
        yield _records(task.out).get(task.key) or _played(task, should_stop)
    except WorkbenchError as error:
        yield Played(task.simulation, error=str(error))


def _played(task: _Task, should_stop: ShouldStop) -> Played:
    from crossner_core.simulation.campaign import play
    from crossner_core.training.machine import prepare

    prepare(task.threads)
    simulation, folder = task.simulation, task.out / SIMULATIONS / task.key
    if simulation.options.gazetteer_teaches and task.gazetteer is None:
        raise BadInput("Models are to use a gazetteer's proposals, but none is named; name one (--gazetteer).")
    from crossner_core.gazetteer.asking import asking  # its packages are not on every machine that trains

    rounds = list(
        play(
            simulation,
            simulation_data(simulation, task.data),
            planned_encoder(simulation.recipe.encoder, task.encoder_hash),
            folder,
            suggested=asking(task.gazetteer, simulation.corpus)
            if task.gazetteer and simulation.asks_gazetteer
            else None,
            source_cache=task.out / "source",
            should_stop=should_stop,
        )
    )
    if not rounds[-1].done:
        return Played(simulation, error="It was stopped; what was annotated is kept.")
    played = Played(simulation, tuple(each.point for each in rounds if each.point is not None))
    _records(task.out).put(task.key, played)
    shutil.rmtree(folder, ignore_errors=True)
    return played


def _gazetteer_hash(folder: Path | None) -> str:
    from crossner_core.gazetteer.manifest import read_manifest

    return read_manifest(folder).hash if folder is not None else ""


def _records(out: Path) -> Records[Played]:
    return Records(out, SIMULATIONS, _from_dict, _to_dict)


def _to_dict(played: Played) -> dict[str, Any]:
    return {**played.simulation.to_dict(), "points": [asdict(point) for point in played.points]}


def _from_dict(values: Mapping[str, Any]) -> Played:
    return Played(Simulation.from_dict(values), tuple(RoundPoint(**point) for point in values["points"]))
