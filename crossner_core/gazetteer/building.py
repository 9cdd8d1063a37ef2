"""Build a compiled gazetteer from facts or from DBpedia dumps, and write its folder."""

from __future__ import annotations

import datetime
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from crossner_core.errors import BadInput, StorageError
from crossner_core.folders import replace_folder, sync, what_helps
from crossner_core.gazetteer.compiled import BITS, CLASSES, ENTITIES, FILES, SURFACES
from crossner_core.gazetteer.facts import Collector, Count, Fact, Label, Names, Redirect, Tables
from crossner_core.gazetteer.lookup import check_language
from crossner_core.gazetteer.manifest import FILE, GazetteerManifest, Origin, SourceFile, read_manifest
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.gazetteer.triples import (
    KINDS,
    LABELS,
    REDIRECTS,
    TYPES,
    Problems,
    TripleFile,
    clean_name,
    clean_title,
)
from crossner_core.memory import without_collecting


def write_tables(
    tables: Tables,
    out: Path,
    *,
    name: str,
    origin: Origin,
    counts: Mapping[str, int],
    skipped: Mapping[str, int],
    replace: bool,
) -> GazetteerManifest:
    """Write the files into a new folder, the manifest last; StorageError if they cannot be written."""
    sizes = np.diff(tables.arrays["entry_starts"])
    every = {
        **counts,
        "surfaces": len(tables.surfaces),
        "ambiguous surfaces": int(np.count_nonzero(sizes > 1)),
        "entries": len(tables.arrays["entry_entities"]),
        "entities": len(tables.entities),
        "classes": len({name for names in tables.classes.sets for name in names}),
    }

    def fill(folder: Path) -> None:
        tables.surfaces.save(str(folder / SURFACES))
        tables.entities.save(str(folder / ENTITIES))
        tables.classes.write(folder / CLASSES)
        bits = dict(zip(BITS, (tables.bits.names, tables.bits.beginnings), strict=True))
        for kept, values in (bits | dict(tables.arrays)).items():
            np.save(folder / f"{kept}.npy", values)
        files = tuple(SourceFile.of(folder / name) for name in FILES)
        built = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        GazetteerManifest(name, origin, every, tables.aliases, dict(sorted(skipped.items())), files, built).write(
            folder
        )
        for written in folder.iterdir():
            sync(written)
        check_free(out, replace)  # again: writing took a while

    try:
        replace_folder(out, fill)
    except (OSError, RuntimeError) as error:  # the tries' library raises the second
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{out}: the gazetteer cannot be written ({reason}). {what_helps(error)}") from error
    return read_manifest(out)


def check_free(out: Path, replace: bool) -> None:
    """Refuse to overwrite a folder unless `replace`, and anything that is not a gazetteer in any case."""
    if not out.exists():
        return
    if not replace:
        raise BadInput(f"{out}: already exists; give another name, or --replace to rebuild it.")
    if not (out / FILE).is_file() and any(out.iterdir() if out.is_dir() else (out,)):
        raise BadInput(f"{out}: holds something other than a gazetteer ({FILE} is missing) and is not replaced.")


COUNTS = "counts"
_EVERY = 1_000_000  # triples or facts between two reports of progress
_CHUNK = 1 << 13

Report = Callable[[str], None]


def _silent(message: str) -> None:
    """Report nothing."""


def build_from_dumps(
    files: Sequence[Path],
    out: Path,
    *,
    name: str,
    tree: ClassTree = BUILTIN,
    language: str = "en",
    replace: bool = False,
    on_problem: Report = _silent,
    progress: Report = _silent,
) -> GazetteerManifest:
    """Build a gazetteer from DBpedia dumps: instance types, and labels and redirects where there are any.

    Neither the order of the files nor their names matter. BadInput for a file that is cut off or holds no triples, for
    dumps without a class, and for a folder that exists unless it is to be replaced.
    """
    with without_collecting():
        return _from_dumps(files, out, name, tree, language, replace, on_problem, progress)


def _from_dumps(
    files: Sequence[Path],
    out: Path,
    name: str,
    tree: ClassTree,
    language: str,
    replace: bool,
    on_problem: Report,
    progress: Report,
) -> GazetteerManifest:
    check_free(out, replace)
    origin = _origin(files, check_language(language), tree)
    heads = {path: TripleFile(path, language=language, problems=Problems()).head() for path in files}
    while True:
        reader = _Dumps(language, tree, on_problem, progress)
        try:
            reader.read(heads)
        except _LateTypes as late:
            heads[late.path] |= {TYPES}
            continue
        break
    tables = _tables(reader.collector, reader.counts, ", ".join(map(str, files)))
    progress("sorted; writing")
    return write_tables(
        tables, out, name=name, origin=origin, counts=reader.counts, skipped=reader.problems.skipped, replace=replace
    )


class _LateTypes(Exception):
    """A file that seemed to hold only labels and redirects has classes too, and must be read among the first."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


class _Dumps:
    """Reads dumps into a collector: those with classes first, so that the rest need not be kept."""

    def __init__(self, language: str, tree: ClassTree, on_problem: Report, progress: Report) -> None:
        self._language, self._progress = language, progress
        self.problems = Problems(on_problem)
        self.counts = {"triples": 0, **dict.fromkeys(KINDS, 0)}
        self.collector = Collector(tree, count=self.problems.count)

    def read(self, heads: Mapping[Path, frozenset[str]]) -> None:
        """Read files in an order by the kinds of triples each begins with (none for an empty file)."""
        first = [path for path, kinds in heads.items() if TYPES in kinds or not kinds]
        mixed = [path for path in first if self._read(path, (TYPES,), self.problems) - {TYPES}]
        self.collector.end_types()
        for path in heads:
            if path in mixed:
                self._read(path, (LABELS, REDIRECTS), Problems())
            elif path not in first and TYPES in self._read(path, (LABELS, REDIRECTS), self.problems):
                raise _LateTypes(path)

    def _read(self, path: Path, wanted: Sequence[str], problems: Problems) -> set[str]:
        """Collect the wanted kinds from a file; return all kinds it holds. A second reading reports nothing."""
        dump = TripleFile(path, language=self._language, problems=problems)
        again, reported, seen = problems is not self.problems, 0, set[str]()
        take = {
            TYPES: self.collector.types,
            LABELS: self.collector.labels,
            REDIRECTS: self.collector.redirects,
        }
        for batches in dump.blocks():
            for kind, subjects, objects in batches:
                seen.add(kind)
                if kind in wanted:
                    self.counts[kind] += len(subjects)
                    take[kind](subjects, objects)
            if dump.triples - reported >= _EVERY:
                reported = dump.triples
                self._progress(f"{path.name}: {reported:,} triples")
            if TYPES in seen and TYPES not in wanted and not again:
                raise _LateTypes(path)
        if not again:
            self.counts["triples"] += dump.triples
        self._progress(f"{path.name}: {dump.triples:,} triples")
        return seen


def build_from_facts(
    facts: Iterable[Fact],
    out: Path,
    *,
    name: str,
    origin: Origin,
    tree: ClassTree = BUILTIN,
    replace: bool = False,
    skipped: Callable[[], Mapping[str, int]] = dict,
    progress: Report = _silent,
) -> GazetteerManifest:
    """Build a gazetteer from facts in any order, with the same result as from dumps that state them.

    `skipped` returns counts of what was left out where the facts were made; it is called after the last fact.
    """
    check_free(out, replace)
    problems = Problems()
    collector, counts = Collector(tree, count=problems.count), {"facts": 0, **dict.fromkeys((*KINDS, COUNTS), 0)}
    spool = _Spool(collector, counts, progress)
    spool.take(facts)
    tables = _tables(collector, counts, origin.address or ", ".join(source_file.name for source_file in origin.files))
    for reason, number in skipped().items():
        problems.count(reason, number)
    return write_tables(tables, out, name=name, origin=origin, counts=counts, skipped=problems.skipped, replace=replace)


class _Spool:
    """Passes facts to a collector in the order it needs: classes as they come, the rest afterwards."""

    def __init__(self, collector: Collector, counts: dict[str, int], progress: Report) -> None:
        self._collector, self._counts, self._progress = collector, counts, progress
        self._waiting = {kind: (Names(), Names()) for kind in (LABELS, REDIRECTS)}
        self._linked, self._links = Names(), array("Q")
        self._rows: dict[str, tuple[list[str], list[str]]] = {kind: ([], []) for kind in KINDS}

    def take(self, facts: Iterable[Fact]) -> None:
        """Take all facts."""
        for fact in facts:
            self._one(fact)
        for kind in KINDS:
            self._flush(kind)
        self._collector.end_types()
        add = {LABELS: self._collector.labels, REDIRECTS: self._collector.redirects}
        for kind, (left, right) in self._waiting.items():
            for subjects, objects in zip(left.slabs(), right.slabs(), strict=True):
                add[kind](subjects, objects)
        low = 0
        for titles in self._linked.slabs():
            self._collector.counts(titles, self._links[low : low + len(titles)])
            low += len(titles)

    def _one(self, fact: Fact) -> None:
        self._counts["facts"] += 1
        if self._counts["facts"] % _EVERY == 0:
            self._progress(f"{self._counts['facts']:,} facts")
        if isinstance(fact, Count):
            self._linked.extend([clean_title(fact.entity)])
            self._links.append(fact.n)
            self._counts[COUNTS] += 1
            return
        kind = LABELS if isinstance(fact, Label) else REDIRECTS if isinstance(fact, Redirect) else TYPES
        left = clean_title(fact[0])
        right = clean_title(fact[1]) if kind == REDIRECTS else clean_name(fact[1])
        if not left or not right:
            self._collector.count("titles that cannot be read", 1)
            return
        subjects, objects = self._rows[kind]
        subjects.append(left)
        objects.append(right)
        self._counts[kind] += 1
        if len(subjects) >= _CHUNK:
            self._flush(kind)

    def _flush(self, kind: str) -> None:
        subjects, objects = self._rows[kind]
        if kind == TYPES:
            self._collector.types(subjects, objects)
        else:
            left, right = self._waiting[kind]
            left.extend(subjects)
            right.extend(objects)
        self._rows[kind] = [], []


def _tables(collector: Collector, counts: dict[str, int], origin: str) -> Tables:
    if not counts[TYPES]:
        raise BadInput(
            f"{origin}: no page has a class of the DBpedia ontology. A gazetteer needs the instance types "
            "(from dumps: instance-types_en.ttl.bz2) in addition to labels and redirects."
        )
    return collector.tables()


def _origin(files: Sequence[Path], language: str, tree: ClassTree) -> Origin:
    """Describe dumps; their date is the newest file's."""
    if not files:
        raise BadInput("No dump is given; a gazetteer needs at least the instance types.")
    return Origin("dump", source_files(files), "", newest_date(files), language, tree.source)


def source_files(files: Iterable[Path]) -> tuple[SourceFile, ...]:
    """Measure the files a gazetteer is made from, by name."""
    return tuple(sorted(map(SourceFile.of, files), key=lambda source_file: source_file.name))


def newest_date(files: Iterable[Path]) -> str:
    """Return the UTC date on which the newest of the files was last modified."""
    newest = max(path.stat().st_mtime for path in files)
    return datetime.datetime.fromtimestamp(newest, datetime.UTC).date().isoformat()
