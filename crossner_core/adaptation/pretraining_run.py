"""The steps of a pre-training: the new head alone, a measure, then the whole model with measures on held-out text."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from crossner_core.adaptation.pretraining import MEASURES, Measured, PretrainEvent
from crossner_core.encoders import recompute_activations
from crossner_core.options.pretraining import PretrainOptions
from crossner_core.training.checkpoint import optimizer_tensors, prefixed, restore_optimizer, within
from crossner_core.training.optim import hold_rate, make_optimizer, set_rate
from crossner_core.training.precision import RunRandom
from crossner_core.training.processes import LEAVE, STEP, present

HEAD_PHASE, WHOLE_PHASE = 0, 1  # passes of the one are never in the order of the other


@dataclass(frozen=True, slots=True)
class Work:
    """One step's batch in parts, computed one after the other or by several processes; `tokens` are its subwords."""

    parts: Sequence[Any]
    tokens: int


class Task(Protocol):
    """What an encoder is pre-trained for: its model, its batches, its loss and its measure."""

    kind: str
    model: Any  # an nn.Module with `encoder` (the body) and `head`
    tokenizer: Any
    head_is_new: bool
    keep_best: bool

    @property
    def epoch_steps(self) -> int:
        """The steps of one pass."""
        ...

    def work(self, phase: int, epoch: int, batch: int, parts: int) -> Work:
        """Return a batch, in so many parts at most; it follows from the seed and the first three numbers alone."""
        ...

    def loss(self, part: Any) -> Tensor:
        """Return a part's share of the step's mean loss, a scalar."""
        ...

    def measure(self) -> float:
        """Measure the model as it is on held-out text."""
        ...

    def about(self) -> dict[str, Any]:
        """Return what the result's provenance should say of the corpus and the head."""
        ...


@dataclass
class Progress:
    """How far a run has come; which batch is next follows from the two counts of steps."""

    head_step: int = 0
    step: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    before: float | None = None
    best: float | None = None
    best_step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    learning_seconds: float = 0.0
    history: list[Measured] = field(default_factory=list)


class PretrainRun:
    """The state of a run; `run()` yields after each step, and between two yields everything can be saved."""

    def __init__(self, task: Task, options: PretrainOptions, random: RunRandom) -> None:
        self.task, self.options, self.random = task, options, random
        self.model: nn.Module = task.model
        self.names: dict[Tensor, str] = {value: name for name, value in self.model.named_parameters()}
        self.optimizer = make_optimizer(
            self.model,
            learning_rate=options.learning_rate,
            head_learning_rate=options.head_learning_rate,
            weight_decay=options.weight_decay,
            layer_decay=1.0,
        )
        self.processes = present()
        self.progress = Progress()
        self.best: dict[str, Tensor] | None = None
        self.outcome = ""
        self.head_steps = options.head_first_steps if task.head_is_new else 0
        self.epoch_steps = task.epoch_steps
        whole = options.epochs * self.epoch_steps
        self.total = min(whole, options.max_steps) if options.max_steps else whole
        if options.recompute:
            recompute_activations(task.model.encoder, options.encoder)

    def run(self) -> Iterator[PretrainEvent]:
        """Go on from `progress` to the end; `outcome` is "done" or "not_finite" then."""
        try:
            yield from self._steps()
        finally:
            self.processes.tell(LEAVE)

    def _steps(self) -> Iterator[PretrainEvent]:
        progress = self.progress
        while progress.head_step < self.head_steps:
            loss = self._timed_step(HEAD_PHASE, progress.head_step)
            if not math.isfinite(loss):
                yield self._not_finite(loss)
                return
            progress.head_step += 1
            yield self.event(loss)
        if progress.before is None:
            progress.before = self._measure()
            yield self.event(0.0, progress.before, message=f"Before: held-out {self._said(progress.before)}.")
        while progress.step < self.total:
            loss = self._timed_step(WHOLE_PHASE, progress.step)
            if not math.isfinite(loss):
                yield self._not_finite(loss)
                return
            progress.step += 1
            progress.loss_sum, progress.loss_count = progress.loss_sum + loss, progress.loss_count + 1
            yield self._record(loss) if self._is_due() else self.event(loss)
        self.outcome = "done"

    @property
    def after(self) -> float:
        """What was measured of the weights that are kept."""
        last = self.progress.history[-1].value
        return self.progress.best if self.best is not None and self.progress.best is not None else last

    def restore_best(self) -> None:
        """Put the best weights into the model, if they are to be kept."""
        if self.best is not None:
            self.model.load_state_dict(self.best)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything but `progress` that going on needs."""
        saved = prefixed("model", self.model.state_dict()) | prefixed("random", self.random.state)
        saved |= prefixed("optimizer", optimizer_tensors(self.optimizer, self.names))
        return saved | (prefixed("best", self.best) if self.best is not None else {})

    def restore(self, progress: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Put back a saved `progress` and what `tensors` gave."""
        history = [Measured(**one) for one in progress["history"]]
        self.progress = Progress(**{**progress, "history": history})
        self.model.load_state_dict(within("model", tensors))
        self.random.state = within("random", tensors)
        restore_optimizer(self.optimizer, self.names, within("optimizer", tensors))
        self.best = within("best", tensors) or None

    def is_sound(self) -> bool:
        """Tell whether all weights are finite numbers."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.model.parameters())

    def plain_progress(self) -> dict[str, Any]:
        """Return `progress` as plain values."""
        return asdict(self.progress)

    def event(self, loss: float, measured: float | None = None, message: str = "") -> PretrainEvent:
        """Report the present step."""
        progress = self.progress
        speed = progress.tokens / progress.learning_seconds if progress.learning_seconds else 0.0
        if not message and progress.before is None:
            message = f"The head learns alone: step {progress.head_step} of {self.head_steps}."
        return PretrainEvent(progress.step, self._epoch(), loss, measured, message, speed, total=self.total)

    def _epoch(self) -> int:
        return max(1, -(-self.progress.step // self.epoch_steps))

    def _is_due(self) -> bool:
        step = self.progress.step
        return step == self.total or step % (self.options.measure_every or self.epoch_steps) == 0

    def _timed_step(self, phase: int, number: int) -> float:
        """Learn from a batch, with the helpers where there are some; return its loss."""
        began, state = time.perf_counter(), self.random.state
        seed = self.random.draw_seed() if self._parts > 1 else 0
        self.processes.tell(STEP, phase, number, seed)
        self.processes.broken = self.processes.size > 1
        loss, tokens = self.learn(phase, number, seed)
        self.processes.broken = False
        took = time.perf_counter() - began
        self.progress.seconds += took
        if not math.isfinite(loss):
            self.random.state = state  # so that what is saved is the state before this step
        elif phase == WHOLE_PHASE:
            self.progress.learning_seconds += took
            self.progress.tokens += tokens
        return loss

    def learn(self, phase: int, number: int, seed: int) -> tuple[float, int]:
        """Make one step, unless the loss is no number; return the loss of the whole batch and its subwords."""
        self._set_rate(phase, number)
        self.model.train()
        work = self.task.work(phase, *divmod(number, self.epoch_steps), self._parts)
        value = self.processes.add_up(self.model.parameters(), self._gradients(work, seed))
        if math.isfinite(value):
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
            if bool(torch.isfinite(norm)):
                self.optimizer.step()
            else:
                value = float("nan")
        self.optimizer.zero_grad(set_to_none=True)
        return value, work.tokens

    @property
    def _parts(self) -> int:
        """Into how many parts a batch is cut: those of one process times the processes."""
        return self.options.accumulate * self.processes.size

    def _gradients(self, work: Work, seed: int) -> float:
        """Add up the gradients of this process's parts; return their share of the loss.

        Each part draws dropout from a seed of its own: the same whichever process computes it.
        """
        value, first = 0.0, self.processes.rank * self.options.accumulate
        for number in range(first, min(first + self.options.accumulate, len(work.parts))):
            with self.random.active() if self._parts == 1 else self.random.seeded((seed + number) % 2**62):
                loss = self.task.loss(work.parts[number])
            value += float(loss.item())
            if not math.isfinite(value):
                break
            loss.backward()
        return value

    def _set_rate(self, phase: int, step: int) -> None:
        """Set the rates of the next step; while the head alone learns, the encoder gets no gradient at all."""
        self.task.model.encoder.requires_grad_(phase == WHOLE_PHASE)
        if phase == HEAD_PHASE:
            hold_rate(self.optimizer, self.options.head_first_learning_rate)
        else:
            set_rate(self.optimizer, step, self.total, self.options.warmup_share)

    def _measure(self) -> float:
        began = time.perf_counter()
        training = self.model.training
        self.model.eval()
        with torch.inference_mode():
            value = self.task.measure()
        self.model.train(training)
        self.progress.seconds += time.perf_counter() - began
        return value

    def _record(self, loss: float) -> PretrainEvent:
        progress, value = self.progress, self._measure()
        mean = progress.loss_sum / progress.loss_count
        progress.history.append(Measured(progress.step, self._epoch(), mean, value))
        progress.loss_sum, progress.loss_count = 0.0, 0
        higher = MEASURES[self.task.kind][1]
        # A measure that is not a number is never better than anything.
        better = progress.best is None or (value > progress.best if higher else value < progress.best)
        if better and math.isfinite(value):
            progress.best, progress.best_step = value, progress.step
            if self.task.keep_best:
                self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        return self.event(mean, value, message=f"Held-out {self._said(value)} after step {progress.step}.")

    def _said(self, value: float) -> str:
        name = MEASURES[self.task.kind][0]
        return f"F1 {100 * value:.2f}" if name == "f1" else f"{name} {value:.2f}"

    def _not_finite(self, loss: float) -> PretrainEvent:
        self.outcome = "not_finite"
        progress = self.progress
        alone = progress.before is None
        epoch, batch = divmod(progress.head_step if alone else progress.step, self.epoch_steps)
        number = f"{progress.head_step + 1} of the head alone" if alone else str(progress.step + 1)
        return self.event(
            loss,
            message=f"Stopped: the loss is {loss} at step {number} (epoch {epoch + 1}, batch {batch + 1}). Lower the "
            "learning rate, clip_norm or use precision fp32.",
        )
