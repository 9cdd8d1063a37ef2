"""How fast a GPU trains: tokens a second and share of the card's peak by switch, and the time to the first point.

A switch is off until a card has shown what it is worth: `pinned` (batches from page-locked memory, without the host
waiting), `packed` (the encoder's layers read a batch without its padding), `deterministic` (algorithms that give the
same numbers each time), `compiled` (the encoder by torch.compile).

There is no switch for flash attention: PyTorch's takes no mask, which padded batches need; for windows of any length it
has no dropout (`varlen_attn`) or is a prototype (nested tensors), which on a CPU found no kernel where gradients are
wanted, so that nothing could be tested without a card.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import torch

from crossner_core.encoders import packing, windows
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.transformer import Transformer
from crossner_core.experiments.corpora import Corpus
from crossner_core.training import tagging
from crossner_core.training.loop import train
from crossner_core.training.recipe import Recipe

# Dense bf16 matrix multiplication, in TFLOP/s, from vendor data sheets; the longest matching name counts.
PEAKS = {"H200": 989, "H100": 989, "H100 PCIe": 756, "A100": 312, "L40S": 362, "L4": 121, "A10": 125, "RTX 4090": 165}
SWITCHES = ("usual", "pinned", "packed", "deterministic", "compiled")
WORK = (("100 sentences", 20, 16), ("2 CoNLL epochs", 2, 32))
"""What is trained: epochs and sentences a step."""


def speed(target: Corpus, conll: Corpus, device: str = "cuda") -> Iterator[str]:
    """Yield a line for MiniLM and for a random body of BERT-base's size, by work and switch."""
    peak = peak_of(torch.cuda.get_device_name() if device == "cuda" else "")
    yield f"peak {f'{peak} TFLOP/s in bf16' if peak else 'not known here'}"
    minilm = load_encoder("minilm")
    for name, encoder in (("MiniLM", minilm), ("BERT-base, random", _random_bert_base(minilm))):
        for (what, epochs, batch), corpus in zip(WORK, (target, conll), strict=True):
            for switch in SWITCHES:
                recipe = Recipe(max_epochs=epochs, patience=epochs, batch_size=batch, device=device, max_length=128)
                yield f"{name}, {what}, {switch}: {timed(recipe, corpus, encoder, switch, peak)}"


def timed(recipe: Recipe, corpus: Corpus, encoder: Encoder, switch: str, peak: int | None) -> str:
    """Train with one switch on; return wall time, speed, share of the peak and peak memory in words.

    A step costs 6 FLOP a subword and weight of the body, embeddings apart (Kaplan et al. 2020, section 2.1).
    """
    recipe = Recipe.from_dict({**recipe.to_dict(), "deterministic": switch == "deterministic"})
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(patch.object(windows, "PINNED", switch == "pinned"))
        stack.enter_context(patch.object(packing, "PACKED", switch == "packed"))
        stack.enter_context(patch.object(tagging, "COMPILED", switch == "compiled"))
        began = time.perf_counter()
        *_, last = train(recipe, corpus.data(), checkpoint_dir=Path(folder), encoder=encoder)
        seconds = time.perf_counter() - began
    assert last.result is not None
    cut = encoder.windows([item.sentence for item in corpus.train], recipe.max_length)
    ratio = sum(len(window.input_ids) for window in cut) / sum(len(item.sentence.tokens) for item in corpus.train)
    body = sum(value.numel() for key, value in encoder.model.named_parameters() if "embeddings" not in key)
    flops = 6 * body * last.result.tokens_per_second * ratio
    share = f"{flops / peak / 1e10:.1f} % of the peak" if peak else f"{flops / 1e12:.3f} TFLOP/s"
    f1 = f", dev F1 {100 * last.result.dev.f1:.2f}" if last.result.dev is not None else ""
    memory = f"{last.result.peak_memory_mb:.0f} MB"
    return f"{seconds:.1f} s, {last.result.tokens_per_second:.0f} tokens/s ({share}), {memory}{f1}"


def click_to_point(data: Path, name: str, **fields: object) -> str:
    """Run the training command as a user does; return when it printed its first dev F1 and when it ended, in words."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--data", str(data / name), "--out", folder, "--recipe", json.dumps(fields)]
        command = [sys.executable, "-u", "-m", "crossner_core.training", *words]
        began, first = time.perf_counter(), 0.0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "dev F1" in line and not first:
                    first = time.perf_counter() - began
        whole = time.perf_counter() - began
    if process.returncode or not first:
        return f"from start to first point: failed, exit code {process.returncode}"
    return f"{name}, from start to first point: {first:.1f} s, to the result: {whole:.1f} s"


def peak_of(card: str) -> int | None:
    """Return a card's peak in TFLOP/s; None if it is not known here."""
    return max(((len(name), value) for name, value in PEAKS.items() if name in card), default=(0, None))[1]


def _random_bert_base(like: Encoder) -> Encoder:
    """Make a model of BERT-base's size with the other's tokenizer: its weights do not matter for speed."""
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=len(like.tokenizer))
    return Transformer(
        BertModel(config, add_pooling_layer=False), like.tokenizer, 768, 512, "random-bert-base", "random"
    )
