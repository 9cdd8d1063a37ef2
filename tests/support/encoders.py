"""Options and text for pre-training the tiny encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.training_builders import own_sentences

QUICK = {
    "learning_rate": 5e-3,
    "epochs": 2,
    "batch_size": 8,
    "head_first_steps": 4,
    "device": "cpu",
    "precision": "fp32",
}
DAPT = {**QUICK, "block_size": 32, "held_out_share": 0.2}
CHARACTERS = {
    "hidden_size": 12, "row_length": 80, "batch_size": 8, "learning_rate": 2e-2, "held_out_share": 0.2, "epochs": 2,
    "device": "cpu",
}  # fmt: skip


def options(home: Path, values: dict[str, Any] = DAPT, **changes: Any) -> dict[str, Any]:
    return {**values, "encoder": str(home / "tiny"), **changes}


def own_text(folder: Path, count: int = 60) -> Path:
    path = folder / "own.txt"
    path.write_text("".join(" ".join(item.sentence.words) + "\n" for item in own_sentences(count)))
    return path
