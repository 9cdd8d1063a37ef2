"""A corpus on disk: its two tables, streamed, read by row or searched, and written shard by shard.

Layout of a corpus folder: `manifest.json`, `sentences/00000.parquet …` and `pages/00000.parquet …`, one each per shard.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossner_core.errors import BadInput, NotFound
from crossner_core.schema import Link, Mention, Sentence, Token
from crossner_core.wikipedia.manifest import FILE_NAME, Manifest, Shard, read_manifest

KEPT, REDIRECT, CATEGORY, SKIPPED = "kept", "redirect", "category", "skipped"

_INTS, _STRINGS = pa.list_(pa.int32()), pa.list_(pa.string())
SENTENCES = pa.schema(
    [
        ("id", pa.string()),  # {dbname}-{page}-{revision}-{offset}
        ("page", pa.int64()),
        ("revision", pa.int64()),
        ("title", pa.string()),
        ("section", pa.string()),
        ("paragraph", pa.int32()),
        ("offset", pa.int32()),  # character offset of the sentence in its page's Extract.text
        ("text", pa.string()),
        ("token_starts", _INTS),  # character offsets in text
        ("token_ends", _INTS),
        ("link_starts", _INTS),  # token offsets
        ("link_ends", _INTS),
        ("link_targets", _STRINGS),
        ("mention_starts", _INTS),  # token offsets; all mention columns are null where nothing was pre-annotated
        ("mention_ends", _INTS),
        ("mention_entities", _STRINGS),
        ("mention_classes", _STRINGS),  # class names joined by a space
        ("mention_types", _STRINGS),  # "" for none
        ("mention_sources", _STRINGS),
        ("mention_scores", pa.list_(pa.float32())),
    ]
)
PAGES = pa.schema(
    [
        ("page", pa.int64()),
        ("revision", pa.int64()),
        ("title", pa.string()),
        ("namespace", pa.int32()),
        ("status", pa.string()),  # kept | redirect | category | skipped
        ("reason", pa.string()),  # why it was skipped
        ("redirect", pa.string()),  # the title it points to
        ("parser", pa.string()),  # fast | fallback | "" (not read)
        ("parser_reason", pa.string()),
        ("paragraphs", pa.int32()),
        ("sentences", pa.int32()),
        ("tokens", pa.int32()),
        ("links", pa.int32()),
        ("categories", _STRINGS),
        ("templates", _STRINGS),
    ]
)


@dataclass(frozen=True, slots=True)
class CorpusSentence:
    """A sentence with its mentions, None where it was not pre-annotated.

    The sentence's meta has page, revision, title, section, paragraph and offset.
    """

    sentence: Sentence
    mentions: tuple[Mention, ...] | None


@dataclass(frozen=True, slots=True)
class PageRow:
    """The outcome of one page of the dump."""

    page: int
    revision: int
    title: str
    namespace: int
    status: str
    reason: str = ""
    redirect: str = ""
    parser: str = ""
    parser_reason: str = ""
    paragraphs: int = 0
    sentences: int = 0
    tokens: int = 0
    links: int = 0
    categories: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()


class SentenceRows:
    """Collects sentences and returns them as a table of the schema `SENTENCES`."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in SENTENCES.names}

    def __len__(self) -> int:
        return len(self._columns["id"])

    def add(self, item: CorpusSentence) -> None:
        """Append one row."""
        sentence, columns = item.sentence, self._columns
        columns["id"].append(sentence.id)
        for name in ("page", "revision", "title", "section", "paragraph", "offset"):
            columns[name].append(sentence.meta[name])
        columns["text"].append(sentence.text)
        columns["token_starts"].append([token.start for token in sentence.tokens])
        columns["token_ends"].append([token.end for token in sentence.tokens])
        columns["link_starts"].append([link.start for link in sentence.links])
        columns["link_ends"].append([link.end for link in sentence.links])
        columns["link_targets"].append([link.target for link in sentence.links])
        mentions = item.mentions
        columns["mention_starts"].append(mentions if mentions is None else [mention.start for mention in mentions])
        columns["mention_ends"].append(mentions if mentions is None else [mention.end for mention in mentions])
        columns["mention_entities"].append(mentions if mentions is None else [mention.entity for mention in mentions])
        columns["mention_classes"].append(
            mentions if mentions is None else [" ".join(mention.classes) for mention in mentions]
        )
        columns["mention_types"].append(mentions if mentions is None else [mention.type or "" for mention in mentions])
        columns["mention_sources"].append(mentions if mentions is None else [mention.source for mention in mentions])
        columns["mention_scores"].append(mentions if mentions is None else [mention.score for mention in mentions])

    def table(self) -> pa.Table:
        return pa.table(self._columns, schema=SENTENCES)


def pages_table(rows: list[PageRow]) -> pa.Table:
    """Return page rows as a table of the schema `PAGES`."""
    return pa.table({name: [getattr(row, name) for row in rows] for name in PAGES.names}, schema=PAGES)


def sentences_of(batch: pa.RecordBatch | pa.Table) -> Iterator[CorpusSentence]:
    """Yield the sentences of rows with all columns of `SENTENCES`."""
    columns = [batch.column(name).to_pylist() for name in SENTENCES.names]
    for row in zip(*columns, strict=True):
        yield _sentence(*row)


def _sentence(
    id: str,
    page: int,
    revision: int,
    title: str,
    section: str,
    paragraph: int,
    offset: int,
    text: str,
    token_starts: list[int],
    token_ends: list[int],
    link_starts: list[int],
    link_ends: list[int],
    link_targets: list[str],
    *mentions: list[Any] | None,
) -> CorpusSentence:
    meta = {
        "page": page,
        "revision": revision,
        "title": title,
        "section": section,
        "paragraph": paragraph,
        "offset": offset,
    }
    tokens = tuple(map(Token, token_starts, token_ends))
    links = tuple(map(Link, link_starts, link_ends, link_targets))
    return CorpusSentence(Sentence(id, text, tokens, links, meta), _mentions(mentions))


def _mentions(columns: tuple[list[Any] | None, ...]) -> tuple[Mention, ...] | None:
    present = [column for column in columns if column is not None]
    if not present:
        return None
    return tuple(
        Mention(start, end, entity, tuple(classes.split()), kind or None, source, round(score, 6))
        for start, end, entity, classes, kind, source, score in zip(*present, strict=True)
    )


ROW_GROUP = 4096
_KINDS = ("sentences", "pages")


class Corpus:
    """Sentences with link spans and mentions, and what became of every page. Cheap to open; nothing stays in memory."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Open a corpus folder; raise NotFound where there is none, BadInput for a damaged one or another version."""
        corpus = cls(Path(folder), read_manifest(Path(folder)))
        for shard in corpus.manifest.shards:
            for kind in _KINDS:
                if not (path := corpus.folder / kind / shard.file_name).is_file():
                    raise BadInput(f"{path} is missing: copy the corpus again, or rebuild it.")
        return corpus

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def __len__(self) -> int:
        return self.manifest.counts.sentences

    def sentences(self, *, shards: Sequence[int] | None = None) -> Iterator[CorpusSentence]:
        """Yield the sentences in order; `shards` are positions in the manifest's list."""
        for batch in self.tables(SENTENCES.names, shards=shards):
            yield from sentences_of(batch)

    def tables(self, columns: Sequence[str], *, shards: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield columns of the sentences in batches; raise BadInput for an unknown column."""
        return self._stream("sentences", SENTENCES, columns, shards)

    def words(self, limit: int | None = None) -> Iterator[list[str]]:
        """Yield the tokens of each sentence in order, of the first `limit` sentences if given."""
        return islice(self._words(), limit)

    def _words(self) -> Iterator[list[str]]:
        for batch in self.tables(("text", "token_starts", "token_ends")):
            texts, starts, ends = (column.to_pylist() for column in batch.columns)
            for text, begins, stops in zip(texts, starts, ends, strict=True):
                yield [text[begin:end] for begin, end in zip(begins, stops, strict=True)]

    def pages(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the table of pages, or some of its columns, in batches."""
        return self._stream("pages", PAGES, columns or PAGES.names, None)

    def rows(self, indices: Iterable[int]) -> list[CorpusSentence]:
        """Return sentences by their index in the whole corpus, in the order given; raise NotFound for one out of range.

        Each row group is read once, whatever the order.
        """
        asked = list(indices)
        places: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for position, index in enumerate(asked):
            shard, row = self._place(index)
            places[shard, row // ROW_GROUP].append((position, row % ROW_GROUP))
        sentences: dict[int, CorpusSentence] = {}
        for (shard, group), wanted in sorted(places.items()):
            with self._file("sentences", shard) as file:
                rows = _read(file, group, SENTENCES.names).take(pa.array([row for _, row in wanted]))
            sentences.update(zip((position for position, _ in wanted), sentences_of(rows), strict=True))
        return [sentences[position] for position in range(len(asked))]

    def of_page(self, page: int) -> list[CorpusSentence]:
        """Return the sentences of a page in order, none if it has none; only row groups that may hold it are read."""
        sentences: list[CorpusSentence] = []
        files = tuple(shard.file_name for shard in self.manifest.shards)
        for number, group, low, high in _page_ranges(self.folder, self.manifest.hash, files):
            if not low <= page <= high:
                continue
            with self._file("sentences", number) as file:
                rows = pc.indices_nonzero(pc.equal(_read(file, group, ["page"]).column("page"), page))
                if len(rows):
                    sentences += sentences_of(_read(file, group, SENTENCES.names).take(rows))
        return sentences

    def search(self, text: str, *, limit: int = 20, offset: int = 0) -> list[CorpusSentence]:
        """Return sentences that contain a text, ignoring case, in order; reading stops at the limit."""
        sentences: list[CorpusSentence] = []
        for number in range(len(self.manifest.shards)):
            with self._file("sentences", number) as file:
                for group in range(file.num_row_groups):
                    if len(sentences) >= limit:
                        return sentences[:limit]
                    hits = pc.match_substring(_read(file, group, ["text"]).column("text"), text, ignore_case=True)
                    rows = pc.indices_nonzero(hits)
                    skipped, rows = min(offset, len(rows)), rows[min(offset, len(rows)) :]
                    offset -= skipped
                    if len(rows):
                        wanted = rows[: limit - len(sentences)]
                        sentences += sentences_of(_read(file, group, SENTENCES.names).take(wanted))
        return sentences[:limit]

    def verify(self) -> None:
        """Read every file and compare its hash with the manifest; raise BadInput naming the first that differs."""
        for shard in self.manifest.shards:
            for kind, expected in zip(_KINDS, (shard.sentences_sha256, shard.pages_sha256), strict=True):
                path = self.folder / kind / shard.file_name
                if file_sha256(path) != expected:
                    raise BadInput(f"{path} does not match the manifest: copy the corpus again, or rebuild it.")

    def _place(self, index: int) -> tuple[int, int]:
        left = index
        for number, shard in enumerate(self.manifest.shards if index >= 0 else ()):
            if left < shard.sentences:
                return number, left
            left -= shard.sentences
        raise NotFound(f"The corpus {self.name} has no sentence number {index}; it has {len(self)}.")

    def _file(self, kind: str, number: int) -> pq.ParquetFile:
        path = self.folder / kind / self.manifest.shards[number].file_name
        try:
            return pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read: copy the corpus again, or rebuild it. ({error})") from error

    def _stream(
        self, kind: str, schema: pa.Schema, columns: Sequence[str], shards: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        if unknown := sorted(set(columns) - set(schema.names)):
            raise BadInput(
                f"The {kind} of a corpus have no column {unknown[0]!r}; there are {', '.join(schema.names)}."
            )
        for number in range(len(self.manifest.shards)) if shards is None else shards:
            with self._file(kind, number) as file:
                for group in range(file.num_row_groups):
                    for batch in _read(file, group, columns).to_batches():
                        yield batch.select(list(columns))


class CorpusWriter:
    """Writes a corpus folder: shards in any order, each complete or absent, and the manifest last."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        for kind in _KINDS:
            (self.folder / kind).mkdir(parents=True, exist_ok=True)

    def write_shard(self, number: int, sentences: pa.Table, pages: pa.Table) -> Shard:
        """Write both files of a shard under temporary names and rename them; the same rows give the same bytes."""
        hashes = []
        for kind, schema, table in zip(_KINDS, (SENTENCES, PAGES), (sentences, pages), strict=True):
            path = self.folder / kind / f"{number:05d}.parquet"
            hashes.append(_write_table(path, table.select(schema.names).cast(schema)))
        return Shard(number, sentences.num_rows, pages.num_rows, hashes[0], hashes[1])

    def finish(self, manifest: Manifest) -> Corpus:
        """Write the manifest, which makes the folder a corpus."""
        write_beside(self.folder / FILE_NAME, manifest.to_json().encode())
        return Corpus.open(self.folder)


@lru_cache(maxsize=8)
def _page_ranges(folder: Path, _hash: str, files: tuple[str, ...]) -> list[tuple[int, int, int, int]]:
    """Return (shard, row group, lowest page, highest page) from the footers, which are read once for each corpus."""
    ranges = []
    for number, name in enumerate(files):
        try:
            footer = pq.read_metadata(folder / "sentences" / name)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(
                f"{folder / name} cannot be read: copy the corpus again, or rebuild it. ({error})"
            ) from error
        for group in range(footer.num_row_groups):
            bounds = footer.row_group(group).column(SENTENCES.get_field_index("page")).statistics
            low, high = (bounds.min, bounds.max) if bounds and bounds.has_min_max else (-(2**63), 2**63)
            ranges.append((number, group, low, high))
    return ranges


def write_beside(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, sync it to disk and rename it: it is complete or absent."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def file_sha256(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_table(path: Path, table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=ROW_GROUP)
    data = sink.getvalue().to_pybytes()
    write_beside(path, data)
    return hashlib.sha256(data).hexdigest()


def _read(file: pq.ParquetFile, group: int, columns: Sequence[str]) -> Any:
    try:
        return file.read_row_group(group, columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"A file of the corpus is damaged: copy it again, or rebuild it. ({error})") from error
