"""The states of a backward LSTM over all prefixes of tags at once, and attention over them.

The backward LSTM of LANER's eq. 3 restarts at the end of each prefix, so its states differ between prefixes: a sentence
of W tokens has W·(W−1)/2 of them. They are packed step by step: a row is a prefix, the longest come first, and step s
holds the rows with more than s tags, each at the tag s positions before its last. This is the layout of PyTorch's
PackedSequence; nothing is computed for padding.

Memory: the states take 4·d2 bytes per tag of a prefix; with cells and temporaries of the backward pass, about
20·d2·B·W²/2 bytes: 65 MB for 16 × 64 tokens at d2 = 100, 0.6 GB for 16 × 200. The gates take nearly as much again
(16·d2·B·W²/2) and are kept up to `KEPT_BYTES`; beyond that they are recomputed in the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.utils.rnn import PackedSequence

from crossner_core.encoders.windows import sent_ahead

KEPT_BYTES = 2**28

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


@dataclass(frozen=True, slots=True)
class Prefixes:
    """All prefixes of a padded batch (B, W): R of them, with P tags together. Indices are into the flattened batch."""

    sizes: list[int]  # rows that have a tag at step 0, 1, …; they sum to P
    positions: Tensor  # (R,) index into B·W of the token that a prefix precedes
    tags: Tensor  # (P,) index into B·W of the tag to read
    pairs: Tensor  # (P,) index into B·W·W of (sentence, token that the prefix precedes, tag that is read)


def prefixes(mask: Tensor, lengths: Tensor | None = None) -> Prefixes:
    """Lay out the prefixes that precede the tokens of a mask (B, W), excluding those of first tokens (no tags).

    `lengths` (B,) are its rows' tokens, on the CPU; without them the host waits for the mask.
    """
    width = mask.shape[1]
    counts = mask.sum(1).cpu() if lengths is None else lengths
    tail = torch.arange(1, width) < counts.unsqueeze(1)  # (B, W - 1)
    rows, lengths = tail.nonzero(as_tuple=True)  # (R,) both
    lengths = lengths + 1
    lengths, order = lengths.sort(descending=True, stable=True)
    positions = rows[order] * width + lengths  # (R,)
    sizes = (lengths.unsqueeze(0) > torch.arange(width - 1).unsqueeze(1)).sum(1)  # (W - 1,)
    sizes = sizes[sizes > 0]
    step = torch.repeat_interleave(torch.arange(len(sizes)), sizes)  # (P,)
    row = torch.arange(len(step)) - (sizes.cumsum(0) - sizes)[step]  # (P,)
    tags = positions[row] - 1 - step  # (P,)
    pairs = positions[row] * width + tags % width  # (P,)
    positions, tags, pairs = (sent_ahead(part, mask.device) for part in (positions, tags, pairs))
    return Prefixes(sizes.tolist(), positions, tags, pairs)


def prefix_states(lstm: nn.LSTM, vectors: Tensor, tags: Tensor, sizes: list[int]) -> Tensor:
    """Return an LSTM's states over packed tags: (K, d2) vectors of tags, (P,) tags → (P, d2).

    Equal to `lstm` on a PackedSequence, which is used on a GPU; on a CPU its backward pass is ten times slower.
    """
    if vectors.is_cuda:
        return lstm(PackedSequence(vectors[tags], torch.tensor(sizes)))[0].data
    inwards, recurrent, bias, recurrent_bias = lstm.all_weights[0]
    inputs = inwards @ vectors.t() + (bias + recurrent_bias).unsqueeze(1)  # (4 d2, K)
    table = _by_gate(inputs).transpose(1, 2).contiguous()  # (4, K, d2)
    return _States.apply(table, _by_gate(recurrent), tags, sizes)


def step_scores(states: Tensor, queries: Tensor, sizes: list[int]) -> Tensor:
    """Return the dot product of each packed state (P, d2) with its row's query (R, d2): (P,)."""
    return _Scores.apply(states, queries, sizes)


def step_sums(states: Tensor, weights: Tensor, sizes: list[int]) -> Tensor:
    """Return each row's weighted sum of its states: (P, d2), (P,) → (R, d2)."""
    return _Sums.apply(states, weights, sizes)


def _by_gate(stacked: Tensor) -> Tensor:
    """Split PyTorch's stacked gates (4 d2, N) into (4, d2, N), the three with a sigmoid first: in, forget, out, new."""
    enter, forget, new, out = stacked.chunk(4)
    return torch.stack((enter, forget, out, new))


def _steps(sizes: list[int]) -> list[tuple[slice, slice | None]]:
    """Return the packed positions of each step's rows, and those of the same rows one step before."""
    starts = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    now = [slice(start, start + size) for start, size in zip(starts, sizes, strict=False)]
    before = [slice(start, start + size) for start, size in zip(starts, sizes[1:], strict=False)]
    return list(zip(now, [None, *before], strict=True))


def _gates(table: Tensor, turned: Tensor, tags: Tensor, before: Tensor | None) -> Tensor:
    """Return a step's gates (4, n, d2); `turned` holds the recurrent weights (4, from, to).

    The input of the new value is doubled, as tanh(x) = 2 σ(2x) − 1: a sigmoid takes a third of tanh's time.
    """
    gates = torch.index_select(table, 1, tags)
    if before is not None:
        gates.baddbmm_(before.expand(4, -1, -1), turned)
    gates.sigmoid_()
    gates[3].mul_(2).sub_(1)
    return gates


def _doubled(by_gate: Tensor) -> Tensor:
    """Return a copy (4, …) with the part of the new value doubled."""
    copied = by_gate.clone()
    copied[3].mul_(2)
    return copied


def _tanh(values: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.mul(values, 2, out=out).sigmoid_().mul_(2).sub_(1)


class _States(Function):
    """An LSTM over packed tags, from zero states; its input projections are a table (4, K, d2)."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, weight: Tensor, tags: Tensor, sizes: list[int]) -> Tensor:
        size = weight.shape[2]
        cells, states = (table.new_empty(len(tags), size) for _ in range(2))  # (P, d2)
        table, turned = _doubled(table), _doubled(weight.transpose(1, 2))  # (4, K, d2), (4, from, to)
        kept: list[Tensor] = []
        keep = any(ctx.needs_input_grad) and 4 * states.nbytes <= KEPT_BYTES
        for now, former in _steps(sizes):
            gates = _gates(table, turned, tags[now], None if former is None else states[former])  # (4, n, d2)
            cell = torch.mul(gates[0], gates[3], out=cells[now])
            if former is not None:
                cell.addcmul_(gates[1], cells[former])
            _tanh(cell, out=states[now]).mul_(gates[2])
            if keep:
                kept.append(gates)
        ctx.save_for_backward(table, weight, turned, tags, cells, states)
        ctx.sizes, ctx.kept = sizes, kept
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        table, weight, turned, tags, cells, states = ctx.saved_tensors
        grad_table, grad_weight = torch.zeros_like(table), torch.zeros_like(weight)
        slopes, to_cell = table.new_empty(4, 0, weight.shape[2]), table.new_empty(0, weight.shape[2])
        for step, (now, former) in reversed(list(enumerate(_steps(ctx.sizes)))):
            before, cell_before = (None, None) if former is None else (states[former], cells[former])  # (n, d2)
            gates = ctx.kept[step] if ctx.kept else _gates(table, turned, tags[now], before)
            wanted = grad[now].clone()  # (n, d2)
            for gate in range(4):  # gradient from the following step
                wanted[: len(to_cell)].addmm_(slopes[gate], weight[gate])
            slopes = torch.empty_like(gates)
            to_cell = _step_back(gates, cells[now], cell_before, wanted, to_cell, slopes)
            if before is not None:
                grad_weight.baddbmm_(slopes.transpose(1, 2), before.expand(4, -1, -1))
            chosen = table.new_zeros(table.shape[1], len(wanted)).scatter_(0, tags[now].unsqueeze(0), 1.0)  # (K, n)
            grad_table.baddbmm_(chosen.expand(4, -1, -1), slopes)
        return grad_table, grad_weight, None, None


def _step_back(
    gates: Tensor, cell: Tensor, cell_before: Tensor | None, wanted: Tensor, to_cell: Tensor, slopes: Tensor
) -> Tensor:
    """Write the gradient of a step's pre-activation gates to `slopes`; return that of the preceding cell."""
    enter, forget, out, new = gates
    bent = _tanh(cell)  # (n, d2)
    _sigmoid_backward(wanted * bent, out, grad_input=slopes[2])
    grad_cell = wanted.mul_(out)
    _tanh_backward(grad_cell, bent, grad_input=grad_cell)
    grad_cell[: len(to_cell)] += to_cell
    _sigmoid_backward(grad_cell * new, enter, grad_input=slopes[0])
    _tanh_backward(grad_cell * enter, new, grad_input=slopes[3])
    if cell_before is None:
        slopes[1].zero_()
    else:
        _sigmoid_backward(grad_cell * cell_before, forget, grad_input=slopes[1])
    return grad_cell.mul_(forget)


class _Scores(Function):
    """Dot products of packed states with the queries of their rows."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, queries: Tensor, sizes: list[int]) -> Tensor:
        ctx.save_for_backward(states, queries)
        ctx.sizes = sizes
        return torch.cat([(states[now] * queries[: _rows(now)]).sum(-1) for now, _ in _steps(sizes)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, queries = ctx.saved_tensors
        grad_states, grad_queries = torch.empty_like(states), torch.zeros_like(queries)
        for now, _ in _steps(ctx.sizes):
            slope = grad[now].unsqueeze(1)  # (n, 1)
            torch.mul(slope, queries[: _rows(now)], out=grad_states[now])
            grad_queries[: _rows(now)].addcmul_(slope, states[now])
        return grad_states, grad_queries, None


class _Sums(Function):
    """Sums of the packed states of each row, by weights."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weights: Tensor, sizes: list[int]) -> Tensor:
        ctx.save_for_backward(states, weights)
        ctx.sizes = sizes
        sums = states.new_zeros(sizes[0], states.shape[1])
        for now, _ in _steps(sizes):
            sums[: _rows(now)].addcmul_(weights[now].unsqueeze(1), states[now])
        return sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, weights = ctx.saved_tensors
        grad_states, grad_weights = torch.empty_like(states), torch.empty_like(weights)
        for now, _ in _steps(ctx.sizes):
            asked = grad[: _rows(now)]  # (n, d2)
            torch.mul(weights[now].unsqueeze(1), asked, out=grad_states[now])
            torch.sum(states[now] * asked, -1, out=grad_weights[now])
        return grad_states, grad_weights, None


def _rows(now: slice) -> int:
    return now.stop - now.start
