"""A zip: an INCEpTION project as it exports one, or files of any format, such as the folder of a brat collection."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import group_files
from crossner_core.formats.base import Format, InputFile, NamedFile, Parsed, get_format, register
from crossner_core.formats.layers import CURATOR, UNTOUCHED
from crossner_core.formats.sniff import guess_format
from crossner_core.formats.source import OnDisk, clip, opened, refused
from crossner_core.formats.webanno_tsv import LayerOptions

MOST_FILES, MOST_BYTES = 20_000, 1_000_000_000
_PORTION = 1_000_000
WHY_NOT = "A zip is not a format to write: an export of several files is one already; choose what is to be in it."
_ANNOTATION, _CURATION, _SOURCE = "annotation", "curation", "source"
_JAVA = ".ser"
OTHERS, REST = "files of other annotators", "other files of the project"
Files = Mapping[str, OnDisk]


@dataclass(frozen=True)
class ZipOptions(LayerOptions):
    """How to read a zip, and the files in it."""

    annotator: str = field(
        default="",
        metadata={"doc": "Of an INCEpTION project: whose annotation to read of a document without a curation."},
    )
    of_format: str = field(
        default="", metadata={"doc": "Format of the files in the zip. Default: each one's name and content tell."}
    )


def read(files: Sequence[InputFile], options: ZipOptions) -> Iterator[Parsed]:
    """Read the files in each zip; of an INCEpTION project each document once, its curation if there is one."""
    for name, data in files:
        with TemporaryDirectory() as folder, opened(data) as file:
            members = _unpacked(name, file, Path(folder), MOST_BYTES)
            if any(_place(member) is not None for member in members):
                yield from _project(name, members, Path(folder), options)
            else:
                yield from _stream(list(members.items()), options)


def _stream(files: Sequence[InputFile], options: ZipOptions) -> Iterator[Parsed]:
    for chosen, group in group_files([name for name, _ in files], options.of_format or None):
        own = [files[index] for index in group]
        known = get_format(chosen) if chosen else guess_format(*own[0])
        if known.id == "zip":
            raise refused(own[0][0], 1, "it is a zip within a zip; unpack the outer one")
        given = {option.name: getattr(options, option.name, None) for option in fields(known.options_type)}
        yield from known.reader(own, known.options(**{key: it for key, it in given.items() if hasattr(options, key)}))


def _project(name: str, members: Files, folder: Path, options: ZipOptions) -> Iterator[Parsed]:
    by_document: dict[str, dict[tuple[str, str], str]] = {}
    rest, room = 0, MOST_BYTES - _size(members)
    for member in members:
        if (place := _place(member)) is None:
            rest += PurePosixPath(member).parts[0] != _SOURCE
            continue
        kind, document = place
        user = PurePosixPath(member)
        if user.suffix != _JAVA or (kind, user.stem) not in by_document.get(document, {}):
            by_document.setdefault(document, {})[kind, user.stem] = member
    for number, (document, works) in enumerate(sorted(by_document.items())):
        work = _chosen(name, document, works, options.annotator)
        member = works[work]
        if PurePosixPath(member).suffix == _JAVA:
            raise refused(
                member, 1, "it is of INCEpTION's own format; export the project with UIMA CAS XMI or WebAnno TSV"
            )
        others = sum(own not in (work, (_ANNOTATION, UNTOUCHED)) for own in works)
        losses = Counter({OTHERS: others, REST: 0 if number else rest})
        files = {member: members[member]}
        if PurePosixPath(member).suffix.lower() == ".zip":
            (inner := folder / f"d{number}").mkdir()
            with opened(members[member]) as file:
                files = _unpacked(member, file, inner, room)
            room -= _size(files)
        for piece in _stream(list(files.items()), options):
            known = piece if work[1] != UNTOUCHED else _untouched(piece)
            total = piece.losses if piece.more else dict(Counter(piece.losses) + losses)
            yield replace(known, name=document, losses=total)


def _chosen(name: str, document: str, works: Mapping[tuple[str, str], str], annotator: str) -> tuple[str, str]:
    """Return whose work of a document is read; raise BadInput where the choice is not ours."""
    if (_CURATION, CURATOR) in works:
        return _CURATION, CURATOR
    people = sorted(user for kind, user in works if kind == _ANNOTATION and user != UNTOUCHED)
    if annotator in people:
        return _ANNOTATION, annotator
    if len(people) > 1 and not annotator:
        whom = ", ".join(people)
        choose = "name one as annotator, an option of the format zip"
        raise refused(name, 1, f"{clip(document)} has no curation, but is annotated by {whom}; {choose}")
    if people and not annotator:
        return _ANNOTATION, people[0]
    if (_ANNOTATION, UNTOUCHED) in works:
        return _ANNOTATION, UNTOUCHED
    raise refused(name, 1, f"{clip(document)} is not annotated by {annotator}, but by {', '.join(people)}")


def _untouched(piece: Parsed) -> Parsed:
    return replace(piece, sentences=tuple(replace(record, spans=None) for record in piece.sentences))


def _place(member: str) -> tuple[str, str] | None:
    """Return what a file of a project is, annotation or curation, and of which document; None for any other file."""
    kind, *inner = PurePosixPath(member).parts
    kind = kind.removesuffix("_ser")
    return (kind, "/".join(inner[:-1])) if kind in (_ANNOTATION, _CURATION) and len(inner) > 1 else None


def _size(files: Files) -> int:
    return sum(data.size for data in files.values())


def _unpacked(name: str, file: BinaryIO, folder: Path, room: int) -> dict[str, OnDisk]:
    """Write the files of a zip into a folder, `room` bytes at most.

    Raises BadInput for what is no zip, or too large, or leads elsewhere.
    """
    members: dict[str, OnDisk] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir() and not _of_the_system(info.filename)]
            if len(infos) > MOST_FILES:
                raise refused(name, 1, f"it holds {len(infos):,} files; at most {MOST_FILES:,} are read at once")
            for number, info in enumerate(infos):
                path = PurePosixPath(info.filename)
                if path.is_absolute() or ".." in path.parts or str(path) in members:
                    raise refused(name, 1, f"it holds {clip(info.filename)}, which leads elsewhere or is there twice")
                if info.flag_bits & 1:
                    raise refused(name, 1, f"{clip(info.filename)} is encrypted")
                to = folder / str(number)
                with archive.open(info) as packed, to.open("wb") as out:
                    while part := packed.read(_PORTION):
                        room -= len(part)
                        if room < 0:
                            raise refused(name, 1, f"it unpacks to more than {MOST_BYTES:,} bytes in all")
                        out.write(part)
                members[str(path)] = OnDisk(to)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, UnicodeDecodeError) as error:
        raise refused(name, 1, f"it is no zip that can be read: {error}") from error
    if not members:
        raise BadInput(f"{name} holds no file.")
    return members


def _of_the_system(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return not parts or parts[0] == "__MACOSX" or parts[-1].startswith(".")


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Refuse: see `WHY_NOT`."""
    raise InvalidConfig(WHY_NOT)


register(
    Format(
        "zip",
        "Zip of files (INCEpTION project, brat collection)",
        (".zip",),
        read,
        write,
        options_type=ZipOptions,
        content=re.compile(rb"\APK(?:\x03\x04|\x05\x06)"),
        by_document=True,
        no_writer=WHY_NOT,
    )
)
