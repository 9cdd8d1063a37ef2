"""The machine a process computes on: device, precision, random state, threads, memory."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from crossner_core.errors import InvalidConfig
from crossner_core.memory import keep_freed

MOST_THREADS = 1024
_PROC = Path("/proc/self")


def prepare(threads: int = 0) -> str:
    """Set the number of CPU threads (0 lets PyTorch choose) and name the device that runs use by default.

    The process keeps freed memory from now on (`crossner_core.memory`). Raises InvalidConfig for an invalid number.
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
    """The peak memory from now on: the GPU's if a run computes there, else the whole process's.

    If the system cannot reset the peak, it counts from the process's start.
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


def pick_device(wanted: str) -> torch.device:
    """Return the device for auto, cpu or cuda; raise InvalidConfig if the GPU is missing."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InvalidConfig("device is 'cuda', but PyTorch sees no GPU here; choose 'auto' or 'cpu'.")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def use_bf16(wanted: str, device: torch.device) -> bool:
    """Return whether the encoder runs in bf16: if requested, or on auto if the hardware supports it natively."""
    if wanted != "auto":
        return wanted == "bf16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return has_native_bf16()


def has_native_bf16() -> bool:
    """Return whether this CPU has bf16 dot products; without them autocast is slower than single precision."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))


def fix_workspace() -> None:
    """Let cuBLAS add in the same order each time; to be called before the process first multiplies on a GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Compute inside the block, if wanted, with algorithms alone that give the same numbers each time.

    On a GPU PyTorch otherwise adds some gradients (of embeddings, gathers and scatters) in whatever order they come.
    An operation without such an algorithm raises RuntimeError.
    """
    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if wanted:
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


class RunRandom:
    """A run's own random state: dropout only uses PyTorch's global generators, so it is swapped in for each step."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.device = device
        with torch.random.fork_rng(devices=self._gpus(), device_type="cuda"):
            torch.manual_seed(seed)
            self.state = self._read()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Draw from this state inside the block; the caller's state is restored afterwards."""
        with torch.random.fork_rng(devices=self._gpus(), device_type="cuda"):
            torch.set_rng_state(self.state["cpu"])
            if "cuda" in self.state:
                torch.cuda.set_rng_state(self.state["cuda"], self.device)
            elif self.device.type == "cuda":  # a state that was saved on a CPU
                torch.cuda.manual_seed(int(torch.randint(2**62, (1,))))
            yield
            self.state = self._read()

    def draw_seed(self) -> int:
        """Draw a seed for `seeded`."""
        with self.active():
            return int(torch.randint(2**62, (1,)))

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Draw from this seed inside the block; neither the run's state nor the caller's advances."""
        with torch.random.fork_rng(devices=self._gpus(), device_type="cuda"):
            torch.manual_seed(seed)
            yield

    def _read(self) -> dict[str, torch.Tensor]:
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def _gpus(self) -> list[int]:
        if self.device.type != "cuda":
            return []
        return [torch.cuda.current_device() if self.device.index is None else self.device.index]
