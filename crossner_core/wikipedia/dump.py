"""MediaWiki's XML dumps: decompressed in pieces, split into pages, each parsed alone: only a broken one is lost."""

from __future__ import annotations

import bz2
import hashlib
import logging
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree as ET

from crossner_core.errors import BadInput, NotFound

PIECE = 1 << 20
BZ2_STREAM = b"BZh91AY&SY"
"""How a bz2 stream of full-size blocks begins; ten bytes are unlikely to occur by chance."""

_OTHERS = {b"7z\xbc\xaf\x27\x1c": "a 7z archive", b"PK\x03\x04": "a zip archive", b"\x28\xb5\x2f\xfd": "a zstd file"}


class TruncatedDump(BadInput):
    """A dump that is cut off or damaged; everything before that was read."""


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
    """Yield a file's content decompressed, in pieces of a megabyte at most, from the file's position.

    `end` stops a plain or compressed file at that offset. Raises TruncatedDump after the last good piece.
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
            raise BadInput(f"{name} is {what}; a dump is read as .bz2, .gz, .xz or plain XML: decompress it first.")
    for magic, new in _PACKINGS:
        if data.startswith(magic):
            yield from _unpack(data, more, magic, new, name)
            return
    while data:
        yield data
        data = more()


def _unpack(data: bytes, more: Callable[[], bytes], magic: bytes, new: Callable[[], Any], name: str) -> Iterator[bytes]:
    """Decompress consecutive streams; zero bytes after one are padding."""
    read = len(data)
    unpacker = new()
    while True:
        try:
            unpacked = unpacker.decompress(data, PIECE)
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise TruncatedDump(f"{name} is damaged before its byte {read:,}: {error}.") from error
        if unpacked:
            yield unpacked
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
                raise TruncatedDump(f"{name} is truncated: it ends at byte {read:,} in the middle of compressed data.")


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `[start, end)` of a file that hold whole bz2 streams, and their SHA-256."""

    start: int
    end: int
    digest: str


def stream_ranges(file: BinaryIO, size: int, is_boundary: Callable[[int], bool]) -> Iterator[Range]:
    """Yield ranges of a bz2 file of many streams, each the shortest of `size` bytes or more up to a boundary."""
    start = position = file.tell()
    digest, carried, overlap = hashlib.sha256(), b"", len(BZ2_STREAM) - 1
    while data := file.read(PIECE):
        data, base = carried + data, position - len(carried)
        position = base + len(data)
        done, look = 0, max(0, start + size - base)
        while (offset := data.find(BZ2_STREAM, look)) >= 0:
            look = offset + 1
            if is_boundary(base + offset):
                digest.update(data[done:offset])
                yield Range(start, base + offset, digest.hexdigest())
                start, done, digest = base + offset, offset, hashlib.sha256()
                look = max(look, start + size - base)
        keep = max(done, len(data) - overlap)
        digest.update(data[done:keep])
        carried = data[keep:]
    digest.update(carried)
    if start < position:
        yield Range(start, position, digest.hexdigest())


ARTICLE, TEMPLATE, CATEGORY = 0, 10, 14


@dataclass(frozen=True, slots=True)
class Page:
    """One `<page>` of a dump with its newest revision; `redirect` is the title it points to, None for others."""

    id: int
    title: str
    namespace: int
    revision: int
    redirect: str | None
    text: str


BROKEN, MODEL, DELETED = "broken XML", "model", "deleted text"
_OPEN, _CLOSE, END = b"<page>", b"</page>", b"</mediawiki>"
_HEAD = 4 << 20  # the site's namespaces take a few kilobytes
_HISTORY = 16 << 20  # beyond it, old revisions of a page are discarded while it is read
_LARGEST = 256 << 20  # beyond it, a page counts as one that never ends
_TITLE, _ID = re.compile(rb"<title>([^<]*)</title>"), re.compile(rb"<id>(\d{1,18})</id>")
_WIKITEXT = {"", "wikitext"}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SiteInfo:
    """What a dump states about its wiki; `namespaces` maps a prefix (`Category`) to its number."""

    dbname: str = "wiki"
    generator: str = ""
    case: str = "first-letter"
    namespaces: Mapping[str, int] = field(default_factory=dict)


class Dump:
    """A dump whose head was read; its pages come once, in order."""

    def __init__(self, pieces: Iterator[bytes], name: str, tell: Callable[[], int] = lambda: 0) -> None:
        head, self._tell = b"", tell
        self.name, self._pieces, self.broken_off = name, pieces, ""
        try:
            while _OPEN not in head and END not in head and len(head) < _HEAD and (piece := next(pieces, b"")):
                head += piece
        except TruncatedDump as error:
            self._pieces, self.broken_off = iter(()), str(error)
        self._head = head
        self.site = _read_site(head, name)

    def chunks(self) -> Iterator[bytes]:
        """Yield each page's XML; raise TruncatedDump after the last complete one where the dump breaks off."""
        chunks = cut_pages(self._all_pieces())
        try:
            ended = yield from chunks
        except TruncatedDump as error:
            raise TruncatedDump(f"{error} {WHAT_TO_DO}") from error
        if not ended:
            why = self.broken_off or f"{self.name} is truncated: it ends without {END.decode()}."
            raise TruncatedDump(f"{why} {WHAT_TO_DO}")

    @property
    def position(self) -> int:
        """How many bytes of the file were read."""
        return self._tell()

    def _all_pieces(self) -> Iterator[bytes]:
        yield self._head
        yield from self._pieces


WHAT_TO_DO = "Every complete page before that was read. Download the dump again, or allow a truncated one."


@contextmanager
def open_dump(source: Path | BinaryIO) -> Iterator[Dump]:
    """Open a dump (.bz2, .gz, .xz or plain XML); raise BadInput for anything else, NotFound for no file."""
    if not isinstance(source, Path):
        yield Dump(unpacked(source, "the dump"), "the dump")
        return
    if not source.exists():
        raise NotFound(f"There is no file {source}.")
    try:
        file = source.open("rb")
    except OSError as error:
        raise BadInput(f"{source} cannot be read: {error.strerror or error}.") from error
    with file:
        yield Dump(unpacked(file, source.name), source.name, file.tell)


def read_pages(
    source: Path | BinaryIO, *, on_problem: Callable[[str], None] = log.warning, allow_truncated: bool = False
) -> Iterator[Page]:
    """Yield the pages of a dump, each with its newest revision, in order.

    A page of broken XML is reported through `on_problem` and left out; one without wikitext (another content model,
    deleted text) is left out. A truncated dump raises TruncatedDump after its last complete page, or is
    reported where that is allowed.
    """
    with open_dump(source) as dump:
        try:
            for chunk in dump.chunks():
                page, reason = parse_page(chunk, dump.site)
                if not reason:
                    yield page
                elif reason == BROKEN:
                    on_problem(f"{dump.name}: page {page.id} {page.title!r} is broken XML and left out.")
        except TruncatedDump as error:
            if not allow_truncated:
                raise
            on_problem(str(error))


def cut_pages(pieces: Iterable[bytes]) -> Generator[bytes, None, bool]:
    """Yield the XML of each page, from `<page>` to `</page>`; return whether the dump's end was seen.

    Text in a dump is escaped, so these tags are never part of it. A page that was not closed or not opened is yielded
    as it is, and then is not valid XML.
    """
    buffer, lost = b"", False
    for piece in pieces:
        buffer, position = buffer + piece, 0
        while (start := buffer.find(_OPEN, position)) >= 0 and (end := buffer.find(_CLOSE, start)) >= 0:
            if (gap := buffer.find(_CLOSE, position, start)) >= 0 and not lost:
                yield buffer[position : gap + len(_CLOSE)]
            lost = False
            while (inner := buffer.find(_OPEN, start + 1, end)) >= 0:
                yield buffer[start:inner]
                start = inner
            position = end + len(_CLOSE)
            yield buffer[start:position]
        buffer = buffer[position:]
        if len(buffer) > _HISTORY:
            buffer, too_large = _shorten(buffer)
            if too_large:
                yield too_large
                lost = True
    # what is left: nothing but the end, a page without a beginning, or one without an end
    if (gap := buffer.find(_CLOSE)) >= 0 and not lost:
        yield buffer[: gap + len(_CLOSE)]
    start, ended = buffer.find(_OPEN), buffer.rfind(END)
    if 0 <= start < ended:
        yield buffer[start:ended]
    return ended >= 0


def _shorten(buffer: bytes) -> tuple[bytes, bytes]:
    """Discard old revisions, or what belongs to no page; return what is left and the head of a page without end."""
    start = buffer.find(_OPEN)
    if start < 0:
        return buffer[-len(END) :], b""
    first, last = buffer.find(b"<revision>", start), buffer.rfind(b"<revision>")
    if first < last:
        buffer = buffer[start:first] + buffer[last:]
    if len(buffer) <= _LARGEST:
        return buffer, b""
    return buffer[-len(END) :], buffer[start : start + PREVIEW]


PREVIEW = 1 << 16


def parse_page(chunk: bytes, site: SiteInfo) -> tuple[Page, str]:
    """Parse one page's XML; return it with the reason why it has no wikitext, "" if it has.

    Of several revisions the last counts. A page's XML has no place for a DTD, so entities cannot be defined.
    """
    try:
        root = ET.fromstring(chunk)
        return _page(root, site)
    except (ET.ParseError, ValueError, LookupError):
        title, number = _TITLE.search(chunk), _ID.search(chunk)
        return (
            Page(
                int(number[1]) if number else 0,
                title[1].decode(errors="replace") if title else "",
                0,
                0,
                None,
                "",
            ),
            BROKEN,
        )


def _page(root: ET.Element, site: SiteInfo) -> tuple[Page, str]:
    title, namespace = root.findtext("title") or "", root.findtext("ns")
    if namespace is None:  # before version 0.6 only the prefix told
        number = site.namespaces.get(title.partition(":")[0], 0) if ":" in title else 0
    else:
        number = int(namespace)
    redirect, revisions = root.find("redirect"), root.findall("revision")
    target = redirect.get("title") if redirect is not None else None
    revision = revisions[-1] if revisions else None
    text = revision.find("text") if revision is not None else None
    page = Page(
        id=int(root.findtext("id") or ""),
        title=title,
        namespace=number,
        revision=int(revision.findtext("id") or 0) if revision is not None else 0,
        redirect=target,
        text=(text.text or "") if text is not None else "",
    )
    if revision is None or text is None or text.get("deleted") is not None:
        return page, DELETED
    return page, "" if (revision.findtext("model") or "") in _WIKITEXT else MODEL


def _read_site(head: bytes, name: str) -> SiteInfo:
    """Read the head of a dump; only its `<siteinfo>` is parsed, so that a DTD before it has no effect."""
    if b"<mediawiki" not in head:
        raise BadInput(
            f"{name} is not a MediaWiki dump: it does not begin with <mediawiki …>. Give a pages-articles file."
        )
    start, end = head.find(b"<siteinfo>"), head.find(b"</siteinfo>")
    if not 0 <= start < end:
        return SiteInfo()
    try:
        root = ET.fromstring(head[start : end + len(b"</siteinfo>")])
        spaces = {(element.text or ""): int(element.get("key", "")) for element in root.iter("namespace")}
    except (ET.ParseError, ValueError) as error:
        raise BadInput(f"{name}: its <siteinfo> is broken ({error}). Download the dump again.") from error
    return SiteInfo(
        dbname=root.findtext("dbname") or "wiki",
        generator=root.findtext("generator") or "",
        case=root.findtext("case") or "first-letter",
        namespaces=spaces,
    )
