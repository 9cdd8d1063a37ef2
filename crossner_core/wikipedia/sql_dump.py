"""Tables of a MediaWiki SQL dump, read by column name.

The order of columns differs between dumps (`categorylinks` lost `cl_to` and gained `cl_target_id`), and a reader that
counts commas then gives an empty or wrong graph without a word. Here the columns come from the dump's own CREATE TABLE
(or from the INSERT, where it names them), and a row with another number of values is refused.
"""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from crossner_core.errors import BadInput, NotFound

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
    """Open a file that is gzipped, bz2-compressed or plain, told by its first bytes; raise NotFound or BadInput."""
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
    """Name a table's columns in the order of its CREATE TABLE; raise BadInput if it has none."""
    others: list[str] = []
    for name, found in _declarations(path):
        if name == table:
            return found
        others.append(name)
    raise BadInput(f"{path} has no CREATE TABLE {table}; it has {', '.join(sorted(others)) or 'none'}.")


def tables_of(path: Path) -> tuple[str, ...]:
    """Name the tables of a file up to the first that holds rows; raise BadInput if there is none."""
    if not (found := tuple(name for name, _ in _declarations(path, until_rows=True))):
        raise BadInput(f"{path} has no CREATE TABLE; it is no SQL dump of MediaWiki's tables.")
    return found


def _declarations(path: Path, *, until_rows: bool = False) -> Iterator[tuple[str, tuple[str, ...]]]:
    with open_dump(path) as stream:
        for line in stream:
            if created := _CREATE.match(line):
                yield _created(created, line, stream)
            elif until_rows and _INSERT.match(line):
                return


def _created(match: re.Match[bytes], line: bytes, stream: IO[bytes]) -> tuple[str, tuple[str, ...]]:
    """Read a CREATE TABLE to its closing bracket; give the table's name and columns."""
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
    words = [one.strip().split(None, 1)[0] for one in parts if one.strip()]
    names = [word.strip(b"`").decode() for word in words if word.upper() not in _NOT_COLUMNS]
    return match[1].decode(), tuple(names)


def _stated(columns: bytes | None) -> tuple[str, ...]:
    return tuple(name.strip(b" `\t").decode() for name in columns.split(b",")) if columns else ()


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
        at = 0
        while match := pattern.match(text, at):
            groups = match.groups()
            yield tuple(_unquoted(groups[one]) for one in order)
            at, lines = match.end(), 0
            if groups[-1] == b";":
                return
        rest, following = text[at:].lstrip(), stream.readline()
        lines += 1  # a row on more lines than these is none: its values are not those of the table
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
        inner = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]) if found[1] else b"'", inner)
    return inner
