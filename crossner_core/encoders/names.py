"""Names of encoders: the bundled one, and those of a library (one subfolder each). Needs no torch."""

from __future__ import annotations

from pathlib import Path

BUNDLED = "minilm"


def library_names(library: Path) -> tuple[str, ...]:
    """Return the names of a library's encoders; hidden folders are encoders still being made."""
    children = library.iterdir() if library.is_dir() else ()
    return tuple(sorted(path.name for path in children if path.is_dir() and not path.name.startswith(".")))
