"""Facts about pages, whatever their origin, and the columns and tables that a compiled gazetteer is made of."""

from __future__ import annotations

import itertools
import operator
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import marisa_trie
import numpy as np

from crossner_core.gazetteer.classes import COMMON, PLACE, ClassSets
from crossner_core.gazetteer.compiled import LONGEST, Flag, NameBits
from crossner_core.gazetteer.ontology import ClassTree
from crossner_core.gazetteer.titles import key_of, strip_suffix


class Typed(NamedTuple):
    """A page has a class: page title with spaces, class name (`Band`)."""

    entity: str
    cls: str


class Label(NamedTuple):
    """A page is called this."""

    entity: str
    text: str


class Redirect(NamedTuple):
    """A title leads to a page, or to another redirect."""

    source: str
    target: str


class Count(NamedTuple):
    """A page is linked to this often; counts of one page, and of the redirects that lead to it, are added up."""

    entity: str
    n: int


Fact = Typed | Label | Redirect | Count


_SLAB = 1 << 16


class Names:
    """A growing list of names (without line ends), kept as UTF-8 in slabs."""

    def __init__(self) -> None:
        self._slabs: list[bytes] = []
        self._open: list[str] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, names: Sequence[str]) -> None:
        """Add names."""
        self._size += len(names)
        self._open += names
        if len(self._open) >= _SLAB:
            self._close()

    def _close(self) -> None:
        if self._open:
            self._slabs.append("\n".join(self._open).encode())
            self._open = []

    def slabs(self) -> Iterator[list[str]]:
        """Yield the names in order, in batches."""
        self._close()
        for slab in self._slabs:
            yield slab.decode().split("\n")

    def __iter__(self) -> Iterator[str]:
        for names in self.slabs():
            yield from names

    def drain(self) -> Iterator[str]:
        """Yield the names in order and forget them."""
        self._close()
        slabs, self._slabs, self._size = self._slabs, [], 0
        slabs.reverse()
        while slabs:
            yield from slabs.pop().decode().split("\n")


class Index:
    """Finds the numbers of a trie's keys by 64-bit hashes, several times faster than the trie, many at a time.

    An unknown name passes for a known one with probability keys / 2^64: for all names of Wikipedia among all its pages,
    once in 100,000 builds.
    """

    def __init__(self, trie: Any) -> None:
        size = len(trie)
        hashes = np.fromiter((hash(trie.restore_key(number)) for number in range(size)), np.int64, size)
        order = np.argsort(hashes).astype(np.uint32)
        self._hashes, self._numbers = hashes[order], order
        twins = bool(np.any(self._hashes[1:] == self._hashes[:-1]))
        self._slow = trie.get if twins else None

    def find(self, names: Sequence[str]) -> np.ndarray:
        """Return the number of each name, -1 for one that is unknown."""
        if self._slow is not None:
            return np.fromiter((self._slow(name, -1) for name in names), np.int64, len(names))
        wanted = np.fromiter(map(hash, names), np.int64, len(names))
        if not len(self._hashes):
            return np.full(len(names), -1, np.int64)
        order = np.argsort(wanted)  # neighbours are near each other in memory
        positions = np.empty(len(names), np.int64)
        positions[order] = np.searchsorted(self._hashes, wanted[order])
        positions[positions == len(self._hashes)] = 0
        return np.where(self._hashes[positions] == wanted, self._numbers[positions].astype(np.int64), -1)

    def find_all(self, names: Names) -> np.ndarray:
        """Return the number of each name of a list; all are known."""
        parts = [self.find(slab).astype(np.uint32) for slab in names.slabs()]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint32)


class Hashes:
    """A growing list of 64-bit hashes of names, valid within one process."""

    def __init__(self) -> None:
        self._values = array("q")

    def extend(self, names: Iterable[str]) -> None:
        """Add the hashes of names."""
        self._values.extend(map(hash, names))

    def among(self, others: Hashes) -> np.ndarray:
        """Tell for each hash whether the others have it too; the same hash is nearly always the same name."""
        values, known = np.frombuffer(self._values, np.int64), np.sort(np.frombuffer(others._values, np.int64))
        if not len(known):
            return np.zeros(len(values), bool)
        positions = np.searchsorted(known, values)
        positions[positions == len(known)] = 0
        return known[positions] == values


CYCLIC = "redirects in a circle"
UNTYPED = "redirects to pages without a class"


class Redirects:
    """Redirects to known pages by the page's number, and those that may lead there via others.

    Only redirects whose target is a redirect itself are followed; of the others' sources the hashes are kept.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.sources, self.entities = Names(), array("I")
        self._waiting, self._targets = Names(), Names()
        self._every, self._wanted = Hashes(), Hashes()

    def add(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Add redirects."""
        numbers = self._index.find(targets)
        known = numbers >= 0
        self._every.extend(sources)
        self.sources.extend(list(compress(sources, known)))
        self.entities.extend(numbers[known].tolist())
        open_ = list(compress(targets, ~known))
        self._waiting.extend(list(compress(sources, ~known)))
        self._targets.extend(open_)
        self._wanted.extend(open_)

    def follow(self) -> dict[str, int]:
        """Resolve what leads to a page via other redirects; return how many lead nowhere, by reason."""
        chained = self._wanted.among(self._every)
        skipped = {CYCLIC: 0, UNTYPED: int(len(chained) - np.count_nonzero(chained))}
        pairs = zip(self._waiting.drain(), self._targets.drain(), strict=True)
        steps = [pair for pair, is_chained in zip(pairs, chained.tolist(), strict=True) if is_chained]
        ends = self._ends({target for _, target in steps}) if steps else {}
        leads: dict[str, str] = {}
        for source, target in steps:
            leads.setdefault(source, target)
        for source, target in steps:
            current, seen = target, {source}
            while current not in ends and current in leads and current not in seen:
                seen.add(current)
                current = leads[current]
            if current in ends:
                self.sources.extend([source])
                self.entities.append(ends[current])
            else:
                skipped[CYCLIC if current in seen else UNTYPED] += 1
        self._every, self._wanted = Hashes(), Hashes()
        return skipped

    def _ends(self, wanted: set[str]) -> dict[str, int]:
        """Return the pages that redirects of these names lead to directly; the first of several."""
        found: dict[str, int] = {}
        for source, entity in zip(self.sources, self.entities, strict=True):
            if source in wanted:
                found.setdefault(source, entity)
        return found


_POSSESSIVE = re.compile(r"(?<=\w)['’]s(?= \w)")
_APOSTROPHE = re.compile(r"(?<=\w)['’]s(?!\w)")
_NOUN = re.compile(r"[A-Za-z]{3,}")
_SIBILANT = ("x", "z", "ch", "sh")
_SUFFIX, _COMMA, _BARE, _SMALL, _PLURAL = (
    flag.value for flag in (Flag.SUFFIX, Flag.COMMA, Flag.POSSESSIVE, Flag.LOWERCASED, Flag.PLURAL)
)
_MOST_WORDS = 5  # in a title whose last word is put into the plural


def aliases(name: str, traits: int) -> list[tuple[str, int]]:
    """Return other spellings of a name and how they are derived, as a Flag's value; `traits` are those of its classes.

    `Jazz (genre)` → `Jazz`, and from there `jazz`. Only what may be a common noun gets a plural, or loses the capital
    of a single word; several words lose it where all the others are small (`Hard bop`). A bare `'s` behind a name
    needs no alias: it is a token of its own, as is an apostrophe behind a final s.
    """
    found: list[tuple[str, int]] = []
    base, how = name, 0
    if name[-1:] == ")" and " (" in name and (bare := strip_suffix(name)):
        base, how = bare, _SUFFIX
        found.append((base, how))
    if traits & PLACE and ", " in base and (bare := base.split(", ", 1)[0].rstrip()):
        base, how = bare, how | _COMMA
        found.append((base, how))
    if "'" in base or "’" in base:
        spelt = (_POSSESSIVE.sub("", base), _APOSTROPHE.sub("s", base))
        found += [(title, how | _BARE) for title in dict.fromkeys(spelt) if title != base]
    rest = base[1:]
    common = traits & COMMON
    small = rest.islower() and (common or " " in rest) and base[0].isupper()
    if small:
        found.append((base[0].lower() + rest, how | _SMALL))
    if common and (many := plural(base)):
        found.append((many, how | _PLURAL))
        if small:
            found.append((many[0].lower() + many[1:], how | _PLURAL | _SMALL))
    return found


def plural(name: str) -> str:
    """Return an English name with its last word in the plural; "" where it seems to be plural already or is no word."""
    *words, last = name.split(" ")
    if len(words) >= _MOST_WORDS or not _NOUN.fullmatch(last) or last.endswith("s") or last.isupper():
        return ""
    if last.endswith(_SIBILANT):
        ending = last + "es"
    elif last.endswith("y") and last[-2] not in "aeiou":
        ending = last[:-1] + "ies"
    else:
        ending = last + "s"
    return " ".join((*words, ending))


DISAMBIGUATION = "(disambiguation)"
_LARGEST_COUNT = (1 << 32) - 1


class Tables(NamedTuple):
    """What is written; see `compiled` for what the arrays mean."""

    surfaces: Any
    bits: NameBits
    entities: Any
    arrays: Mapping[str, np.ndarray]
    classes: ClassSets
    aliases: Mapping[str, int]


class Collector:
    """Takes the facts of one gazetteer: all types, then `end_types`, then the rest in any order, then `tables`.

    Only what concerns pages with a class is kept. `count` receives what is left out: reason and number.
    """

    def __init__(self, tree: ClassTree, *, count: Callable[[str, int], None]) -> None:
        self._tree, self.count = tree, count
        self._titles, self._class_ids = Names(), array("I")
        self._fresh, self._last = [np.zeros(0, bool)], ""
        self._class_of: dict[str, int] = {}
        self._names, self._named = Names(), array("I")  # labels that are not the title
        self._entities: Any = None
        self._redirects: Redirects
        self._linked, self._links = Names(), array("Q")

    def types(self, titles: Sequence[str], classes: Sequence[str]) -> None:
        """Add classes of pages."""
        if any(DISAMBIGUATION in title for title in titles):
            kept = [index for index, title in enumerate(titles) if DISAMBIGUATION not in title]
            self.count("disambiguation pages", len(titles) - len(kept))
            titles, classes = [titles[index] for index in kept], [classes[index] for index in kept]
        ids = self._class_of
        for name in set(classes).difference(ids):
            ids[name] = len(ids)
        self._class_ids.extend([ids[name] for name in classes])
        # the classes of a page mostly follow each other: its title is kept once for them
        fresh = list(map(operator.ne, titles, [self._last, *titles[:-1]]))
        self._titles.extend(list(itertools.compress(titles, fresh)))
        self._fresh.append(np.array(fresh, bool))
        self._last = titles[-1] if titles else self._last

    def end_types(self) -> None:
        """Number the pages."""
        self._entities = marisa_trie.Trie(iter(self._titles))
        self._index = Index(self._entities)
        self._rows = self._index.find_all(self._titles)
        self._labelled = np.zeros(len(self._entities), bool)
        self._priors = np.zeros(len(self._entities), np.uint64)
        self._redirects = Redirects(self._index)

    def labels(self, titles: Sequence[str], texts: Sequence[str]) -> None:
        """Add names of pages."""
        numbers = self._index.find(titles)
        known = numbers >= 0
        self.count("labels of pages without a class", len(numbers) - int(np.count_nonzero(known)))
        if titles == texts:
            self._labelled[numbers[known]] = True
            return
        same = np.fromiter(map(operator.eq, titles, texts), bool, len(numbers))
        self._labelled[numbers[known & same]] = True
        self._names.extend(list(itertools.compress(texts, known & ~same)))
        self._named.extend(numbers[known & ~same].tolist())

    def redirects(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Add redirects."""
        self._redirects.add(sources, targets)

    def counts(self, titles: Sequence[str], numbers: Sequence[int]) -> None:
        """Add how often pages, or redirects to them, are linked."""
        self._linked.extend(titles)
        self._links.extend(numbers)

    def tables(self) -> Tables:
        """Follow redirects, make aliases, and sort everything; the collector is empty afterwards."""
        for reason, number in self._redirects.follow().items():
            self.count(reason, number)
        self._add_up()
        sets, classes = self._sets()
        keys, entities, flags = self._surfaces(sets, classes.traits())
        # one trie instead of three nested ones: 50% larger, and a third faster to scan with
        surfaces = marisa_trie.Trie(iter(keys), num_tries=1)
        numbers = Index(surfaces).find_all(keys)
        bits = NameBits.empty()
        for slab in keys.slabs():
            bits.add(slab)
        del keys
        priors = np.minimum(self._priors, _LARGEST_COUNT).astype(np.uint32)
        arrays = _grouped(
            numbers,
            np.frombuffer(entities, np.uint32),
            np.frombuffer(flags, np.uint8),
            priors,
            len(surfaces),
        )
        kinds = {str(flag.name).lower(): int(np.count_nonzero(arrays["entry_flags"] & flag)) for flag in Flag}
        arrays |= {"entity_sets": sets, "entity_priors": priors}
        return Tables(surfaces, bits, self._entities, arrays, classes, kinds)

    def _add_up(self) -> None:
        """Add link counts to pages, directly or by a redirect."""
        if not len(self._linked):
            return
        elsewhere: dict[str, int] = {}
        low = 0
        for titles in self._linked.slabs():
            numbers, links = self._index.find(titles), np.frombuffer(self._links, np.uint64)[low : low + len(titles)]
            low += len(titles)
            known = numbers >= 0
            np.add.at(self._priors, numbers[known], links[known])
            for title, number in zip(itertools.compress(titles, ~known), links[~known].tolist(), strict=True):
                elsewhere[title] = elsewhere.get(title, 0) + number
        for source, entity in zip(self._redirects.sources, self._redirects.entities, strict=True):
            self._priors[entity] += elsewhere.pop(source, 0)
        self.count("link counts of pages without a class", len(elsewhere))

    def _sets(self) -> tuple[np.ndarray, ClassSets]:
        """Return the number of each page's set of classes, and the sets."""
        names = list(self._class_of)
        title = np.cumsum(np.concatenate(self._fresh), dtype=np.int64) - 1
        pairs = self._rows[title].astype(np.uint64) << np.uint64(32)
        pairs |= np.frombuffer(self._class_ids, np.uint32)
        pairs.sort()  # three times as fast as `np.unique`
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
        classes = (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        starts = np.searchsorted(pairs, np.arange(len(self._entities) + 1, dtype=np.uint64) << np.uint64(32))
        raw, width = classes.tobytes(), classes.itemsize
        numbers: dict[bytes, int] = {}
        offsets = starts.tolist()
        rows = (raw[low * width : high * width] for low, high in itertools.pairwise(offsets))
        sets = np.fromiter((numbers.setdefault(row, len(numbers)) for row in rows), np.uint32, len(self._entities))
        kept = [[names[number] for number in np.frombuffer(row, np.uint32)] for row in numbers]
        depth = self._tree.depth
        ordered = [tuple(sorted(row, key=lambda name: (-depth(name), name))) for row in kept]
        rank = sorted(range(len(ordered)), key=ordered.__getitem__)  # the order of files must not matter
        position = np.empty(len(rank), np.uint32)
        position[rank] = np.arange(len(rank), dtype=np.uint32)
        return position[sets], ClassSets(tuple(ordered[number] for number in rank), self._tree)

    def _surfaces(self, sets: np.ndarray, traits: Sequence[int]) -> tuple[Names, array[int], array[int]]:
        """Return every surface with its page and flags, a row each; the same may come more than once."""
        keys, entities, flags = Names(), array("I"), array("B")
        of_set = np.array(traits or [0], np.uint8)
        for names, rows, how in self._named_pages():
            spelt: list[str] = []
            for name, entity, trait, flag in zip(names, rows.tolist(), of_set[sets[rows]].tolist(), how, strict=True):
                key = name if name.isascii() and name.replace(" ", "").isalnum() else key_of(name)
                if 0 < len(key) <= LONGEST:
                    spelt.append(key)
                    entities.append(entity)
                    flags.append(flag)
                    # most names have no alias, and this check is cheaper than a call
                    if trait or name[-1] == ")" or "'" in name or "’" in name or name[1:].islower():
                        for other, made in aliases(name, trait):
                            spelt.append(key_of(other))
                            entities.append(entity)
                            flags.append(made)
                else:
                    self.count("names that are too long", 1)
            keys.extend(spelt)
        return keys, entities, flags

    def _named_pages(self) -> Iterator[tuple[list[str], np.ndarray, Sequence[int]]]:
        """Yield names with their pages and flags; every page once by its title."""
        seen = np.zeros(len(self._entities), bool)
        low, numbers = 0, self._rows
        for names in self._titles.slabs():
            rows = numbers[low : low + len(names)]
            low += len(names)
            _, first = np.unique(rows, return_index=True)
            fresh = first[~seen[rows[first]]]
            seen[rows[fresh]] = True
            how = np.where(self._labelled[rows[fresh]], Flag.TITLE | Flag.LABEL, Flag.TITLE)
            yield [names[index] for index in fresh.tolist()], rows[fresh], how.tolist()
        for kept, pages, flag in (
            (self._names, self._named, Flag.LABEL),
            (self._redirects.sources, self._redirects.entities, Flag.REDIRECT),
        ):
            low, numbers = 0, np.frombuffer(pages, np.uint32)
            for names in kept.slabs():
                yield names, numbers[low : low + len(names)], [flag.value] * len(names)
                low += len(names)


def _grouped(
    keys: np.ndarray, entities: np.ndarray, flags: np.ndarray, priors: np.ndarray, size: int
) -> dict[str, np.ndarray]:
    """Sort rows by surface; one entry per surface and page with all its flags, most linked and most direct first."""
    order = np.lexsort((entities, keys))
    keys, entities, flags = keys[order], entities[order], flags[order]
    first = np.ones(len(keys), bool)
    first[1:] = (keys[1:] != keys[:-1]) | (entities[1:] != entities[:-1])
    starts = np.flatnonzero(first)
    keys, entities = keys[starts], entities[starts]
    flags = np.bitwise_or.reduceat(flags, starts) if len(starts) else flags
    direct = flags & -flags  # the lowest bit is the most direct way
    order = np.lexsort((entities, direct, ~priors[entities], keys))
    bounds = np.searchsorted(keys, np.arange(size + 1, dtype=np.uint32)).astype(np.uint32)
    return {"entry_starts": bounds, "entry_entities": entities[order], "entry_flags": flags[order]}
