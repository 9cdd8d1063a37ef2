"""LSTMs over sentences of several lengths, each as its device runs them fastest, and what they need on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from crossner_core.models.dropout import drop

_TENSORS = 4  # of a layer and direction: two weights, two biases


def with_backward(module: nn.Module) -> AbstractContextManager[None]:
    """Return a context for LSTMs of a module that objectives may go back through in evaluation mode.

    cuDNN refuses that ("cudnn RNN backward can only be called in training mode"), so it is off in that case alone.
    """
    if module.training or not torch.is_grad_enabled():
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=False)


def run_lstm(
    lstm: nn.LSTM, vectors: Tensor, sizes: Tensor, weights: Sequence[Tensor] | None = None, *, bf16: bool = False
) -> Tensor:
    """Return a BiLSTM's states (B, W, 2H) for vectors (B, W, D), of which the first `sizes` (B,) of each row count.

    The others have zeros. `weights` take the place of the LSTM's own, in the order of its parameters. With `bf16` a CPU
    multiplies in that precision; states are in single precision.
    """
    if vectors.device.type == "cpu":
        return _run_padded(lstm, vectors, sizes, list(lstm.parameters() if weights is None else weights), bf16)
    packed = pack_padded_sequence(vectors, sizes.cpu(), batch_first=True, enforce_sorted=False)
    with with_backward(lstm):
        states = lstm(packed)[0] if weights is None else _run_packed(lstm, packed, weights)
    padded, _ = pad_packed_sequence(states, batch_first=True, total_length=vectors.shape[1])
    return padded


def reversal(mask: Tensor) -> Tensor:
    """Return the positions (B, W) in which each row's tokens stand in reverse; padding stays where it is."""
    places = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places)


def taken(values: Tensor, places: Tensor) -> Tensor:
    """Return values (B, W, …) in the order of the positions (B, W)."""
    return values.gather(1, places.reshape(*places.shape, *(1,) * (values.dim() - 2)).expand_as(values))


def _run_padded(lstm: nn.LSTM, vectors: Tensor, sizes: Tensor, weights: list[Tensor], bf16: bool) -> Tensor:
    """Run a BiLSTM over padded rows, of which the second direction reads each from its own end.

    PyTorch has a fast kernel for padded rows alone.
    """
    inside = torch.arange(vectors.shape[1], device=sizes.device) < sizes.unsqueeze(1)  # (B, W)
    back = reversal(inside)  # (B, W)
    begin = vectors.new_zeros(1, len(vectors), lstm.hidden_size)
    read = vectors
    for layer in range(lstm.num_layers):
        if layer and lstm.training:
            read = drop(read, lstm.dropout)
        states = []
        for way in range(2):
            own = weights[_TENSORS * (2 * layer + way) :][:_TENSORS]
            inputs = taken(read, back) if way else read
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                # One layer, one direction, no dropout in it, rows first.
                output = torch.lstm(inputs, (begin, begin), own, lstm.bias, 1, 0.0, lstm.training, False, True)[0]
            output = output.float()  # (B, W, H)
            states.append(taken(output, back) if way else output)
        read = torch.cat(states, -1)
    return read * inside.unsqueeze(2)


def _run_packed(lstm: nn.LSTM, packed: PackedSequence, weights: Sequence[Tensor]) -> PackedSequence:
    """Return what a BiLSTM would with other weights; gradients go to these."""
    begin = packed.data.new_zeros(2 * lstm.num_layers, int(packed.batch_sizes[0]), lstm.hidden_size)
    states, _, _ = torch.lstm(
        packed.data,
        packed.batch_sizes,
        (begin, begin),
        list(weights),
        lstm.bias,
        lstm.num_layers,
        lstm.dropout,
        lstm.training,
        lstm.bidirectional,
    )
    return packed._replace(data=states)
