"""The machine a process computes on."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch

from crossner_core.errors import InvalidConfig
from crossner_core.memory import keep_freed

MOST_THREADS = 1024
_PROC = Path("/proc/self")


def prepare(threads: int = 0) -> str:
    """Set the number of CPU threads (0 lets PyTorch choose) and name the device that runs use by default.

    The process keeps what it frees from now on (`crossner_core.memory`). Raises InvalidConfig for no such number.
    """
    if not 0 <= threads <= MOST_THREADS:
        raise InvalidConfig(f"threads is {threads}; give 1 to {MOST_THREADS}, or 0 to let PyTorch choose.")
    keep_freed()
    if threads:
        torch.set_num_threads(threads)
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    count = torch.get_num_threads()
    return f"CPU, {count} thread{'s' if count > 1 else ''}"


class PeakMemory:
    """The most memory in use from now on: the GPU's where a run computes there, else the whole process's.

    Where the system cannot count anew, it is the most since the process began.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.of = "GPU" if device.type == "cuda" else "the whole process"
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        elif (_PROC / "clear_refs").exists():
            try:
                (_PROC / "clear_refs").write_text("5")
            except OSError:
                self.of += " since it began"

    def megabytes(self) -> float:
        """Return the peak up to now, in units of 2**20 bytes."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / 2**20
        try:
            lines = (_PROC / "status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**10
        except (OSError, StopIteration):
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes, but bytes on macOS
            return most / (2**20 if sys.platform == "darwin" else 2**10)
