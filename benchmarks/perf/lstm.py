"""A step of a BiLSTM over sentences of several lengths: ours in both precisions, and PyTorch's over packed rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.perf.row import Row, products_a_second
from crossner_core.experiments.corpora import read_corpus
from crossner_core.models._recurrent import run_lstm
from crossner_core.training.batches import shuffled_batches
from crossner_core.training.machine import has_native_bf16, prepare

INPUT, SIZE, LAYERS, BATCH, STEPS = 82, 256, 2, 32, 40
"""The BiLSTM-CRF of the papers on word vectors of 50 dimensions and characters."""


def rows(data: Path) -> Iterator[Row]:
    """Yield a row: milliseconds of a forward and a backward pass, on batches of the lengths of a corpus's sentences."""
    prepare()
    lengths = [len(item.sentence.tokens) for item in read_corpus("music", data).dev]
    lstm = nn.LSTM(INPUT, SIZE, LAYERS, batch_first=True, bidirectional=True)
    ways = {"packed": _packed, "fp32": run_lstm}
    if has_native_bf16():
        ways["bf16"] = lambda lstm, vectors, sizes: run_lstm(lstm, vectors, sizes, bf16=True)
    times: dict[str, list[float]] = {name: [] for name in ways}
    sizes, rng = torch.tensor(lengths), np.random.default_rng(0)
    batches = [batch for _ in range(STEPS) for batch in shuffled_batches(lengths, BATCH, rng)][:STEPS]
    for batch in batches:
        vectors = torch.randn(len(batch), int(sizes[batch].max()), INPUT, requires_grad=True)
        for name, run in ways.items():
            began = time.perf_counter()
            run(lstm, vectors, sizes[batch]).sum().backward()
            times[name].append(1000 * (time.perf_counter() - began))
    taken = {name: median(values[2:]) for name, values in times.items()}
    best = min(value for name, value in taken.items() if name != "packed")
    tokens = sum(lengths[index] for batch in batches for index in batch) / len(batches)
    weights = sum(weight.numel() for weight in lstm.parameters() if weight.dim() > 1)
    yield Row(
        f"a step of a BiLSTM, {LAYERS} × {SIZE}, {tokens:.0f} tokens in {BATCH} sentences",
        ", ".join(f"{name} {value:.0f} ms" for name, value in taken.items() if name != "packed"),
        f"PyTorch's packed: {taken['packed']:.0f} ms ({taken['packed'] / best:.2f} ×)",
        f"matrix products alone, fp32: {1000 * 6 * weights * tokens / products_a_second():.0f} ms",
        "faster",
        best < taken["packed"],
    )


def _packed(lstm: nn.LSTM, vectors: Tensor, sizes: Tensor) -> Tensor:
    states, _ = lstm(pack_padded_sequence(vectors, sizes, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(states, batch_first=True, total_length=vectors.shape[1])[0]
