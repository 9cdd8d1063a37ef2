"""The golden files: plain JSON beside this module, written only by `python -m tests.golden.make`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def read(name: str) -> Any:
    """Return what a golden file holds."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def keep(name: str, value: Any) -> None:
    """Write a golden file, in the order in which its parts were made."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """Return a value as it is when it comes back from JSON."""
    return json.loads(json.dumps(value))
