"""A compiled gazetteer: memory-mapped files with millions of names, which open at once and use little memory.

`surfaces.marisa` numbers the names, `entities.marisa` the pages. The arrays go from a name's number to its entries
(`entry_starts` → `entry_entities`, `entry_flags`) and from a page's to its prior and its set of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntFlag
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import marisa_trie
import numpy as np

from crossner_core.errors import BadInput
from crossner_core.gazetteer.classes import ClassSets
from crossner_core.gazetteer.lookup import Resource, Via
from crossner_core.gazetteer.manifest import GazetteerManifest, SourceFile, how_to_build, read_manifest
from crossner_core.gazetteer.ontology import ClassTree
from crossner_core.gazetteer.titles import ONTOLOGY, collapse, is_askable, key_of, resource_uri, title_of

_NAMES_LOG, _BEGINNINGS_LOG = 25, 24  # bits, as powers of two: 4 and 2 MiB
_SEED = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xD6E8FEB86659FD93)  # odd, with its bits well spread


class NameBits:
    """A Bloom filter of names by their words: what it rejects is not a name, what it passes must still be looked up.

    `names` holds the hashes of whole names, `beginnings` those of the words that a longer name begins with.
    """

    def __init__(self, names: np.ndarray, beginnings: np.ndarray) -> None:
        self.names, self.beginnings = names, beginnings

    @classmethod
    def empty(cls) -> NameBits:
        """Make one without names."""
        return cls(np.zeros(1 << (_NAMES_LOG - 3), np.uint8), np.zeros(1 << (_BEGINNINGS_LOG - 3), np.uint8))

    def add(self, keys: Sequence[str]) -> None:
        """Add names, their words joined by one space."""
        hashes = _hashes(keys)
        left = np.fromiter((key.count(" ") for key in keys), np.int64, len(keys)) + 1
        offsets = np.cumsum(left) - left
        state = np.full(len(keys), _SEED)
        while len(offsets):
            state = (state ^ hashes[offsets]) * _FACTOR
            left = left - 1
            over = left == 0
            _set(self.names, state[over])
            offsets, state, left = offsets[~over] + 1, state[~over], left[~over]
            _set(self.beginnings, state)

    def candidates(self, rows: Sequence[Sequence[str]]) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
        """Return all words of the rows, and which runs of them may be names: (starts, ends, row), longest first.

        No word holds a space. Starts and ends count the words of all rows together; no run crosses rows. They are
        ordered by start.
        """
        words = list(chain.from_iterable(rows))
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        hashes, ends = _hashes(words), np.repeat(np.cumsum(sizes), sizes)
        positions, state, behind = np.arange(len(words)), np.full(len(words), _SEED), np.arange(len(words))
        hits: list[tuple[np.ndarray, np.ndarray]] = []
        while len(positions):
            state = (state ^ hashes[behind]) * _FACTOR
            behind = behind + 1
            whole = _among(self.names, state)
            hits.append((positions[whole], behind[whole]))
            inside = np.flatnonzero(behind < ends[positions])
            on = inside[_among(self.beginnings, state[inside])]
            positions, state, behind = positions[on], state[on], behind[on]
        starts = np.concatenate([part for part, _ in hits]) if hits else positions
        stops = np.concatenate([part for _, part in hits]) if hits else positions
        order = np.lexsort((-stops, starts))
        starts, stops = starts[order], stops[order]
        return words, starts, stops, np.repeat(np.arange(len(rows)), sizes)[starts]


def _hashes(texts: Sequence[str]) -> np.ndarray:
    """Return the hash of each word of the texts."""
    words = " ".join(texts).encode("utf-8", "replace").split(b" ") if texts else []
    return np.fromiter(map(crc32, words), np.uint64, len(words))


def _places(bits: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two bits that stand for each state: its uppermost bits, and those below them."""
    size = np.uint64(len(bits).bit_length() + 2)
    return states >> (_ALL - size), (states << size) >> (_ALL - size)


def _set(bits: np.ndarray, states: np.ndarray) -> None:
    for where in _places(bits, states):
        np.bitwise_or.at(bits, where >> _THREE, _ONE << (where & _SEVEN).astype(np.uint8))


def _among(bits: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the indices of the states whose bits are both set."""
    first, second = _places(bits, states)
    likely = np.flatnonzero(_get(bits, first))
    return likely[_get(bits, second[likely])]


def _get(bits: np.ndarray, where: np.ndarray) -> Any:
    return (bits[where >> _THREE] >> (where & _SEVEN).astype(np.uint8)) & _ONE != 0


_ONE, _THREE, _SEVEN, _ALL = np.uint8(1), np.uint64(3), np.uint64(7), np.uint64(64)


LONGEST = 320  # characters of a key; longer names are not kept (a title has 255 bytes at most)
_TOGETHER = 256  # sentences; enough for arrays to pay off, with little memory

Match = tuple[int, int, int]


def _compiled_scan() -> Callable[..., list[list[Match]]] | None:
    """Return the scan in C; None where it was not compiled when the workbench was installed."""
    try:
        from crossner_core.gazetteer._scan import scan
    except ImportError:
        return None
    return scan


_SCAN = _compiled_scan()


class Scanner:
    """Finds the keys of a trie among tokens, after a filter that rejects most places of many sentences at once."""

    def __init__(self, trie: Any, bits: NameBits) -> None:
        self._trie, self._bits = trie, bits

    def matches(self, rows: Sequence[Sequence[str]]) -> list[list[Match]]:
        """Return every key among the tokens of each row as (start, end, key number), by start, longest first."""
        return self._in_parts(rows, every=True)

    def scan(self, rows: Sequence[Sequence[str]]) -> list[list[Match]]:
        """Return those of `matches` that win leftmost-longest; none overlap."""
        return self._in_parts(rows, every=False)

    def _in_parts(self, rows: Sequence[Sequence[str]], *, every: bool) -> list[list[Match]]:
        if _SCAN is not None:
            bits = self._bits
            return _SCAN(rows, bits.names, bits.beginnings, int(_SEED), int(_FACTOR), self._trie.get, every)
        matches: list[list[Match]] = []
        for low in range(0, len(rows), _TOGETHER):
            matches += self._found(rows[low : low + _TOGETHER], every=every)
        return matches

    def _found(self, rows: Sequence[Sequence[str]], *, every: bool) -> list[list[Match]]:
        matches: list[list[Match]] = [[] for _ in rows]
        if not all(map(_is_plain, map(" ".join, rows), rows)):
            rows = [[_spelt(word) for word in words] for words in rows]
        words, starts, ends, row_of = self._bits.candidates(rows)
        begins = list(accumulate(map(len, rows), initial=0))
        get, free = self._trie.get, 0
        for start, end, row in zip(starts.tolist(), ends.tolist(), row_of.tolist(), strict=True):
            if start < free:
                continue
            key = get(words[start] if end == start + 1 else " ".join(words[start:end]))
            if key is not None:
                begin = begins[row]
                matches[row].append((start - begin, end - begin, key))
                if not every:
                    free = end
        return matches


def _is_plain(text: str, words: Sequence[str]) -> bool:
    return "’" not in text and "\0" not in text and text.count(" ") == max(len(words) - 1, 0)


def _spelt(word: str) -> str:
    """Return a token as keys spell it.

    A token with a space can be part of no name, nor one with a NUL, where the trie would stop reading. Either becomes a
    control character, which no key holds.
    """
    return word.replace("’", "'").replace(" ", "\1").replace("\0", "\1")


SURFACES, ENTITIES, CLASSES = "surfaces.marisa", "entities.marisa", "classes.json"
BITS = ("names", "beginnings")
ARRAYS = ("entry_starts", "entry_entities", "entry_flags", "entity_sets", "entity_priors")
FILES = (SURFACES, ENTITIES, CLASSES, *(f"{name}.npy" for name in (*BITS, *ARRAYS)))


class Flag(IntFlag):
    """The ways from a surface to a page, most direct first; one entry may have several."""

    TITLE = 1
    LABEL = 2
    REDIRECT = 4
    SUFFIX = 8
    """without `(band)`"""
    COMMA = 16
    """a place without `, Ontario`"""
    POSSESSIVE = 32
    """`Alzheimer disease`, `McDonalds`: an `'s` left out, or its apostrophe"""
    LOWERCASED = 64
    """`hard bop`: the first letter of a title is always a capital"""
    PLURAL = 128
    """`hard bops`, `Grammy Awards`: the last word in the plural"""


class Entry(NamedTuple):
    """A page that a surface may stand for: its title, and its classes as the source states them.

    `flags` is how the surface leads there, `prior` how often the page is linked: 0 where the source counts no links.
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
        for source_file in manifest.files:
            _check_size(folder / source_file.name, source_file)
        missing = sorted(set(FILES) - {source_file.name for source_file in manifest.files})
        if missing:
            raise BadInput(f"{folder}: {', '.join(missing)} is not in its manifest. {how_to_build(folder)}")
        try:
            self._classes_read = (folder / CLASSES).read_bytes()  # parsed later, when the folder may have been replaced
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
        wrong = [
            source_file.name
            for source_file in self.manifest.files
            if SourceFile.of(self.folder / source_file.name) != source_file
        ]
        if wrong:
            raise BadInput(f"{self.folder}: {', '.join(wrong)} does not match its hash. {how_to_build(self.folder)}")

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
        number = _number(self._surfaces, key_of(surface))
        return () if number is None else self.entries_of(number)

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
            if (number := _number(self._entities, wanted)) is not None:
                return self._entry(number, Flag.TITLE)
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

    def lookup(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        """Return the pages of every name as a `Source` does; a name unknown as it stands is tried as a title."""
        return {name: self._candidates(name) for name in dict.fromkeys(names)}

    def _candidates(self, name: str) -> tuple[Resource, ...]:
        entries = (self.entries(name) or self.entries(title_of(name))) if is_askable(name) else ()
        return tuple(
            Resource(
                resource_uri(entry.entity),
                tuple(sorted(ONTOLOGY + class_name for class_name in entry.classes)),
                _via(entry),
            )
            for entry in entries
        )

    # text → names

    def matches(self, rows: Sequence[Sequence[str]]) -> list[list[Match]]:
        """Return for each sentence every known surface as (start, end, number), by start, longest first.

        `rows` are the texts of `tokenize`d tokens; number is what `entries_of` takes. Large batches are fastest.
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
