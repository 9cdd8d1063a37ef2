"""Many processes for one run: the first one decides, writes and speaks, the others compute their share of each step.

Started by `torchrun --nproc-per-node 2 -m …` or `accelerate launch --multi_gpu --num_processes 2 -m …` (with or without
GPUs); both tell a process by RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR which one it is.
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

_PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
# The helpers wait this long for the first process, which may score or write in the meantime.
PATIENCE = timedelta(days=1)
NUMBERS = 5  # in an order to the helpers
LEAVE, STEP, SCORE = 0, 1, 2  # what its first number can be


@dataclass
class Processes:
    """This process's place among those that work on one run; rank 0 is the one that decides."""

    rank: int = 0
    size: int = 1
    broken: bool = False
    """Set where a step broke off in the middle, so that the helpers wait for numbers that will not come."""

    def tell(self, *numbers: int) -> None:
        """Give the helpers an order of a few whole numbers."""
        if self.size > 1 and not self.broken:
            self._spread([*numbers, *[0] * (NUMBERS - len(numbers))])

    def hear(self) -> list[int]:
        """Wait for the next order of numbers."""
        return self._spread([0] * NUMBERS)

    def send(self, order: Any) -> None:
        """Give the helpers an order that holds more than numbers."""
        if self.size > 1 and not self.broken:
            self._objects([order])

    def receive(self) -> Any:
        """Wait for such an order."""
        return self._objects([None])[0]

    def gather(self, own: Any) -> list[Any]:
        """Return what every process brought, by rank, to the first one; to the others an empty list."""
        if self.size == 1:
            return [own]
        from torch import distributed

        all_of_them: list[Any] = [None] * self.size if self.rank == 0 else []
        distributed.gather_object(own, all_of_them or None)
        return all_of_them

    def add_up(self, parameters: Iterable[torch.nn.Parameter], loss: float) -> float:
        """Put the sum over all processes in place of each gradient, and return that of the loss."""
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
        at = 0
        for parameter in learning:
            parameter.grad = whole[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
        return float(whole[-1])

    def _spread(self, numbers: Sequence[int]) -> list[int]:
        import torch
        from torch import distributed

        tensor = torch.tensor(numbers, dtype=torch.int64)
        distributed.broadcast(tensor, src=0)
        return [int(number) for number in tensor]

    def _objects(self, objects: list[Any]) -> list[Any]:
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
    """Run a command in the first process while the others help with what it trains; return its exit code.

    Without a launcher this is the command alone. With one, each process ends here, the first with the command's code.
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
            from crossner_core.training.helping import help_out

            # The launcher tells all of them to stop. The first one saves and then sends the others home.
            for told in (signal.SIGINT, signal.SIGTERM):
                signal.signal(told, signal.SIG_IGN)
            help_out(here)
            code = 0
        else:
            try:
                code = command()
            finally:
                here.send(None)
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
    for name in _PLACE:
        os.environ.pop(name, None)
    return _present


def _leave(here: Processes) -> None:
    global _present
    from torch import distributed

    _present = ALONE
    if not here.broken:
        distributed.destroy_process_group()
