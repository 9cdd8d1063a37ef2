"""CoNLL columns: one token per line, a blank line after each sentence, with or without tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from pathlib import PurePath
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats.base import Layout, Notes, ReadOptions, Record, join_pieces, notes_of, register
from crossner_core.formats.columns import (
    DOCSTART,
    SAMPLE,
    SEPARATORS,
    Block,
    Shape,
    find_blocks,
    find_shape,
    split_columns,
)
from crossner_core.formats.source import Source, after_block
from crossner_core.formats.text import links, text_format
from crossner_core.schema import SentenceLayout, Span, sentence_from_words
from crossner_core.tags import SCHEMES, detect_scheme, is_tag, spans_from_tags, tag_problems, tags_from_spans

_FILLER = "_"


@dataclass(frozen=True)
class ConllOptions(ReadOptions):
    """How to read columns; what is not given is inferred."""

    scheme: str | None = field(default=None, metadata={"doc": f"Tag scheme: {', '.join(SCHEMES)}; else inferred."})
    token_column: int | None = field(default=None, metadata={"doc": "Column of the token, from 0."})
    tag_column: int | None = field(default=None, metadata={"doc": "Column of the tag, from 0."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scheme is not None and self.scheme not in SCHEMES:
            raise InvalidConfig(f"Unknown tag scheme {self.scheme!r}; known are {', '.join(SCHEMES)}.")


@dataclass(frozen=True)
class ConllLayout(Layout):
    """How columns were laid out; `width` columns, `index_column` counts tokens from `index_from`."""

    separator: str = "\t"
    width: int = 1
    token_column: int = 0
    tag_column: int | None = None
    index_column: int | None = None
    index_from: int = 1
    scheme: str = "IOB2"
    lenient: bool = False  # the file may hold tags its scheme does not allow

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = [column for column in (self.token_column, self.tag_column, self.index_column) if column is not None]
        if len(set(columns)) < len(columns) or not all(0 <= column < self.width for column in columns):
            raise InvalidConfig(f"Columns {columns} of {self.width}: token, tag and index each need one of their own.")
        if self.separator not in SEPARATORS or self.scheme not in SCHEMES:
            raise InvalidConfig(
                f"Columns cut by {self.separator!r} with tags as {self.scheme!r}; known are a tab or a space, and "
                f"{', '.join(SCHEMES)}."
            )


@dataclass(frozen=True)
class ConllNotes(Notes):
    """A sentence's other columns by number, and its lines where these do not give them."""

    columns: dict[str, list[str]] = field(default_factory=dict)
    raw: str = ""


@dataclass
class _SoFar:
    """What is known of a file: its columns, tags and types from a first look, and how far it was read."""

    shape: Shape
    scheme: str = "IOB2"
    types: Counter[str] = field(default_factory=Counter)
    number: int = 0
    article: int = 0


def survey(portions: Iterator[Source], options: ConllOptions) -> _SoFar:
    """Infer columns from the first lines; tags' scheme and types, where they are needed, from all of them."""
    head = list[Source]()
    while not head or (not head[-1].is_last and sum(len(source.lines) for source in head) < SAMPLE):
        head.append(next(portions))
    lines = [line for source in head for line in source.lines]
    starts = accumulate((len(source.lines) for source in head), initial=0)
    bad = {start + index for start, source in zip(starts, head, strict=False) for index in source.bad_lines}
    sample = replace(head[0], lines=lines, bad_lines=bad)
    known = _SoFar(find_shape(sample, options.token_column, options.tag_column))
    known.scheme = options.scheme or known.scheme
    if known.shape.tag is not None:

        def good() -> Iterator[list[str]]:
            for source in chain(head, portions):
                blocks, _ = find_blocks(source, known.shape, options.max_tokens)
                for block in blocks:
                    known.types.update(tag[2:] for tag in block.tags)
                    if not block.bad and all(map(is_tag, set(block.tags))):
                        yield block.tags

        detected = detect_scheme(good())
        known.scheme = options.scheme or detected
    return known


def read(source: Source, options: ConllOptions) -> tuple[list[Record], ConllLayout]:
    """Read sentences; they are annotated where the file has a tag column.

    Their document is the file, or the article in it: `NAME 2` after the second -DOCSTART-.
    """
    known: _SoFar = source.so_far
    shape = known.shape
    blocks, tail = find_blocks(source, shape, options.max_tokens)
    if source.is_last:
        _report_cut_tag(source, blocks, known.types)
    layout = ConllLayout(
        newline=source.newline,
        bom=source.bom,
        tail=None if tail == source.newline else tail,
        type_map=dict(sorted(options.type_map.items(), key=lambda item: item[0] not in known.types)),
        separator=shape.separator,
        width=shape.width,
        token_column=shape.token,
        tag_column=shape.tag,
        index_column=shape.index,
        index_from=shape.index_from,
        scheme=known.scheme,
        lenient=options.lenient,
    )
    prefix = options.id_prefix or PurePath(source.name).stem
    records: list[Record] = []
    for block in blocks:
        known.number += 1
        known.article += DOCSTART in block.before
        if (length := sum(map(len, block.words)) + len(block.words) - 1) > options.max_line:
            block.problem(source, 0, f"a text of {length:,} characters; at most {options.max_line:,} are read.")
        if not block.bad:
            spans = _read_spans(source, block, options, layout)
            if not block.bad:
                document = f"{source.name} {known.article}" if known.article else source.name
                sentence = sentence_from_words(block.words, id=f"{prefix}-{known.number}", document=document)
                notes = _notes(Record(sentence, spans), block, layout, is_first=known.number == 1)
                records.append(Record(sentence.laid_out(SentenceLayout("conll", notes)), spans))
    return records, layout


def write(records: Sequence[Record], layout: ConllLayout) -> str:
    """Write columns; raise BadInput if only some sentences are annotated."""
    layout = _with_tags(records, layout)
    bare = next((record for record in records if record.spans is None), None)
    if bare is not None and any(record.spans is not None for record in records):
        raise BadInput(
            f"Sentence {bare.sentence.id} has no annotation but others do: export annotated and unannotated sentences "
            "to separate files."
        )
    gap, end = layout.newline * 2, "\r*" + layout.newline[-1]
    apart = rf"{end}([^\S\r\n]*{end}|{DOCSTART})"
    return join_pieces((_piece(record, layout) for record in records), records, "conll", gap, layout, apart=apart)


def _with_tags(records: Sequence[Record], layout: ConllLayout) -> ConllLayout:
    """Add a column for tags where sentences are annotated and the layout has none."""
    if layout.tag_column is not None or all(record.spans is None for record in records):
        return layout
    return replace(layout, width=layout.width + 1, tag_column=layout.width)


def _report_cut_tag(source: Source, blocks: Sequence[Block], types: Counter[str]) -> None:
    """Report a last tag without newline whose type is seen nowhere else and is a prefix of another: a cut-off file."""
    if not blocks or source.text.endswith(("\n", "\r")):
        return
    last = blocks[-1]
    if not last.tags or not is_tag(last.tags[-1]):
        return
    cut = last.tags[-1][2:]
    if (
        cut
        and types[cut] == 1
        and (whole := next((type for type in types if type != cut and type.startswith(cut)), ""))
    ):
        reason = f"type {cut!r} is nowhere else in the file and may be a cut-off {whole!r}"
        reason += "; if the file is complete, end it with a newline"
        last.problem(source, len(last.tags) - 1, reason)


def _read_spans(source: Source, block: Block, options: ConllOptions, layout: ConllLayout) -> tuple[Span, ...] | None:
    """Read a block's spans in our types; problems mark the block as bad."""
    if layout.tag_column is None:
        return None
    if block.tags.count("O") == len(block.tags):
        return ()
    try:
        spans = spans_from_tags(block.tags, layout.scheme, strict=not options.lenient)
    except BadInput:
        _report_tags(source, block, options, layout)
        return None
    for span in spans:
        try:
            options.our_type(span.type)
        except BadInput as error:
            block.problem(source, span.start, str(error))
    return layout.our_spans(spans) if layout.type_map else spans


def _report_tags(source: Source, block: Block, options: ConllOptions, layout: ConllLayout) -> None:
    """Report every bad tag of a block; with `lenient` only those that are not tags at all."""
    for position, reason, is_stray in tag_problems(block.tags, layout.scheme):
        if not options.lenient:
            block.problem(source, position, reason)
            if is_stray:
                source.hint = f"Tags were read as {layout.scheme}; with --lenient a stray I- begins an entity."
        elif not is_tag(block.tags[position]):
            block.problem(source, position, reason)


def _notes(record: Record, block: Block, layout: ConllLayout, *, is_first: bool) -> dict[str, Any]:
    """Return what the layout alone cannot reproduce of a record."""
    notes: dict[str, Any] = {}
    if block.before != ("" if is_first else layout.newline * 2):
        notes["before"] = block.before
    if extra := _extra_columns(block, layout):
        notes["columns"] = extra
    if _render(record, layout, notes) != block.raw:
        notes["raw"] = block.raw
    return notes


def _extra_columns(block: Block, layout: ConllLayout) -> dict[str, list[str]]:
    """Return the columns that are neither token, tag nor index, by number (a string, as JSON requires)."""
    ours = {layout.token_column, layout.tag_column, layout.index_column}
    return {str(column): [row[column] for row in block.rows] for column in range(layout.width) if column not in ours}


def _piece(record: Record, layout: ConllLayout) -> str:
    notes = notes_of(record.sentence, "conll")
    raw = notes.get("raw")
    if raw is not None and _still_holds(raw, record, layout):
        return str(raw)
    return _render(record, layout, notes)


def _still_holds(raw: str, record: Record, layout: ConllLayout) -> bool:
    """Tell whether the text a sentence was read from still matches the record."""
    rows = [split_columns(line.rstrip("\r"), layout.separator) for line in raw.split(layout.newline[-1])]
    if any(len(row) != layout.width for row in rows):
        return False
    if tuple(row[layout.token_column] for row in rows) != record.sentence.words:
        return False
    if layout.tag_column is None or record.spans is None:
        return layout.tag_column is None and record.spans is None
    try:
        spans = spans_from_tags([row[layout.tag_column] for row in rows], layout.scheme, strict=not layout.lenient)
    except BadInput:
        return False
    return layout.our_spans(spans) == tuple(sorted(record.spans))


def _render(record: Record, layout: ConllLayout, notes: Mapping[str, Any]) -> str:
    """Write one sentence's lines, without the newline after the last."""
    if not record.sentence.tokens:
        raise BadInput(f"Sentence {record.sentence.id} has no tokens: a column file cannot hold it.")
    words = [_fitting(word, layout) for word in record.sentence.words]
    extra: Mapping[str, list[str]] = notes.get("columns", {})
    columns: list[Sequence[str]] = []
    for column in range(layout.width):
        if column == layout.token_column:
            columns.append(words)
        elif column == layout.tag_column and record.spans is not None:
            outer = [Span(s.start, s.end, layout.outer_type(s.type)) for s in record.spans]
            columns.append(tags_from_spans(outer, len(words), layout.scheme))
        elif column == layout.index_column:
            columns.append([str(layout.index_from + position) for position in range(len(words))])
        else:
            kept = extra.get(str(column), ())
            columns.append(kept if len(kept) == len(words) else [_FILLER] * len(words))
    return layout.newline.join(layout.separator.join(row) for row in zip(*columns, strict=True))


def render(record: Record, layout: ConllLayout) -> str:
    """Return one sentence's lines, its annotation (none: no entities) in the column of tags."""
    return _render(record if record.spans is not None else replace(record, spans=()), layout, {})


def _fitting(word: str, layout: ConllLayout) -> str:
    """Return a token as its column can hold it: `_` for white space that would end it, `_DOCSTART-` for that mark."""
    inner = "\t\n\r " if layout.separator == " " or layout.width == 1 else "\t\n\r"
    fitting = "".join("_" if letter in inner else letter for letter in word)
    if layout.token_column == layout.width - 1:
        start, end = len(fitting) - len(fitting.lstrip()), len(fitting.rstrip())
        fitting = "_" * start + fitting[start:end] + "_" * (len(fitting) - end)
    if layout.token_column == 0 and fitting.startswith("# "):
        return f"#_{fitting[2:]}"
    if layout.token_column == 0 and (fitting == DOCSTART or fitting.startswith(f"{DOCSTART} ")):
        return f"_{fitting[1:]}"
    return fitting


def changed_tokens(records: Sequence[Record], layout: ConllLayout) -> int:
    """Count the tokens that a column cannot hold as they are."""
    layout = _with_tags(records, layout)
    return sum(_fitting(word, layout) != word for record in records for word in record.sentence.words)


register(
    text_format(
        "conll",
        title="CoNLL columns",
        suffixes=(".conll", ".conllu", ".tsv", ".bio", ".iob", ".iob2", ".bioes", ".bmes"),
        reader=read,
        writer=write,
        boundary=lambda _options: after_block,
        survey=survey,
        options_type=ConllOptions,
        layout_type=ConllLayout,
        notes_type=ConllNotes,
        leaves_out={"links": links, "tokens unchanged": changed_tokens},
        times=2,
        example="Mara\tB-person\nVell\tI-person\nsang\tO",
    )
)
