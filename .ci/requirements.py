"""Write requirements.txt, and a requirements-EXTRA.txt for each extra, from pyproject.toml: `make requirements`."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_HEAD = "# Made from pyproject.toml by `make requirements`; constraints.txt pins what these bring along.\n"


def requirements() -> dict[str, str]:
    """Return each file's text by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = {"requirements.txt": _HEAD + _lines(project["dependencies"])}
    for extra, needed in project["optional-dependencies"].items():
        texts[f"requirements-{extra}.txt"] = f"{_HEAD}-r requirements.txt\n{_lines(needed)}"
    return texts


def _lines(needed: list[str]) -> str:
    return "".join(f"{requirement}\n" for requirement in needed)


if __name__ == "__main__":
    for name, text in requirements().items():
        (ROOT / name).write_text(text, encoding="utf-8")
