"""Train a recipe on data: one generator of events, which the caller displays and may stop."""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import CheckpointError, CheckpointMismatch, EncoderUnavailable, InvalidConfig
from crossner_core.folders import check_writable, recover_folder, write_json
from crossner_core.models.base import TokenTagger, TypeTexts
from crossner_core.training.checkpoint import read_folder, read_json, write_folder
from crossner_core.training.data import TrainingData
from crossner_core.training.descriptions import read_texts, stage_texts
from crossner_core.training.engine import Report, TaskRun, share
from crossner_core.training.events import EpochRecord, RunResult, StageScore, TrainEvent
from crossner_core.training.machine import PeakMemory, fix_workspace, pick_device
from crossner_core.training.outcome import measure_run, stage_score, why_not_finite
from crossner_core.training.predictor import load_tagger, save_tagger
from crossner_core.training.processes import present
from crossner_core.training.recipe import Recipe, cached_source, data_hash
from crossner_core.training.settings.registry import setting
from crossner_core.training.sources import source_lines, source_warnings
from crossner_core.training.stage import Stage
from crossner_core.training.tagging import TaggerTask, begin_stage

STATE, TAGGER, RESULT = "state", "tagger", "result.json"
# A tagger of a stage before the last, with that stage's types, kept when its loss was not finite.
STAGE_TAGGER = "stage-tagger"
# A killed run loses at most about this much work.
SECONDS_BETWEEN_SAVES = 30.0
# Steps between two events inside an epoch.
STEPS_BETWEEN_EVENTS = 10
STOPPED = "Stopped on request; the state is saved."


@dataclass(frozen=True)
class WarmStart:
    """The folder of an earlier tagger whose weights a run starts from, and the number of epochs."""

    tagger: Path
    epochs: int


def train(
    recipe: Recipe,
    data: TrainingData,
    *,
    checkpoint_dir: Path,
    resume: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    source_cache: Path | None = None,
    encoder: Encoder | None = None,
    name: str = "",
    warm_start: WarmStart | None = None,
) -> Iterator[TrainEvent]:
    """Yield events until the run ends; the last one carries the `result`.

    `checkpoint_dir` receives the resumable state, then the tagger and `result.json`. With `resume`, a run continues
    from there, and a finished one yields its result at once; without, it starts afresh. `should_stop` is called after
    each step: on True the state is saved and the result's outcome is "stopped". `source_cache` keeps source checkpoints
    for other runs. Passing `encoder` avoids loading it; it is not modified. `name` labels the tagger's suggestions.
    With `warm_start` only the last stage is trained, from that tagger's encoder and the rows of its types; that of
    self-training has that tagger as its teacher. Raises EncoderUnavailable, CheckpointError, StorageError,
    InvalidConfig.
    """
    run = _Run(recipe, data, Path(checkpoint_dir), source_cache, name, warm_start)
    try:
        begun = encoder or load_encoder(recipe.encoder)
        run.encoder_hash = begun.fingerprint
    except EncoderUnavailable:
        if not resume or run.finished() is None:  # a finished result does not need it
            raise
    if not resume:
        run.forget()
    done = run.finished()
    if done is not None:
        yield TrainEvent(done.steps, done.epochs, "target", 0.0, message="This run has already finished.", result=done)
        return
    check_writable(run.folder)
    yield from run.go(begun, should_stop)


def drive(
    run: TaskRun[Any], should_stop: Callable[[], bool], save: Callable[[], None], pause: Callable[[], float]
) -> Iterator[tuple[Report, bool]]:
    """Run a task; yield each report, and whether it is the last because of a stop.

    It is saved then, and whenever more than `pause()` seconds have passed since the last save. A run that has ended,
    whatever its outcome, is neither stopped nor saved.
    """
    saved_at = time.monotonic()
    for report in run.run():
        under_way = not run.progress.outcome
        stop = under_way and should_stop()
        if stop or (under_way and time.monotonic() - saved_at > pause()):
            save()
            saved_at = time.monotonic()
        yield report, stop
        if stop:
            return


@dataclass
class _Before:
    """Totals of the stages before the current one."""

    steps: int = 0
    seconds: float = 0.0
    peak_memory_mb: float = 0.0
    history: list[EpochRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stages: list[StageScore] = field(default_factory=list)


class _Run:
    """One run: its stages in order, its folder, its clock."""

    def __init__(
        self,
        recipe: Recipe,
        data: TrainingData,
        folder: Path,
        cache: Path | None,
        name: str,
        warm: WarmStart | None,
    ) -> None:
        self.recipe, self.data, self.folder, self.cache, self.name, self.warm = recipe, data, folder, cache, name, warm
        # A student already learnt from what gazetteer and links propose, as a teacher it is not weighted by it again.
        read = recipe if warm is None else replace(recipe, self_training_gazetteer=False)
        planned = setting(recipe.setting).plan(read, data)
        self.stages = planned if warm is None else (_warm_stage(recipe, planned[-1], warm),)
        self.device = pick_device(recipe.device)
        if recipe.deterministic:
            fix_workspace()  # each process does when it begins a stage, but types may be read before
        self.memory = PeakMemory(self.device)
        self.data_hash, self.encoder_hash = data_hash(recipe, data), ""
        self.recipe_hash = recipe.hash if warm is None else f"{recipe.hash} from another tagger, {warm.epochs} epochs"
        self.trouble = ""
        self.before = _Before(notes=[note for stage in self.stages for note in stage.notes])
        self.before.notes += source_warnings(data.sources, data.types, recipe) if data.sources else ()
        if not data.dev and (epochs := self.stages[-1].epochs):
            self.before.notes.append(f"No dev data: trained for a fixed {epochs} epochs; the last one is kept.")
        if not any(item.spans for stage in self.stages for item in stage.train):
            self.before.notes.append("No sentence that is trained on has an entity, so that none will be found.")
        self._check_parts()

    def _check_parts(self) -> None:
        """Reject `accumulate` for stages with their own loss, which may need a whole batch."""
        whole = [stage.phase for stage in self.stages if stage.objective is not None]
        if whole and self.recipe.accumulate > 1:
            raise InvalidConfig(
                f"accumulate is {self.recipe.accumulate}, but setting {self.recipe.setting!r} needs a batch as a whole "
                f"({', '.join(whole)} stage); set accumulate to 1 and use smaller batches, or, with a "
                "transformer, recompute."
            )
        if (size := present().size) > 1:
            alone = f", the {', '.join(whole)} stage by one of them" if whole else ""
            self.before.notes.append(f"Computed by {size} processes together{alone}.")

    def finished(self) -> RunResult | None:
        """Return the result of a run that already finished here; raise CheckpointError if it was another run."""
        if not (self.folder / RESULT).exists():
            return None
        values = read_json(self.folder / RESULT)
        self._check_same(values)
        return RunResult.from_dict(values)

    def forget(self) -> None:
        """Remove what an earlier run left in the folder."""
        (self.folder / RESULT).unlink(missing_ok=True)
        for name in (STATE, TAGGER, STAGE_TAGGER):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def go(self, pretrained: Encoder, should_stop: Callable[[], bool]) -> Iterator[TrainEvent]:
        """Run the stages from the saved state; the last event carries the result."""
        first = self._saved_stage()
        encoder = self._copied(pretrained)
        former: TokenTagger | None = None
        if self.warm is not None and not (self.folder / STATE).exists():
            former = self._earlier(self.warm, encoder)
            encoder = replace(encoder, model=former.encoder)
        for number in range(first, len(self.stages)):
            stage, last = self.stages[number], number + 1 == len(self.stages)
            cache = cached_source(self.cache, self.recipe, self.data, encoder.fingerprint) if stage.cached else None
            if cache is not None and cache.is_dir():
                cached, message = self._reuse(cache)
                yield TrainEvent(self.before.steps, 0, stage.phase, 0.0, message=message)
                if cached is not None:
                    former, encoder = cached, replace(encoder, model=cached.encoder)
                    continue
            if stage.fresh:
                encoder = self._copied(pretrained)
            described = self._described(stage, pretrained)
            run = self._start(stage, encoder, former, described)
            if number == first and (self.folder / STATE).exists():
                self._restore(run)
                event = self._event(run, Report(0.0))
                yield replace(event, message=f"Resumed at {stage.phase} epoch {event.epoch}.")
            if run.processes.size > 1:
                whole = replace(encoder, model=copy.deepcopy(run.model.encoder).cpu())
                share(run, partial(begin_stage, self.recipe, stage, whole, described=described))
            yield from self._drive(run, number, should_stop)
            if stage.reported and run.progress.outcome not in ("", "not_finite"):
                score = stage_score(run, self.data)
                self.before.stages.append(score)
                self.before.notes += [str(score)] if score.dev is not None or score.test is not None else []
            run.restore_best()
            if last or run.progress.outcome in ("", "not_finite"):
                yield self._end(run, last=last)
                return
            if cache is not None:
                save_tagger(cache, run.task.predictor, stage.types)
            former = run.model
            self._carry(run)

    def _earlier(self, warm: WarmStart, encoder: Encoder) -> TokenTagger:
        """Load the tagger to start from; raise CheckpointMismatch if it was trained from another encoder."""
        tagger = load_tagger(warm.tagger, device=self.recipe.device, precision=self.recipe.precision)
        then, now = tagger.meta["encoder_hash"], encoder.fingerprint
        if then != now:
            raise CheckpointMismatch(
                f"The tagger in {warm.tagger} started from another encoder ({then[:12]}, not {now[:12]}); "
                "train it with this recipe's encoder, or start without it."
            )
        return tagger.model

    def _copied(self, encoder: Encoder) -> Encoder:
        """Return the encoder with its own copy of the body on the run's device."""
        return replace(encoder, model=copy.deepcopy(encoder.model).to(self.device))

    def _saved_stage(self) -> int:
        """Return the index of the stage that the saved state is in, 0 if nothing is saved."""
        recover_folder(self.folder / STATE, to_write=True)
        if not (self.folder / STATE).exists():
            return 0
        meta = read_json(self.folder / STATE / "meta.json")
        self._check_same(meta)
        return int(meta["stage"])

    def _reuse(self, cache: Path) -> tuple[TokenTagger | None, str]:
        """Load a cached source checkpoint; if it is damaged, return None with a message, and it is trained again."""
        try:
            tagger = load_tagger(cache, device=self.recipe.device, precision=self.recipe.precision)
        except CheckpointError as error:
            return None, f"{error} The source stage is trained again."
        self.before.notes.append(f"Source checkpoint {cache.name} was reused.")
        return tagger.model, self.before.notes[-1]

    def _described(self, stage: Stage, pretrained: Encoder) -> TypeTexts | None:
        texts = stage_texts(self.recipe, self.data, stage)
        return read_texts(self.recipe, pretrained, texts) if texts else None

    def _start(
        self, stage: Stage, encoder: Encoder, former: TokenTagger | None, described: TypeTexts | None
    ) -> TaskRun[TaggerTask]:
        meta = self._identity() | {"encoder": encoder.name, "encoder_hash": encoder.fingerprint, "name": self.name}
        if described is not None:
            trained = {span.type for each in self.stages for item in each.train for span in item.spans}
            meta |= {"texts": stage_texts(self.recipe, self.data, stage), "trained_types": sorted(trained)}
        parents = self.data.parents if self.recipe.inherit else None
        return begin_stage(self.recipe, stage, encoder, former, parents=parents, meta=meta, described=described)

    def _drive(self, run: TaskRun[TaggerTask], number: int, should_stop: Callable[[], bool]) -> Iterator[TrainEvent]:
        """Turn a stage's reports into events; save periodically, and on a stop."""
        last = number + 1 == len(self.stages)
        for report, stopped in drive(run, should_stop, partial(self._save, run, number), lambda: SECONDS_BETWEEN_SAVES):
            if run.progress.outcome == "not_finite":
                self.trouble = why_not_finite(run, report.loss, self.before.steps, last=last)
            event = self._event(run, report, self.trouble)
            if stopped:
                yield replace(event, message=STOPPED)
            elif report.closes or event.message or event.step % STEPS_BETWEEN_EVENTS == 0:
                yield event

    def _event(self, run: TaskRun[TaggerTask], report: Report, message: str = "") -> TrainEvent:
        """Return a report as an event; its epoch is the one that it closes, else the current one."""
        step = run.progress.step
        epoch = step // run.task.epoch_steps + (0 if report.closes else 1)
        step, speed = self.before.steps + step, run.progress.tokens_per_second
        return TrainEvent(step, epoch, run.task.stage.phase, report.loss, report.value, report.is_best, message, speed)

    def _save(self, run: TaskRun[TaggerTask], number: int) -> None:
        self.before.peak_memory_mb = max(self.before.peak_memory_mb, self.memory.megabytes())
        meta = self._identity() | {"stage": number, "before": asdict(self.before), **run.meta()}
        write_folder(self.folder / STATE, meta, run.tensors())

    def _restore(self, run: TaskRun[TaggerTask]) -> None:
        meta, tensors = read_folder(self.folder / STATE)
        history = [EpochRecord(**record) for record in meta["before"]["history"]]
        stages = [StageScore(**stage) for stage in meta["before"].get("stages", ())]
        self.before = _Before(**{**meta["before"], "history": history, "stages": stages})
        run.restore(meta, tensors)

    def _carry(self, run: TaskRun[TaggerTask]) -> None:
        self.before.steps += run.progress.step
        self.before.seconds += run.progress.seconds
        self.before.history += run.progress.history

    def _end(self, run: TaskRun[TaggerTask], *, last: bool) -> TrainEvent:
        """Measure, save the tagger and the result, and drop the state; a stopped run keeps only its state."""
        self._carry(run)
        outcome = {"": "stopped", "done": "all_epochs"}.get(run.progress.outcome, run.progress.outcome)
        good = outcome != "stopped" and (outcome != "not_finite" or run.is_usable)
        usable, tagger = last and good, self.folder / (TAGGER if last else STAGE_TAGGER)
        result = measure_run(run, self.data, outcome=outcome, usable=usable, trouble=self.trouble)
        peak = max(self.before.peak_memory_mb, self.memory.megabytes())
        result = replace(
            result,
            recipe_hash=self.recipe_hash,
            data_hash=self.data_hash,
            encoder_hash=self.encoder_hash,
            sources=source_lines(self.data.sources, self.data.types),
            steps=self.before.steps,
            seconds=self.before.seconds,
            history=tuple(self.before.history),
            stages=tuple(self.before.stages),
            peak_memory_mb=peak,
            notes=(*self.before.notes, f"Peak memory {peak:.0f} MB ({self.memory.of}).", *result.notes),
            checkpoint=str(tagger) if good else None,
        )
        if good:
            save_tagger(tagger, run.task.predictor, run.task.stage.types)
        if usable:
            write_json(self.folder / RESULT, result.to_dict())
            for done_with in (STATE, STAGE_TAGGER):
                shutil.rmtree(self.folder / done_with, ignore_errors=True)
        phase, speed = run.task.stage.phase, run.progress.tokens_per_second
        return TrainEvent(
            self.before.steps,
            result.epochs,
            phase,
            0.0,
            message=result.notes[-1],
            tokens_per_second=speed,
            result=result,
        )

    def _identity(self) -> dict[str, object]:
        return {
            "recipe": self.recipe.to_dict(),
            "recipe_hash": self.recipe_hash,
            "data_hash": self.data_hash,
            "encoder_hash": self.encoder_hash,
            "snapshot": self.data.snapshot,
            "types": list(self.data.types),
        }

    def _check_same(self, saved: Mapping[str, Any]) -> None:
        """Raise CheckpointMismatch if a state or result is another run's; older ones do not name their encoder."""
        for what in _OTHER:
            then, now = str(saved.get(f"{what}_hash") or ""), str(getattr(self, f"{what}_hash"))
            if then != now and (what != "encoder" or (then and now)):
                raise CheckpointMismatch(
                    f"The checkpoint in {self.folder} was made with {_OTHER[what]} ({_short(then)}, not "
                    f"{_short(now)}); give another folder or start without resuming (--afresh)."
                )


_OTHER = {"recipe": "another recipe", "data": "other data", "encoder": "another encoder"}


def _short(fingerprint: str) -> str:
    first, *more = fingerprint.split(" ", 1)
    return " ".join((first[:12], *more))


def _warm_stage(recipe: Recipe, stage: Stage, warm: WarmStart) -> Stage:
    """Return the last stage for starting from an earlier tagger: shorter, and without head-only epochs."""
    if stage.objective is not None and not stage.is_student:
        raise InvalidConfig(f"Setting {recipe.setting!r} has its own teacher and cannot continue from another tagger.")
    if not stage.train:
        raise InvalidConfig(f"Setting {recipe.setting!r} trains on no target sentence: there is nothing to continue.")
    note = f"Continued from an earlier tagger for {warm.epochs} epochs."
    return replace(
        stage, epochs=warm.epochs, head_first_epochs=0, measure_first=True, fresh=False, notes=(*stage.notes, note)
    )
