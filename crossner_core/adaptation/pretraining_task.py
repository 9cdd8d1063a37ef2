"""A pre-training as a task of the engine: the new head alone, a measure, then the whole model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from crossner_core.adaptation.prepared import HELD_OUT, TRAIN, Arrays
from crossner_core.adaptation.pretraining import MEASURES, Measured
from crossner_core.encoders import Encoder, recompute_activations
from crossner_core.options.pretraining import PretrainOptions
from crossner_core.training.engine import Evaluation, Plan, Progress, Task, TaskRun, Work
from crossner_core.training.machine import RunRandom, pick_device, use_bf16

HEAD_PHASE, WHOLE_PHASE = 0, 1  # passes of the one are never in the order of the other


class PretrainTask(Task):
    """What an encoder is pre-trained for; a subclass has its batches, loss and measure."""

    kind: str
    measure_first = True
    head_is_new = True

    def __init__(self, options: PretrainOptions, model: Any, tokenizer: Any, *, keep_best: bool) -> None:
        """Take a model with `encoder` (the body) and `head`."""
        self.options, self.model, self.tokenizer, self.keep_best = options, model, tokenizer, keep_best
        self.higher_is_better = MEASURES[self.kind][1]

    @property
    def epoch_steps(self) -> int:
        """The steps of one pass."""
        raise NotImplementedError

    def batch(self, phase: int, epoch: int, number: int, parts: int) -> Work:
        """Return a batch, in so many parts at most; it follows from the seed and the first three numbers alone."""
        raise NotImplementedError

    def loss(self, part: Any) -> Tensor:
        """Return a part's contribution to the step's mean loss, a scalar."""
        raise NotImplementedError

    def measure(self) -> float:
        """Measure the model as it is on held-out text."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """Return what goes into the result's provenance of the corpus and the head."""
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
        """Measure on the first process alone."""
        return self.measure() if rank == 0 else None

    def evaluate(self, answers: Sequence[float]) -> Evaluation:
        return Evaluation(answers[0])

    def record(self, step: int, loss: float, value: float | None) -> Measured:
        assert value is not None
        return Measured(self.whole_steps(step), self.epoch(step), loss, value)

    def whole_steps(self, step: int) -> int:
        """Return how many of so many steps were of the whole model."""
        return max(0, step - self.plan.head_steps)

    def epoch(self, step: int) -> int:
        """Return the pass of the step before, from 1."""
        return max(1, -(-self.whole_steps(step) // self.epoch_steps))

    def stored(self, progress: Progress) -> dict[str, Any]:
        values = asdict(progress)
        values["head_step"] = min(progress.step, self.plan.head_steps)
        values["step"], values["best_step"] = map(self.whole_steps, (progress.step, progress.best_step))
        values["before"] = values.pop("first")
        if values["before"] is None:  # losses of the head alone are in no record
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
    """Make a run at its beginning: a copy of the encoder's body, and a new head.

    `prepared` is the folder of the text in numbers; every process reads it for itself.
    """
    device = pick_device(options.device)
    random = RunRandom(options.seed, device)
    with random.active():
        body = replace(encoder, model=copy.deepcopy(encoder.model))
        task = make(body, Arrays(prepared / TRAIN), Arrays(prepared / HELD_OUT))
    task.model.to(device)
    task.model.use_bf16 = use_bf16(options.precision, device)
    run = TaskRun(task, random)
    if options.recompute:
        recompute_activations(task.model.encoder, options.encoder)
    return run
