"""A compiled gazetteer: memory-mapped files that know millions of names, open at once and cost little memory.

`surfaces.marisa` numbers the names, `entities.marisa` the pages. The arrays go from a name's number to its entries
(`entry_starts` → `entry_entities`, `entry_flags`) and from a page's to its prior and its set of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import marisa_trie
import numpy as np

from crossner_core.errors import BadInput
from crossner_core.gazetteer.aliases import Flag
from crossner_core.gazetteer.class_sets import ClassSets
from crossner_core.gazetteer.keys import key_of
from crossner_core.gazetteer.manifest import GazetteerManifest, SourceFile, how_to_build, read_manifest
from crossner_core.gazetteer.name_bits import NameBits
from crossner_core.gazetteer.scanning import Match, Scanner
from crossner_core.gazetteer.source import Candidate, Via
from crossner_core.gazetteer.titles import ONTOLOGY, collapse, is_askable, resource_uri, title_of

if TYPE_CHECKING:
    from crossner_core.gazetteer.ontology import ClassTree

__all__ = ["CompiledGazetteer", "Entry", "Flag"]

SURFACES, ENTITIES, CLASSES = "surfaces.marisa", "entities.marisa", "classes.json"
BITS = ("names", "beginnings")
ARRAYS = ("entry_starts", "entry_entities", "entry_flags", "entity_sets", "entity_priors")
FILES = (SURFACES, ENTITIES, CLASSES, *(f"{name}.npy" for name in (*BITS, *ARRAYS)))


class Entry(NamedTuple):
    """A page that a surface may stand for: its title, and its classes as the source states them.

    `flags` says how the surface leads there, `prior` how often the page is linked: 0 where the source counts no links.
    """

    entity: str
    classes: tuple[str, ...]
    flags: Flag
    prior: int


class CompiledGazetteer:
    """Names and pages of a folder that `workbench gazetteer build` wrote; read-only, safe in threads.

    Fits `Source`. Processes that open the same folder share its memory.
    """

    def __init__(self, folder: Path, manifest: GazetteerManifest) -> None:
        self.folder, self.manifest = folder, manifest
        for one in manifest.files:
            _check_size(folder / one.name, one)
        missing = sorted(set(FILES) - {one.name for one in manifest.files})
        if missing:
            raise BadInput(f"{folder}: {', '.join(missing)} is not in its manifest. {how_to_build(folder)}")
        try:
            self._classes_read = (folder / CLASSES).read_bytes()  # parsed later, when the folder may be another's
            self._surfaces = marisa_trie.Trie().mmap(str(folder / SURFACES))
            self._entities = marisa_trie.Trie().mmap(str(folder / ENTITIES))
            names, beginnings, self._starts, self._of, self._flags, self._sets, self._priors = (
                np.load(folder / f"{name}.npy", mmap_mode="r") for name in (*BITS, *ARRAYS)
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise BadInput(f"{folder}: is damaged ({error}). {how_to_build(folder)}") from error
        self._scanner = Scanner(self._surfaces, NameBits(names.view(np.ndarray), beginnings.view(np.ndarray)))

    @classmethod
    def open(cls, folder: Path | str) -> CompiledGazetteer:
        """Open a gazetteer; NotFound where there is none, BadInput if it is damaged or of another version."""
        path = Path(folder)
        return cls(path, read_manifest(path))

    @property
    def name(self) -> str:
        """The name it was given."""
        return self.manifest.name

    def __len__(self) -> int:
        return len(self._surfaces)

    def verify(self) -> None:
        """Read every file and compare it with its hash; BadInput naming those that differ."""
        wrong = [one.name for one in self.manifest.files if SourceFile.of(self.folder / one.name) != one]
        if wrong:
            raise BadInput(f"{self.folder}: {', '.join(wrong)} is not what was written. {how_to_build(self.folder)}")

    @cached_property
    def _classes(self) -> ClassSets:
        return ClassSets.from_bytes(self._classes_read, self.folder / CLASSES)

    @property
    def tree(self) -> ClassTree:
        """The class tree it was built with."""
        return self._classes.tree

    # names → pages

    def entries(self, surface: str) -> tuple[Entry, ...]:
        """Return every page a surface may stand for, most linked first, then the most direct way; () if unknown."""
        found = _number(self._surfaces, key_of(surface))
        return () if found is None else self.entries_of(found)

    def entries_of(self, key: int) -> tuple[Entry, ...]:
        """Return the pages of a surface by its number, as `entries` does."""
        low, high = int(self._starts[key]), int(self._starts[key + 1])
        flags = self._flags[low:high].tolist()
        return tuple(
            self._entry(entity, Flag(flag)) for entity, flag in zip(self._of[low:high].tolist(), flags, strict=True)
        )

    def surface_of(self, key: int) -> str:
        """Return a surface by its number, its tokens joined by one space."""
        return self._surfaces.restore_key(key)

    def page(self, title: str) -> Entry | None:
        """Return the page that a link to this title reaches, directly or by a redirect; None if it has no class."""
        titles = dict.fromkeys((collapse(title), title_of(title)))
        for wanted in titles:
            if (found := _number(self._entities, wanted)) is not None:
                return self._entry(found, Flag.TITLE)
        reached = (entry for wanted in titles for entry in self.entries(wanted) if entry.flags & Flag.REDIRECT)
        return next(reached, None)

    def classes_with_counts(self) -> dict[str, int]:
        """Count the pages of each class, as the source states them."""
        counts = np.bincount(self._sets, minlength=len(self._classes.sets)).tolist()
        found: dict[str, int] = {}
        for names, number in zip(self._classes.sets, counts, strict=True):
            for name in names:
                found[name] = found.get(name, 0) + number
        return dict(sorted(found.items()))

    def _entry(self, entity: int, flags: Flag) -> Entry:
        classes = self._classes.sets[int(self._sets[entity])]
        return Entry(self._entities.restore_key(entity), classes, flags, int(self._priors[entity]))

    def lookup(self, names: Iterable[str]) -> dict[str, tuple[Candidate, ...]]:
        """Return the pages of every name as a `Source` does; a name unknown as it stands is tried as a title."""
        return {name: self._candidates(name) for name in dict.fromkeys(names)}

    def _candidates(self, name: str) -> tuple[Candidate, ...]:
        found = (self.entries(name) or self.entries(title_of(name))) if is_askable(name) else ()
        return tuple(
            Candidate(resource_uri(entry.entity), tuple(sorted(ONTOLOGY + one for one in entry.classes)), _via(entry))
            for entry in found
        )

    # text → names

    def matches(self, rows: Sequence[Sequence[str]]) -> list[list[Match]]:
        """Return for each sentence every known surface as (start, end, number), by start, longest first.

        `rows` are the texts of `tokenize`d tokens; number is what `entries_of` takes. Many at once are quickest.
        """
        return self._scanner.matches(rows)

    def scan(self, rows: Sequence[Sequence[str]]) -> list[list[Match]]:
        """Return those of `matches` that win leftmost-longest; none overlap."""
        return self._scanner.scan(rows)


def _number(trie: marisa_trie.Trie, key: str) -> int | None:
    return None if "\0" in key else trie.get(key)  # the trie stops reading at a NUL


def _check_size(path: Path, stated: SourceFile) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise BadInput(
            f"{path.parent}: {path.name} is missing ({error.strerror}). {how_to_build(path.parent)}"
        ) from error
    if size != stated.bytes:
        raise BadInput(
            f"{path.parent}: {path.name} has {size:,} bytes, not {stated.bytes:,}. {how_to_build(path.parent)}"
        )


def _via(entry: Entry) -> Via:
    if entry.flags & Flag.TITLE:
        return "title"
    if entry.flags & Flag.REDIRECT:
        return "redirect"
    return "label" if entry.flags & Flag.LABEL else "name"
