"""Check a backup: its files, its store, and the gold in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crossner_core.errors import BadInput, WorkbenchError
from db import copying
from db.copying import TableSum
from db.engine import Session, Store, open_copy, sqlite_damage
from db.migrate import head, migrate, revision_in
from workbench.backups import proofs
from workbench.backups.files import file_problems, sha256_of, strangers
from workbench.backups.manifest import GOLD, MANIFEST, ROWS, STORE, Entry, Manifest, find_backup, read_manifest


@dataclass(frozen=True, slots=True)
class Source:
    """What can be restored: a backup, or a store that was copied to a file."""

    path: Path
    manifest: Manifest
    gold: tuple[str, ...]

    def file(self, name: str) -> Path:
        """Return the path of one of its files."""
        return self.path / name if self.path.is_dir() else self.path

    @property
    def facts(self) -> tuple[str, ...]:
        """What it holds, in words."""
        rows = sum(table.rows for table in self.manifest.tables.values())
        gold = len(self.gold) - len(proofs.unreadable_gold(self.gold))
        others = [entry.size for name, entry in self.manifest.files.items() if name.partition("/")[0] not in _OF_STORE]
        store = f"Store at revision {self.manifest.revision}: {rows:,} rows in {len(self.manifest.tables)} tables"
        return (
            f"{store}, {gold:,} gold sentences.",
            f"Files of {', '.join(self.manifest.parts) or 'no other folder'}: {len(others):,}, {sum(others):,} bytes.",
        )


_OF_STORE = (STORE, ROWS, GOLD)


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check: what the backup holds, and what is wrong with it."""

    source: Source
    problems: tuple[str, ...]


def verify(path: Path) -> Checked:
    """Check a backup, the newest one in a folder, or a copied store: each hash, the store's integrity, all counts.

    Needs no account: whoever can read these files has all that is in them. Raises BadInput where it cannot be read at
    all, NotFound where there is none.
    """
    source = open_source(path)
    problems = [] if source.path.is_file() else file_problems(source.path, source.manifest.files)
    if source.path.is_dir():
        problems += strangers(source.path, source.manifest.files, besides=MANIFEST)
    try:
        with _opened(source) as store:
            problems += store_problems(store, source)
    except WorkbenchError as error:
        problems.append(f"The store cannot be read: {error}")
    return Checked(source, tuple(problems))


def open_source(path: Path) -> Source:
    """Open what can be restored; raise BadInput or NotFound."""
    if path.is_file():
        return _open_file(path)
    folder = find_backup(path)
    manifest = read_manifest(folder)
    try:
        gold = tuple((folder / GOLD).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):  # a problem that the check of the files reports
        gold = ()
    return Source(folder, manifest, gold)


def store_problems(store: Store, source: Source) -> list[str]:
    """Return, in words, what is wrong with a store that should be the one backed up."""
    try:
        with store.read() as session:
            if damage := sqlite_damage(session):
                return damage
            revision, expected = revision_in(session), source.manifest.revision
            if revision != expected:
                return [f"The store is at revision {revision} instead of {expected}."]
            if revision != head():
                return []  # the file's hash says all; its tables are not those of this version
            return sum_problems(source.manifest.tables, copying.sums(session)) or _gold_problems(session, source)
    except WorkbenchError as error:
        return [f"The store cannot be read: {error}"]


def sum_problems(expected: Mapping[str, TableSum], actual: Mapping[str, TableSum]) -> list[str]:
    """Return, in words, which tables differ."""
    problems = []
    for name in dict.fromkeys((*expected, *actual)):
        before, after = expected.get(name, _NO_TABLE), actual.get(name, _NO_TABLE)
        if before.rows != after.rows:
            problems.append(f"The table {name} has {after.rows:,} rows instead of {before.rows:,}.")
        elif before != after:
            problems.append(f"The table {name} has {after.rows:,} rows, but not the same ones.")
    return problems


_NO_TABLE = TableSum(0, "")


def fill_from_rows(source: Source, path: Path) -> None:
    """Make a SQLite store of a backup's rows; raise BadInput where they are of another migration or damaged."""
    if source.manifest.revision != head():
        raise BadInput(
            f"The rows of {source.path} are of revision {source.manifest.revision}, this version has {head()}; restore "
            "them with the version that made them, then upgrade."
        )
    store = Store(f"sqlite:///{path}")
    try:
        migrate(store)
        with store.write() as session:
            copying.fill(session, lambda name: _rows(source, name))
    finally:
        store.close()


def _gold_problems(session: Session, source: Source) -> list[str]:
    return proofs.gold_problems(session, source.gold)


def _rows(source: Source, table: str) -> Iterator[bytes]:
    path = source.file(f"{ROWS}/{table}.jsonl")
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def _opened(source: Source) -> Iterator[Store]:
    """Yield the backup's store for reading; of rows a temporary one is made."""
    with tempfile.TemporaryDirectory() as folder:
        path = source.file(STORE)
        if not source.manifest.has_store_file:
            path = Path(folder, STORE)
            fill_from_rows(source, path)
        store = open_copy(path)
        try:
            yield store
        finally:
            store.close()


def _open_file(path: Path) -> Source:
    """Open a copied store: what it holds now is what it is compared with."""
    journal = path.with_name(f"{path.name}-wal")
    if journal.exists() and journal.stat().st_size:
        raise BadInput(
            f"{path} is a store in use: what was saved last lies in {journal.name}. Copy it with workbench backup."
        )
    store = open_copy(path)
    try:
        with store.read() as session:
            revision = revision_in(session)
            is_newest = revision == head()
            tables = copying.sums(session) if is_newest else {}
            gold = tuple(proofs.gold_lines(session)) if is_newest else ()
    except WorkbenchError as error:
        raise BadInput(f"{path} is no store that can be read: {error}") from error
    finally:
        store.close()
    if revision is None:
        raise BadInput(f"{path} is no store of the workbench: it has no migrations.")
    return Source(path, Manifest("", revision, (), tables, {STORE: _entry(path)}), gold)


def _entry(path: Path) -> Entry:
    return Entry(path.stat().st_size, sha256_of(path))
