"""The machine a process computes on."""

from __future__ import annotations

import torch


def prepare(threads: int = 0) -> str:
    """Set the number of CPU threads (0 lets PyTorch choose) and name the device that runs use by default."""
    if threads:
        torch.set_num_threads(threads)
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    count = torch.get_num_threads()
    return f"CPU, {count} thread{'s' if count > 1 else ''}"
