"""Order a pool of 100,000 sentences with a run's model in a process of its own; print the megabytes it held at most."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.perf.ordering import ordered
from benchmarks.pool_turn import pool_of
from crossner_core.encoders.loading import load_encoder
from crossner_core.training.machine import PeakMemory, prepare
from crossner_core.training.predictor import load_tagger

SENTENCES = 100_000


def main(data: Path, run: Path) -> None:
    """Count from the loading of model and pool on."""
    prepare()
    memory, pool = PeakMemory(torch.device("cpu")), pool_of(data, SENTENCES)
    with tempfile.TemporaryDirectory() as folder:
        ordered(Path(folder), load_tagger(run), load_encoder("minilm"), pool)
    print(json.dumps({"megabytes": memory.megabytes()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
