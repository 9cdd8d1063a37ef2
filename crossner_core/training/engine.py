"""One optimisation of any task: steps, batch parts, processes, AdamW and its rates, best weights, state to resume."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from crossner_core.errors import CheckpointError
from crossner_core.evaluation.scores import Scores
from crossner_core.training.checkpoint import on_cpu, optimizer_tensors, prefixed, restore_optimizer, within
from crossner_core.training.machine import RunRandom, deterministic
from crossner_core.training.processes import ALONE, LEAVE, SCORE, STEP, Processes, present

_LAYER = re.compile(r"^encoder\.(?:.*\.)?layers?\.(\d+)\.")


def make_optimizer(
    model: nn.Module, *, learning_rate: float, head_learning_rate: float, weight_decay: float, layer_decay: float
) -> torch.optim.AdamW:
    """Return AdamW whose groups differ in peak rate (`peak`) and in weight decay (none on biases and norms).

    Parameters under `encoder` have the first rate, all others the head's, scaled by the model's `rate_scales`.
    """
    depth = 1 + max((_layer(name) for name, _ in model.named_parameters()), default=0)
    scales: Mapping[str, float] = getattr(model, "rate_scales", {})
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if name.startswith("encoder."):
            peak = learning_rate * layer_decay ** (depth - 1 - _layer(name))
        else:
            peak = head_learning_rate * scales.get(name, 1.0)
        decay = 0.0 if parameter.dim() < 2 or name in scales else weight_decay
        groups.setdefault((peak, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": params, "lr": peak, "peak": peak, "weight_decay": decay}
            for (peak, decay), params in groups.items()
        ],
        fused=True,
    )


def set_rate(
    optimizer: torch.optim.AdamW, step: int, total: int, warmup_share: float, schedule: str = "linear"
) -> None:
    """Set each group's rate for `step` (0-based) of `total`: linear warm-up, then linear decay to zero, or constant."""
    factor = rate_factor(step, total, warmup_share, schedule)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor


def hold_rate(optimizer: torch.optim.AdamW, rate: float) -> None:
    """Set the same constant rate for all groups, ignoring the model's `rate_scales`: only the head is trained."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def rate_factor(step: int, total: int, warmup_share: float, schedule: str = "linear") -> float:
    """Return the share of the peak rate at a step, in (0, 1]."""
    warmup = int(total * warmup_share)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    return max(total - step, 1) / max(total - warmup, 1)


def _read(scalars: Sequence[Tensor]) -> list[float]:
    """Return the values of scalars, for which the host waits for the device once."""
    return torch.stack([each.double().to(scalars[0].device) for each in scalars]).tolist() if scalars else []


def _total(losses: Sequence[float]) -> float:
    """Return the sum of losses up to the first that is not finite."""
    total = 0.0
    for loss in losses:
        total += loss
        if not math.isfinite(total):
            break
    return total


def _layer(name: str) -> int:
    """Return the 1-based encoder layer of a parameter; 0 for embeddings and parameters outside layers."""
    match = _LAYER.match(name)
    return int(match.group(1)) + 1 if match else 0


OUTCOMES = ("done", "early_stop", "not_finite")


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps and rates of a run; `head_steps` come first, in which only the head is trained.

    `steps` are those of the whole model; warm-up and decay of the rate cover only these.
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

    `tokens` are those that count for speed; 0 if the step does not count.
    """

    parts: Sequence[Any]
    tokens: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A model's result on held-out data: the measure it is selected by, and the scores behind it, if any."""

    value: float
    scores: Scores | None = None
    answers: Any = None
    """What it was measured from, where a run's result reports on the best model without reading the data again."""


@dataclass
class Progress:
    """The progress of a run; `step` includes head-only steps and identifies the next batch.

    `first` was measured before the whole model was trained; `best_step` is the step after which `best` was measured.
    Times are in seconds of computing; `learning_seconds` covers the steps whose `tokens` count.
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
        """Training speed, excluding time for measuring."""
        return self.tokens / self.learning_seconds if self.learning_seconds else 0.0


class Task(Protocol):
    """What a run optimises; subclasses inherit defaults for what most tasks do not need.

    All random draws of a task must depend only on its seeds and the step number, so that a resumed run repeats them.
    """

    model: Any
    """An nn.Module whose body is its `encoder`."""
    higher_is_better: bool = True
    keep_best: bool = True
    keep_last: bool = False
    """Whether the last measured model is kept, not the best."""
    in_parts: bool = True
    """Whether a batch may be cut into parts, for memory or for other processes."""
    measure_first: bool = False
    """Whether the model is measured before it is trained as a whole."""
    deterministic: bool = False
    """Whether steps and measures use algorithms alone that give the same numbers each time."""
    first_counts: bool = False
    """Whether the first measure can be the best."""

    @property
    def plan(self) -> Plan:
        """Steps and rates."""
        ...

    def work(self, step: int, parts: int) -> Work:
        """Return the batch of a step, from 0, in at most `parts` parts."""
        ...

    def least_parts(self, step: int) -> int:
        """Return into how many parts a step's batch must be cut at least, for memory."""
        return 1

    def loss(self, part: Any) -> Tensor:
        """Return a part's contribution to the step's mean loss, a scalar."""
        ...

    def after_step(self) -> None:
        """Run after each step of the optimizer."""
        return None

    def closes(self, step: int) -> bool:
        """Return whether a loss record is made after this many steps."""
        ...

    def measures(self, step: int) -> bool:
        """Return whether that record includes a measure."""
        return True

    def answers(self, rank: int, size: int) -> Any:
        """Return a rank's contribution to measuring the current model; called in evaluation mode."""
        ...

    def evaluate(self, answers: Sequence[Any]) -> Evaluation:
        """Combine the processes' contributions, in rank order, into one measure."""
        ...

    def record(self, step: int, loss: float, value: float | None) -> Any:
        """Return the record of a mean loss and a measure, if there is one."""
        ...

    def is_stale(self, progress: Progress) -> bool:
        """Return whether the run should stop early, called after each measure."""
        return False

    def state(self) -> dict[str, Tensor]:
        """Return the state that changes from step to step, apart from the model's."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        return None

    def stored(self, progress: Progress) -> dict[str, Any]:
        """Return the progress as plain values, for storage."""
        ...

    def restored(self, values: Mapping[str, Any]) -> Progress:
        """Build the progress from what `stored` returned."""
        ...


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a step; `loss` is the mean over the record's steps if `closes`, else the step's own."""

    loss: float
    value: float | None = None
    is_best: bool = False
    closes: bool = False


T = TypeVar("T", bound=Task)


class TaskRun(Generic[T]):
    """The state of one optimisation; `run()` yields after each step, when the whole state can be saved."""

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
        self.best_answers: Any = None

    def run(self) -> Iterator[Report]:
        """Run from `progress` to the end; `progress.outcome` is then one of OUTCOMES."""
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
        """Measure the initial model; losses of the head alone are not recorded."""
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
        """Compare with the best so far; a measure that is not finite is never better."""
        best = self.progress.best
        better = best is None or self.task.keep_last or (value > best if self.task.higher_is_better else value < best)
        return better and math.isfinite(value)

    def _keep(self, evaluation: Evaluation) -> None:
        """Keep the current weights as the best so far."""
        self.progress.best, self.progress.best_step = evaluation.value, self.progress.step
        self.best_scores, self.best_answers = evaluation.scores, evaluation.answers
        if self.task.keep_best:
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def step(self) -> float:
        """Train on the next batch, with the other processes if there are any; return its loss.

        If that is not finite, the random state is reset to that before the step, like the weights.
        """
        began, state, before = time.perf_counter(), self.random.state, self.progress.tokens
        seed = self.random.draw_seed() if self.parts(self.progress.step) > 1 else 0
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
        """Do one optimizer step, unless loss or gradient is not finite; return the loss of the whole batch."""
        with deterministic(self.task.deterministic):
            return self._learn(step, seed)

    def _learn(self, step: int, seed: int) -> float:
        self._set_rate(step)
        self.model.train()
        parts = self.parts(step)
        work = self.task.work(step, parts)
        losses = self._gradients(work, parts, seed)
        shared = self.processes.size > 1
        whole = self.processes.all_reduce(self.model.parameters(), _total(_read(losses))) if shared else 0.0
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.clip_norm)
        # Read together: with one process, all that the host waits for in a step, but for what the model's loss needs.
        *values, length = _read([norm] if shared else [*losses, norm])
        loss = whole if shared else _total(values)
        if math.isfinite(loss) and math.isfinite(length):
            self.optimizer.step()
            self.task.after_step()
            self.progress.tokens += work.tokens
        elif math.isfinite(loss):
            loss = float("nan")
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def parts(self, step: int) -> int:
        """Return the number of parts a step's batch is cut into: those of one process times the processes."""
        if not self.task.in_parts:
            return 1
        size = self.processes.size
        return max(self.plan.accumulate, -(-self.task.least_parts(step) // size)) * size

    def _gradients(self, work: Work, parts: int, seed: int) -> list[Tensor]:
        """Sum the gradients of this process's parts; return their losses, which are on the device still.

        Each part draws dropout from its own seed: the same whichever process computes it.
        """
        losses, own = [], parts // self.processes.size
        first = self.processes.rank * own
        for number in range(first, min(first + own, len(work.parts))):
            with self.random.active() if parts == 1 else self.random.seeded((seed + number) % 2**62):
                loss = self.task.loss(work.parts[number])
            losses.append(loss.detach())
            loss.backward()
        return losses

    def _set_rate(self, step: int) -> None:
        """Set the rates of a step; while only the head is trained, the encoder gets no gradients."""
        plan = self.plan
        self.model.encoder.requires_grad_(step >= plan.head_steps)
        if step < plan.head_steps:
            hold_rate(self.optimizer, plan.head_rate)
        else:
            set_rate(self.optimizer, step - plan.head_steps, plan.steps, plan.warmup_share, plan.schedule)

    def evaluate(self) -> Evaluation:
        """Measure the current model, with the other processes if there are any."""
        began, training = time.perf_counter(), self.model.training
        self.processes.broadcast(SCORE)
        self.model.eval()
        with torch.inference_mode(), deterministic(self.task.deterministic):
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
        """Whether there are weights to keep if it ends now: the best ones, or finite trained ones."""
        return self.best is not None or (self.progress.step > 0 and self.is_sound())

    def restore_best(self) -> None:
        """Load the best weights into the model, if any were kept."""
        if self.best is not None:
            self.model.load_state_dict(self.best)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything but `progress` and `best_scores` that a resume needs; `best_answers` are not kept."""
        saved = prefixed("model", self.model.state_dict()) | prefixed("random", self.random.state)
        saved |= prefixed("optimizer", optimizer_tensors(self.optimizer, self.names))
        saved |= prefixed("objective", self.task.state())
        return saved | (prefixed("best", self.best) if self.best is not None else {})

    def meta(self) -> dict[str, Any]:
        """Return `progress` and `best_scores` as plain values."""
        scores = self.best_scores.to_dict() if self.best_scores else None
        return {"progress": self.task.stored(self.progress), "best_scores": scores}

    def restore(self, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore what `meta` and `tensors` returned; raise CheckpointError if it does not fit."""
        self.progress = self.task.restored(meta["progress"])
        self.best_scores = Scores.from_dict(meta["best_scores"]) if meta.get("best_scores") else None
        try:
            self.model.load_state_dict(within("model", tensors))
        except RuntimeError as error:
            raise CheckpointError(f"The saved weights do not fit this model: {error}. Start afresh.") from error
        self.random.state = within("random", tensors)
        restore_optimizer(self.optimizer, self.names, within("optimizer", tensors))
        self.task.load_state(within("objective", tensors))
        self.best = within("best", tensors) or None


@dataclass(frozen=True)
class SharedRun:
    """All that another process needs to join a run; tensors are on the CPU."""

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
                with torch.inference_mode(), deterministic(run.task.deterministic):
                    here.gather(run.task.answers(here.rank, here.size))


def share(run: TaskRun[Any], begin: Callable[[], TaskRun[Any]]) -> None:
    """Send a run, new or resumed, to the processes that will compute with it.

    `begin` makes the initial run; it is sent with everything it holds, which must be on the CPU.
    """
    if run.processes.size > 1:
        moments = optimizer_tensors(run.optimizer, run.names)
        run.processes.broadcast_object(SharedRun(begin, on_cpu(run.model.state_dict()), on_cpu(moments)))
