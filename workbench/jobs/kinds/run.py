"""Train a run: resume where it stopped, log its events, keep its scores and checkpoint."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.encoders.names import place_named
from crossner_core.errors import CheckpointError
from db import campaign_rows, job_rows, round_rows, run_rows, suggestion_rows
from db.engine import Session
from db.training_tables import RunEvent
from db.types import now
from workbench.accounts.actors import SYSTEM
from workbench.jobs import queue
from workbench.jobs.context import Claimed, JobContext, LeaseLost, require_space, saved_step
from workbench.jobs.kind import Fields, JobKind, LogLine, Outcome, register
from workbench.runs.training_data import for_run
from workbench.settings import Settings
from workbench.suggestions.feeding import held_back
from workbench.webhooks import events

if TYPE_CHECKING:
    from crossner_core.training.events import RunResult, TrainEvent


def train_run(context: JobContext, _payload: Fields) -> Outcome:
    """Train the job's run, resuming where it stopped; return an Outcome that writes its scores."""
    from crossner_core.training.loop import train
    from crossner_core.training.settings.registry import setting

    run_id, checkpoints = _run_id(context.job), context.settings.checkpoints
    folder = _folder(context.settings, run_id)
    with context.store.read() as session:
        recipe, data = for_run(session, run_id)
        run = run_rows.get(session, run_id)
        keeps_weights = run is None or run.size is None
    require_space(checkpoints)
    stages = setting(recipe.setting).plan(recipe, data)
    log = RunLog(context, run_id, [(stage.phase, stage.epochs) for stage in stages if stage.epochs])
    start = partial(
        train,
        recipe,
        data,
        checkpoint_dir=folder,
        should_stop=context.should_stop,
        source_cache=checkpoints / "source",
        encoder=context.encoder(recipe.encoder),
        name=f"run {run_id}",
    )

    def anew() -> None:
        _say(
            context,
            "The saved state of this run is of another version or encoder, or of other sentences or suggestions: "
            "it starts over.",
        )
        shutil.rmtree(folder)

    result: RunResult | None = None
    for event in context.resumed(start, anew):
        log.write(event)
        result = event.result
    if result is None:
        raise CheckpointError("Training ended without a result; start the run again.")
    if result.outcome == "stopped":
        return Outcome(finished=False)
    if result.outcome == "not_finite":
        lie = f" They are in {result.checkpoint}." if result.checkpoint else ""
        raise CheckpointError(f"{result.notes[-1]}{lie}")
    values = _scores(context.settings, run_id, result, keeps_weights)
    # A curve would fill the disk with the weights of its cells: only their scores are kept.
    after = partial(shutil.rmtree, folder, ignore_errors=True) if not keeps_weights else lambda: None
    return Outcome(_summary(result), finished=True, write=partial(_keep, run_id, values), after=after)


def _keep(run_id: int, values: dict[str, Any], session: Session) -> None:
    run_rows.update(session, run_id, **values)
    _queue_suggestions(session, run_id)


def _queue_suggestions(session: Session, run_id: int) -> None:
    """Queue the suggestions of a campaign's new model, so that they are ready before people open more sentences."""
    run = run_rows.get(session, run_id)
    if run is None or run.campaign_id is None or run.size is not None:
        return
    round_ = round_rows.under_way(session, run.campaign_id)
    if round_ is not None and round_.run_id == run_id:
        return  # the queue is reordered first; the round then queues the suggestions
    campaign = campaign_rows.find(session, run.campaign_id)
    if campaign is None or not suggestion_rows.awaits_model(session, run.campaign_id):
        return
    if waits := held_back(session, campaign, run):
        run_rows.add_event(session, run_id, {"phase": "suggestions", "step": 0, "epoch": 0.0, "message": waits})
        return
    queue.start(session, "score_pool", {"run_id": None}, by=SYSTEM, campaign_id=run.campaign_id)


def _scores(settings: Settings, run_id: int, result: RunResult, keeps_weights: bool) -> dict[str, Any]:
    folder = _folder(settings, run_id)
    kept = next((part for part in (folder / "tagger", folder) if part.is_dir()), None) if keeps_weights else None
    return {
        "dev_f1": result.dev.f1 if result.dev else None,
        "test_f1": result.test.f1 if result.test else None,
        "result": _finite(result.to_dict()),
        "checkpoint": str(kept.relative_to(settings.checkpoints.parent)) if kept else None,
        "error": None,
        "finished_at": now(),
    }


def _finite(value: Any) -> Any:
    """Replace what JSON lacks (NaN, infinity) with None, recursively."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value


class RunLog:
    """Writes a run's events and keeps its job's progress."""

    def __init__(self, context: JobContext, run_id: int, phases: Sequence[tuple[str, int]]) -> None:
        self.context, self.run_id = context, run_id
        self.phases = list(phases)  # each with its epochs, in order; each gets the same share of the progress bar
        self.best: float | None = None
        self.is_first = True

    def write(self, event: TrainEvent) -> None:
        """Log one event; the first one after a crash replaces the measurements beyond its step."""
        self.best = event.dev_f1 if event.is_best else self.best
        self.context.report(self.progress(event), self._message(event))
        values = {
            "phase": event.phase,
            "step": event.step,
            "epoch": float(event.epoch),
            "loss": event.loss if math.isfinite(event.loss) else None,
            "dev_f1": event.dev_f1,
            "is_best": event.is_best,
            "message": event.message,
        }
        with self.context.store.write() as session:
            if not job_rows.holds(session, job_id=self.context.job.id, worker=self.context.worker):
                raise LeaseLost
            if self.is_first:
                run_rows.drop_events_after(session, self.run_id, step=event.step if event.message else event.step - 1)
                self.is_first = False
            run_rows.add_event(session, self.run_id, values)

    def progress(self, event: TrainEvent) -> float:
        """Return the run's progress at an event, in [0, 1]."""
        names = [name for name, _ in self.phases]
        phase = names.index(event.phase) if event.phase in names else len(names) - 1
        return (phase + min(1.0, max(event.epoch - 1, 0) / self.phases[phase][1])) / len(names)

    def _message(self, event: TrainEvent) -> str:
        parts = [event.phase, f"epoch {event.epoch}", f"step {event.step}"]
        if math.isfinite(event.loss) and event.loss:
            parts.append(f"loss {event.loss:.3f}")
        if self.best is not None:
            parts.append(f"best dev F1 {100 * self.best:.1f}")
        return " · ".join(parts)


def _summary(result: RunResult) -> str:
    parts = [f"{result.epochs} epochs in {result.seconds:.0f} s"]
    parts += [f"{name} F1 {100 * part.f1:.2f}" for name, part in (("dev", result.dev), ("test", result.test)) if part]
    return " · ".join(parts)


def _run_id(job: Claimed) -> int:
    assert job.run_id is not None, "a job of kind run has a run"
    return job.run_id


def _folder(settings: Settings, run_id: int) -> Path:
    """The folder of a run's checkpoint and resumable state."""
    return settings.checkpoints / f"run-{run_id}"


def _say(context: JobContext, message: str) -> None:
    with context.store.write() as session:
        values = {"phase": "worker", "step": 0, "epoch": 0.0, "message": message}
        run_rows.add_event(session, _run_id(context.job), values)


def _log(session: Session, _settings: Settings, job: Claimed) -> tuple[LogLine, ...]:
    return tuple(LogLine(event.at, _line(event)) for event in run_rows.events(session, _run_id(job)))


def _line(event: RunEvent) -> str:
    return (
        f"{event.phase:<7} epoch {event.epoch:5.1f}  step {event.step:>5}"
        + (f"  loss {event.loss:.4f}" if event.loss is not None else "")
        + (f"  dev F1 {100 * event.dev_f1:.1f}" if event.dev_f1 is not None else "")
        + ("  best so far" if event.is_best else "")
        + (f"  {event.message}" if event.message else "")
    )


def _after(session: Session, job: Claimed) -> int | None:
    """Return the job that still pre-trains the run's encoder, if any: the run begins after it."""
    run = run_rows.get(session, _run_id(job))
    made_first = job_rows.pretraining_of(session, place_named(str(run.recipe["encoder"]))) if run is not None else None
    return made_first.id if made_first is not None else None


def _follow(session: Session, job: Claimed, state: str, error: str | None) -> None:
    run_id = _run_id(job)
    if state == "running":
        run_rows.mark_started(session, run_id)
    elif state == "queued":
        run_rows.update(session, run_id, state="queued", error=None, finished_at=None)
    elif run_rows.finish(session, run_id, state, error=error) and (run := run_rows.get_bare(session, run_id)):
        events.run_ended(session, run, state)


register(
    JobKind(
        name="run",
        title="run",
        priority=10,
        payload=Fields,
        handle=train_run,
        after=_after,
        follow=_follow,
        forget=lambda settings, job: shutil.rmtree(_folder(settings, _run_id(job)), ignore_errors=True),
        can_resume=lambda settings, job: True,
        saved_step=lambda session, settings, job: saved_step(_folder(settings, _run_id(job)) / "state"),
        names=lambda job: f"Run {job.run_id}",
        say=_say,
        log=_log,
    )
)
