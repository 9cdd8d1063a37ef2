"""Train every architecture in every setting on a GPU: whole, again, stopped and resumed, moved from the CPU.

Needs a GPU, and says so where there is none. For each pair of architecture and setting (and for the baselines on word
vectors, joint), on a few sentences of two corpora, it prints what failed, the largest difference of a weight between
two runs of one seed (`again`), between a run and the same run stopped and resumed (`resumed`), whether a run begun on
the CPU goes on there (`moved`), and dev F1 beside the CPU's. The bar: `again` and `resumed` are 0 for every pair, with
algorithms alone that give the same numbers each time; `--no-deterministic` allows others and judges nothing. Then it
measures speed (`benchmarks/gpu/speed.py`). With `--report` all lines are a section of docs/results/training.md. If a
bar is missed or a run failed, the exit code is 1.

    python -m benchmarks.gpu --data ../shared/data/ner [--encoder minilm] [--workers 4] [--no-deterministic]
        [--only correct|speed] [--report docs/results]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.gpu.correct import MISSED, correct
from benchmarks.gpu.speed import click_to_point, speed
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.report import put_section


def main() -> int:
    """Measure, print, and return 0 if nothing failed and all bars are met."""
    options = _options()
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU here: nothing is measured.")
        return 2
    lines = []
    for line in measured(options):
        print(line, flush=True)
        lines.append(line)
    if options.report is not None:
        shown = " ".join(Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])
        text = "\n".join(["## On a GPU", "", f"Written by `python -m benchmarks.gpu {shown}`.", "", *lines])
        put_section(options.report / "training.md", "gpu", text)
    return 1 if any("failed" in line or line.startswith(MISSED) for line in lines) else 0


def measured(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of what is measured, in Markdown."""
    yield f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}"
    if options.only != "speed":
        yield from correct(options)
    if options.only != "correct":
        yield ""
        yield f"- {click_to_point(options.data, options.corpus, device='cuda', encoder=options.encoder)}"
        for line in speed(read_corpus(options.corpus, options.data), read_corpus("conll2003", options.data)):
            yield f"- {line}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--corpus", default="music")
    parser.add_argument("--source", default="ai")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--deterministic",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="refuse kernels that add in any order; without this, whether runs are equal is not judged",
    )
    parser.add_argument("--only", choices=("correct", "speed"), help="measure this alone")
    parser.add_argument("--report", type=Path, help="folder of the pages of results, to write a section there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
