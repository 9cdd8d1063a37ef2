"""The one shard function: pages in, two Parquet files and a report out; done again it writes the same bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.tokenize import forget_words
from crossner_core.wikipedia.annotating import AnnotatorSpec
from crossner_core.wikipedia.columns import PAGES, SENTENCES, SentenceRows, pages_table
from crossner_core.wikipedia.corpus import ROW_GROUP, CorpusWriter, write_beside
from crossner_core.wikipedia.dump import END, SiteInfo, TruncatedDump, cut_pages, parse_page
from crossner_core.wikipedia.manifest import FORMAT, Counts, Shard
from crossner_core.wikipedia.reading import READER, PageReader
from crossner_core.wikipedia.sentences import SentenceRules
from crossner_core.wikipedia.unpacking import unpacked

BUILD = ".build"
"""The folder with the reports of a build that is not finished."""


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """How a corpus is built from a dump."""

    rules: SentenceRules = field(default_factory=SentenceRules)
    shard_mb: int = field(
        default=16,
        metadata={"doc": "megabytes of XML a shard, in whole pages; of a multistream dump a quarter as much, packed"},
    )

    def __post_init__(self) -> None:
        if not 1 <= self.shard_mb <= 1024:
            raise InvalidConfig(f"shard_mb is {self.shard_mb}, must lie in 1 to 1024.")


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """What all shards of a build share; plain values, so that it travels to any process."""

    config: BuildConfig
    site: SiteInfo
    annotator: AnnotatorSpec | None = None

    @property
    def hash(self) -> str:
        """SHA-256 over everything that decides what becomes of a page; the gazetteer counts by its content."""
        values = dataclasses.asdict(self)
        if self.annotator is not None:
            del values["annotator"]["gazetteer"]
        return hashlib.sha256(json.dumps([FORMAT, READER, values], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ShardTask:
    """One shard to make in the corpus folder `out`: the XML of whole pages, or a range of a file of bz2 streams.

    `digest` is the SHA-256 of those bytes; `is_last` says that the dump's end must be in them.
    """

    number: int
    out: str
    settings: ShardSettings
    digest: str
    block: bytes | None = None
    path: str = ""
    start: int = 0
    end: int = 0
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What became of a shard; `broken_off` says where its input broke off, "" for a whole one."""

    shard: Shard
    counts: Counts
    settings: str
    digest: str
    broken_off: str = ""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


def build_shard(task: ShardTask) -> ShardReport:
    """Make one shard: its files and its report are written beside and renamed, the report last."""
    reader = PageReader(task.settings)
    batches, rows, pages = [], SentenceRows(), []
    broken_off = ""
    chunks = cut_pages(_pieces(task))
    while True:
        try:
            chunk = next(chunks)
        except StopIteration as end:
            if task.is_last and not end.value:
                broken_off = f"{Path(task.path).name} is truncated: it ends without {END.decode()}."
            break
        except TruncatedDump as error:
            broken_off = str(error)
            break
        page, sentences = reader.read(*parse_page(chunk, task.settings.site))
        pages.append(page)
        for sentence in sentences:
            rows.add(sentence)
        if len(rows) >= ROW_GROUP:
            batches.append(rows.table())
            rows = SentenceRows()
    table = pa.concat_tables([*batches, rows.table()])
    shard = CorpusWriter(Path(task.out)).write_shard(task.number, table, pages_table(pages))
    report = ShardReport(shard, reader.counts, task.settings.hash, task.digest, broken_off)
    write_beside(_report_path(task), report.to_json().encode())
    forget_words()  # a worker's memory must not grow with the dump
    return report


def shard_events(task: ShardTask, should_stop: Callable[[], bool]) -> Iterator[ShardReport]:
    """Make one shard as `parallel` does work; it is short, and so it never stops in the middle."""
    yield build_shard(task)


def finished_report(task: ShardTask) -> ShardReport | None:
    """Return the report of a shard that an earlier build finished with these bytes and settings, None without one."""
    try:
        values = json.loads(_report_path(task).read_bytes())
        report = ShardReport(
            **{**values, "shard": Shard(**values["shard"]), "counts": Counts.from_json(values["counts"])}
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None  # absent, or left by another version: the shard is made again
    if report.settings != task.settings.hash or report.digest != task.digest or report.broken_off:
        return None
    for kind, schema, rows in (("sentences", SENTENCES, "sentences"), ("pages", PAGES, "pages")):
        try:
            footer = pq.read_metadata(Path(task.out) / kind / report.shard.file_name)
        except (OSError, pa.ArrowException):
            return None
        if footer.num_rows != getattr(report.shard, rows) or footer.schema.to_arrow_schema() != schema:
            return None
    return report


def _report_path(task: ShardTask) -> Path:
    return Path(task.out) / BUILD / f"{task.number:05d}.json"


def _pieces(task: ShardTask) -> Iterator[bytes]:
    """Yield the task's XML; the end tag closes what is whole by its making, so that a page without end counts."""
    if task.block is not None:
        yield from (task.block, END)
        return
    path = Path(task.path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadInput(f"{path} cannot be read by a worker: {error.strerror or error}.") from error
    with file:
        file.seek(task.start)
        yield from chain(unpacked(file, path.name, end=task.end), () if task.is_last else (END,))
