"""From a dump to a corpus: split into shard tasks, run in parallel, resumed after a stop, with one manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from crossner_core.errors import BadInput, Conflict, InvalidConfig
from crossner_core.parallel import TRIES, Queue, WorkerDied, run_here, run_pool, run_ray
from crossner_core.wikipedia.annotating import AnnotatorSpec, open_annotator
from crossner_core.wikipedia.corpus import CorpusWriter, write_beside
from crossner_core.wikipedia.dump import (
    BZ2_STREAM,
    PIECE,
    WHAT_TO_DO,
    Dump,
    TruncatedDump,
    open_dump,
    stream_ranges,
    unpacked,
)
from crossner_core.wikipedia.manifest import FILE_NAME, Counts, Gazetteer, Manifest, Source, read_manifest
from crossner_core.wikipedia.shards import (
    BUILD,
    BuildConfig,
    ShardReport,
    ShardSettings,
    ShardTask,
    finished_report,
    shard_events,
)

_SIGHT = 64 << 20
_PACKED = 4  # text of a wiki takes about a quarter in bz2
_BEGINNINGS = (b"<page>", b"</mediawiki>")


class Cutter:
    """Yields the tasks of a dump in order; afterwards `broken_off` is where it broke off, "" for a complete one.

    A bz2 file of many streams whose pages do not cross them (as in Wikipedia's multistream dumps) is split into ranges
    that the workers decompress; any other dump is decompressed here and its pages sent to the workers.
    """

    def __init__(self, path: Path, dump: Dump, settings: ShardSettings, out: Path, *, allow_truncated: bool) -> None:
        self._path, self._dump, self._settings, self._out = path, dump, settings, out
        self._allow_truncated = allow_truncated
        self.broken_off = ""
        self.bytes_read = 0

    def tasks(self) -> Iterator[ShardTask]:
        with self._path.open("rb") as file:
            if is_multistream(file):
                yield from self._ranges(file)
                return
        yield from self._blocks()

    def _ranges(self, file: BinaryIO) -> Iterator[ShardTask]:
        file.seek(0)
        size = (self._settings.config.shard_mb << 20) // _PACKED
        total = self._path.stat().st_size
        with self._path.open("rb") as probe:
            ranges = stream_ranges(file, size, lambda offset: begins_with_page(probe, offset))
            for number, one in enumerate(ranges):
                self.bytes_read = one.end
                yield ShardTask(
                    number,
                    str(self._out),
                    self._settings,
                    one.digest,
                    path=str(self._path.resolve()),
                    start=one.start,
                    end=one.end,
                    is_last=one.end == total,
                )

    def _blocks(self) -> Iterator[ShardTask]:
        limit = self._settings.config.shard_mb << 20
        block: list[bytes] = []
        number = size = 0
        try:
            for chunk in self._dump.chunks():
                block.append(chunk)
                size += len(chunk)
                if size >= limit:
                    yield self._block(number, block)
                    number, block, size = number + 1, [], 0
        except TruncatedDump as error:
            self.broken_off = str(error)
        # the rest of a cut-off dump would hold other pages once it is complete, so it is not a shard yet
        if block and (self._allow_truncated or not self.broken_off):
            yield self._block(number, block)

    def _block(self, number: int, chunks: list[bytes]) -> ShardTask:
        self.bytes_read = self._dump.position
        block = b"".join(chunks)
        return ShardTask(number, str(self._out), self._settings, hashlib.sha256(block).hexdigest(), block=block)


def is_multistream(file: BinaryIO) -> bool:
    """Tell whether a file is bz2 of many streams whose pages do not cross them; judged by the first boundaries."""
    file.seek(0)
    if file.read(len(BZ2_STREAM)) != BZ2_STREAM:
        return False
    position, seen = len(BZ2_STREAM), 0
    file.seek(position)
    carried = b""
    while position < _SIGHT and seen < 2 and (data := file.read(PIECE)):
        data, base = carried + data, position - len(carried)
        position = base + len(data)
        offset = -1
        while seen < 2 and (offset := data.find(BZ2_STREAM, offset + 1)) >= 0:
            start = file.tell()
            if not begins_with_page(file, base + offset):
                return False
            file.seek(start)
            seen += 1
        carried = data[-(len(BZ2_STREAM) - 1) :]
    return seen > 0


def begins_with_page(file: BinaryIO, at: int) -> bool:
    """Tell whether the bz2 stream at that place begins with a page, or with the dump's end."""
    file.seek(at)
    try:
        head = next(unpacked(file, "", end=at + PIECE), b"")
    except TruncatedDump:
        return True  # damaged there: the worker that reads it reports it
    return head.lstrip().startswith(_BEGINNINGS)


_PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is: bytes of the dump handed out, shards done, and how many of these an earlier run had made."""

    bytes_read: int
    bytes: int
    shards: int
    reused: int
    pages: int
    sentences: int


def build_corpus(
    dump: Path,
    out: Path,
    config: BuildConfig | None = None,
    *,
    preannotate: AnnotatorSpec | None = None,
    workers: int = 1,
    ray: str | None = None,
    allow_truncated: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Manifest:
    """Build a corpus folder from a dump, or resume a build that was stopped; the same input gives the same bytes.

    A finished corpus of the same dump and settings is left as it is. Raises Conflict where the folder holds another
    one, TruncatedDump for a dump that breaks off unless that is allowed: the finished shards stay for the next run.
    """
    if workers < 1:
        raise InvalidConfig(f"workers is {workers}, must be 1 or more.")
    dump, out = Path(dump), Path(out)
    with open_dump(dump) as opened:
        settings = ShardSettings(config or BuildConfig(), opened.site, preannotate)
        source = Source(dump.name, dump.stat().st_size, opened.site.dbname, opened.site.generator)
        if (finished := _finished(out, source, settings, allow_truncated)) is not None:
            return finished
        if preannotate is not None and ray is None:
            open_annotator(preannotate)  # fails here, once, if anything is wrong with it
        _begin(out, dump.name, settings)
        cutter = Cutter(dump, opened, settings, out, allow_truncated=allow_truncated)
        reports = _run(cutter, workers, ray, source, progress)
    broken_off = cutter.broken_off or next((report.broken_off for report in reports if report.broken_off), "")
    if broken_off and not allow_truncated:
        raise TruncatedDump(
            f"{broken_off.removesuffix(WHAT_TO_DO).strip()} The corpus is not finished; its shards stay in {out}. "
            "Download the dump again and run the same command, or allow a truncated dump."
        )
    manifest = _manifest(source, settings, reports, broken_off.removesuffix(WHAT_TO_DO).strip())
    _clear(out, {report.shard.file_name for report in reports})
    CorpusWriter(out).finish(manifest)
    shutil.rmtree(out / BUILD)
    return manifest


def _run(
    cutter: Cutter, workers: int, ray: str | None, source: Source, progress: Callable[[Progress], None]
) -> list[ShardReport]:
    done: list[ShardReport] = []
    reused = pages = sentences = 0

    def unfinished() -> Iterator[ShardTask]:
        nonlocal reused
        for task in cutter.tasks():
            report = finished_report(task)
            if report is None:
                yield task
            else:
                reused += 1
                add_up(report)

    def add_up(report: ShardReport) -> None:
        nonlocal pages, sentences
        done.append(report)
        pages, sentences = pages + report.counts.pages, sentences + report.counts.sentences
        progress(Progress(cutter.bytes_read, source.bytes, len(done), reused, pages, sentences))

    for report in make_shards(unfinished(), workers, ray):
        add_up(report)
    return sorted(done, key=lambda report: report.shard.number)


def make_shards(tasks: Iterable[ShardTask], workers: int, ray: str | None) -> Iterator[ShardReport]:
    """Make shards in parallel; one whose worker died is made again, and WorkerDied raised if that does not help.

    On Ray the dump (a multistream one), gazetteer and corpus folder must be at the same paths on all machines.
    """
    if ray is not None:
        return run_ray(shard_events, Queue(tasks), ray, workers, shared=False, failed=_raise)
    if workers > 1:
        return run_pool(shard_events, Queue(tasks), workers, failed=_raise, is_last=lambda report: True)
    return run_here(shard_events, tasks)


def _raise(task: ShardTask, error: Exception) -> NoReturn:
    if isinstance(error, WorkerDied):
        raise WorkerDied(
            f"A worker process died {TRIES} times while these shards were made: [{task.number}]. If memory is short, "
            "take fewer workers or a smaller shard size. Finished shards are kept: the same command resumes from there."
        ) from error
    raise error


def _finished(out: Path, source: Source, settings: ShardSettings, allow_truncated: bool) -> Manifest | None:
    """Return the manifest of the corpus that is there if it is this one; raise Conflict for another."""
    if not (out / FILE_NAME).exists():
        return None
    manifest = read_manifest(out)
    wanted = _manifest(source, settings, [], "")
    same = ("source", "config", "gazetteer", "domain", "derived_from")
    if any(getattr(manifest, name) != getattr(wanted, name) for name in same) or (
        manifest.truncated and not allow_truncated
    ):
        raise Conflict(
            f"{out} already holds a corpus, made from {manifest.source.file} with other settings. Choose another name "
            "or folder, or delete that folder first."
        )
    return manifest


def _begin(out: Path, dump: str, settings: ShardSettings) -> None:
    """Record what is being built here; raise Conflict if something else is."""
    plan = {"dump": dump, "settings": settings.hash}
    path = out / BUILD / _PLAN
    if path.exists():
        if json.loads(path.read_bytes()) != plan:
            raise Conflict(
                f"{out} holds an unfinished build of another dump or with other settings. Finish it with those, choose "
                "another name or folder, or delete that folder first."
            )
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Conflict(f"{out} already exists and is not a corpus. Choose another folder.")
    try:
        CorpusWriter(out)
        path.parent.mkdir(exist_ok=True)
        write_beside(path, json.dumps(plan).encode())
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror or error}.") from error


def _manifest(source: Source, settings: ShardSettings, reports: list[ShardReport], broken_off: str) -> Manifest:
    numbers = [report.shard.number for report in reports]
    counts = reduce(add, (report.counts for report in reports), Counts())
    if not counts.is_complete or numbers != list(range(len(reports))):
        raise RuntimeError(f"The counts of the build do not add up: {counts}, shards {numbers}.")
    if counts.sentences != sum(report.shard.sentences for report in reports):
        raise RuntimeError(f"The shards do not hold the {counts.sentences} sentences that were counted.")
    annotator = settings.annotator
    values: dict[str, Any] = dataclasses.asdict(settings.config)
    if annotator is not None:
        values["preannotation"] = {"domain": annotator.domain, **json.loads(annotator.config)}
    return Manifest(
        source=source,
        config=values,
        counts=counts,
        shards=tuple(report.shard for report in reports),
        gazetteer=Gazetteer(Path(annotator.gazetteer).name, annotator.hash) if annotator is not None else None,
        domain=annotator.domain_name if annotator is not None else None,
        truncated=broken_off,
    )


def _clear(out: Path, names: set[str]) -> None:
    """Delete files that an earlier, longer or interrupted run left beside the shards."""
    for kind in ("sentences", "pages"):
        for path in (out / kind).iterdir():
            if path.name not in names:
                path.unlink()
