"""The category graph of a Wikipedia, and the corpus of a domain: the pages in one part of that graph.

Categories may have several parents, and their links form cycles: the "tree" is not a tree.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotFound
from crossner_core.gazetteer.titles import title_of
from crossner_core.wikipedia.corpus import CATEGORY, KEPT, Corpus, CorpusWriter
from crossner_core.wikipedia.manifest import Counts, Manifest, Parent

Ids = npt.NDArray[np.int32]
_CLOSE = 5


def category_title(name: str) -> str:
    """Return a category's title as it is in the graph: no namespace, spaces, first letter capital."""
    head, colon, rest = name.partition(":")
    return title_of(rest if colon and head.strip().casefold() == "category" else name)


@dataclass(frozen=True, slots=True)
class TreeConfig:
    """Which part of the category tree makes a domain."""

    roots: tuple[str, ...]
    """Categories to start from, with or without `Category:`."""
    depth: int = 4
    """How many steps below a root a category may lie; 0 takes the roots alone."""
    exclude: tuple[str, ...] = ()
    """Categories that are left out, with whatever can be reached only through them."""

    def __post_init__(self) -> None:
        if not self.roots:
            raise InvalidConfig("A corpus of a domain needs at least one root category, e.g. --root Music.")
        if self.depth < 0:
            raise InvalidConfig(f"depth is {self.depth}; give 0 (the roots alone) or more.")


@dataclass(frozen=True)
class Reached:
    """The categories within reach of the roots: ids in order of depth, the depth of each."""

    graph: CategoryGraph
    config: TreeConfig
    ids: Ids
    depths: npt.NDArray[np.int16]

    @property
    def titles(self) -> tuple[str, ...]:
        """The categories, nearest first."""
        return tuple(self.graph.title(int(number)) for number in self.ids)

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Tell for each id of the graph whether it is reached."""
        mask = np.zeros(len(self.graph), bool)
        mask[self.ids] = True
        return mask

    @property
    def by_depth(self) -> tuple[int, ...]:
        """The number of categories at each depth, the roots first."""
        return tuple(int(count) for count in np.bincount(self.depths))


class CategoryGraph:
    """The direct subcategories of each category: `children[offsets[i]:offsets[i + 1]]` are those of category i."""

    def __init__(self, titles: Any, offsets: npt.NDArray[np.int64], children: Ids) -> None:
        """Take a marisa Trie of titles, whose key ids are the ids of the categories, and the two arrays."""
        self._titles, self.offsets, self.children = titles, offsets, children

    @classmethod
    def from_parents(cls, parents: Mapping[str, Iterable[str]] | Iterable[tuple[str, Iterable[str]]]) -> Self:
        """Build the graph from each category's parents; a parent needs no entry of its own."""
        below: list[str] = []
        above: list[str] = []
        alone: set[str] = set()
        for name, over in parents.items() if isinstance(parents, Mapping) else parents:
            alone.add(name)
            for parent in over:
                below.append(name)
                above.append(parent)
        titles = cls.index({*alone, *above})
        return cls.from_pairs(titles, cls.ids_of(titles, below), cls.ids_of(titles, above))

    @classmethod
    def from_pairs(cls, titles: Any, below: Ids, above: Ids) -> Self:
        """Build the graph from two columns of ids; duplicates count once."""
        pairs = np.unique(above.astype(np.int64) << 32 | below.astype(np.int64))
        offsets = np.zeros(len(titles) + 1, np.int64)
        np.cumsum(np.bincount(pairs >> 32, minlength=len(titles)), out=offsets[1:])
        return cls(titles, offsets, (pairs & 0xFFFFFFFF).astype(np.int32))

    @staticmethod
    def index(titles: Iterable[str]) -> Any:
        """Return the table of titles that gives each category its id."""
        from marisa_trie import Trie

        return Trie(titles)

    @staticmethod
    def ids_of(titles: Any, names: Sequence[str]) -> Ids:
        """Return the ids of titles that are all in the table."""
        return np.fromiter((titles[name] for name in names), np.int32, len(names))

    def __len__(self) -> int:
        return len(self._titles)

    @property
    def edges(self) -> int:
        return len(self.children)

    def title(self, id: int) -> str:
        return str(self._titles.restore_key(id))

    def get(self, title: str) -> int | None:
        """Return a category's id by its exact title, None if there is none."""
        number = self._titles.get(title)
        return None if number is None else int(number)

    def find(self, name: str) -> int:
        """Return a category's id, however it is written; raise NotFound listing similar titles."""
        title = category_title(name)
        if (number := self.get(title)) is not None:
            return number
        folded = title.casefold()
        close = [title for title in self._like(title) if title.casefold() == folded] or self._like(title)
        hint = f"; similar are {', '.join(map(repr, close[:_CLOSE]))}" if close else ""
        raise NotFound(f"There is no category {title!r} among the {len(self):,} known{hint}.")

    def reach(self, config: TreeConfig) -> Reached:
        """Walk down from the roots, breadth first, so that each category has its least depth; cycles do no harm."""
        seen = np.zeros(len(self), bool)
        seen[[self.find(name) for name in config.exclude]] = True
        roots = np.unique(np.array([self.find(name) for name in config.roots], np.int32))
        if blocked := [self.title(int(root)) for root in roots if seen[root]]:
            raise InvalidConfig(f"{', '.join(blocked)} is both a root and excluded; leave out one of the two.")
        seen[roots] = True
        levels = [roots]
        while len(levels) <= config.depth and levels[-1].size:
            below = self._below(levels[-1])
            fresh = np.unique(below[~seen[below]])
            seen[fresh] = True
            levels.append(fresh)
        depths = np.repeat(np.arange(len(levels), dtype=np.int16), [len(level) for level in levels])
        return Reached(self, config, np.concatenate(levels), depths)

    def cycles(self, within: Reached | None = None) -> tuple[tuple[str, ...], ...]:
        """Return the categories that form cycles, group by group, largest first; a group reaches itself."""
        inside = np.ones(len(self), bool) if within is None else within.mask.copy()
        above = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))
        below = self.children
        while True:  # what nothing leads to, or what leads nowhere, is on no cycle
            keep = inside[above] & inside[below]
            above, below = above[keep], below[keep]
            left = np.zeros(len(self), bool)
            left[np.intersect1d(above, below)] = True
            if np.array_equal(left, inside):
                break
            inside = left
        return self._groups(above, below)

    def _below(self, ids: Ids) -> Ids:
        """Return the children of many categories at once."""
        starts, ends = self.offsets[ids], self.offsets[ids + 1]
        lengths = ends - starts
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.children[np.repeat(starts, lengths) + within]

    def _groups(self, above: Ids, below: Ids) -> tuple[tuple[str, ...], ...]:
        """Find the strongly connected components among the few categories that are left (Kosaraju)."""
        down: dict[int, list[int]] = {}
        up: dict[int, list[int]] = {}
        for parent, child in zip(above.tolist(), below.tolist(), strict=True):
            down.setdefault(parent, []).append(child)
            up.setdefault(child, []).append(parent)
        order = [node for start in _walks(sorted(down), down) for node in start]
        groups = [sorted(group) for group in _walks(reversed(order), up)]
        named = [
            tuple(map(self.title, group)) for group in groups if len(group) > 1 or group[0] in down.get(group[0], ())
        ]
        return tuple(sorted(named, key=lambda group: (-len(group), group)))

    def _like(self, title: str) -> list[str]:
        """Return known titles similar to one: among those with the same prefix, then among all of a small graph."""
        for length in range(len(title), 1, -1):
            near = list(islice(self._titles.iterkeys(title[:length]), 5000))
            if near and (close := difflib.get_close_matches(title, near, _CLOSE, 0.5)):
                return close
        return difflib.get_close_matches(title, islice(self._titles.iterkeys(), 20_000), _CLOSE)


def _walks(starts: Iterable[int], edges: Mapping[int, Sequence[int]]) -> Iterable[list[int]]:
    """Yield for each start not seen before what it newly reaches, in order of finishing."""
    seen: set[int] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        finished: list[int] = []
        path = [(start, iter(edges.get(start, ())))]
        while path:
            step = next((child for child in path[-1][1] if child not in seen), None)
            if step is None:
                finished.append(path.pop()[0])
            else:
                seen.add(step)
                path.append((step, iter(edges.get(step, ()))))
        yield finished


@dataclass(frozen=True, slots=True)
class Members:
    """The pages in some categories, by number or by title, whichever the source has."""

    pages: npt.NDArray[np.int64] | None
    titles: frozenset[str] | None

    def mask(self, pages: npt.NDArray[np.int64], titles: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Tell for each page whether it is among them."""
        if self.pages is not None:
            return np.isin(pages, self.pages)
        assert self.titles is not None
        return np.fromiter((title in self.titles for title in titles), bool, len(titles))


class CategorySource(Protocol):
    """What a selection by category needs."""

    @property
    def name(self) -> str:
        """Where the categories come from, for the manifest."""
        ...

    @property
    def graph(self) -> CategoryGraph:
        """The category tree."""
        ...

    def members(self, reached: Reached) -> Members:
        """Find the pages in the categories reached."""
        ...


def select(
    corpus: Corpus,
    source: CategorySource,
    config: TreeConfig,
    out: Path,
    *,
    progress: Callable[[int, int], None] = lambda done, shards: None,
) -> Corpus:
    """Write the pages of the categories within reach as a corpus of their own, shard by shard.

    The category pages within reach are included, so that it can be selected from again. Doing it again gives the same
    bytes; a corpus that already exists is returned as it is. Raise BadInput if no page is in the categories, Conflict
    if `out` holds another corpus.
    """
    reached = source.graph.reach(config)
    parent = Parent(corpus.name, corpus.manifest.hash, describe(reached, source))
    if (existing := _there(out)) is not None:
        if existing.manifest.derived_from == parent:
            return existing
        raise Conflict(f"{out} holds another corpus; give another folder or remove it.")
    members = source.members(reached)
    chosen = frozenset(reached.titles)
    pages = [
        _chosen(_read(corpus, "pages", index), members.mask, chosen) for index in range(len(corpus.manifest.shards))
    ]
    if not any(_kept(table).num_rows for table in pages):
        raise BadInput(
            f"No page of the corpus {corpus.name} is in the {len(reached.ids):,} categories within {config.depth} "
            f"steps of {', '.join(config.roots)}: go deeper, take other roots, or take the categories from the dump's "
            "SQL tables."
        )
    writer, shards, counts = CorpusWriter(out), [], Counts()
    for index, (shard, table) in enumerate(zip(corpus.manifest.shards, pages, strict=True)):
        rows = _read(corpus, "sentences", index)
        rows = rows.filter(pc.is_in(rows["page"], value_set=_kept(table)["page"].combine_chunks()))
        shards.append(writer.write_shard(shard.number, rows, table))
        counts += count(rows, table)
        progress(index + 1, len(pages))
    made = corpus.manifest
    return writer.finish(
        Manifest(
            made.source, made.config, counts, tuple(shards), made.gazetteer, made.domain, parent, made.truncated
        )
    )  # fmt: skip


def describe(reached: Reached, source: CategorySource) -> dict[str, Any]:
    """Return how pages were chosen, as plain JSON values."""
    circles = reached.graph.cycles(reached)
    return {
        "kind": "categories",
        "source": source.name,
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(reached.config).items()},
        "categories_by_depth": list(reached.by_depth),
        "circles": len(circles),
        "categories_in_circles": sum(map(len, circles)),
    }


def count(sentences: pa.Table, pages: pa.Table) -> Counts:
    """Count what CrossNER's Table 1 counts, and the rest of a manifest, from the rows themselves."""

    def total(column: str) -> int:
        return int(pc.sum(pages[column]).as_py() or 0)

    statuses = pages["status"].to_pylist()
    kept = _kept(pages)
    reasons = [why for why in kept["parser_reason"].to_pylist() if why]
    mentions = pc.sum(pc.list_value_length(sentences["mention_starts"])).as_py()
    return Counts(
        pages=pages.num_rows,
        kept=kept.num_rows,
        categories=statuses.count(CATEGORY),
        paragraphs=total("paragraphs"),
        sentences=sentences.num_rows,
        tokens=total("tokens"),
        links=total("links"),
        mentions=int(mentions or 0),
        fast=kept["parser"].to_pylist().count("fast"),
        fallback={why: reasons.count(why) for why in sorted(set(reasons))},
    )


def _chosen(pages: pa.Table, mask: Callable[..., Any], categories: frozenset[str]) -> pa.Table:
    statuses = np.array(pages["status"].to_pylist(), object)
    titles = pages["title"].to_pylist()
    named = np.fromiter((category_title(title.partition(":")[2]) in categories for title in titles), bool, len(titles))
    inside = mask(pages["page"].to_numpy(), titles)
    return pages.filter(pa.array(((statuses == KEPT) & inside) | ((statuses == CATEGORY) & named)))


def _kept(pages: pa.Table) -> pa.Table:
    return pages.filter(pc.equal(pages["status"], KEPT))


def _read(corpus: Corpus, kind: str, shard: int) -> pa.Table:
    path = corpus.folder / kind / corpus.manifest.shards[shard].file_name
    try:
        return pq.read_table(path, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{path} cannot be read: copy the corpus again, or rebuild it. ({error})") from error


def _there(folder: Path) -> Corpus | None:
    try:
        return Corpus.open(folder)
    except NotFound:
        return None
    except BadInput:
        if (folder / "manifest.json").exists():
            raise
        return None  # begun and not finished: the shards are written again
