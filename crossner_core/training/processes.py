"""Many processes for one run: rank 0 decides, writes and prints, the others compute their parts of each step.

Started by `torchrun --nproc-per-node 2 -m …` or `accelerate launch --multi_gpu --num_processes 2 -m …` (with or without
GPUs); both name a process to itself by RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR.
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
NUMBERS = 3  # in an order to the other ranks
LEAVE, STEP, SCORE = 0, 1, 2  # what its first number can be; a step has its number and a seed


@dataclass
class Processes:
    """This process's rank among those that work on one run; rank 0 decides."""

    rank: int = 0
    size: int = 1
    broken: bool = False
    """Set where a step broke off in the middle, so that the other ranks wait for numbers that will not come."""

    def broadcast(self, *numbers: int) -> None:
        """Send the other ranks an order of a few whole numbers."""
        if self.size > 1 and not self.broken:
            self._broadcast([*numbers, *[0] * (NUMBERS - len(numbers))])

    def receive(self) -> list[int]:
        """Wait for the next order of numbers from rank 0."""
        return self._broadcast([0] * NUMBERS)

    def broadcast_object(self, order: Any) -> None:
        """Send the other ranks an order that holds more than numbers."""
        if self.size > 1 and not self.broken:
            self._broadcast_objects([order])

    def receive_object(self) -> Any:
        """Wait for such an order from rank 0."""
        return self._broadcast_objects([None])[0]

    def gather(self, own: Any) -> list[Any]:
        """Return what every rank brought, by rank, on rank 0; on the others an empty list."""
        if self.size == 1:
            return [own]
        from torch import distributed

        everything: list[Any] = [None] * self.size if self.rank == 0 else []
        distributed.gather_object(own, everything or None)
        return everything

    def all_reduce(self, parameters: Iterable[torch.nn.Parameter], loss: float) -> float:
        """Put the sum over all ranks in place of each gradient, and return that of the loss."""
        if self.size == 1:
            return loss
        import torch
        from torch import distributed

        learning = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in learning:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([p.grad.flatten() for p in learning if p.grad is not None])
        whole = torch.cat([flat, flat.new_tensor([loss])])
        distributed.all_reduce(whole)
        start = 0
        for parameter in learning:
            parameter.grad = whole[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
        return float(whole[-1])

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
    """Return the processes that work together now; raise InvalidConfig if some were started and each works alone."""
    if _present.size == 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InvalidConfig(
            f"This is process {os.environ.get('RANK', '?')} of {os.environ['WORLD_SIZE']}, and each would do the whole "
            "run; start the program's work by crossner_core.training.processes.run_together."
        )
    return _present


def run_together(command: Callable[[], int]) -> int:
    """Run a command on rank 0 while the others compute with it what it trains; return its exit code.

    Without a launcher this is the command alone. With one, each process ends here, rank 0 with the command's code.
    """
    if "RANK" not in os.environ and {"MASTER_ADDR", "ACCELERATE_USE_CPU"} <= set(os.environ):
        print(
            "accelerate launch --cpu starts one process however many are asked for; leave out --cpu and say "
            "--multi_gpu, which starts them without a GPU too.",
            file=sys.stderr,
        )
        return 2
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return command()
    here = _join()
    try:
        if here.rank > 0:
            # The launcher signals all of them to stop. Rank 0 saves and then ends the others.
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
    """End this process at once, with everything written: taking a group down may abort in its C++ threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _join() -> Processes:
    global _present
    import torch
    from torch import distributed

    backend = "cpu:gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend, timeout=PATIENCE)
    _present = Processes(distributed.get_rank(), distributed.get_world_size())
    # What this process starts itself (workers of a grid) is not part of the group.
    for name in _VARIABLES:
        os.environ.pop(name, None)
    return _present


def _leave(here: Processes) -> None:
    global _present
    from torch import distributed

    _present = ALONE
    if not here.broken:
        distributed.destroy_process_group()
