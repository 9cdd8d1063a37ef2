"""Single-text formats: each file is read as text, portion by portion, and records are written as one text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, Problem, Record
from crossner_core.formats.source import Boundary, Source, portions


class TextReader(Protocol):
    """Read a portion of decoded text; collect problems in `source`, each with its line.

    The layout's `tail` is what follows the last sentence; where the portion is not the last, it is read again.
    """

    def __call__(self, source: Source, options: Any) -> tuple[list[Record], Layout]: ...


class Surveyor(Protocol):
    """Look through a whole file before it is read; return what its first portion has as `so_far`."""

    def __call__(self, portions: Iterator[Source], options: Any, /) -> Any: ...


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
    boundary: Callable[[Any], Boundary],
    survey: Surveyor | None = None,
    leaves_out: Mapping[str, Counting] | None = None,
    times: int = 1,
    **values: Any,
) -> Format:
    """Make a format from a text reader and a text writer; `values` are further fields of `Format`.

    `boundary` returns for some options where a portion may end. `leaves_out` counts by kind what the text cannot hold
    of the sentences; a line may be so many `times` longer than the longest text allowed.
    """

    def checked(name: str, data: Any, options: Any, *, ahead: bool) -> Iterator[Source]:
        for source in portions(data, name, boundary(options), skip_bad=options.skip_bad or ahead, counted=not ahead):
            source.check_lines(options.max_line * times)
            yield source

    def read(files: Sequence[InputFile], options: Any) -> Iterator[Parsed]:
        for name, data in files:
            known = survey(checked(name, data, options, ahead=True), options) if survey else None
            for source in checked(name, data, options, ahead=False):
                source.so_far = known if source.so_far is None else source.so_far
                records, layout = reader(source, options)
                if not source.is_last:
                    source.left = len(source.newline if layout.tail is None else layout.tail)
                problems = tuple(Problem(name, line, reason) for line, reason in source.settled())
                hint = source.advice() if source.is_last else ""
                yield Parsed(name, id, tuple(records), problems, layout, +source.losses, hint, more=not source.is_last)

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
