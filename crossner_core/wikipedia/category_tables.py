"""Where the category tree and the pages in it come from: a corpus's own pages, MediaWiki's SQL tables, or DBpedia.

A corpus's own pages have only the categories written in their wikitext; those that templates add are in the SQL
tables and in DBpedia's dumps.
"""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from crossner_core.errors import BadInput, NotFound
from crossner_core.gazetteer.triples import titles_of
from crossner_core.wikipedia.categories import CategoryGraph, CategorySource, Ids, Members, Reached, category_title
from crossner_core.wikipedia.corpus import CATEGORY, Corpus
from crossner_core.wikipedia.dump import CATEGORY as CATEGORY_NAMESPACE

MOST_ROW_BYTES, MOST_ROW_LINES = 16 << 20, 100
_NAME = rb"`?(\w+)`?"
_CREATE = re.compile(rb"\s*CREATE TABLE (?:IF NOT EXISTS )?(?:`?\w+`?\.)?" + _NAME + rb"\s*\(", re.IGNORECASE)
_INSERT = re.compile(
    rb"\s*(?:INSERT|REPLACE)(?: IGNORE)? INTO (?:`?\w+`?\.)?" + _NAME + rb"\s*(?:\(([^)]*)\))?\s*VALUES?\b\s*",
    re.IGNORECASE,
)
_NOT_COLUMNS = (b"PRIMARY", b"KEY", b"UNIQUE", b"INDEX", b"CONSTRAINT", b"FULLTEXT", b"SPATIAL", b"FOREIGN", b"CHECK")
_VALUE = rb"(?:_binary )?'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|[^\s,()';]++"
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"b": b"\b", b"Z": b"\x1a"}

Value = bytes | None


@contextmanager
def open_dump(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that is gzipped, bz2-compressed or plain, judged by its first bytes; raise NotFound or BadInput."""
    try:
        with path.open("rb") as plain:
            magic = plain.read(3)
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}.") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    opener: Callable[..., Any] = gzip.open if magic[:2] == b"\x1f\x8b" else bz2.open if magic == b"BZh" else open
    try:
        with opener(path, "rb") as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        raise BadInput(f"{path} is damaged or cut off ({error}); download it again.") from error


def table_rows(path: Path, table: str, columns: Sequence[str]) -> Iterator[tuple[Value, ...]]:
    """Stream the named columns of every row of a table; strings as bytes without quotes and escapes, NULL as None.

    Raise BadInput if the file has no such table, the table lacks a column, a row has another number of values than the
    table has columns, or the file ends inside a statement.
    """
    known: tuple[str, ...] = ()
    others: set[str] = set()
    with open_dump(path) as stream:
        for line in stream:
            if created := _CREATE.match(line):
                name, found = _created(created, line, stream)
                if name == table:
                    known = found
                    _check_columns(path, table, columns, known)
                others.add(name)
            elif inserted := _INSERT.match(line):
                name = inserted[1].decode()
                others.add(name)
                if name != table:
                    _skip(line[inserted.end() :], stream)
                    continue
                stated = _stated(inserted[2]) or known
                if not stated:
                    raise BadInput(
                        f"{path}: rows of {table} come before its CREATE TABLE, so their columns are unknown."
                    )
                _check_columns(path, table, columns, stated)
                yield from _rows(path, line[inserted.end() :], stream, _row_pattern(stated, columns), stated, columns)
    if table not in others:
        raise BadInput(f"{path} has no table {table}; it has {', '.join(sorted(others)) or 'none'}.")


def columns_of(path: Path, table: str) -> tuple[str, ...]:
    """Return a table's columns in the order of its CREATE TABLE; raise BadInput if it has none."""
    others: list[str] = []
    for name, found in _declarations(path):
        if name == table:
            return found
        others.append(name)
    raise BadInput(f"{path} has no CREATE TABLE {table}; it has {', '.join(sorted(others)) or 'none'}.")


def tables_of(path: Path) -> tuple[str, ...]:
    """Return the tables of a file up to the first that holds rows; raise BadInput if there is none."""
    if not (names := tuple(name for name, _ in _declarations(path, until_rows=True))):
        raise BadInput(f"{path} has no CREATE TABLE; it is not an SQL dump of MediaWiki's tables.")
    return names


def _declarations(path: Path, *, until_rows: bool = False) -> Iterator[tuple[str, tuple[str, ...]]]:
    with open_dump(path) as stream:
        for line in stream:
            if created := _CREATE.match(line):
                yield _created(created, line, stream)
            elif until_rows and _INSERT.match(line):
                return


def _created(match: re.Match[bytes], line: bytes, stream: IO[bytes]) -> tuple[str, tuple[str, ...]]:
    """Read a CREATE TABLE to its closing bracket; return the table's name and columns."""
    body, depth, quote, part, parts = line[match.end() :], 1, b"", b"", list[bytes]()
    while depth and body:
        for piece in re.findall(rb"['`(),]|[^'`(),]+", body):
            if quote:
                quote = b"" if piece == quote else quote
            elif piece in (b"'", b"`"):
                quote = piece
            else:
                depth += (piece == b"(") - (piece == b")")
                if depth == 0 or (depth == 1 and piece == b","):
                    parts.append(part)
                    part = b""
                    if depth == 0:
                        break
                    continue
            part += piece
        else:
            body = stream.readline()
    words = [part.strip().split(None, 1)[0] for part in parts if part.strip()]
    names = [word.strip(b"`").decode(errors="replace") for word in words if word.upper() not in _NOT_COLUMNS]
    return match[1].decode(errors="replace"), tuple(names)


def _stated(columns: bytes | None) -> tuple[str, ...]:
    return tuple(name.strip(b" `\t").decode(errors="replace") for name in columns.split(b",")) if columns else ()


def _check_columns(path: Path, table: str, wanted: Sequence[str], present: Sequence[str]) -> None:
    if missing := [name for name in wanted if name not in present]:
        raise BadInput(
            f"{path}: table {table} has no column {', '.join(missing)}; it has {', '.join(present)}. "
            "It is from another version of MediaWiki than this reader knows."
        )


def _row_pattern(present: Sequence[str], wanted: Sequence[str]) -> re.Pattern[bytes]:
    values = b"\\s*,\\s*".join(b"(" + _VALUE + b")" if name in wanted else b"(?:" + _VALUE + b")" for name in present)
    return re.compile(rb"\s*\(\s*" + values + rb"\s*\)\s*([,;])", re.DOTALL)


def _rows(
    path: Path,
    text: bytes,
    stream: IO[bytes],
    pattern: re.Pattern[bytes],
    present: Sequence[str],
    wanted: Sequence[str],
) -> Iterator[tuple[Value, ...]]:
    """Yield the rows of one statement, which may run over several lines."""
    in_file = [name for name in present if name in wanted]
    order = [in_file.index(name) for name in wanted]
    lines = 0
    while True:
        position = 0
        while match := pattern.match(text, position):
            groups = match.groups()
            yield tuple(_unquoted(groups[group]) for group in order)
            position, lines = match.end(), 0
            if groups[-1] == b";":
                return
        rest, following = text[position:].lstrip(), stream.readline()
        lines += 1  # over more lines it is not a row: its values are not those of the table
        if not following or len(rest) > MOST_ROW_BYTES or lines > MOST_ROW_LINES:
            what = f"cannot read the row {rest[:120]!r}" if rest else "the file ends inside a statement"
            raise BadInput(
                f"{path}: {what}; a row has {len(present)} values ({', '.join(present)}). Download the file again."
            )
        text = rest + following


def _skip(text: bytes, stream: IO[bytes]) -> None:
    """Read past a statement of another table."""
    while text and not text.rstrip().endswith(b";"):
        text = stream.readline()


def _unquoted(value: bytes) -> Value:
    if value[:1] == b"_":
        value = value.partition(b" ")[2]
    if value[:1] != b"'":
        return None if value == b"NULL" else value
    inner = value[1:-1]
    if b"\\" in inner or b"''" in inner:
        inner = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]) if match[1] else b"'", inner)
    return inner


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
        chosen, rows = frozenset(reached.titles), []
        for batch in self._corpus.pages(["page", "status", "categories"]):
            for page, status, above in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if status != CATEGORY and not chosen.isdisjoint(map(category_title, above or ())):
                    rows.append(page)
        return Members(np.array(sorted(rows), np.int64), None)


class SqlCategories:
    """The tables `page`, `categorylinks` and, in newer dumps, `linktarget`; columns are found by name.

    `categorylinks` names a category by its title (`cl_to`) or by a number into `linktarget` (`cl_target_id`); during
    the migration it has both, and `cl_to` may be empty. It is read twice, so that the links of all articles need not
    be held in memory.
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
        """The categories that only `cl_to` names: they have members but no page."""
        if "cl_to" not in self._columns:
            return frozenset()
        rows = table_rows(self._file("categorylinks"), "categorylinks", ("cl_to",))
        return frozenset(_title(name) for name in {name for (name,) in rows if name})

    @cached_property
    def _pages(self) -> dict[int, int]:
        """The numbers of category pages → the ids of their categories."""
        return {page: self._titles[title] for page, title in self._by_page.items()}

    def _links(self) -> Iterator[tuple[int, int]]:
        """Yield (page, id of its category); a link whose target is unknown is left out."""
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
                f"The table {table} is missing: give {table}.sql.gz of the same dump too; given are "
                f"{', '.join(sorted(self._files)) or 'none'}."
            )
        return path


class DbpediaCategories:
    """DBpedia's dumps: the tree from skos:broader, the articles from dcterms:subject; nt or ttl, line by line."""

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
    """Tell SQL tables from DBpedia's dumps by file name; raise BadInput for other files."""
    kinds = {".sql" if ".sql" in path.suffixes else path.suffixes[0] if path.suffixes else "" for path in files}
    if kinds == {".sql"}:
        return SqlCategories(files)
    if kinds and kinds <= {".nt", ".ttl"}:
        return DbpediaCategories(files)
    raise BadInput(
        f"Categories come from {', '.join(path.name for path in files)}; give page.sql.gz, categorylinks.sql.gz and "
        "linktarget.sql.gz of a dump, or DBpedia's skos_categories and article_categories as .nt or .ttl (packed or "
        "not), but not a mix of the two."
    )


def _pairs(path: Path, pattern: re.Pattern[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the titles of a file's triples of one kind."""
    with open_dump(path) as stream:
        rest = b""
        while True:
            piece = stream.read(_BLOCK)
            whole, end, rest = (rest + piece).rpartition(b"\n") if piece else (rest, b"", b"")
            pairs = pattern.findall(whole + end)
            subjects, objects = (titles_of([pair[side] for pair in pairs]) if pairs else [] for side in (0, 1))
            yield from (pair for pair in zip(subjects, objects, strict=True) if all(pair))
            if not piece:
                return


def _int(value: bytes | None) -> int:
    return -1 if value is None else int(value)


def _title(value: bytes | None) -> str:
    return category_title((value or b"").decode(errors="replace").replace("_", " "))
