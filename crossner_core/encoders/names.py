"""Names of encoders: the bundled one, untrained ones, and those of a library (a subfolder each). Needs no torch."""

from __future__ import annotations

from pathlib import Path

BUNDLED = "minilm"
# Kinds of encoders.
TRANSFORMER = "transformer"
WORDS = "words"
FLAIR = "flair"
# Encoders that need no pre-trained weights, for forms: word vectors, alone or with characters.
UNTRAINED = (WORDS, f"{WORDS}:chars=lstm", f"{WORDS}:chars=cnn")


def kind_named(name: str) -> str:
    """Return the kind of encoder that a recipe's name asks for.

    A folder may hold another kind than TRANSFORMER, which its name does not tell.
    """
    kind = name.partition(":")[0]
    return kind if kind in (WORDS, FLAIR) else TRANSFORMER


def library_names(library: Path) -> tuple[str, ...]:
    """Return the names of a library's encoders; hidden folders are encoders still being made."""
    children = library.iterdir() if library.is_dir() else ()
    return tuple(sorted(path.name for path in children if path.is_dir() and not path.name.startswith(".")))
