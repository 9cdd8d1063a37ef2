"""A pre-training shared out: what the first process sends to the helpers, and what they do with it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from crossner_core.adaptation.blocks import HELD_OUT, TRAIN
from crossner_core.adaptation.prepared import Arrays
from crossner_core.adaptation.pretraining_run import PretrainRun, Task
from crossner_core.encoders import Encoder
from crossner_core.options.pretraining import PretrainOptions
from crossner_core.training.checkpoint import on_cpu, optimizer_tensors, restore_optimizer
from crossner_core.training.precision import RunRandom, pick_device, use_bf16
from crossner_core.training.processes import LEAVE, Processes

MakeTask = Callable[[Encoder, Arrays, Arrays], Task]


@dataclass(frozen=True)
class SharedPretraining:
    """All that a helper needs to compute as the first process does; tensors are on the CPU.

    The helper reads the prepared text itself: its folder must be there for every process.
    """

    options: PretrainOptions
    make: MakeTask
    encoder: Encoder
    prepared: Path
    weights: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]

    def take_part(self, here: Processes) -> None:
        """Compute this process's share of each step until the first process says that there are no more."""
        run = begin_run(self.options, self.make, self.encoder, self.prepared)
        run.model.load_state_dict(dict(self.weights))
        restore_optimizer(run.optimizer, run.names, self.moments)
        while (order := here.hear())[0] != LEAVE:
            run.learn(*order[1:4])


def begin_run(options: PretrainOptions, make: MakeTask, encoder: Encoder, prepared: Path) -> PretrainRun:
    """Make a run at its beginning: a copy of the encoder's body, and a new head."""
    device = pick_device(options.device)
    random = RunRandom(options.seed, device)
    with random.active():
        body = replace(encoder, model=copy.deepcopy(encoder.model))
        task = make(body, Arrays(prepared / TRAIN), Arrays(prepared / HELD_OUT))
    task.model.to(device)
    task.model.use_bf16 = use_bf16(options.precision, device)
    return PretrainRun(task, options, random)


def share_run(run: PretrainRun, make: MakeTask, encoder: Encoder, prepared: Path) -> None:
    """Send a run as it stands, begun or resumed, to the helpers that will compute with it."""
    if run.processes.size == 1:
        return
    order = SharedPretraining(
        run.options,
        make,
        replace(encoder, model=copy.deepcopy(encoder.model).cpu()),
        prepared.resolve(),
        on_cpu(run.model.state_dict()),
        on_cpu(optimizer_tensors(run.optimizer, run.names)),
    )
    run.processes.send(order)
