"""A JSON list read item by item, so that a large one need not be in memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

from crossner_core.formats.source import Data, head_of, opened, refused

_BLOCK = 500_000
_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


def list_items(data: Data, name: str, *, counted: bool = True) -> Iterator[Any]:
    """Yield the items of a JSON list, or the one value that is no list; raise BadInput with the line of a fault."""
    text = _Text(data, name, counted=counted)
    try:
        if not text.skip():
            raise refused(name, 1, "the file is empty")
        if text.letter() != "[":
            yield text.value()
        else:
            text.take()
            yield from _items(text)
        if text.skip():
            raise text.fault("something follows its end")
    finally:
        text.close()


def _items(text: _Text) -> Iterator[Any]:
    if text.skip() and text.letter() == "]":
        text.take()
        return
    while True:
        text.skip()
        yield text.value()
        ends = text.skip() and text.take()
        if ends == "]":
            return
        if ends != ",":
            raise text.fault("a comma or ] is expected" if ends else "the list does not end")


class _Text:
    """A file's text, of which only what is not read yet is kept."""

    def __init__(self, data: Data, name: str, *, counted: bool) -> None:
        self.name, self.file = name, opened(data, counted=counted)
        if head_of(data, 2) in (b"\xff\xfe", b"\xfe\xff"):
            raise refused(name, 1, "the file is UTF-16; save it as UTF-8")
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.text, self.place, self.line, self.ended = "", 0, 1, False

    def close(self) -> None:
        self.file.close()

    def skip(self) -> bool:
        """Go to the next character that is no white space; return whether there is any."""
        while True:
            while self.place < len(self.text) and self.text[self.place] in _SPACE:
                self.place += 1
            if self.place < len(self.text):
                return True
            if not self._read():
                return False

    def letter(self) -> str:
        return self.text[self.place]

    def take(self) -> str:
        """Return the next character and go past it."""
        self.place += 1
        return self.text[self.place - 1]

    def value(self) -> Any:
        """Return the value that begins here; its end is sought again once twice as much is there."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.place)
            except RecursionError as error:
                raise self.fault("it is nested too deep") from error
            except ValueError as error:
                if self._read(len(self.text) - self.place):
                    continue
                raise self._refused(error) from error
            # A number may go on in what is not read yet.
            if end < len(self.text) or not self._read():
                self.place = end
                return value

    def fault(self, reason: str) -> Exception:
        """Return the error for what stands here."""
        return refused(self.name, self.line + self.text.count("\n", 0, self.place), f"not JSON: {reason}")

    def _refused(self, error: ValueError) -> Exception:
        if isinstance(error, json.JSONDecodeError):
            return refused(self.name, self.line + error.lineno - 1, f"not JSON: {error.msg}")
        return self.fault("a number has too many digits")

    def _read(self, size: int = 0) -> bool:
        """Read on, and forget what was read before; return whether there was anything."""
        if self.ended:
            return False
        block = self.file.read(max(size, _BLOCK))
        self.ended = not block
        self.line += self.text.count("\n", 0, self.place)
        try:
            more = self.decoder.decode(block, final=self.ended)
        except UnicodeDecodeError as error:
            line = self.line + self.text.count("\n", self.place) + block.count(b"\n", 0, error.start)
            bad = error.object[error.start]
            raise refused(self.name, line, f"byte 0x{bad:02x} is not UTF-8") from error
        self.text, self.place = self.text[self.place :] + more, 0
        return bool(more) or not self.ended
