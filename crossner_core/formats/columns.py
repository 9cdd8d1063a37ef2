"""Find the columns and the sentences of a CoNLL-like file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from crossner_core.errors import BadInput
from crossner_core.formats.source import Source, clip

DOCSTART = "-DOCSTART-"
_TAG = re.compile(r"O|[BIESLU]-\S(?:.*\S)?")
_WHITE = re.compile(r"[ \t]+")
SAMPLE = 4_000
"""Lines that tell the columns."""
SEPARATORS = {"\t": "a tab", " ": "a space"}


@dataclass(frozen=True)
class Shape:
    """The role of each column, from 0; `tag` and `index` are None where there is none."""

    separator: str
    width: int
    token: int
    tag: int | None
    index: int | None
    index_from: int


@dataclass
class Block:
    """One sentence of a file: its rows, its position and the text before it."""

    first: int  # index of its first line
    rows: list[list[str]]
    words: list[str]
    tags: list[str]
    before: str
    raw: str
    bad: bool = field(default=False)

    def problem(self, source: Source, position: int, reason: str) -> None:
        """Note what is wrong at a token of this sentence."""
        source.problem(self.first + position, reason)
        self.bad = True


def split_columns(line: str, separator: str) -> list[str]:
    """Split a line into columns; with spaces, a run of white space is one separator, and none at the end."""
    if separator == "\t":
        *others, last = line.split("\t")
        return [*others, last.strip() or last]
    if "  " not in line and "\t" not in line:
        return line.strip(" ").split(" ")
    return _WHITE.split(line.strip(" \t"))


def find_shape(source: Source, token: int | None, tag: int | None) -> Shape:
    """Infer separator, width and the role of each column from the first lines."""
    sample = [
        line
        for index, line in enumerate(source.lines[:SAMPLE])
        if line.strip() and not line.startswith((DOCSTART, "# ")) and index not in source.bad_lines
    ]
    separator = "\t" if 2 * sum("\t" in line for line in sample) > len(sample) else " "
    rows = [split_columns(line, separator) for line in sample] or [["?"]]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if width == 1 and not any(" " in line.strip() for line in sample):
        separator = "\t"
    rows = [row for row in rows if len(row) == width]
    for column, what in ((token, "token"), (tag, "tag")):
        if column is not None and not 0 <= column < width:
            raise BadInput(f"{source.name}: there is no {what} column {column}; columns are 0 to {width - 1}.")
    tag = _find_tag(rows, width, token) if tag is None else tag
    index, index_from = _find_index(source, separator, width, token, tag)
    if token is None:
        token = next((column for column in range(width) if column not in (tag, index)), 0)
    return Shape(separator, width, token, None if tag == token else tag, index, index_from)


def _find_tag(rows: Sequence[Sequence[str]], width: int, token: int | None) -> int | None:
    """Take the last column if half of it is tags, else one that is all tags, else the last if any of it is a tag."""
    if width == 1:
        return None
    shares = [sum(_TAG.fullmatch(row[column]) is not None for row in rows) / len(rows) for column in range(width)]
    if token is not None:
        shares[token] = 0.0
    if shares[-1] >= 0.5:
        return width - 1
    if 1.0 in shares:
        return len(shares) - 1 - shares[::-1].index(1.0)
    return width - 1 if shares[-1] > 0 else None


def _find_index(
    source: Source, separator: str, width: int, token: int | None, tag: int | None
) -> tuple[int | None, int]:
    """Tell whether column 0 counts the tokens of each sentence from 0 or 1."""
    if width < 2 or token == 0 or tag == 0 or (width == 2 and tag is not None):
        return None, 1
    begins: Counter[int] = Counter()
    expected: int | None = None
    right = seen = 0
    for line in source.lines[:SAMPLE]:
        if not line.strip() or line.startswith((DOCSTART, "# ")):
            expected = None
            continue
        row = split_columns(line, separator)
        if len(row) != width:
            continue
        value = int(row[0]) if row[0].isdecimal() and len(row[0]) < 10 else -1
        seen += 1
        right += value == expected or (expected is None and value in (0, 1))
        if expected is None:
            begins[value] += 1
        expected = value + 1
    if seen == 0 or right < 0.9 * seen:  # not all: a broken row must not make the index the token column
        return None, 1
    return 0, begins.most_common(1)[0][0]


def find_blocks(source: Source, shape: Shape, max_tokens: int) -> tuple[list[Block], str]:
    """Split the file into sentences, and return what follows the last; bad rows mark their block."""
    blocks: list[Block] = []
    written = 0  # offset in the text up to which everything belongs to a block or stood before one
    first: int | None = None
    for index, line in enumerate([*source.lines, ""]):
        is_gap = not line.strip() or (line.startswith(DOCSTART) and _is_docstart(line))
        if first is None and not is_gap and not _is_comment(line, shape):
            first = index
        elif first is not None and is_gap:
            blocks.append(_block(source, shape, first, index, written, max_tokens))
            written = source.end(index - 1)
            first = None
    return blocks, source.text[written:]


def _is_docstart(line: str) -> bool:
    return line[len(DOCSTART) : len(DOCSTART) + 1] in {"", " ", "\t"}


def _is_comment(line: str, shape: Shape) -> bool:
    """Tell a comment before a sentence from a row whose token is `#`."""
    return line.startswith("# ") and len(split_columns(line, shape.separator)) != shape.width


def _block(source: Source, shape: Shape, first: int, stop: int, written: int, max_tokens: int) -> Block:
    start = source.starts[first]
    block = Block(first, [], [], [], source.text[written:start], source.text[start : source.end(stop - 1)])
    if stop - first > max_tokens:
        block.problem(source, 0, f"a sentence of {stop - first:,} tokens; at most {max_tokens:,} are read.")
        return block
    block.rows = [split_columns(line, shape.separator) for line in source.lines[first:stop]]
    for position, row in enumerate(block.rows):
        if first + position in source.bad_lines:
            block.bad = True
        elif len(row) != shape.width:
            expected = f"{shape.width} column{'s' if shape.width > 1 else ''}"
            line = clip(source.lines[first + position])
            block.problem(source, position, f"{len(row)} columns where the file has {expected}: {line}.")
            source.hint = f"Each row needs {expected}, with {SEPARATORS[shape.separator]} between them: correct these "
            source.hint += "lines, or leave bad sentences out."
        elif not row[shape.token].strip():
            block.problem(source, position, f"column {shape.token + 1}, the token, is empty.")
        elif "\r" in row[shape.token]:
            block.problem(source, position, f"the token {clip(row[shape.token])} holds a carriage return.")
    if not block.bad:
        block.words = [row[shape.token] for row in block.rows]
        if shape.tag is not None:
            block.tags = [row[shape.tag] for row in block.rows]
    return block
