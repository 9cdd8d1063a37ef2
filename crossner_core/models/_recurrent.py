"""What all architectures with an LSTM need on a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn


def with_backward(module: nn.Module) -> AbstractContextManager[None]:
    """Return a context for LSTMs of a module that objectives may go back through in evaluation mode.

    cuDNN refuses that ("cudnn RNN backward can only be called in training mode"), so it is off in that case alone.
    """
    if module.training or not torch.is_grad_enabled():
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=False)
