"""The speed of pre-training an encoder: DAPT's subwords and steps per second, and the cost of its head.

    python -m benchmarks.pretraining [--encoder minilm] [--block-size 128] [--batch-size 16] [--steps 8] [--text FILE …]

Compares our steps, whose decoder runs at masked positions only, with a plain baseline, whose decoder runs at every
position, alternating on the same blocks and masks; both losses must agree. Prints medians, the ratio, peak memory and
the speed of turning text into blocks. Without --text, the corpus is random words. Exit 1 if the losses differ or ours
is not faster.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from crossner_core.adaptation.dapt import DaptTask, Part
from crossner_core.adaptation.prepared import Arrays, WordIds, prepare_blocks
from crossner_core.adaptation.pretraining_job import WHOLE_PHASE
from crossner_core.adaptation.texts import PretrainText, Texts, text_files
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.options.dapt import DaptOptions
from crossner_core.training.engine import TaskRun
from crossner_core.training.machine import PeakMemory, RunRandom, pick_device, use_bf16
from crossner_core.training.machine import prepare as prepare_machine

ALIKE = 0.02  # allowed relative difference of losses in bf16


def random_texts(documents: int, tokenizer: object) -> Texts:
    """Make a corpus of whole words of the vocabulary, drawn by Zipf's law."""
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha() and len(word) > 2)  # type: ignore[attr-defined]

    def read() -> Iterator[Sequence[str]]:
        rng = np.random.default_rng(0)
        for _ in range(documents):
            yield [words[rank] for rank in np.minimum(rng.zipf(1.2, 60), len(words)) - 1]

    return read


def prepare(options: DaptOptions, encoder: Encoder, texts: Texts, folder: Path) -> DaptTask:
    """Turn a corpus into blocks; print the speed."""
    began = time.perf_counter()
    words = WordIds(encoder.tokenizer, options.unknown_word)
    (*_, count) = prepare_blocks(folder, PretrainText(texts), words, share=0.02, seed=0, meta={})
    print(f"text into blocks: {count / (time.perf_counter() - began):,.0f} subwords/s ({count:,} subwords)")
    return DaptTask(options, encoder, Arrays(folder / "train"), Arrays(folder / "held_out"))


def plain_loss(task: DaptTask, part: Part) -> torch.Tensor:
    """Return the same loss with the decoder over all positions, as a masked language model usually has it."""
    model = task.model
    with torch.autocast(part.ids.device.type, dtype=torch.bfloat16, enabled=model.use_bf16):
        hidden = model.encoder(input_ids=part.ids, attention_mask=part.attention).last_hidden_state  # (B, L, H)
        scores = model.head(hidden.flatten(0, 1), model.embeddings)  # (B × L, V)
    wanted = torch.full((part.ids.numel(),), -100, device=part.ids.device)
    wanted[part.places] = part.wanted
    return functional.cross_entropy(scores.float(), wanted, ignore_index=-100)


def measure(run: TaskRun[DaptTask], task: DaptTask, steps: int) -> tuple[dict[str, list[float]], list[float]]:
    """Alternate our steps and plain ones; return seconds per token of each and relative differences of the losses."""
    ways: dict[str, Callable[[Part], torch.Tensor]] = {
        "ours": task.loss,
        "plain": lambda part: plain_loss(task, part),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    parted = []
    for number in range(steps + 1):
        work = task.batch(WHOLE_PHASE, 0, number % task.epoch_steps, 1)
        (part,) = work.parts
        task.model.eval()
        with torch.inference_mode():
            theirs, other = (float(loss(part)) for loss in ways.values())
        parted.append(abs(theirs - other) / other)
        task.model.train()
        for name, loss in ways.items():
            peak, began = PeakMemory(part.ids.device) if not number else None, time.perf_counter()
            with run.random.active():
                loss(part).backward()
            torch.nn.utils.clip_grad_norm_(task.model.parameters(), run.plan.clip_norm)
            run.optimizer.step()
            run.optimizer.zero_grad(set_to_none=True)
            if part.ids.is_cuda:
                torch.cuda.synchronize()
            if number:  # the first one warms up
                seconds[name].append((time.perf_counter() - began) / work.tokens)
            if peak is not None:
                print(f"{name}: peak memory of a step {peak.megabytes():,.0f} MiB ({peak.of})")
    return seconds, parted


def main() -> int:
    """Measure and print; return 1 if a bar is missed."""
    given = _options()
    encoder = load_encoder(given.encoder)
    options = DaptOptions(
        encoder=given.encoder,
        block_size=given.block_size,
        batch_size=given.batch_size,
        precision=given.precision,
        learning_rate=1e-5,
    )
    with tempfile.TemporaryDirectory() as folder:
        texts = text_files(given.text) if given.text else random_texts(3000, encoder.tokenizer)
        task = prepare(options, encoder, texts, Path(folder))
        device = pick_device(options.device)
        task.model.to(device)
        task.model.use_bf16 = use_bf16(options.precision, device)
        seconds, parted = measure(TaskRun(task, RunRandom(0, device)), task, given.steps)
    number_format = "bf16" if task.model.use_bf16 else "fp32"
    print(
        f"{given.encoder}, {number_format}, {options.batch_size} blocks of {task.blocks.size} subwords a step, "
        f"{prepare_machine()}, {given.steps} steps each in turns"
    )
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, each in medians.items():
        steps = 1 / each / task.blocks.size / options.batch_size
        print(f"{name}: {1 / each:,.0f} subwords/s, {steps:.3f} steps/s")
    ratio = medians["plain"] / medians["ours"]
    print(f"decoder at masked positions alone: {ratio:.2f} × as fast; losses part by {max(parted):.2%} at most")
    return 0 if ratio > 1 and max(parted) < ALIKE else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--block-size", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    parser.add_argument("--text", type=Path, nargs="+", help="UTF-8 files, one document per line")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
