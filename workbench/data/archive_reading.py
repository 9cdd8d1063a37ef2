"""Open a campaign's zip file without trusting it: names, sizes, JSON, offsets, surfaces and types are checked."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.domains import Domain, parse_domain
from crossner_core.errors import BadInput, InvalidSpan, UnknownType, WorkbenchError
from crossner_core.schema import Link, Sentence, Span, Token, check_spans, fields_from_kept
from db.label_review_tables import FINDING_STATES
from workbench.data import frozen
from workbench.data.archive_columns import FORMAT, VERSION

MAX_ZIP_BYTES = 200_000_000
MAX_FILE_BYTES = 400_000_000
MAX_TOTAL_BYTES = 800_000_000
MAX_FILES = 2_000
_KNOWN = re.compile(
    r"(manifest|campaign|people|runs|snapshots)\.json|domain\.toml|sentences\.jsonl|(layers|snapshots)/[a-z0-9]+\.jsonl"
)
_NEEDED = ("manifest.json", "domain.toml", "campaign.json", "people.json", "sentences.jsonl")


@dataclass(frozen=True)
class Archive:
    """A checked archive: settings and sentences as plain values, each sentence with its checked `Sentence`."""

    domain: Domain
    domain_toml: str
    settings: Mapping[str, Any]
    people: tuple[Mapping[str, str], ...]
    sentences: tuple[tuple[Sentence, Mapping[str, Any]], ...]
    snapshots: tuple[tuple[Mapping[str, Any], str], ...]


def read_archive(data: bytes) -> Archive:
    """Read a campaign's zip file; raise BadInput naming the file and line in it that cannot be used."""
    files = _open(data)
    manifest = _object(_json(files, "manifest.json"), "manifest.json")
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise BadInput(
            f"manifest.json says {manifest.get('format')!r} version {manifest.get('version')!r}; "
            f"{FORMAT!r} version {VERSION} is read."
        )
    toml = _text(files, "domain.toml")
    domain = parse_domain(toml, origin="domain.toml")
    people = _json(files, "people.json")
    if not isinstance(people, list) or not all(_is_person(person) for person in people):
        raise BadInput("people.json must list objects with name, display_name and role.")
    return Archive(
        domain=domain,
        domain_toml=toml,
        settings=_object(_json(files, "campaign.json"), "campaign.json"),
        people=tuple(people),
        sentences=tuple(_sentences(_text(files, "sentences.jsonl"), domain, {person["name"] for person in people})),
        snapshots=tuple(_snapshots(files)),
    )


def _open(data: bytes) -> dict[str, bytes]:
    """Unpack into memory, never onto the disk, within limits."""
    if len(data) > MAX_ZIP_BYTES:
        raise BadInput(f"The zip has {len(data):,} bytes; at most {MAX_ZIP_BYTES:,} are read.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            _check_listing(infos)
            files, total = {}, 0
            for info in infos:
                with archive.open(info) as member:
                    # The size in the listing may lie; what comes out is counted.
                    content = member.read(MAX_FILE_BYTES + 1)
                total += len(content)
                if len(content) > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
                    raise BadInput(
                        f"{info.filename} unpacks to too much; at most {MAX_TOTAL_BYTES:,} bytes in all are read."
                    )
                files[info.filename] = content
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise BadInput(f"This is no usable zip file: {error}.") from error
    missing = [name for name in _NEEDED if name not in files]
    if missing:
        raise BadInput(f"The zip lacks {', '.join(missing)}; is it an exported campaign?")
    return files


def _check_listing(infos: list[zipfile.ZipInfo]) -> None:
    names = [info.filename for info in infos]
    if len(names) > MAX_FILES or len(set(names)) < len(names):
        raise BadInput(
            f"The zip lists {len(names)} files, some perhaps twice; at most {MAX_FILES}, each once, are read."
        )
    for info in infos:
        if not _KNOWN.fullmatch(info.filename):
            raise BadInput(f"The zip holds {info.filename[:80]!r}, which is no part of an exported campaign.")
    if sum(info.file_size for info in infos) > MAX_TOTAL_BYTES:
        raise BadInput(f"The zip would unpack to more than {MAX_TOTAL_BYTES:,} bytes.")


def _text(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files[name].decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is not UTF-8: {error.reason} at byte {error.start}.") from error


def _json(files: Mapping[str, bytes], name: str) -> Any:
    try:
        return json.loads(_text(files, name))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name} is not JSON: {error}.") from error


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where}: an object is expected, not {type(value).__name__}.")
    return value


def _is_person(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("name", "display_name", "role"))


def _sentences(text: str, domain: Domain, people: set[str]) -> Iterable[tuple[Sentence, Mapping[str, Any]]]:
    hashes: set[str] = set()
    compared: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        try:
            values = _object(json.loads(line), "the line")
            sentence = _sentence(values)
            if sentence.content_hash in hashes:
                raise BadInput("this sentence was there before.")
            hashes.add(sentence.content_hash)
            for task in values["tasks"]:
                _check_task(task, sentence, domain, people)
            for doubt in values.setdefault("second_look", []):  # older archives have none
                doubt.setdefault("left_out", None)  # those from before one could be left out
                _check_doubt(doubt, sentence, people)
                compared |= {_string(doubt["other"])} if doubt["other"] is not None else set()
        except WorkbenchError as error:
            raise BadInput(f"sentences.jsonl:{number}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise BadInput(f"sentences.jsonl:{number}: {what}.") from error
        yield sentence, values
    if unknown := compared - hashes:
        raise BadInput(f"sentences.jsonl: a second look compares with {len(unknown)} sentences that are not there.")


def _sentence(values: Mapping[str, Any]) -> Sentence:
    tokens = tuple(Token(_whole(start), _whole(end)) for start, end in values["tokens"])
    links = tuple(Link(_whole(link["start"]), _whole(link["end"]), _string(link["target"])) for link in values["links"])
    meta = _object(values["meta"], "meta")
    sentence = Sentence(
        _string(values["external_id"]), _string(values["text"]), tokens, links, **fields_from_kept(meta)
    )
    if not tokens:
        raise BadInput("a sentence without tokens.")
    for suggestion in values["suggestions"]:
        _check_range(suggestion, sentence)
    return sentence


def _check_task(task: Mapping[str, Any], sentence: Sentence, domain: Domain, people: set[str]) -> None:
    named = [task["done_by"], *(work["user"] for work in task["annotations"])]
    for question in task["questions"]:
        named += [question["asked_by"], *(answer["user"] for answer in question["answers"])]
    unknown = {name for name in named if name is not None} - people
    if unknown:
        raise BadInput(f"{', '.join(sorted(map(str, unknown)))} worked on it but is not in people.json.")
    for work in task["annotations"]:
        for part in ("flags", "rejected"):
            for item in work[part]:
                _check_range(item, sentence)
        spans = check_spans(sentence, [Span(_whole(s["start"]), _whole(s["end"]), s["type"]) for s in work["spans"]])
        foreign = sorted({span.type for span in spans} - set(domain.type_names))
        if foreign:
            raise UnknownType(f"entity type {', '.join(foreign)} is none of {', '.join(domain.type_names)}.")
        for item in work["spans"]:
            if sentence.surface(item["start"], item["end"]) != item["surface"]:
                raise InvalidSpan(f"[{item['start']}, {item['end']}) does not cover {item['surface']!r} in the text.")


def _check_doubt(doubt: Mapping[str, Any], sentence: Sentence, people: set[str]) -> None:
    _check_range(doubt, sentence)
    if doubt["decided_by"] not in people:
        raise BadInput(f"{doubt['decided_by']} took a second look at it but is not in people.json.")
    if doubt["state"] not in FINDING_STATES[1:] or not doubt["decided_at"]:
        raise BadInput(f"a decision of a second look is {doubt['state']!r}; one of {', '.join(FINDING_STATES[1:])} is.")
    sides = ("this", "other") if doubt["other"] is not None else ("this",)
    allowed = sides if doubt["state"] == "left_out" else (None,)
    if doubt["left_out"] not in allowed:
        raise BadInput(
            f"a second look that says {doubt['state']!r} leaves out {doubt['left_out']!r}; "
            f"it is one of {', '.join(map(str, allowed))}."
        )
    for spans in (doubt["there"], doubt["proposed"]):
        check_spans(sentence, [Span(_whole(start), _whole(end), _string(type)) for start, end, type in spans])
    for start, end, type in doubt["other_there"] or ():
        Span(_whole(start), _whole(end), _string(type))


def _check_range(values: Mapping[str, Any], sentence: Sentence) -> None:
    if not 0 <= _whole(values["start"]) < _whole(values["end"]) <= len(sentence.tokens):
        raise InvalidSpan(f"[{values['start']}, {values['end']}) lies outside its {len(sentence.tokens)} tokens.")


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise BadInput(f"{value!r} is no whole number.")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{value!r} is no text.")
    return value


def _snapshots(files: Mapping[str, bytes]) -> Iterable[tuple[Mapping[str, Any], str]]:
    listed = _json(files, "snapshots.json") if "snapshots.json" in files else []
    if not isinstance(listed, list):
        raise BadInput("snapshots.json must be a list.")
    for entry in listed:
        values = _object(entry, "snapshots.json")
        name = f"snapshots/{values.get('hash')}.jsonl"
        if name not in files:
            raise BadInput(f"snapshots.json names {values.get('hash')!r}, but {name} is not in the zip.")
        content = _text(files, name)
        try:
            lines = [(line["split"], item) for item, line in frozen.read_lines(content)]
            if frozen.content_hash(values["types"], lines) != values["hash"]:
                raise BadInput(f"{name} does not have the hash it is named by; it was changed.")
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"{name}: {error}.") from error
        yield values, content
