"""Open a campaign's zip file without trusting it: names, sizes, JSON, offsets, surfaces and types are checked."""

from __future__ import annotations

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from crossner_core.domains import Domain, parse_domain
from crossner_core.errors import BadInput, InvalidAccount, InvalidConfig, InvalidSpan, UnknownType, WorkbenchError
from crossner_core.formats.base import check_layout
from crossner_core.records import read, read_json
from crossner_core.schema import Link, Sentence, Span, Token, check_content, check_spans, fields_from_kept
from workbench.accounts.accounts import checked_display_name, checked_name
from workbench.data import frozen
from workbench.data.archive_records import (
    FORMAT,
    VERSION,
    FindingRecord,
    OriginRecord,
    PersonRecord,
    SentenceRecord,
    SnapshotRecord,
    TaskRecord,
)
from workbench.labelling.json_fields import Object, Text

MAX_ZIP_BYTES = 200_000_000
MAX_FILE_BYTES = 400_000_000
MAX_TOTAL_BYTES = 800_000_000
MAX_FILES = 2_000
# What JSON of a campaign never shrinks to; counted for files that unpack to more than a few megabytes.
MAX_RATIO, RATIO_COUNTS_FROM = 100, 5_000_000
MAX_SENTENCES = 1_000_000
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
_KNOWN = re.compile(
    r"(manifest|campaign|people|runs|snapshots)\.json|domain\.toml|sentences\.jsonl|(layers|snapshots)/[a-z0-9]+\.jsonl"
)
_NEEDED = ("manifest.json", "domain.toml", "campaign.json", "people.json", "sentences.jsonl")


@dataclass(frozen=True)
class Archive:
    """A checked archive: settings as plain values, each sentence's record with its checked `Sentence`."""

    domain: Domain
    domain_toml: str
    settings: Mapping[str, Any]
    members: tuple[str, ...]
    people: tuple[PersonRecord, ...]
    sentences: tuple[tuple[Sentence, SentenceRecord], ...]
    snapshots: tuple[tuple[SnapshotRecord, str], ...]


def read_archive(data: bytes) -> Archive:
    """Read a campaign's zip file; raise BadInput naming the file and line in it that cannot be used."""
    files = _open(data)
    manifest = _read(Object, files, "manifest.json")
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise BadInput(
            f"manifest.json has the format {manifest.get('format')!r} version {manifest.get('version')!r}; "
            f"only {FORMAT!r} version {VERSION} can be read."
        )
    toml = _text(files, "domain.toml")
    domain = parse_domain(toml, origin="domain.toml")
    people = _people(files)
    settings = _read(Object, files, "campaign.json")
    with _named("campaign.json, members"):
        members = read(tuple[Text, ...], settings.get("members", []), "campaign.json, members")
    return Archive(
        domain=domain,
        domain_toml=toml,
        settings=settings,
        members=members,
        people=people,
        sentences=tuple(_sentences(_text(files, "sentences.jsonl"), domain, {person.name for person in people})),
        snapshots=tuple(_snapshots(files)),
    )


def _people(files: Mapping[str, bytes]) -> tuple[PersonRecord, ...]:
    """Read who worked on the campaign; they become accounts, so their names are checked like those of accounts."""
    people = _read(tuple[PersonRecord, ...], files, "people.json")
    for person in people:
        try:
            name = checked_name(person.name)
            checked_display_name(person.display_name)
        except InvalidAccount as error:
            raise BadInput(f"people.json: {error}") from error
        if name != person.name:
            raise BadInput(f"people.json: the account name {person.name!r} is spelled {name!r}.")
    if len({person.name for person in people}) < len(people):
        raise BadInput("people.json: an account is listed twice.")
    return people


def _open(data: bytes) -> dict[str, bytes]:
    """Unpack into memory, never onto the disk, within limits."""
    if len(data) > MAX_ZIP_BYTES:
        raise BadInput(f"The zip has {len(data):,} bytes; at most {MAX_ZIP_BYTES:,} are allowed.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            _check_listing(infos)
            files, total = {}, 0
            for info in infos:
                # The listed size may be wrong; the unpacked bytes are counted.
                most = min(MAX_FILE_BYTES, _most(info))
                with archive.open(info) as member:
                    content = member.read(most + 1)
                total += len(content)
                if len(content) > most or total > MAX_TOTAL_BYTES:
                    raise BadInput(
                        f"{info.filename} unpacks to too much; at most {MAX_TOTAL_BYTES:,} bytes in all are allowed."
                    )
                files[info.filename] = content
    except (*_BROKEN, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise BadInput(f"This is not a readable zip file: {error}.") from error
    missing = [name for name in _NEEDED if name not in files]
    if missing:
        raise BadInput(f"The zip lacks {', '.join(missing)}; is it an exported campaign?")
    return files


def _most(info: zipfile.ZipInfo) -> int:
    """Return to how many bytes a member may unpack."""
    return max(RATIO_COUNTS_FROM, MAX_RATIO * info.compress_size)


def _check_listing(infos: list[zipfile.ZipInfo]) -> None:
    names = [info.filename for info in infos]
    if len(names) > MAX_FILES or len(set(names)) < len(names):
        raise BadInput(
            f"The zip lists {len(names)} files, some perhaps twice; at most {MAX_FILES}, each once, are allowed."
        )
    for info in infos:
        if not _KNOWN.fullmatch(info.filename):
            raise BadInput(f"The zip holds {info.filename[:80]!r}, which is not part of an exported campaign.")
    for info in infos:
        if info.file_size > _most(info):
            raise BadInput(
                f"{info.filename} unpacks to more than {MAX_RATIO} times its size; no exported campaign does."
            )
    if sum(info.file_size for info in infos) > MAX_TOTAL_BYTES:
        raise BadInput(f"The zip would unpack to more than {MAX_TOTAL_BYTES:,} bytes.")


def _text(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files[name].decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is not UTF-8: {error.reason} at byte {error.start}.") from error


def _read(kind: Any, files: Mapping[str, bytes], name: str) -> Any:
    """Read a file of the zip as one value; raise BadInput naming it."""
    with _named(name):
        return read_json(kind, _text(files, name), name)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Prefix the message of a BadInput with its place."""
    try:
        yield
    except BadInput as error:
        raise error if str(error).startswith(what) else BadInput(f"{what}: {error}") from error


def _sentences(text: str, domain: Domain, people: set[str]) -> Iterator[tuple[Sentence, SentenceRecord]]:
    hashes: set[str] = set()
    compared: set[str] = set()
    for number, line in enumerate(io.StringIO(text, newline="\n"), 1):
        if not line.strip("\n"):
            continue
        if len(hashes) == MAX_SENTENCES:
            raise BadInput(f"sentences.jsonl has more than {MAX_SENTENCES:,} sentences; split the campaign.")
        try:
            record = read_json(SentenceRecord, line, "the line")
            sentence = _sentence(record)
            if sentence.content_hash in hashes:
                raise BadInput("this sentence occurs twice.")
            hashes.add(sentence.content_hash)
            for task in record.tasks:
                _check_task(task, sentence, domain, people)
            for finding in record.second_look:
                _check_finding(finding, sentence, people)
                compared |= {finding.other} if finding.other is not None else set()
        except WorkbenchError as error:
            raise BadInput(f"sentences.jsonl:{number}: {error}") from error
        yield sentence, record
    if unknown := compared - hashes:
        raise BadInput(f"sentences.jsonl: findings refer to sentences that are not in it ({len(unknown)}).")


def _sentence(record: SentenceRecord) -> Sentence:
    tokens = tuple(Token(start, end) for start, end in record.tokens)
    links = tuple(Link(link.start, link.end, link.target) for link in record.links)
    try:
        kept = _origin(record.meta)
    except (BadInput, InvalidConfig) as error:
        raise BadInput(f"meta has an origin of the sentence that cannot be read: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"meta has an origin of the sentence that cannot be read: {error!r}.") from error
    sentence = Sentence(record.external_id, record.text, tokens, links, **kept)
    check_content(sentence)
    for suggestion in record.suggestions:
        _check_range(suggestion, sentence)
    return sentence


def _origin(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Read from which document a sentence came and how it stood there; an export relies on it."""
    kept = fields_from_kept(meta)
    layout = kept.get("layout")
    file = layout.file.name if layout is not None and layout.file is not None else None
    read(OriginRecord, {"document": kept.get("document"), "offset": kept.get("offset"), "file": file}, "it")
    if layout is not None:
        check_layout(layout)
    return kept


def _check_task(task: TaskRecord, sentence: Sentence, domain: Domain, people: set[str]) -> None:
    named = {task.done_by, *(work.user for work in task.annotations)}
    for question in task.questions:
        named |= {question.asked_by, *(answer.user for answer in question.answers)}
    if unknown := named - people - {None}:
        raise BadInput(f"{', '.join(sorted(map(str, unknown)))} worked on it but is not in people.json.")
    for work in task.annotations:
        for mark in (*work.flags, *work.rejected):
            _check_range(mark, sentence)
        spans = check_spans(sentence, [item.span for item in work.spans])
        foreign = sorted({span.type for span in spans} - set(domain.type_names))
        if foreign:
            raise UnknownType(f"entity type {', '.join(foreign)} is not one of {', '.join(domain.type_names)}.")
        for item in work.spans:
            if sentence.surface(item.start, item.end) != item.surface:
                raise InvalidSpan(f"[{item.start}, {item.end}) does not cover {item.surface!r} in the text.")


def _check_finding(finding: FindingRecord, sentence: Sentence, people: set[str]) -> None:
    _check_range(finding, sentence)
    if finding.decided_by not in people:
        raise BadInput(f"{finding.decided_by} decided a finding on it but is not in people.json.")
    sides = ("this", "other") if finding.other is not None else ("this",)
    allowed = sides if finding.state == "left_out" else (None,)
    if finding.left_out not in allowed:
        raise BadInput(
            f"a finding with the state {finding.state!r} leaves out {finding.left_out!r}; "
            f"allowed is {', '.join(map(str, allowed))}."
        )
    for spans in (finding.there, finding.proposed):
        check_spans(sentence, [Span(*span) for span in spans])


def _check_range(part: Any, sentence: Sentence) -> None:
    if not 0 <= part.start < part.end <= len(sentence.tokens):
        raise InvalidSpan(f"[{part.start}, {part.end}) lies outside its {len(sentence.tokens)} tokens.")


def _snapshots(files: Mapping[str, bytes]) -> Iterator[tuple[SnapshotRecord, str]]:
    listed = _read(tuple[SnapshotRecord, ...], files, "snapshots.json") if "snapshots.json" in files else ()
    if len({record.hash for record in listed}) < len(listed):
        raise BadInput("snapshots.json lists a snapshot twice.")
    for record in listed:
        name = f"snapshots/{record.hash}.jsonl"
        if name not in files:
            raise BadInput(f"snapshots.json names {record.hash!r}, but {name} is not in the zip.")
        content = _text(files, name)
        try:
            lines = [(line["split"], item) for item, line in frozen.read_lines(content)]
            if frozen.content_hash(record.types, lines) != record.hash:
                raise BadInput(f"{name} does not match the hash in its name; it was changed.")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise BadInput(f"{name}: {error!r}.") from error
        yield record, content
