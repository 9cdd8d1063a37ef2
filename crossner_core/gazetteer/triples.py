"""DBpedia dumps, read a block of lines at a time: one triple per line, N-Triples or Turtle, compressed or plain.

A strict pattern takes whole blocks at once. Lines it rejects are read one by one, and what still is not one
triple goes to a full parser before it counts as bad.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from crossner_core.errors import BadInput
from crossner_core.gazetteer.titles import ONTOLOGY

_ONTOLOGY = ONTOLOGY.encode()
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+|%")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SPACES = re.compile("[ \u00a0]+")
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_NO_CONTROLS = bytes({10, *range(32, 127), *range(128, 256)})
_BAD = b"\x00"
_BACKSLASH = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.)|$)", re.DOTALL)
_PLAIN_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_CLASS = re.compile(rb"[^\s/#?%]+")


def titles_of(raw: Sequence[bytes]) -> list[str]:
    """Return the page titles of the last parts of resource IRIs, "" for one that cannot be a title.

    Percent escapes are undone; what is then not UTF-8 or holds a control character cannot be a title.
    """
    blob = b"\n".join(raw)
    if b"%" in blob:
        blob = _ESCAPES.sub(_unescape, blob)
    return _lines(blob.replace(b"_", b" "))


def _lines(blob: bytes) -> list[str]:
    """Return the names in a text, one per line; most can be taken as they are."""
    try:
        text = blob.decode()
    except UnicodeDecodeError:
        return [clean_name(line.decode(errors="surrogateescape")) for line in blob.split(b"\n")]
    lines = text.split("\n")
    if "  " in text or "\n " in text or " \n" in text or text[:1] == " " or text[-1:] == " " or "\u00a0" in text:
        return [clean_name(line) for line in lines]
    return [clean_name(line) for line in lines] if _may_have_controls(blob) else lines


def clean_name(text: str) -> str:
    """Return a name with single spaces; "" if it holds a control character or half a surrogate pair."""
    return "" if _UNUSABLE.search(text) else _SPACES.sub(" ", text).strip(" ")


def clean_title(text: str) -> str:
    """Return a page title with spaces for underscores; "" if it cannot be one."""
    return clean_name(text.replace("_", " "))


def _may_have_controls(blob: bytes) -> bool:
    """Tell whether control characters (line ends aside) may be among UTF-8 text; few false alarms."""
    return bool(blob.translate(None, _NO_CONTROLS)) or _C1.search(blob) is not None


def _unescape(match: re.Match[bytes]) -> bytes:
    run = match[0]
    if len(run) < 3:
        return _BAD
    plain = bytes.fromhex(run.replace(b"%", b"").decode())
    try:
        return _BAD if _CONTROL.search(plain.decode()) else plain
    except UnicodeDecodeError:
        return _BAD


def class_names(raw: Sequence[bytes]) -> list[str]:
    """Return the names of DBpedia's classes (`Band`), "" for other IRIs."""
    names = {iri: _class_of(iri) for iri in set(raw)}
    return [names[iri] for iri in raw]


def _class_of(iri: bytes) -> str:
    name = iri.removeprefix(_ONTOLOGY)
    try:
        return name.decode() if name != iri and _CLASS.fullmatch(name) else ""
    except UnicodeDecodeError:
        return ""


def texts_of(raw: Sequence[bytes]) -> list[str]:
    """Return the texts between quotes, unescaped and with single spaces; "" for one that is unusable."""
    blob = b"\n".join(raw)
    return [_text(line) for line in raw] if b"\\" in blob else _lines(blob)


def _text(raw: bytes) -> str:
    try:
        return clean_name(_BACKSLASH.sub(_character, raw.decode()))
    except (UnicodeError, ValueError, KeyError):
        return ""


def _character(match: re.Match[str]) -> str:
    short, long, other = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    return _PLAIN_ESCAPES[other]


TYPES, LABELS, REDIRECTS = "types", "labels", "redirects"
KINDS = (TYPES, LABELS, REDIRECTS)
PREDICATES = {
    TYPES: "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
    LABELS: "http://www.w3.org/2000/01/rdf-schema#label",
    REDIRECTS: "http://dbpedia.org/ontology/wikiPageRedirects",
}
_KIND_OF = {address.encode(): kind for kind, address in PREDICATES.items()}
BLOCK = 1 << 21
_UNPACKERS = min(2, os.cpu_count() or 1)
_LONGEST_LINE = 1 << 24
_SHOWN = 5  # problems that are described; all are counted

_IRI = rb'[^\x00-\x20\x7f<>"{}|^`\\]++'
_TEXT = rb'"([^"\\\x00-\x1f\x7f]*+(?:\\.[^"\\\x00-\x1f\x7f]*+)*+)"'
_ANY = re.compile(
    rb"^<(" + _IRI + rb")> <(" + _IRI + rb")> (?:<(" + _IRI + rb")>|"
    rb"(" + _TEXT + rb")(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<" + _IRI + rb">)?) \.$",
    re.MULTILINE,
)


class Batch(NamedTuple):
    """Triples of one kind: page titles, and class names, titles or texts; a part that cannot be used is left out."""

    kind: str
    subjects: list[str]
    objects: list[str]


@dataclass(slots=True)
class Problems:
    """What was skipped and why: counts by reason, and the first few in words."""

    report: Callable[[str], None] = lambda message: None
    skipped: dict[str, int] = field(default_factory=dict)

    def count(self, reason: str, n: int = 1) -> None:
        """Count what was skipped for a reason that needs no line number."""
        if n:
            self.skipped[reason] = self.skipped.get(reason, 0) + n

    def bad(self, reason: str, where: str, what: str) -> None:
        """Count a fault in a file, and report it if it is among the first of its reason."""
        self.count(reason)
        if self.skipped[reason] <= _SHOWN:
            more = " (further ones are only counted)" if self.skipped[reason] == _SHOWN else ""
            self.report(f"{where}: {reason}: {what[:200]}{more}")


class TripleFile:
    """One dump file; `lines` and `triples` grow while it is read."""

    def __init__(self, path: Path, *, language: str, problems: Problems) -> None:
        self.path, self.language, self._problems = path, language, problems
        self.lines = self.triples = 0
        hosts = b"(?:" + re.escape(language.encode()) + rb"\.)?dbpedia\.org"
        self._resource = re.compile(rb"http://" + hosts + rb"/resource/(" + _IRI + rb")")
        subject = rb"^<http://" + hosts + rb"/resource/(" + _IRI + rb")> <"
        iri = rb"> <(" + _IRI + rb")> \.$"
        other = rb"> <http://" + hosts + rb"/resource/(" + _IRI + rb")> \.$"
        text = rb"> " + _TEXT + rb"(?:@(" + re.escape(language.encode()) + rb"))? \.$"
        ends = {TYPES: iri, LABELS: text, REDIRECTS: other}
        self._patterns = {
            kind: re.compile(subject + re.escape(PREDICATES[kind].encode()) + ends[kind], re.MULTILINE)
            for kind in KINDS
        }
        self._expected = TYPES

    def head(self) -> frozenset[str]:
        """Return the kinds of triples in the first block that has any."""
        silent = TripleFile(self.path, language=self.language, problems=Problems())
        for batches in silent.blocks():
            if kinds := frozenset(batch.kind for batch in batches):
                return kinds
        return frozenset()

    def blocks(self) -> Iterator[list[Batch]]:
        """Yield what each block of lines holds; BadInput if the file is cut off, damaged or not made of triples."""
        bad = 0
        for block in _read_ahead(_blocks(self.path)):
            parsed, faults = self._parse(block)
            bad += faults
            yield parsed
        if bad and not self.triples:
            raise BadInput(
                f"{self.path}: none of its {self.lines:,} lines is a triple. A dump has one triple per line, "
                "without prefixes (N-Triples, or DBpedia's Turtle); convert other files to N-Triples."
            )

    def _parse(self, block: bytes) -> tuple[list[Batch], int]:
        size, first = block.count(b"\n"), self.lines + 1
        self.lines += size
        for kind in dict.fromkeys((self._expected, *KINDS)):
            rows = self._patterns[kind].findall(block)
            if len(rows) == size:
                self._expected = kind
                self.triples += size
                return [self._batch(kind, [row[0] for row in rows], [row[1] for row in rows])], 0
            if rows and len(rows) * 2 > size:
                break
        rows = _ANY.findall(block)
        faults = 0
        if len(rows) != size:
            rows, faults = self._one_by_one(block, first)
        self.triples += len(rows)
        return self._sort_out(rows), faults

    def _sort_out(self, rows: Iterable[tuple[bytes, ...]]) -> list[Batch]:
        """Group triples of any predicate; count those that state nothing usable about a page."""
        kept: dict[str, tuple[list[bytes], list[bytes]]] = {kind: ([], []) for kind in KINDS}
        for subject, predicate, iri, quoted, text, language in rows:
            kind = _KIND_OF.get(predicate)
            page = self._resource.fullmatch(subject)
            target = self._resource.fullmatch(iri) if kind == REDIRECTS else None
            if kind is None:
                self._problems.count("other predicates")
            elif page is None or (kind == REDIRECTS and iri and target is None):
                self._problems.count("other subjects or targets than pages")
            elif bool(quoted) != (kind == LABELS):
                self._problems.count("values of the wrong kind")
            elif kind == LABELS and language and language.decode().casefold() != self.language:
                self._problems.count("labels in other languages")
            else:
                kept[kind][0].append(page[1])
                kept[kind][1].append(target[1] if target else text if kind == LABELS else iri)
        return [self._batch(kind, *columns) for kind, columns in kept.items() if columns[0]]

    def _batch(self, kind: str, subjects: list[bytes], objects: list[bytes]) -> Batch:
        titles = titles_of(subjects)
        if kind == TYPES:
            values = class_names(objects)
        else:
            values = titles_of(objects) if kind == REDIRECTS else texts_of(objects)
        if kind == TYPES and "" in values:
            self._problems.count("classes outside the DBpedia ontology", values.count(""))
            kept = [index for index, value in enumerate(values) if value]
            subjects, titles = [subjects[index] for index in kept], [titles[index] for index in kept]
            objects, values = [objects[index] for index in kept], [values[index] for index in kept]
        if "" in titles or "" in values:
            titles, values = self._usable(kind, subjects, objects, titles, values)
        return Batch(kind, titles, values)

    def _usable(
        self, kind: str, subjects: list[bytes], objects: list[bytes], titles: list[str], values: list[str]
    ) -> tuple[list[str], list[str]]:
        where = str(self.path)
        for raw, title in zip(subjects, titles, strict=True):
            if not title:
                self._problems.bad("titles that cannot be read", where, raw.decode(errors="replace"))
        for raw, value in zip(objects, values, strict=True):
            if not value:
                reason = "texts that cannot be read" if kind == LABELS else "titles that cannot be read"
                self._problems.bad(reason, where, raw.decode(errors="replace"))
        pairs = [(title, value) for title, value in zip(titles, values, strict=True) if title and value]
        return [title for title, _ in pairs], [value for _, value in pairs]

    def _one_by_one(self, block: bytes, first: int) -> tuple[list[tuple[bytes, ...]], int]:
        rows: list[tuple[bytes, ...]] = []
        faults = 0
        for number, line in enumerate(block.split(b"\n")[:-1], start=first):
            if match := _ANY.fullmatch(line):
                rows.append(match.groups(b""))
            elif not (bare := line.strip()) or bare.startswith(b"#"):
                self._problems.count("comments and empty lines")
            else:
                try:
                    rows += _full_parse(line)
                except (SyntaxError, ValueError) as error:
                    faults += 1
                    shown = line.decode(errors="replace")
                    self._problems.bad("bad lines", f"{self.path}, line {number}", f"{error}: {shown}")
        return rows, faults


def _full_parse(line: bytes) -> Iterator[tuple[bytes, ...]]:
    """Yield the triples of one line as the pattern would; SyntaxError if it is none."""
    from pyoxigraph import Literal, NamedNode, RdfFormat, parse

    line.decode()  # UnicodeDecodeError is a ValueError
    for quad in parse(line, format=RdfFormat.TURTLE):
        if not isinstance(quad.subject, NamedNode):
            raise ValueError("its subject is no IRI")
        start = quad.subject.value.encode(), quad.predicate.value.encode()
        if isinstance(quad.object, Literal):
            text = quad.object.value.encode().replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
            language = (quad.object.language or "").encode()
            yield (*start, b"", b'""', text, language)
        elif isinstance(quad.object, NamedNode):
            yield (*start, quad.object.value.encode(), b"", b"", b"")
        else:
            raise ValueError("its object is neither an IRI nor a text")


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the file's bytes, decompressed according to its first bytes."""
    with path.open("rb") as stream:
        magic = stream.read(3)
        stream.seek(0)
        if magic == b"BZh":
            yield from _unpacked(path)
        elif magic[:2] == b"\x1f\x8b":
            with gzip.open(stream, "rb") as plain:
                while piece := plain.read(BLOCK):
                    yield piece
        else:
            while piece := stream.read(BLOCK):
                yield piece


def _unpacked(path: Path) -> Iterator[bytes]:
    """Decompress bz2 of one or more streams in its own threads, faster than `bz2` does."""
    from indexed_bzip2 import open as open_bz2

    with open_bz2(str(path), parallelization=_UNPACKERS) as stream:
        try:
            while piece := stream.read(BLOCK):
                yield piece
        except (RuntimeError, ValueError) as error:  # cut off or damaged: the error does not tell
            raise EOFError from error


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield whole lines, about BLOCK bytes at a time, the last with a line end too."""
    rest = b""
    try:
        for piece in _pieces(path):
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield rest + piece[:cut]
                rest = piece[cut:]
            else:
                rest += piece
            if len(rest) > _LONGEST_LINE:
                raise BadInput(f"{path}: a line is longer than {_LONGEST_LINE >> 20} MiB; this is not a dump.")
    except EOFError as error:
        raise BadInput(f"{path}: is cut off in the middle, or damaged there; fetch it again.") from error
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path}: cannot be read ({reason}); if the file is there, fetch it again.") from error
    if rest:
        yield rest + b"\n"


def _read_ahead(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the blocks while the next one is decompressed in the background."""
    with ThreadPoolExecutor(1) as beside:
        coming = beside.submit(next, blocks, b"")
        while block := coming.result():
            coming = beside.submit(next, blocks, b"")
            yield block
