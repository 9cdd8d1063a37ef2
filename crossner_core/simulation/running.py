"""Simulated campaigns side by side: here, in processes or on Ray; each result is kept once under its key."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import BadInput, StorageError, WorkbenchError
from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.experiments.corpora import read_corpus
from crossner_core.processes import begin_worker, ray_session
from crossner_core.simulation.config import Simulation
from crossner_core.training.settings.registry import needs_source

if TYPE_CHECKING:
    from crossner_core.encoders import Encoder
    from crossner_core.schema import Sentence, Suggestion
    from crossner_core.training.data import TrainingData

FOLDER = "simulations"


@dataclass(frozen=True, slots=True)
class Played:
    """A campaign that was played through, or why it was not."""

    simulation: Simulation
    points: tuple[RoundPoint, ...] = ()
    error: str = ""
    was_there: bool = False


@dataclass(frozen=True, slots=True)
class _Task:
    simulation: Simulation
    data: Path
    out: Path
    threads: int
    gazetteer: Path | None = None


@dataclass
class _Loaded:
    """What campaigns that are played one after the other share: each corpus is read once, an encoder until another."""

    data: dict[tuple[str, ...], TrainingData] = field(default_factory=dict)
    encoders: dict[str, Encoder] = field(default_factory=dict)

    def data_of(self, task: _Task) -> TrainingData:
        """Return what a campaign's models learn from."""
        one = task.simulation
        name = (one.corpus, one.recipe.source) if reads_source(one) else (one.corpus,)
        if name not in self.data:
            self.data[name] = simulation_data(one, task.data)
        return self.data[name]

    def encoder(self, name: str) -> Encoder:
        """Return an encoder by name."""
        from crossner_core.encoders import load_encoder

        if name not in self.encoders:
            self.encoders.clear()
            self.encoders[name] = load_encoder(name)
        return self.encoders[name]


def run_all(
    simulations: Sequence[Simulation],
    data: Path,
    out: Path,
    *,
    gazetteer: Path | None = None,
    workers: int = 1,
    ray: str = "",
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Played]:
    """Play campaigns that have no result yet, and yield all as they end; `workers` at a time, or on a Ray cluster.

    `gazetteer` is the folder of a built one, asked where a campaign has a use for it.

    A campaign that was interrupted goes on with the round it was in. Once `should_stop` says so, no other one begins;
    here, in this process, the one under way is stopped too. What is there is yielded whatever it says.
    """
    tasks = [_Task(one, Path(data), Path(out), 1 if workers > 1 else 0, gazetteer) for one in simulations]
    if ray:
        yield from _on_ray(tasks, ray, workers)
    elif workers > 1 and len(tasks) > 1:
        with ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=begin_worker
        ) as pool:
            futures = [pool.submit(_play, task) for task in tasks]
            for future in as_completed(futures):
                if should_stop():
                    pool.shutdown(wait=True, cancel_futures=True)
                if not future.cancelled():
                    yield future.result()
    else:
        loaded = _Loaded()
        for task in tasks:
            yield _play(task, should_stop, loaded)


def _on_ray(tasks: Sequence[_Task], address: str, workers: int) -> Iterator[Played]:
    with ray_session(address, workers) as ray:
        remote = ray.remote(num_cpus=1, max_retries=1)(_play)
        running = [remote.remote(task) for task in tasks]
        while running:
            done, running = ray.wait(running)
            yield ray.get(done[0])


def kept(simulations: Iterable[Simulation], data: Path, out: Path, gazetteer: Path | None = None) -> dict[str, Played]:
    """Return those of the campaigns that have been played, by key."""
    from crossner_core.encoders import load_encoder

    encoders: dict[str, str] = {}
    corpora: dict[tuple[str, bool], str] = {}
    found, names = {}, _gazetteer_hash(gazetteer)
    for one in simulations:
        name, read = one.recipe.encoder, (one.corpus, reads_source(one))
        if name not in encoders:
            encoders[name] = load_encoder(name).fingerprint
        if read not in corpora:
            corpora[read] = simulation_data(one, data).fingerprint
        path = Path(out) / FOLDER / f"{one.key(corpora[read], encoders[name], names)}.json"
        if path.exists():
            found[path.stem] = _read(path)
    return found


def simulation_data(simulation: Simulation, root: Path) -> TrainingData:
    """Read a campaign's corpus, and its source where its models read one."""
    source = read_corpus(simulation.recipe.source, root) if reads_source(simulation) else None
    found = read_corpus(simulation.corpus, root).data(size=None, seed=0, order="file", source=source)
    return replace(found, unlabelled=())


def reads_source(simulation: Simulation) -> bool:
    """Say whether a campaign's models read a source corpus."""
    return needs_source(simulation.models_recipe.setting)


def _play(task: _Task, should_stop: Callable[[], bool] = lambda: False, loaded: _Loaded | None = None) -> Played:
    """Play one campaign, or read it where it is there; what goes wrong with it does not stop the others."""
    try:
        return _played(task, should_stop, loaded or _Loaded())
    except WorkbenchError as error:
        return Played(task.simulation, error=str(error))


def _played(task: _Task, should_stop: Callable[[], bool], loaded: _Loaded) -> Played:
    from crossner_core.simulation.campaign import play
    from crossner_core.training.machine import prepare

    prepare(task.threads)
    simulation = task.simulation
    if simulation.options.gazetteer_teaches and task.gazetteer is None:
        raise BadInput("Models are to be told what a gazetteer proposes, and none is named; name one (--gazetteer).")
    data, encoder = loaded.data_of(task), loaded.encoder(simulation.recipe.encoder)
    key = simulation.key(data.fingerprint, encoder.fingerprint, _gazetteer_hash(task.gazetteer))
    path = task.out / FOLDER / f"{key}.json"
    if path.exists():
        return replace(_read(path), was_there=True)
    if should_stop():
        return Played(simulation, error="not played yet")
    folder = task.out / FOLDER / key
    asked = asking(task.gazetteer, simulation.corpus) if task.gazetteer and simulation.asks_gazetteer else None
    rounds = list(
        play(
            simulation, data, encoder, folder, suggested=asked, source_cache=task.out / "source",
            should_stop=should_stop,
        )
    )  # fmt: skip
    if not rounds[-1].done:
        return Played(simulation, error="It was stopped; what was annotated is kept.")
    points = tuple(one.point for one in rounds if one.point is not None)
    _write(path, Played(simulation, points))
    shutil.rmtree(folder, ignore_errors=True)
    return Played(simulation, points)


def _gazetteer_hash(folder: Path | None) -> str:
    from crossner_core.gazetteer.manifest import read_manifest

    return read_manifest(folder).hash if folder is not None else ""


def asking(folder: Path, corpus: str) -> Callable[[Sequence[Sentence]], Sequence[Sequence[Suggestion]]]:
    """Return what asks a built gazetteer for the types of a corpus's domain."""
    from crossner_core.domains import load_domain
    from crossner_core.gazetteer.compiled import CompiledGazetteer
    from crossner_core.gazetteer.preannotate import Preannotator

    machine = Preannotator([CompiledGazetteer.open(folder)], load_domain(corpus))
    return machine.suggest


def _write(path: Path, played: Played) -> None:
    from crossner_core.folders import write_json

    write_json(path, {**played.simulation.to_dict(), "points": [asdict(point) for point in played.points]})


def _read(path: Path) -> Played:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Played(Simulation.from_dict(values), tuple(RoundPoint(**point) for point in values["points"]))
    except OSError as error:
        raise StorageError(f"The campaign in {path} cannot be read: {error}.") from error
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"The campaign in {path} is damaged: {error!r}. Delete it; it will be played again.") from error
