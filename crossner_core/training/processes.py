"""Several processes for one run: rank 0 controls, writes and prints; the others compute their parts of each step.

Started by `torchrun --nproc-per-node 2 -m …` or `accelerate launch --multi_gpu --num_processes 2 -m …` (with or without
GPUs); both set RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR for each process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from crossner_core.errors import InvalidConfig

if TYPE_CHECKING:
    import torch

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
# The other ranks wait this long for rank 0, which may score or write in the meantime.
PATIENCE = timedelta(days=1)
NUMBERS = 3  # per order to the other ranks
LEAVE, STEP, SCORE = 0, 1, 2  # values of the first number; STEP is followed by step number and seed


@dataclass
class Processes:
    """This process's rank among those of one run; rank 0 controls."""

    rank: int = 0
    size: int = 1
    broken: bool = False
    """Set while a step is unfinished: if it fails, the other ranks wait for numbers that never arrive."""

    def broadcast(self, *numbers: int) -> None:
        """Broadcast an order of a few integers to the other ranks."""
        if self.size > 1 and not self.broken:
            self._broadcast([*numbers, *[0] * (NUMBERS - len(numbers))])

    def receive(self) -> list[int]:
        """Wait for the next order of integers from rank 0."""
        return self._broadcast([0] * NUMBERS)

    def broadcast_object(self, order: Any) -> None:
        """Broadcast an object to the other ranks."""
        if self.size > 1 and not self.broken:
            self._broadcast_objects([order])

    def receive_object(self) -> Any:
        """Wait for the next object from rank 0."""
        return self._broadcast_objects([None])[0]

    def gather(self, own: Any) -> list[Any]:
        """Return the values of all ranks, in rank order, on rank 0; an empty list on the others."""
        if self.size == 1:
            return [own]
        from torch import distributed

        everything: list[Any] = [None] * self.size if self.rank == 0 else []
        distributed.gather_object(own, everything or None)
        return everything

    def all_reduce(self, parameters: Iterable[torch.nn.Parameter], loss: float) -> float:
        """Replace each gradient by its sum over all ranks, and return the summed loss.

        What no rank has a gradient of has none afterwards, as in a single process: the optimizer passes it over.
        """
        if self.size == 1:
            return loss
        import torch
        from torch import distributed

        learning = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
        holds = [parameter.grad is not None for parameter in learning]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        whole = torch.cat([flat, flat.new_tensor([*holds, loss])])
        distributed.all_reduce(whole)
        *holders, total = whole[len(flat) :].tolist()
        parts = whole[: len(flat)].split([parameter.numel() for parameter in learning])
        for parameter, part, holding in zip(learning, parts, holders, strict=True):
            parameter.grad = part.view_as(parameter) if holding else None
        return float(total)

    def _broadcast(self, numbers: Sequence[int]) -> list[int]:
        import torch
        from torch import distributed

        tensor = torch.tensor(numbers, dtype=torch.int64)
        distributed.broadcast(tensor, src=0)
        return [int(number) for number in tensor]

    def _broadcast_objects(self, objects: list[Any]) -> list[Any]:
        from torch import distributed

        distributed.broadcast_object_list(objects, src=0)
        return objects


ALONE = Processes()
_present = ALONE


def present() -> Processes:
    """Return the group of processes; raise InvalidConfig if several were launched but not joined."""
    if _present.size == 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidConfig(
            f"This is process {os.environ.get('RANK', '?')} of {os.environ['WORLD_SIZE']}, and each would do the whole "
            "run; run the program through crossner_core.training.processes.run_together."
        )
    return _present


def run_together(command: Callable[[], int]) -> int:
    """Run a command on rank 0 while the other ranks join its training; return its exit code.

    Without a launcher this just runs the command. With one, each process exits here, rank 0 with the command's code.
    """
    if "RANK" not in os.environ and {"MASTER_ADDR", "ACCELERATE_USE_CPU"} <= set(os.environ):
        print(
            "accelerate launch --cpu starts a single process however many are requested; leave out --cpu and use "
            "--multi_gpu, which also works without a GPU.",
            file=sys.stderr,
        )
        return 2
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return command()
    try:
        here = _join()
    except InvalidConfig as error:
        print(error, file=sys.stderr)
        return 2
    try:
        if here.rank > 0:
            # The launcher signals all processes. Rank 0 saves and then ends the others.
            for stop in (signal.SIGINT, signal.SIGTERM):
                signal.signal(stop, signal.SIG_IGN)
            while (order := here.receive_object()) is not None:
                order.take_part(here)
            code = 0
        else:
            try:
                code = command()
            finally:
                here.broadcast_object(None)
    except BaseException:
        _leave(here)
        raise
    _end(code)


def _end(code: int) -> NoReturn:
    """Flush output and exit at once: destroying the process group may abort in its C++ threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _join() -> Processes:
    global _present
    import torch
    from torch import distributed

    backend = "cpu:gloo"
    if torch.cuda.is_available():
        rank, cards = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if (size := max(rank + 1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))) > cards:
            raise InvalidConfig(
                f"{size} processes were launched on this machine, which has {cards} GPU{'s' if cards > 1 else ''}: "
                f"each needs its own, as NCCL refuses two on one. Launch {cards}, or set CUDA_VISIBLE_DEVICES to "
                "nothing to compute on CPUs."
            )
        torch.cuda.set_device(rank)
        backend = "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend, timeout=PATIENCE)
    _present = Processes(distributed.get_rank(), distributed.get_world_size())
    # Child processes (workers of a grid) are not part of the group.
    for name in _VARIABLES:
        os.environ.pop(name, None)
    return _present


def _leave(here: Processes) -> None:
    global _present
    from torch import distributed

    _present = ALONE
    if not here.broken:
        distributed.destroy_process_group()
