"""Losses of every way to train, bit for bit: `python -m tests.golden.losses OUT`, alone or under a launcher.

Each way is a command over made-up sentences and a tiny encoder, a few steps long; what is pinned are the numbers in the
files that the commands leave.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from crossner_core.adaptation.__main__ import main as pretrain_command
from crossner_core.formats import write
from crossner_core.training.__main__ import main as train_command
from crossner_core.training.processes import run_together
from crossner_core.training.settings.registry import needs_unlabelled
from tests.support.training_builders import own_sentences, save_encoder, tiny_recipe

ROOT = Path(__file__).resolve().parents[2]
_SOURCE_STAGE = {"source_epochs": 1, "head_first_epochs": 1}
_ROUND = {"pdaln_rounds": 1, "pdaln_round_epochs": 1, "pdaln_target_copies": 1, "pdaln_source_copies": 1}
# As it was before PDALN had batches, epochs and a source of its own: its losses have to stay.
_FORMER = {
    "pdaln_batch_size": 0,
    "pdaln_base_epochs": 0,
    "pdaln_dev_every": 0,
    "pdaln_base_source": "drawn",
    "pdaln_with_entities": False,
    "pdaln_estimator": "biased",
}
_TWO_LSTMS = {"lstm_private": True, "lstm_size": 8}
_GENERATED = {
    "architecture": "bilstm_crf",
    "encoder": "words:size=8,chars=cnn",
    "lstm_size": 8,
    "lstm_layers": 1,
    "source_epochs": 1,
}
_STUDENT = {"self_training_epochs": 2, "self_training_batch": 4}
RECIPES: dict[str, dict[str, Any]] = {
    "direct tagger": {},
    "direct tagger in parts": {"accumulate": 2, "recompute": True, "label_smoothing": 0.1, "schedule": "constant"},
    "direct crf": {"architecture": "crf"},
    "direct label_aware": {"architecture": "label_aware", "label_history": "mixed", "label_size": 8},
    "joint": {"setting": "joint", "source_epochs": 1},
    "pretrain_finetune": {"setting": "pretrain_finetune", **_SOURCE_STAGE},
    "pdaln": {"setting": "pdaln", "architecture": "crf", **_ROUND, **_FORMER},
    "pdaln_unsupervised": {"setting": "pdaln_unsupervised", "pdaln_student": "mean_teacher", **_ROUND, **_FORMER},
    "la_dtl": {"setting": "la_dtl", "architecture": "crf", "source_epochs": 1},
    "datnet": {"setting": "datnet", "architecture": "bilstm_crf", **_TWO_LSTMS, "source_epochs": 1},
    "cross_domain_lm": {"setting": "cross_domain_lm", **_GENERATED},
    "cross_domain_lm_unsupervised": {"setting": "cross_domain_lm_unsupervised", **_GENERATED},
    "self_training": {"setting": "self_training", **_STUDENT},
    "transfer_self_training": {"setting": "transfer_self_training", **_SOURCE_STAGE, **_STUDENT},
}
_STEPS = ["--epochs", "1", "--head-first-steps", "2", "--measure-every", "1", "--refit-head"]
_STEPS += ["--learning-rate", "5e-3", "--batch-size", "8", "--device", "cpu", "--precision", "fp32"]
PRETRAININGS: dict[str, list[str]] = {
    "dapt": ["dapt", "--block-size", "24", *_STEPS],
    "dapt token in parts": ["dapt", "--block-size", "24", "--masking", "token", "--accumulate", "2", *_STEPS],
    "entity-tagging": ["entity-tagging", *_STEPS],
}


def measure(folder: Path) -> dict[str, Any]:
    """Run every command in a folder; return their numbers by name, floats as hex."""
    corpora = {"songs": ((10, 0), (4, 30), (4, 40)), "news": ((12, 100), (4, 130), (4, 140))}
    for name, parts in corpora.items():
        (folder / name).mkdir()
        for split, (count, offset) in zip(("train", "dev", "test"), parts, strict=True):
            (folder / name / f"{split}.jsonl").write_text(write(own_sentences(count, offset=offset), "jsonl"))
    (folder / "bare.jsonl").write_text(write(own_sentences(8, offset=60), "jsonl"))
    (folder / "silver.jsonl").write_text(write(own_sentences(40, offset=200), "jsonl"))
    save_encoder(folder / "encoder")
    numbers = {name: _train(folder, name.replace(" ", "-"), changes) for name, changes in RECIPES.items()}
    return numbers | {name: _pretrain(folder, name.replace(" ", "-"), words) for name, words in PRETRAININGS.items()}


def _train(folder: Path, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    recipe = tiny_recipe(**{"encoder": str(folder / "encoder"), "max_epochs": 2, **changes}).to_dict()
    words = ["--data", str(folder / "songs"), "--out", str(folder / name), "--recipe", json.dumps(recipe)]
    setting = recipe["setting"]
    words += ["--source", str(folder / "news")] if setting not in ("direct", "self_training") else []
    words += ["--unlabelled", str(folder / "bare.jsonl")] if needs_unlabelled(setting) else []
    if code := train_command([*words, "--threads", "1"]):
        raise RuntimeError(f"{name} ended with code {code}")
    result = json.loads((folder / name / "result.json").read_text())
    history = [[phase, epoch, loss.hex(), dev] for phase, epoch, loss, dev in result["history"]]
    kept = {name: result[name] for name in ("outcome", "best_epoch", "epochs", "steps")}
    return kept | {"history": history, "weights": _norm(folder / name / "tagger" / "tensors.safetensors")}


def _pretrain(folder: Path, name: str, words: list[str]) -> dict[str, Any]:
    words = [*words, "--labelled", str(folder / "silver.jsonl"), "--held-out", str(folder / "bare.jsonl")]
    if code := pretrain_command([*words, "--encoder", str(folder / "encoder"), "--out", str(folder / name)]):
        raise RuntimeError(f"{name} ended with code {code}")
    result = json.loads((folder / name / "pretraining.json").read_text())
    history = [[one["step"], one["epoch"], one["loss"].hex(), one["value"].hex()] for one in result["history"]]
    kept = {name: result[name] for name in ("kind", "measure", "steps", "epochs", "tokens")}
    measured = {name: result[name].hex() for name in ("before", "after", "refit")}
    return kept | measured | {"history": history, "weights": _norm(folder / name / "model.safetensors")}


def _norm(path: Path) -> str:
    """Return the sum of squares of all weights in a file, as hex."""
    tensors = load_file(path)
    return float(sum(float(tensors[name].double().square().sum()) for name in sorted(tensors))).hex()


def fingerprint() -> str:
    """Return a hash of how this machine computes: versions, and a short training of PyTorch's own layers."""
    torch.set_num_threads(1)
    parts = [torch.__version__, transformers.__version__, torch.backends.cpu.get_cpu_capability(), platform.machine()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        body = torch.nn.TransformerEncoderLayer(32, 2, 48, batch_first=True, activation="gelu")
        lstm, head = torch.nn.LSTM(32, 8, batch_first=True, bidirectional=True), torch.nn.Linear(16, 7)
        weights = [*body.parameters(), *lstm.parameters(), *head.parameters()]
        optimiser = torch.optim.AdamW(weights, lr=1e-2)
        for length in (3, 8, 11, 12, 24):
            for batch in (1, 4, 5, 8):
                optimiser.zero_grad()
                shares = torch.log_softmax(head(lstm(body(torch.randn(batch, length, 32)))[0]), -1)
                loss = -shares.exp().mul(shares).sum(-1).mean() + torch.logsumexp(shares[..., 0] * 3, 1).tanh().mean()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                optimiser.step()
                parts.append(float(loss.detach()).hex())
        parts += [float(weight.detach().double().sum()).hex() for weight in weights]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def start(out: Path, processes: int) -> subprocess.Popen[str]:
    """Start the measuring of all losses by so many processes; the numbers will be in `out`."""
    words = ["-m", "tests.golden.losses", str(out)]
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        place = ["--nproc-per-node", str(processes), "--master-addr", "127.0.0.1", "--master-port", port]
        words = ["-m", "torch.distributed.run", *place, *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str], out: Path) -> dict[str, Any]:
    """Wait for what `start` started; return what it measured, with the machine's fingerprint."""
    said, _ = process.communicate(timeout=280)
    if process.returncode:
        raise RuntimeError(said)
    return json.loads(out.read_text())


def main() -> int:
    """Measure everything; only the first process of many comes here."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = {"machine": fingerprint(), "losses": measure(Path(folder))}
    Path(sys.argv[1]).write_text(json.dumps(numbers))
    return 0


if __name__ == "__main__":
    sys.exit(run_together(main))
