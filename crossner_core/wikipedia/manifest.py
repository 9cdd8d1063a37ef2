"""The manifest of a corpus: where it comes from, how it was made, what is in it, and the hash of each file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, NotFound
from crossner_core.records import Record, read

FORMAT = 1
FILE_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Source(Record):
    """The dump a corpus was made from."""

    file: str
    bytes: int
    dbname: str
    generator: str


@dataclass(frozen=True, slots=True)
class Gazetteer(Record):
    """The gazetteer that pre-annotated a corpus: its name and the hash of its content."""

    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class Parent(Record):
    """The corpus that another one was selected from, by name and manifest hash, and how (plain JSON values)."""

    name: str
    hash: str
    how: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shard(Record):
    """One shard: its number, its rows, and the SHA-256 of its two files."""

    number: int
    sentences: int
    pages: int
    sentences_sha256: str
    pages_sha256: str

    @property
    def file_name(self) -> str:
        """The name of the shard's file in `sentences/` and in `pages/`."""
        return f"{self.number:05d}.parquet"


@dataclass(frozen=True, slots=True)
class Counts(Record):
    """What is in a corpus, as numbers.

    `skipped` and `fallback` count pages by reason, `dropped` sentences by reason. `fast` and `fallback` count the
    pages whose wikitext was read by either parser. `stretched` are links that began or ended inside a
    token and were widened to it, `lost_links` those that had no text left; `rejoined` are sentence boundaries that
    lay inside a link and were undone.
    """

    pages: int = 0
    kept: int = 0
    redirects: int = 0
    categories: int = 0
    paragraphs: int = 0
    sentences: int = 0
    tokens: int = 0
    links: int = 0
    mentions: int = 0
    fast: int = 0
    stretched: int = 0
    lost_links: int = 0
    rejoined: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    fallback: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            **{field.name: _sum(getattr(self, field.name), getattr(other, field.name)) for field in fields(Counts)}
        )

    @property
    def is_complete(self) -> bool:
        """Tell whether every page is accounted for."""
        return self.pages == self.kept + self.redirects + self.categories + sum(self.skipped.values())


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, int):
        return left + right
    return {key: left.get(key, 0) + right.get(key, 0) for key in sorted({*left, *right})}


@dataclass(frozen=True, slots=True)
class Manifest(Record):
    """The manifest of a corpus; the same input and config give the same manifest.

    `config` holds plain JSON values. `domain` is the name of the domain the mentions are typed in, `truncated` is where
    a truncated dump ended that was read anyway ("" for a complete one).
    """

    source: Source
    config: Mapping[str, Any]
    counts: Counts
    shards: tuple[Shard, ...]
    gazetteer: Gazetteer | None = None
    domain: str | None = None
    derived_from: Parent | None = None
    truncated: str = ""
    format: int = FORMAT

    def to_json(self) -> str:
        """Write the manifest as JSON, keys in order."""
        return json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def hash(self) -> str:
        """SHA-256 over the whole manifest, and so over every file of the corpus."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read a corpus folder's manifest; raise NotFound without one, BadInput for a damaged one or another version."""
    path = folder / FILE_NAME
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        if (folder / "sentences").is_dir():
            raise BadInput(f"The corpus in {folder} is not finished: run the same `corpus build` again.") from error
        raise NotFound(f"There is no corpus in {folder}: make one with `workbench corpus build`.") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}): rebuild the corpus or copy it again.") from error
    if not isinstance(values, dict):
        raise BadInput(f"{path} is not the manifest of a corpus: rebuild the corpus or copy it again.")
    if values.get("format") != FORMAT:
        raise BadInput(
            f"{path} has format version {values.get('format')!r}, this program reads {FORMAT}: rebuild the corpus "
            "with `workbench corpus build`."
        )
    try:
        return read(Manifest, values, "it")
    except BadInput as error:
        raise BadInput(f"{path} is damaged: {error} Rebuild the corpus or copy it again.") from error
