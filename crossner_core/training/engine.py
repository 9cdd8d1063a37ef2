"""One optimisation over any task: steps, parts of a batch, processes, rates, what is kept, what a resume needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from crossner_core.evaluation.scores import Scores
from crossner_core.training.checkpoint import on_cpu, optimizer_tensors, prefixed, restore_optimizer, within
from crossner_core.training.machine import RunRandom
from crossner_core.training.optim import hold_rate, make_optimizer, set_rate
from crossner_core.training.processes import ALONE, LEAVE, SCORE, STEP, Processes, present

OUTCOMES = ("done", "early_stop", "not_finite")


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps and rates of a run; of its steps, `head_steps` come first, in which the head alone learns.

    `steps` are those of the whole model; warm-up and fall of the rate are over these alone.
    """

    steps: int
    learning_rate: float
    head_learning_rate: float
    weight_decay: float
    warmup_share: float
    clip_norm: float
    accumulate: int
    layer_decay: float = 1.0
    schedule: str = "linear"
    head_steps: int = 0
    head_rate: float = 0.0

    @property
    def all_steps(self) -> int:
        """The steps of the head alone and of the whole model together."""
        return self.head_steps + self.steps


@dataclass(frozen=True, slots=True)
class Work:
    """One step's batch in parts, computed one after the other or by several processes.

    `tokens` are those of the batch that count for speed; 0 where the step itself does not.
    """

    parts: Sequence[Any]
    tokens: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a model came to on held-out data: the measure it is chosen by, and the scores behind it where there are."""

    value: float
    scores: Scores | None = None


@dataclass
class Progress:
    """How far a run has come; `step` counts the head's own steps too, and names the next batch.

    `first` was measured before the whole model learnt; `best_step` is the step after which `best` was measured.
    Times are in seconds of computing, `learning_seconds` those of the steps whose `tokens` count.
    """

    step: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    first: float | None = None
    best: float | None = None
    best_step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    learning_seconds: float = 0.0
    outcome: str = ""
    history: list[Any] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """Speed of learning; time for measures is left out."""
        return self.tokens / self.learning_seconds if self.learning_seconds else 0.0


class Task(Protocol):
    """What a run optimises; whoever subclasses this has the defaults of what most tasks do not need.

    All that a task draws must follow from its own seeds and the number of the step, so that a resumed run draws the
    same.
    """

    model: Any
    """An nn.Module whose body is its `encoder`."""
    higher_is_better: bool = True
    keep_best: bool = True
    in_parts: bool = True
    """Whether a batch may be cut into parts, for memory or for other processes."""
    measure_first: bool = False
    """Whether the model is measured before it learns as a whole."""
    first_counts: bool = False
    """Whether what is measured first can be the best."""

    @property
    def plan(self) -> Plan:
        """Steps and rates."""
        ...

    def work(self, step: int, parts: int) -> Work:
        """Return the batch of a step, from 0, in at most so many parts."""
        ...

    def loss(self, part: Any) -> Tensor:
        """Return a part's contribution to the step's mean loss, a scalar."""
        ...

    def after_step(self) -> None:
        """Do what follows each step of the optimizer."""
        return None

    def closes(self, step: int) -> bool:
        """Return whether a record of the losses is made after so many steps."""
        ...

    def measures(self, step: int) -> bool:
        """Return whether such a record has a measure, too."""
        return True

    def answers(self, rank: int, size: int) -> Any:
        """Return what a rank of so many contributes to a measure of the model as it is; called in evaluation."""
        ...

    def evaluate(self, answers: Sequence[Any]) -> Evaluation:
        """Make one measure of what the processes contributed, in the order of their ranks."""
        ...

    def record(self, step: int, loss: float, value: float | None) -> Any:
        """Return the record of a mean loss and a measure, if there is one."""
        ...

    def is_stale(self, progress: Progress) -> bool:
        """Return whether the run should stop early, called after each measure."""
        return False

    def state(self) -> dict[str, Tensor]:
        """Return what changes from step to step apart from the model."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        return None

    def stored(self, progress: Progress) -> dict[str, Any]:
        """Return the progress as plain values, as states on disk have it."""
        ...

    def restored(self, values: Mapping[str, Any]) -> Progress:
        """Build the progress from what `stored` gave."""
        ...


@dataclass(frozen=True, slots=True)
class Report:
    """What happened in a step; `loss` is a mean over a record's steps where `closes`, else the step's own."""

    loss: float
    value: float | None = None
    is_best: bool = False
    closes: bool = False


T = TypeVar("T", bound=Task)


class TaskRun(Generic[T]):
    """The state of one optimisation; `run()` yields after each step, and between two yields all of it can be saved."""

    def __init__(self, task: T, random: RunRandom) -> None:
        self.task, self.plan, self.random = task, task.plan, random
        self.model: Any = task.model
        self.names: dict[Tensor, str] = {value: name for name, value in self.model.named_parameters()}
        self.optimizer = make_optimizer(
            self.model,
            learning_rate=self.plan.learning_rate,
            head_learning_rate=self.plan.head_learning_rate,
            weight_decay=self.plan.weight_decay,
            layer_decay=self.plan.layer_decay,
        )
        self.processes = present() if task.in_parts else ALONE
        self.progress = Progress()
        self.best: dict[str, Tensor] | None = None
        self.best_scores: Scores | None = None

    def run(self) -> Iterator[Report]:
        """Go from `progress` to the end; `progress.outcome` is one of OUTCOMES then."""
        try:
            yield from self._steps()
        finally:
            self.processes.broadcast(LEAVE)

    def _steps(self) -> Iterator[Report]:
        progress = self.progress
        while not progress.outcome:
            if self.task.measure_first and progress.step == self.plan.head_steps and progress.first is None:
                yield from self._measure_first()
            if progress.step >= self.plan.all_steps:
                progress.outcome = "done"
                return
            loss = self.step()
            if not math.isfinite(loss):
                progress.outcome = "not_finite"
                yield Report(loss)
                return
            progress.step += 1
            progress.loss_sum, progress.loss_count = progress.loss_sum + loss, progress.loss_count + 1
            yield self._close() if self.task.closes(progress.step) else Report(loss)

    def _measure_first(self) -> Iterator[Report]:
        """Measure the model as it comes; losses of the head alone are in no record."""
        evaluation = self.evaluate()
        self.progress.first = evaluation.value
        self.progress.loss_sum, self.progress.loss_count = 0.0, 0
        if self.task.first_counts:
            self._keep(evaluation)
        else:
            yield Report(0.0, evaluation.value)

    def _close(self) -> Report:
        progress = self.progress
        loss, value, is_best = progress.loss_sum / progress.loss_count, None, False
        progress.loss_sum, progress.loss_count = 0.0, 0
        if self.task.measures(progress.step):
            evaluation = self.evaluate()
            value, is_best = evaluation.value, self._is_better(evaluation.value)
            if is_best:
                self._keep(evaluation)
        progress.history.append(self.task.record(progress.step, loss, value))
        if progress.step >= self.plan.all_steps:
            progress.outcome = "done"
        elif value is not None and self.task.is_stale(progress):
            progress.outcome = "early_stop"
        return Report(loss, value, is_best, closes=True)

    def _is_better(self, value: float) -> bool:
        """Compare with the best so far; a measure that is no number is never better than anything."""
        best = self.progress.best
        better = best is None or (value > best if self.task.higher_is_better else value < best)
        return better and math.isfinite(value)

    def _keep(self, evaluation: Evaluation) -> None:
        """Keep the weights as they are as the best so far."""
        self.progress.best, self.progress.best_step, self.best_scores = (
            evaluation.value,
            self.progress.step,
            evaluation.scores,
        )
        if self.task.keep_best:
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def step(self) -> float:
        """Learn from the next batch, with the other processes where there are some; return its loss.

        Where that is not finite, the random state is that before the step, as the weights are.
        """
        began, state, before = time.perf_counter(), self.random.state, self.progress.tokens
        seed = self.random.draw_seed() if self.parts > 1 else 0
        self.processes.broadcast(STEP, self.progress.step, seed)
        self.processes.broken = self.processes.size > 1
        loss = self.learn(self.progress.step, seed)
        self.processes.broken = False
        took = time.perf_counter() - began
        self.progress.seconds += took
        if not math.isfinite(loss):
            self.random.state = state
        elif self.progress.tokens > before:
            self.progress.learning_seconds += took
        return loss

    def learn(self, step: int, seed: int) -> float:
        """Make one step of the optimizer, unless loss or gradient is not finite; return the loss of the whole batch."""
        self._set_rate(step)
        self.model.train()
        work = self.task.work(step, self.parts)
        loss = self.processes.all_reduce(self.model.parameters(), self._gradients(work, seed))
        if math.isfinite(loss):
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.clip_norm)
            if bool(torch.isfinite(norm)):
                self.optimizer.step()
                self.task.after_step()
                self.progress.tokens += work.tokens
            else:
                loss = float("nan")
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    @property
    def parts(self) -> int:
        """Into how many parts a batch is cut: those of one process times the processes."""
        return self.plan.accumulate * self.processes.size if self.task.in_parts else 1

    def _gradients(self, work: Work, seed: int) -> float:
        """Sum the gradients of this process's parts; return their sum of the loss.

        Each part draws dropout from a seed of its own: the same whichever process computes it.
        """
        total, accumulate = 0.0, self.plan.accumulate if self.task.in_parts else 1
        first = self.processes.rank * accumulate
        for number in range(first, min(first + accumulate, len(work.parts))):
            with self.random.active() if self.parts == 1 else self.random.seeded((seed + number) % 2**62):
                loss = self.task.loss(work.parts[number])
            total += float(loss.item())
            if not math.isfinite(total):
                break
            loss.backward()
        return total

    def _set_rate(self, step: int) -> None:
        """Set the rates of a step; while the head alone learns, the encoder gets no gradient at all."""
        plan = self.plan
        self.model.encoder.requires_grad_(step >= plan.head_steps)
        if step < plan.head_steps:
            hold_rate(self.optimizer, plan.head_rate)
        else:
            set_rate(self.optimizer, step - plan.head_steps, plan.steps, plan.warmup_share, plan.schedule)

    def evaluate(self) -> Evaluation:
        """Measure the model as it is, with the other processes where there are some."""
        began, training = time.perf_counter(), self.model.training
        self.processes.broadcast(SCORE)
        self.model.eval()
        with torch.inference_mode():
            evaluation = self.task.evaluate(
                self.processes.gather(self.task.answers(self.processes.rank, self.processes.size))
            )
        self.model.train(training)
        self.progress.seconds += time.perf_counter() - began
        return evaluation

    def is_sound(self) -> bool:
        """Return whether all weights are finite numbers."""
        return all(bool(parameter.isfinite().all()) for parameter in self.model.parameters())

    @property
    def is_usable(self) -> bool:
        """Whether there are weights to keep if it ends now: the best ones, or finite ones that learned."""
        return self.best is not None or (self.progress.step > 0 and self.is_sound())

    def restore_best(self) -> None:
        """Put the best weights into the model, if some were kept."""
        if self.best is not None:
            self.model.load_state_dict(self.best)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything but `progress` and `best_scores` that a resume needs."""
        saved = prefixed("model", self.model.state_dict()) | prefixed("random", self.random.state)
        saved |= prefixed("optimizer", optimizer_tensors(self.optimizer, self.names))
        saved |= prefixed("objective", self.task.state())
        return saved | (prefixed("best", self.best) if self.best is not None else {})

    def meta(self) -> dict[str, Any]:
        """Return `progress` and `best_scores` as plain values."""
        scores = self.best_scores.to_dict() if self.best_scores else None
        return {"progress": self.task.stored(self.progress), "best_scores": scores}

    def restore(self, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Put back what `meta` and `tensors` gave; raise CheckpointError where it does not fit."""
        self.progress = self.task.restored(meta["progress"])
        self.best_scores = Scores.from_dict(meta["best_scores"]) if meta.get("best_scores") else None
        self.model.load_state_dict(within("model", tensors))
        self.random.state = within("random", tensors)
        restore_optimizer(self.optimizer, self.names, within("optimizer", tensors))
        self.task.load_state(within("objective", tensors))
        self.best = within("best", tensors) or None


@dataclass(frozen=True)
class SharedRun:
    """All that another process needs to compute as the first one does; tensors are on the CPU."""

    begin: Callable[[], TaskRun[Any]]
    weights: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]

    def take_part(self, here: Processes) -> None:
        """Compute this process's part of each step and measure until rank 0 ends the run."""
        run = self.begin()
        run.model.load_state_dict(dict(self.weights))
        restore_optimizer(run.optimizer, run.names, self.moments)
        while (order := here.receive())[0] != LEAVE:
            if order[0] == STEP:
                run.learn(order[1], order[2])
            elif order[0] == SCORE:
                run.model.eval()
                with torch.inference_mode():
                    here.gather(run.task.answers(here.rank, here.size))


def share(run: TaskRun[Any], begin: Callable[[], TaskRun[Any]]) -> None:
    """Send a run as it stands, begun or resumed, to the processes that will compute with it.

    `begin` makes the run at its beginning; it is sent with all it holds, which must be on the CPU.
    """
    if run.processes.size > 1:
        moments = optimizer_tensors(run.optimizer, run.names)
        run.processes.broadcast_object(SharedRun(begin, on_cpu(run.model.state_dict()), on_cpu(moments)))
