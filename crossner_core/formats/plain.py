"""Plain text: one sentence per line, or paragraphs to be split into sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from crossner_core.errors import InvalidConfig
from crossner_core.formats.base import Layout, ReadOptions, Record, join_pieces, notes_of, register
from crossner_core.formats.source import Source, after_block, after_line
from crossner_core.formats.text import entities, links, text_format
from crossner_core.schema import Sentence, SentenceLayout
from crossner_core.tokenize import has_paragraphs, split_sentences, tokenize_at_most

_SPLITS = ("lines", "paragraphs")


def _check_split(split: str) -> None:
    if split not in _SPLITS:
        raise InvalidConfig(f"Plain text is split by {' or '.join(_SPLITS)}, not {split!r}.")


@dataclass(frozen=True)
class PlainOptions(ReadOptions):
    """How to read plain text."""

    split: str = field(default="lines", metadata={"doc": "lines: one sentence each; paragraphs: split into sentences."})

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_split(self.split)


@dataclass(frozen=True)
class PlainLayout(Layout):
    """How a plain text was laid out."""

    split: str = "lines"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_split(self.split)

    @property
    def gap(self) -> str:
        return _gap(self.split, self.newline)


@dataclass
class _SoFar:
    """Whether every line of a text is a paragraph, and how many sentences were read."""

    by_line: bool
    count: int = 0


def survey(portions: Iterator[Source], options: PlainOptions) -> _SoFar:
    """Look for a blank line between paragraphs."""
    has_text = False
    for source in portions if options.split == "paragraphs" else ():
        # Only a blank line, or the end of the file, parts two portions.
        text = source.text if source.newline != "\r" else source.text.replace("\r", "\n")
        if has_paragraphs(text) or (has_text and text.strip()):
            return _SoFar(by_line=False)
        has_text = has_text or bool(text.strip())
    return _SoFar(by_line=True)


def read(source: Source, options: PlainOptions) -> tuple[list[Record], PlainLayout]:
    """Read sentences, none of them annotated; ids count all sentences of the file."""
    known: _SoFar = source.so_far
    ranges = _line_ranges(source) if options.split == "lines" else _sentence_ranges(source, known.by_line)
    gap = _gap(options.split, source.newline)
    prefix = options.id_prefix or PurePath(source.name).stem
    records: list[Record] = []
    written = 0  # offset up to which everything belongs to a sentence or precedes one
    for number, (start, end, first, last) in enumerate(ranges, known.count + 1):
        before, written = source.text[written:start], end
        if any(index in source.bad_lines for index in range(first, last + 1)):
            continue
        text = source.text[start:end]
        tokens, count = tokenize_at_most(text, options.max_tokens)
        if count > options.max_tokens:
            source.problem(first, f"a sentence of {count:,} tokens; at most {options.max_tokens:,} are read.")
            continue
        notes = {} if before == (gap if number > 1 else "") else {"before": before}
        own = SentenceLayout("plain", notes)
        offset = source.first_char + start
        sentence = Sentence(f"{prefix}-{number}", text, tokens, document=source.name, offset=offset, layout=own)
        records.append(Record(sentence))
    known.count += len(ranges)
    tail = source.text[written:]
    layout = PlainLayout(source.newline, source.bom, None if tail == source.newline else tail, split=options.split)
    return records, layout


def write(records: Sequence[Record], layout: PlainLayout) -> str:
    """Write the texts, one sentence per line unless they are whole paragraphs. Annotation is left out."""
    if not _by_line(records, layout):
        return join_pieces((record.sentence.text for record in records), records, "plain", " ", layout)
    breaks = _breaks(layout)
    pieces = (breaks.sub(" ", record.sentence.text) for record in records)
    if layout.split == "lines":
        apart = "\r*" + layout.newline[-1]
        return join_pieces(pieces, records, "plain", layout.newline, layout, apart=apart)
    return layout.newline.join(pieces) + layout.newline


def _by_line(records: Sequence[Record], layout: PlainLayout) -> bool:
    """Tell whether sentences are written as lines: also those of paragraphs of which some are missing or moved.

    Without what stood between them they could be split elsewhere.
    """
    if layout.split == "lines":
        return True
    for record, following in itertools.pairwise(record.sentence for record in records):
        if record.offset is not None and following.offset is not None:
            before = notes_of(following, "plain").get("before", " ")
            if record.offset + len(record.text) + len(before) != following.offset:
                return True
    return False


def _breaks(layout: PlainLayout) -> re.Pattern[str]:
    """Match what would end the line of a text within it."""
    return re.compile(r"\r\n?|\n" if layout.newline == "\r" else r"\r*\n|\r+\Z")


def _line_breaks(records: Sequence[Record], layout: PlainLayout) -> int:
    breaks = _breaks(layout)
    return sum(len(breaks.findall(r.sentence.text)) for r in records) if _by_line(records, layout) else 0


def _gap(split: str, newline: str) -> str:
    return newline if split == "lines" else " "


def _line_ranges(source: Source) -> list[tuple[int, int, int, int]]:
    """Return (start, end, first line, last line) of each line that is not blank."""
    return [
        (source.starts[index], source.end(index), index, index)
        for index, line in enumerate(source.lines)
        if line.strip()
    ]


def _sentence_ranges(source: Source, by_line: bool) -> list[tuple[int, int, int, int]]:
    """Return (start, end, first line, last line) of each sentence of the paragraphs."""
    text = source.text if source.newline != "\r" else source.text.replace("\r", "\n")
    text = _without_bad_lines(text, source)
    ranges = []
    line, last = 0, len(source.starts) - 1
    for start, end in split_sentences(text, by_line=by_line):
        while line < last and source.starts[line + 1] <= start:
            line += 1
        stop = line
        while stop < last and source.starts[stop + 1] < end:
            stop += 1
        ranges.append((start, end, line, stop))
    return ranges


def _without_bad_lines(text: str, source: Source) -> str:
    """Replace each bad line by one long word: nothing is split there, and all offsets stay valid."""
    parts, done = [], 0
    for index in sorted(source.bad_lines):
        start, end = source.starts[index], source.end(index)
        parts += [text[done:start], "x" * (end - start)]
        done = end
    return "".join([*parts, text[done:]])


register(
    text_format(
        "plain",
        title="Plain text",
        suffixes=(".txt", ".text"),
        reader=read,
        writer=write,
        boundary=lambda options: after_line if options.split == "lines" else after_block,
        survey=survey,
        options_type=PlainOptions,
        layout_type=PlainLayout,
        leaves_out={"entities": entities, "links": links, "line breaks": _line_breaks},
        example="Mara Vell sang in Oslo.\nThe album was praised.",
    )
)
