"""A dump cut into shard tasks: at page boundaries, by the dump and the shard size alone, whoever makes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crossner_core.wikipedia.dump import Dump, TruncatedDump
from crossner_core.wikipedia.shards import ShardSettings, ShardTask
from crossner_core.wikipedia.unpacking import BZ2_STREAM, PIECE, stream_ranges, unpacked

_SIGHT = 64 << 20
_PACKED = 4  # text of a wiki takes about a quarter in bz2
_BEGINNINGS = (b"<page>", b"</mediawiki>")


class Cutter:
    """Gives the tasks of a dump in order; `broken_off` says at the end where it broke off, "" for a whole one.

    A bz2 file of many streams whose pages do not cross them (as Wikipedia's multistream dumps) is cut into ranges
    that the workers unpack; any other dump is unpacked here and its pages sent to the workers.
    """

    def __init__(self, path: Path, dump: Dump, settings: ShardSettings, out: Path, *, allow_truncated: bool) -> None:
        self._path, self._dump, self._settings, self._out = path, dump, settings, out
        self._allow_truncated = allow_truncated
        self.broken_off = ""
        self.bytes_read = 0

    def tasks(self) -> Iterator[ShardTask]:
        with self._path.open("rb") as file:
            if is_multistream(file):
                yield from self._ranges(file)
                return
        yield from self._blocks()

    def _ranges(self, file: BinaryIO) -> Iterator[ShardTask]:
        file.seek(0)
        size = (self._settings.config.shard_mb << 20) // _PACKED
        total = self._path.stat().st_size
        with self._path.open("rb") as probe:
            ranges = stream_ranges(file, size, lambda at: begins_with_page(probe, at))
            for number, one in enumerate(ranges):
                self.bytes_read = one.end
                yield ShardTask(
                    number,
                    str(self._out),
                    self._settings,
                    one.digest,
                    path=str(self._path.resolve()),
                    start=one.start,
                    end=one.end,
                    is_last=one.end == total,
                )

    def _blocks(self) -> Iterator[ShardTask]:
        limit = self._settings.config.shard_mb << 20
        block: list[bytes] = []
        number = size = 0
        try:
            for chunk in self._dump.chunks():
                block.append(chunk)
                size += len(chunk)
                if size >= limit:
                    yield self._block(number, block)
                    number, block, size = number + 1, [], 0
        except TruncatedDump as error:
            self.broken_off = str(error)
        # the rest of a dump that broke off would be other pages once it is whole, so that it is no shard yet
        if block and (self._allow_truncated or not self.broken_off):
            yield self._block(number, block)

    def _block(self, number: int, chunks: list[bytes]) -> ShardTask:
        self.bytes_read = self._dump.position
        block = b"".join(chunks)
        return ShardTask(number, str(self._out), self._settings, hashlib.sha256(block).hexdigest(), block=block)


def is_multistream(file: BinaryIO) -> bool:
    """Tell whether a file is bz2 of many streams whose pages do not cross them; judged by the first boundaries."""
    file.seek(0)
    if file.read(len(BZ2_STREAM)) != BZ2_STREAM:
        return False
    at, seen = len(BZ2_STREAM), 0
    file.seek(at)
    carried = b""
    while at < _SIGHT and seen < 2 and (data := file.read(PIECE)):
        data, base = carried + data, at - len(carried)
        at = base + len(data)
        found = -1
        while seen < 2 and (found := data.find(BZ2_STREAM, found + 1)) >= 0:
            place = file.tell()
            if not begins_with_page(file, base + found):
                return False
            file.seek(place)
            seen += 1
        carried = data[-(len(BZ2_STREAM) - 1) :]
    return seen > 0


def begins_with_page(file: BinaryIO, at: int) -> bool:
    """Tell whether the bz2 stream at that place begins with a page, or with the dump's end."""
    file.seek(at)
    try:
        head = next(unpacked(file, "", end=at + PIECE), b"")
    except TruncatedDump:
        return True  # damaged there: the worker that reads it says so
    return head.lstrip().startswith(_BEGINNINGS)
