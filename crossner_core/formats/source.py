"""A decoded file, or a portion of one: its text, its lines with offsets, and the problems found in it."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from crossner_core.errors import BadInput

# So many problems end the reading of a file whose bad sentences are not to be skipped.
MOST_PROBLEMS = 2_000
_HEAD = 60
_NO_TEXT = re.compile("[\x00\udc80-\udcff]")
_SHOWN = 20
PORTION = 2_000_000
"""Bytes of a text file that are read at a time."""


@dataclass
class OnDisk:
    """A file to read that is not in memory; `taken` counts the bytes that its reader has taken so far."""

    path: Path
    taken: int = 0

    @property
    def size(self) -> int:
        return self.path.stat().st_size


Data = bytes | OnDisk


class _Counting(io.FileIO):
    """An open file that notes how far it was read."""

    def __init__(self, file: OnDisk) -> None:
        super().__init__(file.path)
        self._file = file

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer) or 0
        self._file.taken = max(self._file.taken, self.tell())
        return count


def opened(data: Data, *, counted: bool = True) -> BinaryIO:
    """Open a file; `counted` is whether its reader has taken what is read from it."""
    if isinstance(data, bytes):
        return io.BytesIO(data)
    return io.BufferedReader(_Counting(data) if counted else io.FileIO(data.path))


def content_of(data: Data) -> bytes:
    """Return the whole content of a file."""
    with opened(data) as file:
        return file.read()


def head_of(data: Data, size: int) -> bytes:
    """Return the first bytes of a file."""
    with opened(data, counted=False) as file:
        return file.read(size)


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
    """A file's text; `lines[i]` is the content of line i + 1 and begins at `text[starts[i]]`.

    A portion of a file begins after `first_line` lines and `first_char` characters. What its reader knows from the
    portions before is in `so_far`; `left` characters at the end are to be read again with the next one.
    """

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
    first_line: int = 0
    first_char: int = 0
    is_last: bool = True
    so_far: Any = None
    left: int = 0
    problems_before: list[tuple[int, str]] = field(default_factory=list)
    count: int | None = None  # lines of the whole file, if this is a portion
    losses: Counter[str] = field(default_factory=Counter)  # what the portion has and no record can carry, by kind

    def number(self, index: int) -> int:
        """Return the number of line `index` in the whole file, from 1."""
        return self.first_line + index + 1

    def problem(self, index: int, reason: str) -> None:
        """Note what is wrong with line `index` (from 0); raise BadInput where there are too many problems to go on."""
        self.problems.append((self.number(index), reason))
        self.bad_lines.add(index)
        if len(self.problems) + len(self.problems_before) == MOST_PROBLEMS and not self.skip_bad:
            every = sorted([*self.problems_before, *self.problems])
            problems = tuple(f"{self.name}:{line}: {why}" for line, why in every)
            seen = f"Reading stopped after {MOST_PROBLEMS:,} problems, at line {self.number(index):,} of "
            seen += f"{self._lines():,}."
            raise BadInput(f"{describe(problems)}\n{seen}" + (f"\n{self.hint}" if self.hint else ""), problems)

    def check_lines(self, max_line: int) -> None:
        """Note lines that are too long; they are cut, so that nothing downstream has to process them."""
        for index, line in enumerate(self.lines):
            if len(line) > max_line:
                self.problem(index, f"{len(line):,} characters in one line; at most {max_line:,} are read.")
                self.lines[index] = line[:_HEAD]

    def advice(self) -> str:
        """Return what may be done about the problems of the whole file, if anything."""
        every = [*self.problems_before, *self.problems]
        if not every or max(every)[0] != self._lines() or self.text.endswith(("\n", "\r")):
            return self.hint
        return (
            f"{self.name} has no newline after line {self._lines():,}: if that line is cut off, as in an incomplete "
            "copy, get the file again."
        )

    def end(self, index: int) -> int:
        """Offset in `text` just past the content of line `index`; its newline is not content."""
        following = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.text)
        while following > self.starts[index] and self.text[following - 1] in "\r\n":
            following -= 1
        return following

    def lines_done(self) -> int:
        """Return how many lines of the whole file end before what is left."""
        return self.first_line + self.text.count(self.newline[-1], 0, len(self.text) - self.left)

    def settled(self) -> list[tuple[int, str]]:
        """Return the problems in order, without those of lines that are left."""
        if not self.left:
            return sorted(self.problems)
        last = self.lines_done() + (self.left < len(self.text))
        return sorted(problem for problem in self.problems if problem[0] <= last)

    def _lines(self) -> int:
        return len(self.lines) if self.count is None else self.count


Boundary = Callable[[bytes], int]
"""Returns where a portion of a file may end: before the line end or blank line after a sentence; 0 if nowhere."""


def after_line(data: bytes) -> int:
    """Return where the last whole line of some bytes ends."""
    return _before(data, max(data.rfind(b"\n"), data.rfind(b"\r") if b"\n" not in data else -1))


def after_block(data: bytes) -> int:
    """Return where the last line before a blank one ends."""
    blank = max(data.rfind(b"\n\n"), data.rfind(b"\n\r\n"), data.rfind(b"\r\r") if b"\n" not in data else -1)
    return _before(data, blank)


def _before(data: bytes, place: int) -> int:
    while place > 0 and data[place - 1 : place] == b"\r":
        place -= 1
    return max(place, 0)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of a file's whole text: its newline and its number of lines."""

    newline: str
    lines: int


def portions(
    data: Data, name: str, boundary: Boundary, *, skip_bad: bool = False, counted: bool = True, size: int | None = None
) -> Iterator[Source]:
    """Decode a file portion by portion, as `decode` does the whole; raise BadInput for an empty file and for UTF-16."""
    seen = _survey(data, name)
    size = size or PORTION
    bom, rest, first_line, first_char, is_last = False, b"", 0, 0, False
    so_far, before, hint = None, list[tuple[int, str]](), ""
    with opened(data, counted=counted) as file:
        if head_of(data, 3) == b"\xef\xbb\xbf":
            bom = bool(file.read(3))
        while not is_last:
            block = file.read(size)
            is_last = len(block) < size
            rest += block
            cut = len(rest) if is_last else boundary(rest)
            if not is_last and not rest[:cut].strip():
                continue
            source = _split(rest[:cut].decode("utf-8", "surrogateescape"), name, bom, seen.newline)
            source.skip_bad, source.first_line, source.first_char = skip_bad, first_line, first_char
            source.is_last, source.count, source.hint = is_last, seen.lines, hint
            source.so_far, source.problems_before = so_far, before
            _check_characters(source)
            yield source
            so_far, hint, before = source.so_far, source.hint, before + source.settled()
            done = len(source.text) - source.left
            first_line, first_char = source.lines_done(), first_char + done
            rest = source.text[done:].encode("utf-8") + rest[cut:]


def _survey(data: Data, name: str) -> _Seen:
    head = head_of(data, 2)
    if head in (b"\xff\xfe", b"\xfe\xff"):
        raise refused(name, 1, "the file is UTF-16; save it as UTF-8")
    crlf = cr = False
    lines, carriages, last, blank = 0, 0, b"", True
    with opened(data, counted=False) as file:
        while block := file.read(PORTION):
            blank = blank and not block.strip()
            crlf = crlf or b"\r\n" in block or (last == b"\r" and block.startswith(b"\n"))
            carriages += block.count(b"\r")
            lines += block.count(b"\n")
            last = block[-1:]
    if blank:
        raise refused(name, 1, "the file is empty")
    cr = carriages > 0 and lines == 0
    newline = "\r\n" if crlf else "\r" if cr else "\n"
    return _Seen(newline, (carriages if cr else lines) + (last != newline[-1].encode()))


def decode(data: bytes, name: str, *, skip_bad: bool = False) -> Source:
    """Decode UTF-8 and split into lines; undecodable lines become problems, an empty file raises BadInput."""
    if not data.strip():
        raise refused(name, 1, "the file is empty")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refused(name, 1, "the file is UTF-16; save it as UTF-8")
    bom = data.startswith(b"\xef\xbb\xbf")
    text = data[3:].decode("utf-8", "surrogateescape") if bom else data.decode("utf-8", "surrogateescape")
    newline = "\r\n" if "\r\n" in text else "\r" if "\r" in text and "\n" not in text else "\n"
    source = _split(text, name, bom, newline)
    source.skip_bad = skip_bad
    _check_characters(source)
    return source


def _split(text: str, name: str, bom: bool, newline: str) -> Source:
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
