"""Where the category tree and the pages in it come from: a corpus's own pages, MediaWiki's SQL tables, or DBpedia.

A corpus's own pages know only categories written in their wikitext; those that templates add stand in the SQL tables
and in DBpedia's dumps.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from crossner_core.errors import BadInput
from crossner_core.gazetteer.iris import titles_of
from crossner_core.wikipedia.categories import CategoryGraph, Ids, Reached, category_title
from crossner_core.wikipedia.columns import CATEGORY
from crossner_core.wikipedia.corpus import Corpus
from crossner_core.wikipedia.page import CATEGORY as CATEGORY_NAMESPACE
from crossner_core.wikipedia.sql_dump import columns_of, open_dump, table_rows, tables_of

_BLOCK = 1 << 20
_RESOURCE = rb"<https?://(?:[a-z-]+\.)?dbpedia\.org/resource/"
_BROADER = re.compile(
    rb"^" + _RESOURCE + rb"[^:>/]+:([^>]+)>\s+<http://www\.w3\.org/2004/02/skos/core#broader>\s+"
    + _RESOURCE + rb"[^:>/]+:([^>]+)>\s*\.", re.MULTILINE,
)  # fmt: skip
_SUBJECT = re.compile(
    rb"^" + _RESOURCE + rb"([^>]+)>\s+<http://purl\.org/dc/(?:terms|elements/1\.1)/subject>\s+"
    + _RESOURCE + rb"[^:>/]+:([^>]+)>\s*\.", re.MULTILINE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Members:
    """The pages that stand in some categories, by number or by title, whichever the source knows."""

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
        """Say where the categories come from, for the manifest."""
        ...

    @property
    def graph(self) -> CategoryGraph:
        """The category tree."""
        ...

    def members(self, reached: Reached) -> Members:
        """Find the pages that stand in the categories reached."""
        ...


class CorpusCategories:
    """The categories written in the wikitext of a corpus's pages, and of the category pages of its dump."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self.name = "pages"

    @cached_property
    def graph(self) -> CategoryGraph:
        parents: dict[str, tuple[str, ...]] = {}
        for batch in self._corpus.pages(["title", "status", "categories"]):
            for title, status, above in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                over = tuple(map(category_title, above or ()))
                if status == CATEGORY:
                    parents[category_title(title.partition(":")[2])] = over
                for name in over:
                    parents.setdefault(name, ())
        return CategoryGraph.from_parents(parents)

    def members(self, reached: Reached) -> Members:
        chosen, found = frozenset(reached.titles), []
        for batch in self._corpus.pages(["page", "status", "categories"]):
            for page, status, above in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if status != CATEGORY and not chosen.isdisjoint(map(category_title, above or ())):
                    found.append(page)
        return Members(np.array(sorted(found), np.int64), None)


class SqlCategories:
    """The tables `page`, `categorylinks` and, in newer dumps, `linktarget`; columns are found by name.

    `categorylinks` names a category by its title (`cl_to`) or by a number into `linktarget` (`cl_target_id`); during
    the change both stand there, and `cl_to` may be empty. It is read twice, so that the links of all articles need
    not lie in memory.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files: dict[str, Path] = {}
        for path in files:
            for table in tables_of(path):
                self._files[table] = path
        columns = columns_of(self._file("categorylinks"), "categorylinks")
        self._columns = tuple(name for name in ("cl_to", "cl_target_id") if name in columns)
        if not self._columns:
            raise BadInput(
                f"{self._file('categorylinks')}: table categorylinks has neither cl_to nor cl_target_id; it has "
                f"{', '.join(columns)}. It is from another version of MediaWiki than this reader knows."
            )
        if "cl_to" not in self._columns:
            self._file("linktarget")
        self._file("page")
        self.name = " + ".join(sorted({path.name for path in self._files.values()}))

    @cached_property
    def graph(self) -> CategoryGraph:
        titles, numbers, below, above = self._titles, self._pages, array("i"), array("i")
        for page, category in self._links():
            if (child := numbers.get(page)) is not None and category >= 0:
                below.append(child)
                above.append(category)
        return CategoryGraph.from_pairs(titles, np.asarray(below, np.int32), np.asarray(above, np.int32))

    def members(self, reached: Reached) -> Members:
        wanted, categories = reached.mask, self._pages
        links = (page for page, category in self._links() if wanted[category] and page not in categories)
        return Members(np.unique(np.asarray(array("q", links), np.int64)), None)

    @cached_property
    def _by_page(self) -> dict[int, str]:
        rows = table_rows(self._file("page"), "page", ("page_id", "page_namespace", "page_title"))
        return {_int(id): _title(title) for id, namespace, title in rows if _int(namespace) == CATEGORY_NAMESPACE}

    @cached_property
    def _by_target(self) -> dict[int, str]:
        if "cl_target_id" not in self._columns or "linktarget" not in self._files:
            return {}
        rows = table_rows(self._file("linktarget"), "linktarget", ("lt_id", "lt_namespace", "lt_title"))
        return {_int(id): _title(title) for id, namespace, title in rows if _int(namespace) == CATEGORY_NAMESPACE}

    @cached_property
    def _titles(self) -> Any:
        return CategoryGraph.index({*self._by_page.values(), *self._by_target.values(), *self._named})

    @cached_property
    def _named(self) -> frozenset[str]:
        """The categories that only `cl_to` names: they have members and no page."""
        if "cl_to" not in self._columns:
            return frozenset()
        rows = table_rows(self._file("categorylinks"), "categorylinks", ("cl_to",))
        return frozenset(_title(name) for name in {name for (name,) in rows if name})

    @cached_property
    def _pages(self) -> dict[int, int]:
        """The numbers of category pages → the ids of their categories."""
        return {page: self._titles[title] for page, title in self._by_page.items()}

    def _links(self) -> Iterator[tuple[int, int]]:
        """Yield (page, id of the category it stands in); a link whose target is unknown is left out."""
        ids = {target: int(self._titles[title]) for target, title in self._by_target.items()}
        by_name: dict[bytes, int] = {}
        has_name, has_target = ("cl_to" in self._columns), ("cl_target_id" in self._columns)
        for row in table_rows(self._file("categorylinks"), "categorylinks", ("cl_from", *self._columns)):
            name = row[1] if has_name else None
            if name:
                if (category := by_name.get(name)) is None:
                    category = by_name[name] = int(self._titles[_title(name)])
                yield _int(row[0]), category
            elif has_target and row[-1] is not None and (target := ids.get(int(row[-1]))) is not None:
                yield _int(row[0]), target

    def _file(self, table: str) -> Path:
        if (path := self._files.get(table)) is None:
            raise BadInput(
                f"The table {table} is missing: give {table}.sql.gz of the same dump too; there are "
                f"{', '.join(sorted(self._files)) or 'none'}."
            )
        return path


class DbpediaCategories:
    """DBpedia's dumps: the tree from skos:broader, the articles from dcterms:subject; nt or ttl, a triple a line."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(files)
        self.name = " + ".join(sorted(path.name for path in self._files))

    @cached_property
    def graph(self) -> CategoryGraph:
        pairs = [pair for path in self._files for pair in _pairs(path, _BROADER)]
        if not pairs:
            raise BadInput(f"{self.name}: no skos:broader between categories; give DBpedia's skos_categories dump too.")
        titles = CategoryGraph.index({title for pair in pairs for title in pair})
        below: Ids = CategoryGraph.ids_of(titles, [child for child, _ in pairs])
        return CategoryGraph.from_pairs(titles, below, CategoryGraph.ids_of(titles, [parent for _, parent in pairs]))

    def members(self, reached: Reached) -> Members:
        chosen = frozenset(reached.titles)
        articles = (pair for path in self._files for pair in _pairs(path, _SUBJECT))
        return Members(None, frozenset(title for title, category in articles if category in chosen))


def read_categories(files: Sequence[Path]) -> CategorySource:
    """Tell SQL tables from DBpedia's dumps by the files' names; raise BadInput for others."""
    kinds = {".sql" if ".sql" in path.suffixes else path.suffixes[0] if path.suffixes else "" for path in files}
    if kinds == {".sql"}:
        return SqlCategories(files)
    if kinds and kinds <= {".nt", ".ttl"}:
        return DbpediaCategories(files)
    raise BadInput(
        f"Categories come from {', '.join(path.name for path in files)}; give page.sql.gz, categorylinks.sql.gz and "
        "linktarget.sql.gz of a dump, or DBpedia's skos_categories and article_categories as .nt or .ttl (packed or "
        "not), but not both kinds."
    )


def _pairs(path: Path, pattern: re.Pattern[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the titles of a file's triples of one kind."""
    with open_dump(path) as stream:
        rest = b""
        while True:
            piece = stream.read(_BLOCK)
            whole, end, rest = (rest + piece).rpartition(b"\n") if piece else (rest, b"", b"")
            found = pattern.findall(whole + end)
            subjects, objects = (titles_of([pair[at] for pair in found]) if found else [] for at in (0, 1))
            yield from (pair for pair in zip(subjects, objects, strict=True) if all(pair))
            if not piece:
                return


def _int(value: bytes | None) -> int:
    return -1 if value is None else int(value)


def _title(value: bytes | None) -> str:
    return category_title((value or b"").decode(errors="replace").replace("_", " "))
