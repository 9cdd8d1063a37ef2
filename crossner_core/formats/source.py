"""A decoded file: its text, its lines with offsets, and the problems found in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from crossner_core.errors import BadInput

# So many problems end the reading of a file whose bad sentences are not to be skipped.
MOST_PROBLEMS = 2_000
_HEAD = 60
_NO_TEXT = re.compile("[\x00\udc80-\udcff]")
_SHOWN = 20


def clip(value: str, limit: int = _HEAD) -> str:
    """Quote a value for a message, cut to a readable length."""
    return repr(value if len(value) <= limit else value[: limit - 1] + "…")


def describe(problems: Sequence[str]) -> str:
    """List the first problems, a line each, and say how many more there are."""
    rest = len(problems) - _SHOWN
    return "\n".join([*problems[:_SHOWN], *([f"… and {rest} more problems."] if rest > 0 else [])])


def refused(name: str, line: int, reason: str) -> BadInput:
    """Return the error for a file that cannot be read, with its place."""
    text = f"{name}:{line}: {reason}."
    return BadInput(text, (text,))


@dataclass
class Source:
    """A file's text; `lines[i]` is the content of line i + 1 and begins at `text[starts[i]]`."""

    name: str
    text: str
    bom: bool
    newline: str
    lines: list[str]
    starts: list[int]
    problems: list[tuple[int, str]] = field(default_factory=list)
    bad_lines: set[int] = field(default_factory=set)  # indices into `lines`
    hint: str = ""  # what the reader may do about the problems
    skip_bad: bool = False  # whether bad lines are left out, however many there are

    def problem(self, index: int, reason: str) -> None:
        """Note what is wrong with line `index` (from 0); raise BadInput where there are too many problems to go on."""
        self.problems.append((index + 1, reason))
        self.bad_lines.add(index)
        if len(self.problems) == MOST_PROBLEMS and not self.skip_bad:
            problems = tuple(f"{self.name}:{line}: {why}" for line, why in sorted(self.problems))
            seen = f"Reading stopped after {MOST_PROBLEMS:,} problems, at line {index + 1:,} of {len(self.lines):,}."
            raise BadInput(f"{describe(problems)}\n{seen}" + (f"\n{self.hint}" if self.hint else ""), problems)

    def check_lines(self, max_line: int) -> None:
        """Note lines that are too long; they are cut, so that nothing downstream has to process them."""
        for index, line in enumerate(self.lines):
            if len(line) > max_line:
                self.problem(index, f"{len(line):,} characters in one line; at most {max_line:,} are read.")
                self.lines[index] = line[:_HEAD]

    def advice(self) -> str:
        """Return what may be done about the problems, if anything."""
        if not self.problems or max(self.problems)[0] != len(self.lines) or self.text.endswith(("\n", "\r")):
            return self.hint
        return (
            f"{self.name} has no newline after line {len(self.lines):,}: if that line is cut off, as in an incomplete "
            "copy, get the file again."
        )

    def end(self, index: int) -> int:
        """Offset in `text` just past the content of line `index`; its newline is not content."""
        following = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.text)
        while following > self.starts[index] and self.text[following - 1] in "\r\n":
            following -= 1
        return following


def decode(data: bytes, name: str, *, skip_bad: bool = False) -> Source:
    """Decode UTF-8 and split into lines; undecodable lines become problems, an empty file raises BadInput."""
    if not data.strip():
        raise refused(name, 1, "the file is empty")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refused(name, 1, "the file is UTF-16; save it as UTF-8")
    bom = data.startswith(b"\xef\xbb\xbf")
    text = data[3:].decode("utf-8", "surrogateescape") if bom else data.decode("utf-8", "surrogateescape")
    source = _split(text, name, bom)
    source.skip_bad = skip_bad
    _check_characters(source)
    return source


def _split(text: str, name: str, bom: bool) -> Source:
    newline = "\r\n" if "\r\n" in text else "\r" if "\r" in text and "\n" not in text else "\n"
    cut = newline[-1]
    raw = text.split(cut)
    if raw[-1] == "":
        raw.pop()
    starts, start = [], 0
    for line in raw:
        starts.append(start)
        start += len(line) + 1
    lines = [line.rstrip("\r") for line in raw] if "\r" in text else raw
    return Source(name, text, bom, newline, lines, starts)


def _check_characters(source: Source) -> None:
    try:
        source.text.encode("utf-8")
        clean = "\x00" not in source.text
    except UnicodeEncodeError:
        clean = False
    if clean:
        return
    for index, line in enumerate(source.lines):
        column = next(
            (position for position, char in enumerate(line) if "\udc80" <= char <= "\udcff" or char == "\x00"), None
        )
        if column is None:
            continue
        if line[column] == "\x00":
            source.problem(index, f"a NUL byte at character {column + 1}; this is not a text file.")
        else:
            source.problem(index, f"byte 0x{ord(line[column]) - 0xDC00:02x} at character {column + 1} is not UTF-8.")
        source.lines[index] = line[:column].rstrip() or "?"
    # What is kept of the text, such as comments, goes into the store and out again.
    source.text = _NO_TEXT.sub("\ufffd", source.text)
