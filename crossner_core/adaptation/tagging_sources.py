"""What entity-tagging pre-training reads: sentences, their types, and what its provenance says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crossner_core.adaptation.texts import Sentences, describe_files, labelled_files, types_of
from crossner_core.errors import BadInput


@dataclass(frozen=True, slots=True)
class TaggingSource:
    """Sentences to learn from; `held_out` of its own, or None: a share of them. `provenance` is for the run."""

    sentences: Sentences
    held_out: Sentences | None
    types: tuple[str, ...]
    provenance: Mapping[str, Any]


def from_tagged(folder: Path, *, repeat: bool = True, held_out: Sequence[Path] = ()) -> TaggingSource:
    """Read an entity-tagging corpus, sentences as often as its balancing says; raise NotFound or BadInput."""
    from crossner_core.wikipedia.tagged_corpus import TaggingManifest, read_tagged  # needs pyarrow, files do not

    types = (one.category for one in TaggingManifest.read(folder).categories if one.after)
    named = {"manifest": describe_files([folder / "manifest.json"]), "repeat": repeat}
    return _source(partial(read_tagged, folder, repeat=repeat), types, named, held_out)


def from_labelled(paths: Sequence[Path], *, held_out: Sequence[Path] = ()) -> TaggingSource:
    """Read labelled files in any format; raise BadInput for one that cannot be read."""
    sentences = labelled_files(paths)
    if not (types := types_of(sentences())):
        raise BadInput(f"{', '.join(map(str, paths))}: no sentence has an entity, so there is no type to learn.")
    return _source(sentences, types, describe_files(paths), held_out)


def from_place(place: Path) -> TaggingSource:
    """Read what a path names: an entity-tagging corpus, a folder of labelled files, or one; raise BadInput for none."""
    if (place / "manifest.json").is_file():
        return from_tagged(place)
    return from_labelled(labelled_paths(place))


def check_place(place: Path) -> None:
    """Raise BadInput where `from_place` would find nothing to read, without reading it."""
    if not (place / "manifest.json").is_file():
        labelled_paths(place)
        return
    from crossner_core.wikipedia.tagged_corpus import TaggingManifest

    TaggingManifest.read(place)


def labelled_paths(place: Path) -> list[Path]:
    """Return a labelled file, or those of a folder; raise BadInput where there is none."""
    paths = sorted(one for one in place.iterdir() if one.is_file()) if place.is_dir() else [place]
    if not paths or not paths[0].is_file():
        raise BadInput(f"{place} is no entity-tagging corpus, and no labelled file or folder of such files either.")
    return paths


def _source(sentences: Sentences, types: Iterable[str], corpus: Any, held_out: Sequence[Path]) -> TaggingSource:
    aside = labelled_files(held_out) if held_out else None
    known = sorted({*types, *(types_of(aside()) if aside else ())})
    return TaggingSource(sentences, aside, tuple(known), {"corpus": corpus, "held_out": describe_files(held_out)})
