"""Single-text formats: each file is read as text by itself, and records are written as one text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from crossner_core.formats.base import Format, Layout, NamedFile, Parsed, Problem, Record
from crossner_core.formats.source import Source, decode


class TextReader(Protocol):
    """Read decoded text; collect problems in `source`, each with its line."""

    def __call__(self, source: Source, options: Any) -> tuple[list[Record], Layout]: ...


class TextWriter(Protocol):
    """Write records in order as one text."""

    def __call__(self, records: Sequence[Record], layout: Any) -> str: ...


def text_format(
    id: str, *, reader: TextReader, writer: TextWriter, leaves_out: Sequence[str] = (), **values: Any
) -> Format:
    """Make a format from a text reader and a text writer; `values` are further fields of `Format`.

    `leaves_out` names what the text cannot hold of a sentence: entities, links.
    """

    def read(files: Sequence[NamedFile], options: Any) -> Iterator[Parsed]:
        for name, data in files:
            source = decode(data, name, skip_bad=options.skip_bad)
            source.check_lines(options.max_line)
            records, layout = reader(source, options)
            problems = tuple(Problem(name, line, reason) for line, reason in sorted(source.problems))
            yield Parsed(name, id, tuple(records), problems, layout, hint=source.advice())

    def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
        for document in documents:
            counts = _counts(document.sentences)
            losses.update({kind: counts[kind] for kind in leaves_out if counts[kind]})
            mark = "\ufeff" if document.layout.bom else ""
            yield document.name, (mark + writer(document.sentences, document.layout)).encode("utf-8")

    return Format(id=id, reader=read, writer=write, **values)


def _counts(records: Sequence[Record]) -> dict[str, int]:
    return {
        "entities": sum(len(record.spans or ()) for record in records),
        "links": sum(len(record.sentence.links) for record in records),
    }
