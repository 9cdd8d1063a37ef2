"""A pre-training run: its task for the engine, and the job around it, from prepared text to the encoder's folder."""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from crossner_core.adaptation.prepared import HELD_OUT, TRAIN, Arrays
from crossner_core.adaptation.pretraining import (
    MEASURES,
    RESULT,
    Events,
    Measured,
    PretrainEvent,
    PretrainResult,
    ShouldStop,
    read_result,
)
from crossner_core.encoders.base import Encoder
from crossner_core.errors import BadInput, CheckpointError, CheckpointMismatch, InvalidConfig
from crossner_core.folders import check_writable, recover_folder, write_json
from crossner_core.options.pretraining import PretrainOptions
from crossner_core.training.checkpoint import META, prefixed, read_folder, read_json, write_folder
from crossner_core.training.engine import Evaluation, Plan, Progress, Report, Task, TaskRun, Work, share
from crossner_core.training.loop import STATE, STEPS_BETWEEN_EVENTS, STOPPED, drive
from crossner_core.training.machine import PeakMemory, RunRandom, fix_workspace, pick_device, use_bf16
from crossner_core.training.processes import present

Write = Callable[[Path, dict[str, Any]], Iterator[int]]

PREPARED = "prepared"
# A killed run loses at most about this much work; if saving is slow, it takes at most a twentieth of the time.
SECONDS_BETWEEN_SAVES = 120.0
SAVING_SHARE = 0.05

# Options that may change when a run with a non-finite loss is resumed: step size and precision.
STEERING = ("learning_rate", "head_learning_rate", "head_first_learning_rate", "clip_norm", "precision")

HEAD_PHASE, WHOLE_PHASE = 0, 1  # the two phases never share an order


class PretrainTask(Task):
    """A pre-training objective; subclasses provide batches, loss and measure."""

    kind: str
    measure_first = True
    head_is_new = True

    def __init__(self, options: PretrainOptions, model: Any, *, keep_best: bool) -> None:
        """Take a model with `encoder` (the body) and `head`."""
        self.options, self.model, self.keep_best = options, model, keep_best
        self.higher_is_better = MEASURES[self.kind][1]
        self.deterministic = options.deterministic

    @property
    def epoch_steps(self) -> int:
        """The steps of one pass."""
        raise NotImplementedError

    def batch(self, phase: int, epoch: int, number: int, parts: int) -> Work:
        """Return a batch in at most `parts` parts; it depends only on the seed and the first three numbers."""
        raise NotImplementedError

    def loss(self, part: Any) -> Tensor:
        """Return a part's contribution to the step's mean loss, a scalar."""
        raise NotImplementedError

    def measure(self) -> float:
        """Measure the model as it is on held-out text."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """Return what the result's provenance records about the corpus and the head."""
        raise NotImplementedError

    @property
    def plan(self) -> Plan:
        options, whole = self.options, self.options.epochs * self.epoch_steps
        return Plan(
            steps=min(whole, options.max_steps) if options.max_steps else whole,
            learning_rate=options.learning_rate,
            head_learning_rate=options.head_learning_rate,
            weight_decay=options.weight_decay,
            warmup_share=options.warmup_share,
            clip_norm=options.clip_norm,
            accumulate=options.accumulate,
            head_steps=options.head_first_steps if self.head_is_new else 0,
            head_rate=options.head_first_learning_rate,
        )

    def position(self, step: int) -> tuple[int, int, int]:
        """Return phase, pass and batch of a step, all from 0."""
        head = self.plan.head_steps
        phase, number = (WHOLE_PHASE, step - head) if step >= head else (HEAD_PHASE, step)
        return (phase, *divmod(number, self.epoch_steps))

    def work(self, step: int, parts: int) -> Work:
        phase, epoch, number = self.position(step)
        made = self.batch(phase, epoch, number, parts)
        return made if phase == WHOLE_PHASE else replace(made, tokens=0)

    def closes(self, step: int) -> bool:
        number = self.whole_steps(step)
        due = number == self.plan.steps or number % (self.options.measure_every or self.epoch_steps) == 0
        return number > 0 and due

    def answers(self, rank: int, size: int) -> float | None:
        """Measure on the first process only."""
        return self.measure() if rank == 0 else None

    def evaluate(self, answers: Sequence[float]) -> Evaluation:
        return Evaluation(answers[0])

    def record(self, step: int, loss: float, value: float | None) -> Measured:
        assert value is not None
        return Measured(self.whole_steps(step), self.epoch(step), loss, value)

    def whole_steps(self, step: int) -> int:
        """Return how many of the first `step` steps trained the whole model."""
        return max(0, step - self.plan.head_steps)

    def epoch(self, step: int) -> int:
        """Return the pass of the preceding step, from 1."""
        return max(1, -(-self.whole_steps(step) // self.epoch_steps))

    def stored(self, progress: Progress) -> dict[str, Any]:
        values = asdict(progress)
        values["head_step"] = min(progress.step, self.plan.head_steps)
        values["step"], values["best_step"] = map(self.whole_steps, (progress.step, progress.best_step))
        values["before"] = values.pop("first")
        if values["before"] is None:  # losses of the head alone are not recorded
            values |= {"loss_sum": 0.0, "loss_count": 0}
        del values["outcome"]
        return values

    def restored(self, values: Mapping[str, Any]) -> Progress:
        made = {name: value for name, value in values.items() if name not in ("head_step", "before")}
        made |= {"first": values["before"], "step": values["head_step"] + values["step"]}
        made["best_step"] = values["best_step"] and values["best_step"] + self.plan.head_steps
        return Progress(**{**made, "history": [Measured(**record) for record in values["history"]]})


MakeTask = Callable[[Encoder, Arrays, Arrays], PretrainTask]


def begin_pretraining(
    options: PretrainOptions, make: MakeTask, encoder: Encoder, prepared: Path
) -> TaskRun[PretrainTask]:
    """Make a new run: a copy of the encoder's body, and a new head.

    `prepared` is the folder of the tokenised text; every process reads it itself.
    """
    device = pick_device(options.device)
    if options.deterministic:
        fix_workspace()
    random = RunRandom(options.seed, device)
    with random.active():
        body = replace(encoder, model=copy.deepcopy(encoder.model))
        task = make(body, Arrays(prepared / TRAIN), Arrays(prepared / HELD_OUT))
    task.model.to(device)
    task.model.use_bf16 = use_bf16(options.precision, device)
    run = TaskRun(task, random)
    if options.recompute:
        body.recompute()
    return run


class PretrainJob:
    """One job: `out` receives the encoder; `work` holds intermediate state and is emptied at the end."""

    def __init__(
        self, kind: str, options: PretrainOptions, out: Path, work: Path, provenance: Mapping[str, Any]
    ) -> None:
        present()  # rejects launched processes that are not joined, before anything is read
        self.kind, self.options, self.out, self.work = kind, options, Path(out), Path(work)
        self.provenance = dict(provenance)
        self.identity: dict[str, Any] = {}  # what identifies the job: if any part differs, it is another job
        self.corpus_hash = ""
        self.steered: list[dict[str, Any]] = []
        self._pause = SECONDS_BETWEEN_SAVES
        if self.out.resolve() == self.work.resolve():
            raise InvalidConfig(f"Encoder and work would share the folder {self.out}; give the work another folder.")
        recover_folder(self.out, to_write=True)
        if self.out.exists() and not (self.out / RESULT).exists() and (self.out.is_file() or any(self.out.iterdir())):
            raise BadInput(f"{self.out} exists and is not an encoder pre-trained here; choose another folder.")

    def run(
        self,
        encoder: Encoder,
        corpus: Mapping[str, Any],
        write: Write,
        make: MakeTask,
        should_stop: ShouldStop,
        *,
        resume: bool,
    ) -> Events:
        """Run from the text to the encoder's folder; `corpus` identifies the text along with its provenance."""
        if not resume:
            self.forget()
        self.identity = {
            "kind": self.kind,
            "options": self.options.hash,
            "encoder": encoder.fingerprint,
            "corpus": {"named": self.provenance.get("corpus"), **corpus},
        }
        if resume and (done := self.finished()) is not None:
            yield done
            return
        for event in self.prepare(write, should_stop):
            yield event
            if event.outcome:
                return
        yield from self.go(encoder, make, should_stop)

    def forget(self) -> None:
        """Remove what an earlier run left in the work folder; its encoder stays until it is replaced."""
        for name in (STATE, PREPARED):
            shutil.rmtree(self.work / name, ignore_errors=True)

    def finished(self) -> PretrainEvent | None:
        """Return the last event of a job that already finished here; raise CheckpointMismatch if it was another one.

        A job started since to replace it is resumed.
        """
        if not (self.out / RESULT).exists():
            return None
        begun = self.work / STATE / META
        if begun.exists() and read_json(begun).get("identity") == self.identity:
            return None
        self._check_same(self.out)
        result = read_result(self.out)
        message = "This pre-training has already finished."
        return PretrainEvent(result.steps, result.epochs, 0.0, result.after, message, 0.0, result, "done")

    def prepare(self, write: Write, should_stop: ShouldStop) -> Events:
        """Tokenise the corpus unless an earlier run did; the last event is "stopped" on a stop.

        `write(folder, meta)` writes and yields the number of subwords (or characters) so far. If stopped halfway, it
        starts over.
        """
        recover_folder(self.work / STATE, to_write=True)
        if (self.work / STATE).exists():
            self._check_same(self.work / STATE, may_steer=True)
        check_writable(self.work)
        check_writable(self.out.parent)
        folder = self.work / PREPARED
        if (folder / TRAIN / META).exists() and read_json(folder / TRAIN / META).get("identity") == self.identity:
            return
        count, unit = 0, MEASURES[self.kind][2]
        for count in write(folder, {"identity": self.identity}):
            if should_stop():
                yield PretrainEvent(0, 0, 0.0, message="Stopped while the text was prepared.", outcome="stopped")
                return
            yield PretrainEvent(0, 0, 0.0, message=f"Text prepared: {count:,} {unit} so far.")
        yield PretrainEvent(0, 0, 0.0, message=f"Text prepared: {count:,} {unit} to train on.")

    def go(self, encoder: Encoder, make: MakeTask, should_stop: ShouldStop) -> Events:
        """Train from the saved state; the last event carries the result."""
        folder = self.work / PREPARED
        held_out_hash = Arrays(folder / HELD_OUT).hash
        self.corpus_hash = Arrays(folder / TRAIN).hash
        self._peak = PeakMemory(pick_device(self.options.device))
        run = begin_pretraining(self.options, make, encoder, folder)
        if (self.work / STATE).exists():
            yield self._resume(run)
        self._share(run, make, encoder)
        if (yield from self._drive(run, should_stop)):
            run.restore_best()
            refit = None
            if self.options.refit_head and run.plan.head_steps:
                self._save(run)  # if stopped from here on, it resumes with the fresh head
                refit = yield from self._refit(run, make, encoder, should_stop)
                if refit is None:
                    return
            hashes = {"corpus_hash": self.corpus_hash, "held_out_hash": held_out_hash}
            result = self._keep(run, encoder, hashes, refit=refit)
            self.forget()
            name = MEASURES[self.kind][0]
            words = f"Done: held-out {name} {result.before:.4g} before, {result.after:.4g} after"
            words += f", {result.refit:.4g} through a fresh head." if result.refit is not None else "."
            yield replace(self._event(run, 0.0, result.after, words), result=result, outcome="done")

    def _resume(self, run: TaskRun[PretrainTask]) -> PretrainEvent:
        """Restore the saved state; raise CheckpointMismatch if it was made with another text."""
        meta, tensors = read_folder(self.work / STATE)
        if meta["corpus_hash"] != self.corpus_hash:
            raise CheckpointMismatch(
                f"{self.work / STATE} was made with another corpus; give another folder or start without resuming "
                "(--fresh)."
            )
        run.restore(meta, tensors)
        step = run.task.whole_steps(run.progress.step)
        self.steered = list(meta.get("steered", ()))
        words = ""
        if changed := self._steered_from(meta):
            self.steered.append({"after_step": step, "changed": changed})
            words = "".join(f" {name} is {now} now, {then} before." for name, (then, now) in changed.items())
        return self._event(run, 0.0, message=f"Resumed after step {step}.{words}")

    def _share(self, run: TaskRun[PretrainTask], make: MakeTask, encoder: Encoder) -> None:
        if run.processes.size > 1:
            whole = replace(encoder, model=copy.deepcopy(encoder.model).cpu())
            share(run, partial(begin_pretraining, self.options, make, whole, (self.work / PREPARED).resolve()))

    def _drive(self, run: TaskRun[PretrainTask], should_stop: ShouldStop) -> Generator[PretrainEvent, None, bool]:
        """Turn a run's reports into events; save periodically, on a stop and when the loss is not finite.

        Returns whether the run completed.
        """
        for report, stopped in drive(run, should_stop, partial(self._save, run), lambda: self._pause):
            event = self._reported(run, report)
            if run.progress.outcome == "not_finite":
                yield self._broken(run, event)
                return False
            if stopped:
                yield replace(event, message=STOPPED, outcome="stopped")
                return False
            if event.measured is not None or run.progress.step % STEPS_BETWEEN_EVENTS == 0:
                yield event
        return True

    def _refit(
        self, run: TaskRun[PretrainTask], make: MakeTask, encoder: Encoder, should_stop: ShouldStop
    ) -> Generator[PretrainEvent, None, float | None]:
        """Train a fresh head alone on the current encoder, and measure; the encoder is not changed.

        Returns None if it ended before the measurement.
        """
        now = replace(encoder, model=run.task.model.encoder)
        fresh = begin_pretraining(self.options, make, now, self.work / PREPARED)
        self._share(fresh, make, now)
        for report in fresh.run():
            if fresh.progress.outcome == "not_finite":
                yield self._broken(run, self._reported(fresh, report))
                return None
            if report.value is not None:
                words = f"Through a fresh head: held-out {self._words(report.value)}."
                yield self._event(run, 0.0, report.value, words)
                return report.value
            if should_stop():
                yield replace(self._event(run, 0.0), message=STOPPED, outcome="stopped")
                return None
            if fresh.progress.step % STEPS_BETWEEN_EVENTS == 0:
                yield self._event(run, 0.0, message=f"A fresh head learns: step {fresh.progress.step}.")
        return None

    def _reported(self, run: TaskRun[PretrainTask], report: Report) -> PretrainEvent:
        """Return a report as an event."""
        progress, message = run.progress, ""
        if progress.outcome == "not_finite":
            message = _why_not_finite(run, report.loss)
        elif report.value is not None and not report.closes:
            message = f"Before: held-out {self._words(report.value)}."
        elif report.value is not None:
            step = run.task.whole_steps(progress.step)
            message = f"Held-out {self._words(report.value)} after step {step}."
        elif progress.first is None:
            message = f"The head learns alone: step {progress.step} of {run.plan.head_steps}."
        return self._event(run, report.loss, report.value, message)

    def _event(
        self, run: TaskRun[PretrainTask], loss: float, measured: float | None = None, message: str = ""
    ) -> PretrainEvent:
        """Return an event for the current step."""
        task, step, speed = run.task, run.progress.step, run.progress.tokens_per_second
        whole = task.whole_steps(step)
        return PretrainEvent(whole, task.epoch(step), loss, measured, message, speed, total=run.plan.steps)

    def _words(self, value: float) -> str:
        name = MEASURES[self.kind][0]
        return f"F1 {100 * value:.2f}" if name == "f1" else f"{name} {value:.2f}"

    def _save(self, run: TaskRun[PretrainTask], *, broken: bool = False) -> None:
        began = time.monotonic()
        meta = {
            "identity": self.identity,
            "corpus_hash": self.corpus_hash,
            "progress": run.meta()["progress"],
            "options": self.options.to_dict(),
            "steered": self.steered,
            "broken": broken,
        }
        write_folder(self.work / STATE, meta, run.tensors())
        self._pause = max(SECONDS_BETWEEN_SAVES, (time.monotonic() - began) / SAVING_SHARE)

    def _broken(self, run: TaskRun[PretrainTask], event: PretrainEvent) -> PretrainEvent:
        """Save the preceding step's weights if they are finite, else keep the last save; name it in the message."""
        state = self.work / STATE
        if run.is_sound():
            self._save(run, broken=True)
        elif state.exists():
            write_json(state / META, {**read_json(state / META), "broken": True})
        where = f" The weights before it are kept in {state}." if state.exists() else " Nothing was kept."
        return replace(event, message=event.message + where, outcome="not_finite")

    def _keep(
        self, run: TaskRun[PretrainTask], encoder: Encoder, hashes: Mapping[str, str], *, refit: float | None
    ) -> PretrainResult:
        """Write the encoder's folder: config, tokenizer, weights, the head beside them, and the result."""
        progress, task, model = run.progress, run.task, run.task.model
        assert progress.first is not None
        if self.options.recompute:
            model.encoder.activation_checkpointing_disable()
        made, steps = replace(encoder, model=model.encoder), task.whole_steps(progress.step)
        best = progress.best if run.best is not None else None
        provenance = {
            **self.provenance,
            "base": {"name": encoder.name, "fingerprint": encoder.fingerprint},
            "fingerprint": made.measure_fingerprint(),
            "options": self.options.to_dict(),
            "processes": run.processes.size,
            "head_first_steps": min(progress.step, run.plan.head_steps),
            "kept_step": steps if best is None else task.whole_steps(progress.best_step),
            **({"steered": self.steered} if self.steered else {}),
            **hashes,
            **task.about(),
        }
        result = PretrainResult(
            kind=self.kind,
            encoder=str(self.out),
            before=progress.first,
            after=progress.history[-1].value if best is None else best,
            measure=MEASURES[self.kind][0],
            steps=steps,
            epochs=-(-steps // task.epoch_steps),
            tokens=progress.tokens,
            seconds=progress.seconds,
            refit=refit,
            peak_memory_mb=self._peak.megabytes(),
            provenance=provenance,
            history=tuple(progress.history),
        )

        def add_files(beside: Path) -> None:
            made.save(beside)
            write_json(beside / RESULT, result.to_dict())

        write_folder(self.out, {"identity": self.identity}, prefixed("head", model.head.state_dict()), add_files)
        return result

    def _check_same(self, folder: Path, *, may_steer: bool = False) -> None:
        meta = read_json(folder / META)
        identity = meta.get("identity")
        if not isinstance(identity, dict):
            raise CheckpointError(f"{folder} does not record what it was made with; choose another folder.")
        other = sorted(name for name in self.identity if identity.get(name) != self.identity[name])
        if other == ["options"] and may_steer and self._steered_from(meta):
            return
        if other:
            raise CheckpointMismatch(
                f"{folder} was made with another {' and another '.join(other)}; give another folder or start without "
                "resuming (--fresh)."
            )

    def _steered_from(self, meta: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the options, before and now, that a broken run is resumed with; none if any other option differs."""
        then, now = meta.get("options"), self.options.to_dict()
        if not meta.get("broken") or not isinstance(then, dict):
            return {}
        changed = {name: [then.get(name), now[name]] for name in now if then.get(name) != now[name]}
        return changed if changed.keys() <= set(STEERING) else {}


def _why_not_finite(run: TaskRun[PretrainTask], loss: float) -> str:
    step = run.progress.step
    phase, epoch, batch = run.task.position(step)
    number = f"{step + 1} of the head alone" if phase == HEAD_PHASE else str(run.task.whole_steps(step) + 1)
    return (
        f"Stopped: the loss is {loss} at step {number} (epoch {epoch + 1}, batch {batch + 1}). Lower the "
        "learning rate, clip_norm or use precision fp32."
    )
