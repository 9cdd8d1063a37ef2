"""The time of an encoder's training step with the dropout of `crossner_core.models.dropout` and with PyTorch's.

    python -m benchmarks.dropout [--encoder minilm] [--rounds 12] [--precision auto]

The two alternate, step by step, on the same made-up subwords; without dropout they must agree.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from torch import nn

from crossner_core.encoders.loading import load_encoder
from crossner_core.models.dropout import Dropout, speed_up_dropout
from crossner_core.training.machine import prepare, use_bf16

# Sentences and subwords per batch: labelled, unlabelled, long sentences, pre-training.
SHAPES = ((8, 40), (16, 48), (16, 112), (32, 128))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print milliseconds of a step both ways and how many times faster ours is; return 0 if it is faster everywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    given = parser.parse_args(arguments)
    where = prepare()
    bf16 = use_bf16(given.precision, torch.device("cpu"))
    print(f"On {where}, {'bf16' if bf16 else 'fp32'}, encoder {given.encoder}.")
    model = load_encoder(given.encoder).model
    ways = {"PyTorch's": model, "ours": copy.deepcopy(model)}
    speed_up_dropout(ways["ours"])
    faster = []
    for rows, length in SHAPES:
        ids, mask = batch(rows, length, model.config.vocab_size)
        agree(ways, ids, mask, bf16)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(given.rounds + 2):
            for name, encoder in ways.items():
                seconds[name].append(step(encoder.train(), ids, mask, bf16))
        theirs, ours = (1000 * median(seconds[name][2:]) for name in ways)
        faster.append(ours < theirs)
        print(f"{rows} × {length} subwords: PyTorch's {theirs:.0f} ms, ours {ours:.0f} ms, {theirs / ours:.2f} ×")
    return 0 if all(faster) else 1


def usual_dropout(model: Any) -> Any:
    """Restore PyTorch's own dropout in a model, in place; return it."""
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is Dropout:
                setattr(parent, name, nn.Dropout(child.p).train(child.training))
        if hasattr(parent, "set_attn_implementation"):
            parent.set_attn_implementation("sdpa")
    return model


def batch(rows: int, length: int, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask, (B, L), of rows that end within the last quarter."""
    drawn = torch.Generator().manual_seed(rows * length)
    ids = torch.randint(1, vocabulary, (rows, length), generator=drawn)
    lengths = torch.randint(3 * length // 4, length + 1, (rows, 1), generator=drawn)
    return ids, (torch.arange(length) < lengths).long()


def agree(ways: dict[str, Any], ids: torch.Tensor, there: torch.Tensor, bf16: bool) -> None:
    """Raise RuntimeError unless both give the same vectors without dropout."""
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        theirs, ours = (model.eval()(input_ids=ids, attention_mask=there).last_hidden_state for model in ways.values())
    if not torch.equal(theirs, ours):
        raise RuntimeError("Without dropout the two ways differ.")


def step(model: Any, ids: torch.Tensor, there: torch.Tensor, bf16: bool) -> float:
    """Run one forward and backward pass; return the seconds."""
    began = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        hidden = model(input_ids=ids, attention_mask=there).last_hidden_state
    (hidden.float() ** 2).mean().backward()
    model.zero_grad(set_to_none=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
