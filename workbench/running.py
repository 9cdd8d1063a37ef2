"""What the worker does with a job: train, pre-annotate, score the pool. The only use cases that load PyTorch."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import CheckpointError, CheckpointMismatch, StorageError, WorkbenchError
from crossner_core.memory import give_back_freed
from db import job_rows, run_rows, suggestion_rows, turn_rows
from db.engine import Session, Store
from db.training_tables import Run
from workbench import jobs
from workbench.actors import SYSTEM
from workbench.lease import Lease
from workbench.training_data import for_run

if TYPE_CHECKING:
    from crossner_core.encoders import Encoder
    from crossner_core.training.events import RunResult, TrainEvent

log = logging.getLogger(__name__)

# Optimizer and best weights of a BERT-base run take about 2 GB at their largest; a small encoder far less.
LEAST_FREE_BYTES = 400_000_000


class LeaseLost(Exception):
    """Another worker has the job now: write nothing more about it."""


@dataclass(frozen=True)
class Workplace:
    """Where jobs run: the store, the checkpoints' folder, this worker's name."""

    store: Store
    checkpoints: Path
    worker: str
    encoders: dict[str, Encoder]

    def folder(self, run_id: int) -> Path:
        """The folder of a run's checkpoint and resumable state."""
        return self.checkpoints / f"run-{run_id}"

    @property
    def library(self) -> Path:
        """The folder of the encoders that were pre-trained here, each in a folder of its name."""
        return self.checkpoints.parent / "encoders"

    @property
    def experiments(self) -> Path:
        """The folder of the cells of studies, and of what was made of them."""
        return self.checkpoints.parent / "experiments"

    def encoder(self, name: str) -> Encoder:
        """Load an encoder, or take the one loaded for the job before."""
        from crossner_core.encoders import load_encoder

        if name not in self.encoders:
            self.encoders.clear()
            self.encoders[name] = load_encoder(name, self.library)
        return self.encoders[name]


def run_job(place: Workplace, lease: Lease) -> None:
    """Do a job to its end and write down how it ended; the worker goes on whatever happens."""
    try:
        _HANDLERS[lease.job.kind](place, lease)
    except LeaseLost:
        log.warning("Job %s is in other hands now.", lease.job.id)
    except WorkbenchError as error:
        _fail(place, lease, str(error))
    except MemoryError:
        _fail(place, lease, "Memory ran out. Lower batch_size or max_length, or choose a smaller encoder.")
    except OSError as error:
        _fail(place, lease, f"The system refused: {error}. Check free disk space and permissions, then start it again.")
    except Exception as error:  # a worker must outlive any job; the trace goes to its log
        log.exception("Job %s failed", lease.job.id)
        what = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
        _fail(place, lease, f"Stopped by an error: {type(error).__name__}: {what}. The worker's log has the details.")
    finally:
        give_back_freed()


def train_run(place: Workplace, lease: Lease) -> None:
    """Train the job's run from where it stands, log its events, and keep its scores and checkpoint."""
    from crossner_core.training.loop import train
    from crossner_core.training.settings.registry import setting

    run_id = lease.job.run_id
    assert run_id is not None, "a job of kind run has a run"
    with place.store.read() as session:
        recipe, data = for_run(session, run_id)
    require_space(place.checkpoints)
    encoder = place.encoder(recipe.encoder)
    phases = [(stage.phase, stage.epochs) for stage in setting(recipe.setting).plan(recipe, data)]
    writer = _Log(place, lease, run_id, phases)
    if lease.job.attempts > 1:
        writer.say(f"Attempt {lease.job.attempts} of {lease.job.max_attempts}: the worker before this one stopped.")
    start = partial(
        train,
        recipe,
        data,
        checkpoint_dir=place.folder(run_id),
        should_stop=lease.should_stop,
        source_cache=place.checkpoints / "source",
        encoder=encoder,
        name=f"run {run_id}",
    )
    result: RunResult | None = None
    for event in _from_where_it_stands(start, place.folder(run_id), writer):
        if lease.lost.is_set():
            raise LeaseLost
        writer.write(event)
        result = event.result
    if result is None:
        raise CheckpointError("Training ended without a result; start the run again.")
    _settle(place, lease, run_id, result)


def _from_where_it_stands(
    start: Callable[[], Iterator[TrainEvent]], folder: Path, writer: _Log
) -> Iterator[TrainEvent]:
    """Yield the events of a training; a state that an older version of the workbench left is dropped."""
    try:
        yield from start()
    except CheckpointMismatch as error:
        log.warning("%s", error)
        writer.say(
            "What was kept of this run is another version's, or of another encoder, other sentences or suggestions: "
            "it begins anew."
        )
        shutil.rmtree(folder)
        yield from start()


def _settle(place: Workplace, lease: Lease, run_id: int, result: RunResult) -> None:
    """Write down how a training ended, in one transaction with its job."""
    if lease.lost.is_set():
        raise LeaseLost
    held: dict[str, Any] = {"job_id": lease.job.id, "worker": place.worker}
    if result.outcome == "not_finite":
        kept = f" They lie in {result.checkpoint}." if result.checkpoint else ""
        raise CheckpointError(f"{result.notes[-1]}{kept}")
    with place.store.write() as session:
        if result.outcome == "stopped":
            if lease.cancelled.is_set():
                ok = job_rows.finish(session, **held, state="cancelled", message="Cancelled.")
                run_rows.finish(session, run_id, "cancelled")
            else:
                ok = job_rows.give_back(session, **held, message=lease.why_back(), counted=False)
                run_rows.update(session, run_id, state="queued")
        else:
            ok = job_rows.finish(session, **held, state="done", message=_summary(result))
            run_rows.update(session, run_id, state="done", **_scores(place, run_id, result))
            _queue_suggestions(session, run_id)
        if not ok:
            raise LeaseLost
    if result.outcome == "stopped" and lease.cancelled.is_set():
        shutil.rmtree(place.folder(run_id), ignore_errors=True)
    elif result.outcome != "stopped":
        _drop_weights_of_a_cell(place, run_id)


def _queue_suggestions(session: Session, run_id: int) -> None:
    """Have what a campaign's new model suggests ready before people open the next sentences."""
    run = run_rows.get(session, run_id)
    if run is None or run.campaign_id is None or run.size is not None:
        return
    turn = turn_rows.under_way(session, run.campaign_id)
    if turn is not None and turn.run_id == run_id:
        return  # the queue gets a new order first; the turn then asks for the suggestions
    if suggestion_rows.awaits_model(session, run.campaign_id):
        jobs.queue_once(session, "score_pool", run.campaign_id, {"run_id": None})


def _scores(place: Workplace, run_id: int, result: RunResult) -> dict[str, Any]:
    from db.types import now

    found = next((f for f in (place.folder(run_id) / "tagger", place.folder(run_id)) if f.is_dir()), None)
    return {
        "dev_f1": result.dev.f1 if result.dev else None,
        "test_f1": result.test.f1 if result.test else None,
        "result": _finite(result.to_dict()),
        "checkpoint": str(found.relative_to(place.checkpoints.parent)) if found else None,
        "error": None,
        "finished_at": now(),
    }


def _drop_weights_of_a_cell(place: Workplace, run_id: int) -> None:
    """Keep only the scores of runs on a part of the gold: a curve would fill the disk with their weights."""
    with place.store.read() as session:
        run = run_rows.get(session, run_id)
        is_cell = run is not None and run.size is not None
    if is_cell:
        shutil.rmtree(place.folder(run_id), ignore_errors=True)
        with place.store.write() as session:
            run_rows.update(session, run_id, checkpoint=None)


def preannotate_campaign(place: Workplace, lease: Lease) -> None:
    """Pre-annotate a campaign's new sentences from links and gazetteer."""
    from workbench.preannotating import preannotate

    assert lease.job.campaign_id is not None

    def heard(share: float) -> None:
        lease.progress, lease.message = share, f"{share:.0%} of the new sentences"

    done = preannotate(place.store, SYSTEM, lease.job.campaign_id, should_stop=lease.should_stop, on_progress=heard)
    _end(place, lease, f"Pre-annotated: {done}.")


def score_pool(place: Workplace, lease: Lease) -> None:
    """Let a run's checkpoint pre-annotate the sentences that nobody has begun, those at the head of the queue first."""
    from workbench.suggesting import suggest

    _end(place, lease, suggest(place, lease))


def pretrain_encoder(place: Workplace, lease: Lease) -> None:
    """Pre-train an encoder and put it into the library."""
    from workbench.pretraining import pretrain

    pretrain(place, lease)


def checkpoint_folder(run: Run, checkpoints: Path) -> Path:
    """Return the folder of a run's checkpoint; raise CheckpointError where it is gone."""
    if run.checkpoint is None:
        why = "only scores are kept of runs on a part of the gold" if run.size else f"it is {run.state}"
        raise CheckpointError(f"Run {run.id} has no checkpoint: {why}. Choose another run, or train again.")
    folder = checkpoints.parent / run.checkpoint
    if not folder.is_dir():
        raise CheckpointError(
            f"The checkpoint of run {run.id} is gone from {folder}. Train again, or choose another run."
        )
    return folder


def _end(place: Workplace, lease: Lease, message: str) -> None:
    """End a job that has no run."""
    held: dict[str, Any] = {"job_id": lease.job.id, "worker": place.worker}
    with place.store.write() as session:
        if lease.cancelled.is_set():
            job_rows.finish(session, **held, state="cancelled", message="Cancelled; what was done until then stays.")
        elif why := lease.why_back():
            job_rows.give_back(session, **held, message=why, counted=False)
        else:
            job_rows.finish(session, **held, state="done", message=message)


def _fail(place: Workplace, lease: Lease, error: str) -> None:
    """Write down why a job failed; its run fails with it. Annotations are in other tables and not touched."""
    log.error("Job %s failed: %s", lease.job.id, error)
    try:
        with place.store.write() as session:
            held = job_rows.finish(session, job_id=lease.job.id, worker=place.worker, state="failed", error=error)
            if held and lease.job.run_id is not None:
                run_rows.finish(session, lease.job.run_id, "failed", error=error)
                run_rows.add_event(session, lease.job.run_id, _line(error))
    except StorageError as refused:
        # The lease runs out by itself, and the job is tried again when the store takes writes again.
        log.error("That could not be written down: %s", refused)


class _Log:
    """Writes a run's events and keeps its job's progress."""

    def __init__(self, place: Workplace, lease: Lease, run_id: int, phases: Sequence[tuple[str, int]]) -> None:
        self.place, self.lease, self.run_id = place, lease, run_id
        self.phases = list(phases)  # each with its epochs, in order; each has the same share of the bar
        self.best: float | None = None
        self.is_first = True

    def write(self, event: TrainEvent) -> None:
        """Keep one event; the first one after a crash replaces what had been measured beyond its step."""
        self.best = event.dev_f1 if event.is_best else self.best
        self.lease.progress, self.lease.message = self._progress(event), self._message(event)
        values = {
            "phase": event.phase,
            "step": event.step,
            "epoch": float(event.epoch),
            "loss": event.loss if math.isfinite(event.loss) else None,
            "dev_f1": event.dev_f1,
            "is_best": event.is_best,
            "message": event.message,
        }
        with self.place.store.write() as session:
            if not job_rows.holds(session, job_id=self.lease.job.id, worker=self.place.worker):
                raise LeaseLost
            if self.is_first:
                run_rows.drop_events_after(session, self.run_id, step=event.step if event.message else event.step - 1)
                self.is_first = False
            run_rows.add_event(session, self.run_id, values)

    def say(self, message: str) -> None:
        with self.place.store.write() as session:
            run_rows.add_event(session, self.run_id, _line(message))

    def _progress(self, event: TrainEvent) -> float:
        names = [name for name, _ in self.phases]
        at = names.index(event.phase) if event.phase in names else len(names) - 1
        return (at + min(1.0, max(event.epoch - 1, 0) / self.phases[at][1])) / len(names)

    def _message(self, event: TrainEvent) -> str:
        parts = [event.phase, f"epoch {event.epoch}", f"step {event.step}"]
        if math.isfinite(event.loss) and event.loss:
            parts.append(f"loss {event.loss:.3f}")
        if self.best is not None:
            parts.append(f"best dev F1 {100 * self.best:.1f}")
        return " · ".join(parts)


def _line(message: str) -> dict[str, Any]:
    return {"phase": "worker", "step": 0, "epoch": 0.0, "message": message}


def _summary(result: RunResult) -> str:
    parts = [f"{result.epochs} epochs in {result.seconds:.0f} s"]
    parts += [f"{name} F1 {100 * part.f1:.2f}" for name, part in (("dev", result.dev), ("test", result.test)) if part]
    return " · ".join(parts)


def require_space(folder: Path) -> None:
    """Raise StorageError unless there is room for a run."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise StorageError(
            f"Only {free / 1e6:.0f} MB are free at {folder}; a run needs {LEAST_FREE_BYTES / 1e6:.0f} MB. "
            "Free some space (checkpoints of old runs lie there), then start the run again."
        )


def _finite(value: Any) -> Any:
    """Replace what JSON cannot say (NaN, infinity) by None, all the way down."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value


def study_cells(place: Workplace, lease: Lease) -> None:
    """Train the cells of a study that have no result yet, and make its tables."""
    from workbench.settings import settings_of
    from workbench.studies import work_through

    require_space(place.experiments)
    settings = settings_of(place.store)
    _end(place, lease, work_through(lease, place.experiments, workers=settings.study_workers, ray=settings.ray or ""))


def order_queue(place: Workplace, lease: Lease) -> None:
    """Put a campaign's queue into a new order."""
    from workbench import turning

    _end(place, lease, turning.order_queue(place, lease))


def second_look(place: Workplace, lease: Lease) -> None:
    """Go through a campaign's gold with the checks asked for."""
    from workbench.looking import look

    _end(place, lease, look(place, lease))


def play_simulations(place: Workplace, lease: Lease) -> None:
    """Play simulated campaigns on a campaign's gold."""
    from workbench import simulating

    require_space(place.checkpoints)
    _end(place, lease, simulating.play_simulations(place, lease))


_HANDLERS = {
    "run": train_run,
    "preannotate": preannotate_campaign,
    "score_pool": score_pool,
    "pretrain": pretrain_encoder,
    "study": study_cells,
    "turn": order_queue,
    "second_look": second_look,
    "simulation": play_simulations,
}
