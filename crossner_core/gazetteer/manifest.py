"""The manifest of a compiled gazetteer: where it comes from, what it holds, and whether its files are whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, NotFound
from crossner_core.records import read

VERSION = 1
FILE = "manifest.json"
FORMAT = "crossner-gazetteer"

# Keys of a manifest beside its fields.
_BESIDE = ("format", "hash")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that a gazetteer was built from, or consists of; `sha256` of its bytes."""

    name: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> SourceFile:
        """Measure a file; BadInput if it cannot be read."""
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return cls(path.name, path.stat().st_size, digest)
        except OSError as error:
            raise BadInput(f"{path}: cannot be read ({error.strerror}).") from error


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the facts come from: `kind` is dump, endpoint or wikipedia, `date` that of the newest file."""

    kind: str
    files: tuple[SourceFile, ...] = ()
    address: str = ""
    date: str = ""
    language: str = "en"
    ontology: str = "built-in"


@dataclass(frozen=True, slots=True)
class GazetteerManifest:
    """What describes a gazetteer folder; `hash` identifies its content, however it was made."""

    name: str
    source: Origin
    counts: Mapping[str, int]
    aliases: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    built: str = ""
    version: int = VERSION

    @property
    def hash(self) -> str:
        """SHA-256 over names and hashes of the files."""
        listed = "\n".join(
            f"{source_file.sha256} {source_file.name}"
            for source_file in sorted(self.files, key=lambda source_file: source_file.name)
        )
        return hashlib.sha256(listed.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"format": FORMAT, "hash": self.hash, **dataclasses.asdict(self)}

    def write(self, folder: Path) -> None:
        """Write the manifest into a folder."""
        text = json.dumps(self.to_json(), ensure_ascii=False, indent=2)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> GazetteerManifest:
    """Read a folder's manifest; NotFound without one, BadInput for a damaged one or another version."""
    path = folder / FILE
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{folder}: no gazetteer is there ({FILE} is missing). {how_to_build(folder)}") from error
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise BadInput(f"{path}: is damaged ({error}). {how_to_build(folder)}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise BadInput(f"{path}: is not a gazetteer's manifest. {how_to_build(folder)}")
    if value.get("version") != VERSION:
        raise BadInput(
            f"{folder}: was made by another version (format {value.get('version')!r}; this one reads {VERSION}). "
            f"{how_to_build(folder)}"
        )
    try:
        manifest = read(GazetteerManifest, {key: part for key, part in value.items() if key not in _BESIDE}, "it")
    except BadInput as error:
        raise BadInput(f"{path}: is damaged: {error} {how_to_build(folder)}") from error
    if manifest.hash != value.get("hash"):
        raise BadInput(f"{path}: is damaged: its hash does not match the files it lists. {how_to_build(folder)}")
    return manifest


def how_to_build(folder: Path) -> str:
    """Return the command that rebuilds a gazetteer."""
    return f"Build it again: workbench gazetteer build --output {folder} --replace --dump FILES…"
