"""Write the golden values anew: `python -m tests.golden.make [PART …]`; look at the diff before it is committed.

Parts that are named `old-…` are files of an old version that have to be read for ever; they are written only if asked
for by name.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.golden import hashes, kept, losses, stored, surface, tagger


def _losses(folder: Path) -> dict[str, Any]:
    measured = {}
    for processes in (1, 2):
        out = folder / f"{processes}.json"
        measured[processes] = losses.finish(losses.start(out, processes), out)
    return {"machine": measured[1]["machine"], **{str(count): one["losses"] for count, one in measured.items()}}


PARTS: dict[str, Callable[[Path], Any]] = {
    "losses": _losses,
    "hashes": hashes.made,
    "payloads": stored.payloads,
    "views": lambda folder: stored.views(stored.restore(folder / "home")),
    "old_run": tagger.read,
    "surface": surface.made,
}
OLD: dict[str, Callable[[Path], None]] = {"old-store": stored.write_old, "old-run": tagger.write_old}


def main(asked: list[str]) -> None:
    """Write all golden values, or those asked for."""
    for name in asked or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            if name in OLD:
                OLD[name](Path(folder))
            else:
                kept.keep(name, PARTS[name](Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
