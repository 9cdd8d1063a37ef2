"""Train one cell in the current process; its result is written before it is reported."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import CheckpointError, InvalidConfig, WorkbenchError
from crossner_core.experiments.cells import Cell, CellResult, CellStore, run_folder, training_data
from crossner_core.folders import check_writable

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.training.data import TrainingData
    from crossner_core.training.events import RunResult, TrainEvent
    from crossner_core.training.recipe import Recipe

_SECONDS_BETWEEN_LOOKS = 0.5
_PACKAGES = ("torch", "transformers", "numpy", "seqeval")


@dataclass(frozen=True, slots=True)
class CellTask:
    """A bound cell and its folders; `threads` 0 leaves the thread count unchanged."""

    cell: Cell
    data: Path
    out: Path
    keep: bool = False
    threads: int = 0


@dataclass(frozen=True, slots=True)
class CellEvent:
    """One event of a cell; the last one has a result, an error, or `stopped`."""

    key: str
    message: str = ""
    past_source: bool = False
    result: CellResult | None = None
    error: str = ""
    stopped: bool = False

    @property
    def last(self) -> bool:
        """Whether the cell is finished."""
        return self.result is not None or bool(self.error) or self.stopped


def cell_events(task: CellTask, should_stop: Callable[[], bool] = lambda: False) -> Iterator[CellEvent]:
    """Train a cell, or read its result if another process has just done so; any error becomes the last event."""
    key = task.cell.key
    try:
        with locked(run_folder(task.out, f"{key}.lock"), should_stop) as free:
            if not free:
                yield CellEvent(key, stopped=True)
            elif (result := _finished(task)) is not None:
                yield CellEvent(key, result=result)
            else:
                yield from _train(task, should_stop)
    except Exception as error:  # whatever the error, one cell must not stop the others
        yield CellEvent(key, error=failure(task.out, key, error))


def failure(out: Path, name: str, error: Exception) -> str:
    """Return a short error message; for unexpected errors, write the full traceback to a file."""
    if isinstance(error, WorkbenchError):
        return str(error)
    path = Path(out) / "failures" / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return f"{type(error).__name__}: {error} (see {path})"


def _finished(task: CellTask) -> CellResult | None:
    if task.keep and not (run_folder(task.out, task.cell.key) / "tagger").is_dir():
        return None
    return CellStore(task.out, index=False).get(task.cell.key)


def _train(task: CellTask, should_stop: Callable[[], bool]) -> Iterator[CellEvent]:
    from crossner_core.training.machine import prepare

    cell, began = task.cell, time.perf_counter()
    device = prepare(task.threads)
    encoder = planned_encoder(cell.recipe.encoder, cell.encoder_hash)
    result: RunResult | None = None
    for event in _train_events(task, training_data(cell, task.data), encoder, should_stop):
        result = event.result
        yield CellEvent(cell.key, _words(event), past_source=event.phase != "source")
    assert result is not None  # train() ends with one
    if result.outcome == "stopped":
        yield CellEvent(cell.key, stopped=True)
        return
    if result.outcome == "not_finite" or result.test is None:
        # Restarted from scratch, a later call gets the same result, or trains with what has changed since.
        bad, folder = "There is no score on the test sentences.", run_folder(task.out, cell.key)
        if result.outcome == "not_finite":
            bad = result.notes[-1] + (f" They are kept in {result.checkpoint}." if result.checkpoint else "")
        for part in folder.glob("*"):
            if not (result.checkpoint and part == Path(result.checkpoint)):
                shutil.rmtree(part) if part.is_dir() else part.unlink()
        yield CellEvent(cell.key, error=bad)
        return
    made = _cell_result(cell, result, time.perf_counter() - began, device)
    CellStore(task.out, index=False).put(made)
    if not task.keep:
        shutil.rmtree(run_folder(task.out, cell.key), ignore_errors=True)
    yield CellEvent(cell.key, result=made)


def _train_events(
    task: CellTask, data: TrainingData, encoder: Encoder, should_stop: Callable[[], bool]
) -> Iterator[TrainEvent]:
    """Train, resuming after an interruption; what cannot be resumed is trained from scratch."""
    from crossner_core.training.loop import train

    recipe, folder, source = task.cell.recipe, run_folder(task.out, task.cell.key), Path(task.out) / "source"
    for resume in (True, False):
        try:
            yield from train(
                recipe, data, checkpoint_dir=folder, source_cache=source, encoder=encoder,
                should_stop=should_stop, resume=resume,
            )  # fmt: skip
            return
        except CheckpointError:
            if not resume:
                raise


@lru_cache(maxsize=1)
def planned_encoder(name: str, fingerprint: str) -> Encoder:
    """Load an encoder once for consecutive cells; raise InvalidConfig if it is not the planned one."""
    from crossner_core.encoders.loading import load_encoder

    encoder = load_encoder(name)
    if encoder.fingerprint != fingerprint:
        raise InvalidConfig(
            f"Encoder {name!r} has other weights ({encoder.fingerprint[:12]}) than when the study was planned "
            f"({fingerprint[:12]}); run the study again, and do not change the encoder while it runs."
        )
    return encoder


def _cell_result(cell: Cell, result: RunResult, wall: float, device: str) -> CellResult:
    assert result.test is not None
    return CellResult(
        key=cell.key,
        corpus=cell.corpus,
        size=cell.size,
        order=cell.order,
        data_hash=cell.data_hash,
        encoder_hash=cell.encoder_hash,
        recipe=cell.recipe.to_dict(),
        dev=result.dev,
        test=result.test,
        outcome=result.outcome,
        best_epoch=result.best_epoch,
        epochs=result.epochs,
        steps=result.steps,
        train_sentences=result.train_sentences,
        seconds=result.seconds,
        wall_seconds=wall,
        tokens_per_second=result.tokens_per_second,
        peak_memory_mb=result.peak_memory_mb,
        machine=machine(device, cell.recipe),
        versions={
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=result.notes,
        stages=result.stages,
    )


def machine(device: str, recipe: Recipe) -> dict[str, Any]:
    """Return the hardware and precision a cell was computed with."""
    import torch

    from crossner_core.training.machine import pick_device, use_bf16

    return {
        "cpu": torch.cpu.get_capabilities().get("cpu_name", "") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device,
        "precision": "bf16" if use_bf16(recipe.precision, pick_device(recipe.device)) else "fp32",
    }


def _words(event: TrainEvent) -> str:
    """Return the line to print: measured epochs and the run's own messages."""
    if event.message or event.dev_f1 is None:
        return event.message
    return f"{event.phase} epoch {event.epoch}, loss {event.loss:.3f}, dev F1 {100 * event.dev_f1:.2f}"


@contextmanager
def locked(path: Path, should_stop: Callable[[], bool]) -> Iterator[bool]:
    """Hold a lock file against other processes of this machine, waiting for them; yields False if stopped meanwhile.

    Raises StorageError if it cannot be written.
    """
    import fcntl

    check_writable(path.parent)
    with path.open("w") as file:
        while not (stop := should_stop()):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        yield not stop
