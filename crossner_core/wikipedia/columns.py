"""The two tables of a corpus, sentences and pages: their columns, rows into them and rows out of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crossner_core.schema import Link, Mention, Sentence, Token

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
    """What became of one page of the dump."""

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
    """Gathers sentences and gives them as a table of the schema `SENTENCES`."""

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
        found = item.mentions
        columns["mention_starts"].append(found if found is None else [one.start for one in found])
        columns["mention_ends"].append(found if found is None else [one.end for one in found])
        columns["mention_entities"].append(found if found is None else [one.entity for one in found])
        columns["mention_classes"].append(found if found is None else [" ".join(one.classes) for one in found])
        columns["mention_types"].append(found if found is None else [one.type or "" for one in found])
        columns["mention_sources"].append(found if found is None else [one.source for one in found])
        columns["mention_scores"].append(found if found is None else [one.score for one in found])

    def table(self) -> pa.Table:
        return pa.table(self._columns, schema=SENTENCES)


def pages_table(rows: list[PageRow]) -> pa.Table:
    """Give page rows as a table of the schema `PAGES`."""
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
