"""Single-text formats: each file is read as text by itself, and records are written as one text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from crossner_core.formats.base import Format, Layout, NamedFile, Parsed, Problem, Record
from crossner_core.formats.source import Source, decode


class TextReader(Protocol):
    """Read decoded text; collect problems in `source`, each with its line."""

    def __call__(self, source: Source, options: Any) -> tuple[list[Record], Layout]: ...


class TextWriter(Protocol):
    """Write records in order as one text."""

    def __call__(self, records: Sequence[Record], layout: Any) -> str: ...


Counting = Callable[[Sequence[Record], Any], int]


def entities(records: Sequence[Record], _layout: Layout) -> int:
    """Count the entities of sentences."""
    return sum(len(record.spans or ()) for record in records)


def links(records: Sequence[Record], _layout: Layout) -> int:
    """Count the links of sentences."""
    return sum(len(record.sentence.links) for record in records)


def text_format(
    id: str,
    *,
    reader: TextReader,
    writer: TextWriter,
    leaves_out: Mapping[str, Counting] | None = None,
    times: int = 1,
    **values: Any,
) -> Format:
    """Make a format from a text reader and a text writer; `values` are further fields of `Format`.

    `leaves_out` counts by kind what the text cannot hold of the sentences; a line may be so many `times` longer than
    the longest text allowed.
    """

    def read(files: Sequence[NamedFile], options: Any) -> Iterator[Parsed]:
        for name, data in files:
            source = decode(data, name, skip_bad=options.skip_bad)
            source.check_lines(options.max_line * times)
            records, layout = reader(source, options)
            problems = tuple(Problem(name, line, reason) for line, reason in sorted(source.problems))
            yield Parsed(name, id, tuple(records), problems, layout, hint=source.advice())

    def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
        for document in documents:
            for kind, count in (leaves_out or {}).items():
                if number := count(document.sentences, document.layout):
                    losses[kind] += number
            text = writer(document.sentences, document.layout)
            # A reader takes one mark at the beginning for no part of the text.
            mark = "\ufeff" if document.layout.bom or text.startswith("\ufeff") else ""
            yield document.name, (mark + text).encode("utf-8")

    return Format(id=id, reader=read, writer=write, **values)
