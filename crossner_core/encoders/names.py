"""Names of encoders: the bundled one, untrained ones, and those of a library (a subfolder each). Needs no torch."""

from __future__ import annotations

from pathlib import Path

BUNDLED = "minilm"
WORDS = "words"
FLAIR = "flair"
# Encoders that need no pre-trained weights, for forms: word vectors, alone or with characters.
UNTRAINED = (WORDS, f"{WORDS}:chars=lstm", f"{WORDS}:chars=cnn")


def library_names(library: Path) -> tuple[str, ...]:
    """Return the names of a library's encoders; hidden folders are encoders still being made."""
    children = library.iterdir() if library.is_dir() else ()
    return tuple(sorted(path.name for path in children if path.is_dir() and not path.name.startswith(".")))
