"""Facts, gathered in columns and turned into the tables of a compiled gazetteer."""

from __future__ import annotations

import itertools
import operator
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import marisa_trie
import numpy as np

from crossner_core.gazetteer.aliases import Flag, aliases
from crossner_core.gazetteer.class_sets import ClassSets
from crossner_core.gazetteer.columns import Index, Names
from crossner_core.gazetteer.keys import key_of
from crossner_core.gazetteer.name_bits import NameBits
from crossner_core.gazetteer.ontology import ClassTree
from crossner_core.gazetteer.redirects import Redirects
from crossner_core.gazetteer.scanning import LONGEST

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

    Only what concerns pages with a class is kept. `count` is told what is left out, and why.
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
            kept = [at for at, title in enumerate(titles) if DISAMBIGUATION not in title]
            self.count("disambiguation pages", len(titles) - len(kept))
            titles, classes = [titles[at] for at in kept], [classes[at] for at in kept]
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
        found = self._index.find(titles)
        known = found >= 0
        self.count("labels of pages without a class", len(found) - int(np.count_nonzero(known)))
        if titles == texts:
            self._labelled[found[known]] = True
            return
        same = np.fromiter(map(operator.eq, titles, texts), bool, len(found))
        self._labelled[found[known & same]] = True
        self._names.extend(list(itertools.compress(texts, known & ~same)))
        self._named.extend(found[known & ~same].tolist())

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
        # one trie instead of three nested ones: half as large again, and a third faster to scan with
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
            found, links = self._index.find(titles), np.frombuffer(self._links, np.uint64)[low : low + len(titles)]
            low += len(titles)
            known = found >= 0
            np.add.at(self._priors, found[known], links[known])
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
        pairs.sort()  # three times as quick as `np.unique`
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
        classes = (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        starts = np.searchsorted(pairs, np.arange(len(self._entities) + 1, dtype=np.uint64) << np.uint64(32))
        raw, width = classes.tobytes(), classes.itemsize
        numbers: dict[bytes, int] = {}
        at = starts.tolist()
        rows = (raw[low * width : high * width] for low, high in itertools.pairwise(at))
        sets = np.fromiter((numbers.setdefault(row, len(numbers)) for row in rows), np.uint32, len(self._entities))
        kept = [[names[one] for one in np.frombuffer(row, np.uint32)] for row in numbers]
        depth = self._tree.depth
        ordered = [tuple(sorted(row, key=lambda name: (-depth(name), name))) for row in kept]
        rank = sorted(range(len(ordered)), key=ordered.__getitem__)  # the order of files must not show
        place = np.empty(len(rank), np.uint32)
        place[rank] = np.arange(len(rank), dtype=np.uint32)
        return place[sets], ClassSets(tuple(ordered[one] for one in rank), self._tree)

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
                    # most names have no alias, and a call costs more than to see that
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
        """Yield names with the pages they are names of and how; every page by its title once."""
        seen = np.zeros(len(self._entities), bool)
        low, numbers = 0, self._rows
        for names in self._titles.slabs():
            rows = numbers[low : low + len(names)]
            low += len(names)
            _, first = np.unique(rows, return_index=True)
            fresh = first[~seen[rows[first]]]
            seen[rows[fresh]] = True
            how = np.where(self._labelled[rows[fresh]], Flag.TITLE | Flag.LABEL, Flag.TITLE)
            yield [names[at] for at in fresh.tolist()], rows[fresh], how.tolist()
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
