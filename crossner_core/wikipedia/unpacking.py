"""A dump's bytes: plain, gz, xz or bz2 with one stream or many, read in pieces, with what is wrong with them."""

from __future__ import annotations

import bz2
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from crossner_core.errors import BadInput

PIECE = 1 << 20
BZ2_STREAM = b"BZh91AY&SY"
"""How a bz2 stream of full-size blocks begins; ten bytes that chance does not bring."""

_OTHERS = {b"7z\xbc\xaf\x27\x1c": "a 7z archive", b"PK\x03\x04": "a zip archive", b"\x28\xb5\x2f\xfd": "a zstd file"}


class TruncatedDump(BadInput):
    """A dump that breaks off or is damaged; what stood before that was read."""


class _Gunzip:
    """zlib's reader of gz with the interface of bz2's and lzma's."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


_PACKINGS: tuple[tuple[bytes, Callable[[], Any]], ...] = (
    (b"BZh", bz2.BZ2Decompressor),
    (b"\x1f\x8b", _Gunzip),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
)


def unpacked(file: BinaryIO, name: str, *, end: int | None = None) -> Iterator[bytes]:
    """Yield a file's content in pieces of a megabyte at most, unpacked, from where the file stands.

    `end` stops a plain or packed file at that place in it. Raises TruncatedDump after the last good piece.
    """
    left = [None if end is None else end - file.tell()]

    def more() -> bytes:
        data = file.read(PIECE if left[0] is None else min(PIECE, left[0]))
        if left[0] is not None:
            left[0] -= len(data)
        return data

    data = more()
    for magic, what in _OTHERS.items():
        if data.startswith(magic):
            raise BadInput(f"{name} is {what}; a dump is read as .bz2, .gz, .xz or plain XML: unpack it first.")
    for magic, new in _PACKINGS:
        if data.startswith(magic):
            yield from _unpack(data, more, magic, new, name)
            return
    while data:
        yield data
        data = more()


def _unpack(data: bytes, more: Callable[[], bytes], magic: bytes, new: Callable[[], Any], name: str) -> Iterator[bytes]:
    """Unpack streams that follow one another; zero bytes after one are padding."""
    read = len(data)
    unpacker = new()
    while True:
        try:
            found = unpacker.decompress(data, PIECE)
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise TruncatedDump(f"{name} is damaged before its byte {read:,}: {error}.") from error
        if found:
            yield found
        data = b""
        if unpacker.eof:
            data = unpacker.unused_data
            while len(data) < len(magic) and (added := more()):
                data, read = data + added, read + len(added)
            if not data.strip(b"\x00"):
                return
            if not data.startswith(magic):
                raise TruncatedDump(f"{name} is damaged before its byte {read:,}: no further stream begins there.")
            unpacker = new()
        elif unpacker.needs_input:
            data = more()
            read += len(data)
            if not data:
                raise TruncatedDump(f"{name} is truncated: it ends at byte {read:,} in the middle of packed data.")


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `[start, end)` of a file that hold whole bz2 streams, and their SHA-256."""

    start: int
    end: int
    digest: str


def stream_ranges(file: BinaryIO, size: int, is_boundary: Callable[[int], bool]) -> Iterator[Range]:
    """Yield ranges of a bz2 file of many streams, each the shortest of `size` bytes or more up to a boundary."""
    start = at = file.tell()
    digest, carried, overlap = hashlib.sha256(), b"", len(BZ2_STREAM) - 1
    while data := file.read(PIECE):
        data, base = carried + data, at - len(carried)
        at = base + len(data)
        done, look = 0, max(0, start + size - base)
        while (found := data.find(BZ2_STREAM, look)) >= 0:
            look = found + 1
            if is_boundary(base + found):
                digest.update(data[done:found])
                yield Range(start, base + found, digest.hexdigest())
                start, done, digest = base + found, found, hashlib.sha256()
                look = max(look, start + size - base)
        keep = max(done, len(data) - overlap)
        digest.update(data[done:keep])
        carried = data[keep:]
    digest.update(carried)
    if start < at:
        yield Range(start, at, digest.hexdigest())
