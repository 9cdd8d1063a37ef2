"""One shard: pages in, sentences with tokens and links out, as two Parquet files and a report.

Making a shard again writes the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.records import Record, read_json
from crossner_core.schema import Link, Sentence, Token
from crossner_core.tokenize import forget_words, split_sentences, tokenize
from crossner_core.wikipedia.annotating import AnnotatorSpec, open_annotator
from crossner_core.wikipedia.corpus import CATEGORY as IS_CATEGORY
from crossner_core.wikipedia.corpus import (
    KEPT,
    PAGES,
    REDIRECT,
    ROW_GROUP,
    SENTENCES,
    SKIPPED,
    CorpusSentence,
    CorpusWriter,
    PageRow,
    SentenceRows,
    pages_table,
    write_beside,
)
from crossner_core.wikipedia.dump import (
    ARTICLE,
    CATEGORY,
    END,
    Page,
    SiteInfo,
    TruncatedDump,
    cut_pages,
    parse_page,
    unpacked,
)
from crossner_core.wikipedia.manifest import FORMAT, Counts, Shard
from crossner_core.wikipedia.markup import CharLink, Extract, Paragraph, Unreadable
from crossner_core.wikipedia.wikitext import extract

STRETCHED, LOST, REJOINED = "stretched", "lost links", "rejoined"
SHORT, LONG = "too short", "too long"


@dataclass(frozen=True, slots=True)
class SentenceRules:
    """Which sentences a corpus includes."""

    min_tokens: int = field(default=3, metadata={"doc": "sentences of fewer tokens are dropped (and counted)"})
    max_tokens: int | None = field(default=None, metadata={"doc": "sentences of more tokens are dropped; none: all"})

    def __post_init__(self) -> None:
        if self.min_tokens < 1:
            raise InvalidConfig(f"min_tokens is {self.min_tokens}, must be 1 or more.")
        if self.max_tokens is not None and self.max_tokens < self.min_tokens:
            raise InvalidConfig(
                f"max_tokens is {self.max_tokens}, must be at least min_tokens, which is {self.min_tokens}."
            )


@dataclass(slots=True)
class Tally:
    """What happened along the way: `dropped` counts sentences by reason, `events` stretched links and the like."""

    dropped: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)


def page_sentences(page: Page, extract: Extract, dbname: str, rules: SentenceRules, tally: Tally) -> list[Sentence]:
    """Return the sentences of a page in order; offsets in their ids and meta are relative to `extract.text`."""
    sentences: list[Sentence] = []
    base = 0
    for number, paragraph in enumerate(extract.paragraphs):
        for start, end in _spans(paragraph, tally):
            text = paragraph.text[start:end]
            tokens = tokenize(text)
            if len(tokens) < rules.min_tokens:
                tally.dropped[SHORT] += 1
                continue
            if rules.max_tokens is not None and len(tokens) > rules.max_tokens:
                tally.dropped[LONG] += 1
                continue
            meta = {
                "page": page.id,
                "revision": page.revision,
                "title": page.title,
                "section": paragraph.section,
                "paragraph": number,
                "offset": base + start,
            }
            links = tuple(token_links(text, tokens, _inside(paragraph.links, start, end), tally.events))
            id = f"{dbname}-{page.id}-{page.revision}-{base + start}"
            sentences.append(Sentence(id, text, tokens, links, meta))
        base += len(paragraph.text) + 2
    return sentences


def _spans(paragraph: Paragraph, tally: Tally) -> list[tuple[int, int]]:
    """Split a paragraph, ignoring boundaries inside a link."""
    spans: list[tuple[int, int]] = []
    for start, end in split_sentences(paragraph.text):
        if spans and _is_linked(paragraph.links, spans[-1][1], start):
            tally.events[REJOINED] += 1
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _is_linked(links: Sequence[CharLink], end: int, start: int) -> bool:
    """Tell whether a link reaches over the boundary between `end` and the next `start`; links are in order."""
    index = bisect_left(links, start, key=lambda link: link.start) - 1
    return index >= 0 and links[index].start < end and links[index].end > start


def _inside(links: Sequence[CharLink], start: int, end: int) -> Iterator[CharLink]:
    """Yield the links of a sentence, relative to it."""
    for index in range(bisect_left(links, start, key=lambda link: link.start), len(links)):
        link = links[index]
        if link.start >= end:
            return
        yield CharLink(link.start - start, min(link.end, end) - start, link.target)


def token_links(text: str, tokens: Sequence[Token], links: Iterator[CharLink], events: Counter[str]) -> Iterator[Link]:
    """Yield each link over the fewest tokens that cover it, none overlapping another.

    Where two links share a token it goes to the first; a link that has no token left is lost.
    """
    taken = 0
    for link in links:
        first = bisect_right(tokens, link.start, key=lambda token: token.end)
        last = bisect_left(tokens, link.end, key=lambda token: token.start)
        covered = max(first, taken)
        if covered >= last:
            events[LOST] += 1
            continue
        shown = text[link.start : link.end]
        start = link.end - len(shown.lstrip())
        end = link.start + len(shown.rstrip())
        if covered != first or tokens[covered].start != start or tokens[last - 1].end != end:
            events[STRETCHED] += 1
        taken = last
        yield Link(covered, last, link.target)


READER = 1
"""Increase this when a page is read differently: shards of an older reader are then made again."""

NAMESPACE, EMPTY, DISAMBIGUATION, NO_PROSE = "namespace", "empty", "disambiguation", "no prose"
_DISAMBIGUATIONS = frozenset(
    {
        "dab", "disam", "disamb", "disambig", "hndis", "geodis", "hospitaldis", "schooldis", "roaddis", "mathdab",
        "callsigndis", "chemistrydis", "geodis-cleanup", "hndis-cleanup", "disambig-cleanup", "disambiguation cleanup",
        "mil-unit-dis", "numberdis", "letternumbercombdisambig", "letter-numbercombdisambig", "wp disambig", "sia-dab",
        "letter–number combination disambiguation", "disambiguation page", "tla disambiguation",
    }
)  # fmt: skip


def is_disambiguation(templates: tuple[str, ...]) -> bool:
    """Tell by its templates whether a page only lists what a name may stand for."""
    names = (name.casefold().replace("_", " ") for name in templates)
    return any(name in _DISAMBIGUATIONS or name.endswith(("disambiguation", " disambig")) for name in names)


class PageReader:
    """Reads pages one by one and counts."""

    def __init__(self, settings: ShardSettings) -> None:
        self._site, self._rules = settings.site, settings.config.rules
        self._annotator = open_annotator(settings.annotator) if settings.annotator is not None else None
        self._numbers: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._fallback: Counter[str] = Counter()
        self._tally = Tally()

    def read(self, page: Page, problem: str) -> tuple[PageRow, list[CorpusSentence]]:
        """Read a page; `problem` is why it has no wikitext, "" if it has."""
        self._numbers["pages"] += 1
        if problem:
            return self._skip(page, problem)
        if page.redirect is not None:
            self._numbers["redirects"] += 1
            return self._row(page, REDIRECT, redirect=page.redirect), []
        if page.namespace not in (ARTICLE, CATEGORY):
            return self._skip(page, NAMESPACE)
        if not page.text.strip() and page.namespace == ARTICLE:
            return self._skip(page, EMPTY)
        try:
            extracted = extract(page.text, page.title)
        except Unreadable as error:
            return self._skip(page, str(error))
        self._count_parser(extracted)
        if page.namespace == CATEGORY:
            self._numbers["categories"] += 1
            return self._row(page, IS_CATEGORY, found=extracted), []
        if is_disambiguation(extracted.templates):
            return self._skip(page, DISAMBIGUATION, extracted)
        rows = page_sentences(page, extracted, self._site.dbname, self._rules, self._tally)
        if not rows:
            return self._skip(page, NO_PROSE, extracted)
        return self._keep(page, extracted, rows)

    @property
    def counts(self) -> Counts:
        """What was read so far."""
        events = self._tally.events
        return Counts(
            **self._numbers,
            stretched=events[STRETCHED],
            lost_links=events[LOST],
            rejoined=events[REJOINED],
            skipped=dict(sorted(self._skipped.items())),
            fallback=dict(sorted(self._fallback.items())),
            dropped=dict(sorted(self._tally.dropped.items())),
        )

    def _keep(self, page: Page, extracted: Extract, rows: list[Sentence]) -> tuple[PageRow, list[CorpusSentence]]:
        items = self._annotated(page, extracted, rows)
        sizes = {
            "paragraphs": len(extracted.paragraphs),
            "sentences": len(rows),
            "tokens": sum(len(row.tokens) for row in rows),
            "links": sum(len(row.links) for row in rows),
        }
        self._numbers.update(sizes)
        self._numbers["kept"] += 1
        self._numbers["mentions"] += sum(len(item.mentions or ()) for item in items)
        return self._row(page, KEPT, found=extracted, sizes=sizes), items

    def _annotated(self, page: Page, extracted: Extract, rows: list[Sentence]) -> list[CorpusSentence]:
        if self._annotator is None:
            return [CorpusSentence(row, None) for row in rows]
        from crossner_core.gazetteer.candidates import PageContext

        mentions = self._annotator.mentions(rows, context=PageContext(page.title, extracted.categories))
        return [CorpusSentence(row, tuple(row_mentions)) for row, row_mentions in zip(rows, mentions, strict=True)]

    def _count_parser(self, extracted: Extract) -> None:
        if extracted.parser == "fast":
            self._numbers["fast"] += 1
        else:
            self._fallback[extracted.reason] += 1

    def _skip(self, page: Page, reason: str, extracted: Extract | None = None) -> tuple[PageRow, list[CorpusSentence]]:
        self._skipped[reason] += 1
        return self._row(page, SKIPPED, reason=reason, found=extracted), []

    def _row(
        self,
        page: Page,
        status: str,
        *,
        reason: str = "",
        redirect: str = "",
        found: Extract | None = None,
        sizes: dict[str, int] | None = None,
    ) -> PageRow:
        return PageRow(
            page.id,
            page.revision,
            page.title,
            page.namespace,
            status,
            reason,
            redirect,
            parser=found.parser if found else "",
            parser_reason=found.reason if found else "",
            categories=found.categories if found else (),
            templates=found.templates if found else (),
            **(sizes or {}),
        )


BUILD = ".build"
"""The folder with the reports of a build that is not finished."""


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """How a corpus is built from a dump."""

    rules: SentenceRules = field(default_factory=SentenceRules)
    shard_mb: int = field(
        default=16,
        metadata={"doc": "megabytes of XML per shard, in whole pages; in a multistream dump a quarter, compressed"},
    )

    def __post_init__(self) -> None:
        if not 1 <= self.shard_mb <= 1024:
            raise InvalidConfig(f"shard_mb is {self.shard_mb}, must be 1 to 1024.")


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """What all shards of a build share; plain values that can be sent to any process."""

    config: BuildConfig
    site: SiteInfo
    annotator: AnnotatorSpec | None = None

    @property
    def hash(self) -> str:
        """SHA-256 over everything that affects how a page is read; the gazetteer counts by its content."""
        values = dataclasses.asdict(self)
        if self.annotator is not None:
            del values["annotator"]["gazetteer"]
        return hashlib.sha256(json.dumps([FORMAT, READER, values], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ShardTask:
    """One shard to make in the corpus folder `out`: the XML of whole pages, or a range of a file of bz2 streams.

    `digest` is the SHA-256 of those bytes; `is_last`: the dump's end must be in them.
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
class ShardReport(Record):
    """The outcome of a shard; `broken_off` is where its input was cut off, "" if it is complete."""

    shard: Shard
    counts: Counts
    settings: str
    digest: str
    broken_off: str = ""


def build_shard(task: ShardTask) -> ShardReport:
    """Make one shard: its files and its report are written under temporary names and renamed, the report last."""
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
    write_beside(_report_path(task), json.dumps(dataclasses.asdict(report), sort_keys=True).encode())
    forget_words()  # a worker's memory must not grow with the dump
    return report


def shard_events(task: ShardTask, should_stop: Callable[[], bool]) -> Iterator[ShardReport]:
    """Make one shard for `parallel`; it is short, so it never stops midway."""
    yield build_shard(task)


def finished_report(task: ShardTask) -> ShardReport | None:
    """Return the report of a shard that an earlier build finished with these bytes and settings, None without one."""
    try:
        report = read_json(ShardReport, _report_path(task).read_bytes(), "a shard's report")
    except (OSError, BadInput):
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
    """Yield the task's XML; a block or inner range gets the end tag, so that a page cut off in it is still yielded."""
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
