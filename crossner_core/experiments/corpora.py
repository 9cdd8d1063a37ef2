"""The corpora that experiments run on: folders of labelled files, read the same way everywhere.

A corpus is a folder `ROOT/ID` with train, dev and test files of any format. Sets that need more have an entry below: a
type map, tolerance for stray tags, or a split that their release lacks. What is missing is carved out of train by hash:
sentences (or documents, if the entry says so) are sorted by the SHA-256 of a fixed seed and their own words, and the
first ones are taken. So a split does not depend on a random generator, and equal sentences fall into the same part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from crossner_core.domains import Domain, builtin_domains, load_domain, parse_domain
from crossner_core.domains.texts import texts_of
from crossner_core.errors import BadInput, InvalidDomain
from crossner_core.experiments.few_shot import nested_subsets
from crossner_core.formats import open_file
from crossner_core.formats.base import Record, format_ids, get_format
from crossner_core.schema import LabelledSentence
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.recipe import Recipe, source_weights
from crossner_core.training.sources import prepared
from crossner_core.type_maps import TypeMap, load_type_map

SPLITS = ("train", "dev", "test")
DRAWS = ("random", "entities", "file")
"""Ways to take some of the training sentences; see `Corpus.data`."""
OWN_TYPE_MAP, OWN_DOMAIN = "type_map.toml", "domain.toml"
"""In a corpus's folder: its own type map, and the domain that its types are of."""
_STEMS = {
    "train": ("train", "all"),
    "dev": ("dev", "devel", "valid", "validation", "testa"),
    "test": ("test", "testb"),
}
_SEED = "crossner-workbench 1"  # changing it changes every carved split


@dataclass(frozen=True)
class _Entry:
    """What a set needs beyond its files: see `_KNOWN`.

    `domain` names the definition that gives types and parents; `dev` and `test` are the shares of the training file
    that are carved out if there is no such file; `parts` is a pattern of files that make up one training file.
    """

    domain: str = ""
    type_map: str = ""
    dev: float = 0.1
    test: float = 0.2
    by_document: bool = False
    lenient: bool = False
    ignore_dev: bool = False
    parts: str = ""


_FOUR = _Entry(domain="conll2003", type_map="conll")
_KNOWN: Mapping[str, _Entry] = {
    "politics": _Entry(domain="politics"),
    "science": _Entry(domain="science"),
    "music": _Entry(domain="music"),
    "literature": _Entry(domain="literature"),
    "ai": _Entry(domain="ai"),
    "conll2003": _FOUR,
    "bionlp13pc": _Entry(),
    # MIT's released dev file is the test file: dev comes out of train.
    "restaurant": _Entry(ignore_dev=True),
    "movie": _Entry(ignore_dev=True),
    # One file of whole articles: half of them for test, so that no article is on both sides. The rest that a few-shot
    # run does not use is its unlabelled text (PDALN's set-up, whose own split isn't published).
    "wikigold": replace(_FOUR, dev=0.15, test=0.5, by_document=True),
    "sec-filings": replace(_FOUR, dev=0.2),  # small: a tenth would have about a hundred entities
    "scitech": _FOUR,
    # Silver tags, some of which begin an entity with I-; two parts of one training file.
    "wikineural": replace(_FOUR, dev=0.05, test=0.1, lenient=True, parts="silver-*"),
    "wnut16": replace(_FOUR, type_map="wnut16"),
    "wnut17": replace(_FOUR, type_map="wnut17"),
    "ontonotes": replace(_FOUR, type_map="ontonotes"),
}


@dataclass(frozen=True)
class Corpus:
    """A labelled corpus; `types` in the domain's order, or sorted if there is no domain of that name.

    `duplicates` counts the sentences of a later split that occur word for word in an earlier one (`train→test`); they
    are not removed. `notes` list what was carved, mapped or skipped.
    """

    id: str
    types: tuple[str, ...]
    parents: Mapping[str, str]
    train: tuple[LabelledSentence, ...]
    dev: tuple[LabelledSentence, ...]
    test: tuple[LabelledSentence, ...]
    duplicates: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def as_source(self, weight: float = 1.0) -> SourceCorpus:
        """Return it as a source of other corpora's runs; its test sentences are left out."""
        return SourceCorpus(
            self.train, self.dev, weight, frozenset(self.types), self.id, self.parents, texts=self.texts
        )

    def data(
        self, *, size: int | None = None, seed: int = 0, order: str = "random", sources: Sequence[SourceCorpus] = ()
    ) -> TrainingData:
        """Return the data of a run on `size` training sentences (default all): nested subsets by `seed`.

        In the order `entities` fewer than all are drawn from the sentences that have any. The training sentences beyond
        the subset are the run's unlabelled text.
        """
        some = order == "entities" and size is not None and size < len(self.train)
        drawn = [index for index, item in enumerate(self.train) if item.spans or not some]
        how = "random" if order == "entities" else order
        count = len(drawn)
        (places,) = nested_subsets(count, [count if size is None else size], seed, order=how).indices.values()
        chosen = [drawn[place] for place in places]
        kept = set(chosen)
        return TrainingData(
            train=tuple(self.train[index] for index in chosen),
            types=self.types,
            dev=self.dev,
            test=self.test,
            sources=tuple(sources),
            parents=self.parents,
            texts=self.texts,
            unlabelled=tuple(item.sentence for index, item in enumerate(self.train) if index not in kept),
        )


def corpus_ids(root: str | Path | None = None) -> tuple[str, ...]:
    """The ids of all known corpora; with a root folder, of those present, including unknown folders."""
    if root is None:
        return tuple(_KNOWN)
    folder = Path(root)
    present = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()
    others = sorted(id for id in present - set(_KNOWN) if _has_train(folder / id))
    return (*(id for id in _KNOWN if id in present), *others)


def read_corpus(id: str, root: str | Path) -> Corpus:
    """Read a corpus from its folder under `root`; unchanged files return the same object.

    Raises BadInput for an id that is neither known nor a folder there, and for malformed files (file, line, reason).
    """
    folder = Path(root).resolve() / id
    present = ", ".join(corpus_ids(root)) or "none"
    if id not in _KNOWN and (Path(id).name != id or not folder.is_dir()):
        raise BadInput(f"Unknown corpus {id!r}; known are {', '.join(_KNOWN)}; at {root} there are {present}.")
    if not folder.is_dir():
        raise BadInput(
            f"The corpus {id} is not at {root}, where there are {present}; "
            f"put its train, dev and test files into {folder}."
        )
    files = split_files(folder, id)
    stamps = tuple((str(path), *_stamp(path)) for paths in files.values() for path in paths)
    own = [path for path in (folder / OWN_TYPE_MAP, folder / OWN_DOMAIN) if path.is_file()]
    return _read(id, folder, (*stamps, *((str(path), *_stamp(path)) for path in own)))


def read_sources(recipe: Recipe, target: str, root: str | Path) -> tuple[SourceCorpus, ...]:
    """Read the corpora that a recipe names as sources, as a run on the target corpus learns from them."""
    sources = [read_corpus(name, root).as_source(weight) for name, weight in source_weights(recipe.source).items()]
    return prepared(recipe, sources, read_corpus(target, root).types)


@lru_cache(maxsize=16)
def _read(id: str, folder: Path, stamps: tuple[tuple[str, int, int], ...]) -> Corpus:
    """Read a corpus; `stamps` make the cache notice changed files."""
    entry = _KNOWN.get(id, _Entry(domain=id if id in builtin_domains() else ""))
    domain, type_map = _domain(folder, entry), _type_map(folder, entry)
    options: dict[str, Any] = type_map.options if type_map else {}
    if domain is not None:
        options["types"] = domain.type_names
    notes = [f"types by the map {type_map.name}: {type_map.title}"] if type_map else []
    records = {
        split: [record for path in paths for record in _records(path, id, entry, options)]
        for split, paths in split_files(folder, id).items()
    }
    if entry.ignore_dev and "dev" in records:
        del records["dev"]
        notes.append("the dev file is not used: in the release it is the test file")
    _carve_missing(records, entry, notes)
    parts = {split: tuple(_labelled(record) for record, _ in records[split]) for split in SPLITS}
    occurring = tuple(sorted({span.type for items in parts.values() for item in items for span in item.spans}))
    if not occurring:
        raise BadInput(f"The corpus {id} at {folder} has no entities.")
    return Corpus(
        id=id,
        types=domain.type_names if domain else occurring,
        parents=domain.parents if domain else {},
        texts=texts_of(domain) if domain else {},
        **parts,
        duplicates=_duplicates(parts),
        notes=tuple(notes),
    )


_Keyed = tuple[Record, str]  # with the key it is carved by: its words, or its document


def _records(path: Path, id: str, entry: _Entry, options: Mapping[str, Any]) -> list[_Keyed]:
    """Read a file's sentences, each with its key; raise BadInput at one without annotation."""
    given = {**options, "id_prefix": f"{id}-{path.stem}", **({"lenient": True} if entry.lenient else {})}
    parsed = open_file(path, "conll" if entry.lenient else None, name=str(path), **given)
    keyed: list[_Keyed] = []
    for record in parsed.sentences:
        if record.spans is None:
            raise BadInput(
                f"{path}: sentence {record.sentence.id} has no annotation; a corpus needs it throughout: a column of "
                "tags such as O, B-song and I-song next to the words, separated by tabs or blanks, or gold in JSON "
                "lines."
            )
        keyed.append((record, _document(record, path) if entry.by_document else "\x1f".join(record.sentence.words)))
    return keyed


def _document(record: Record, path: Path) -> str:
    """Return the file's name with the number of the article in it, 0 before the first -DOCSTART-."""
    return path.name + ((record.sentence.document or "").removeprefix(str(path)) or " 0")


def _carve_missing(records: dict[str, list[_Keyed]], entry: _Entry, notes: list[str]) -> None:
    """Carve splits without a file out of train, test first."""
    whole = len(records["train"])
    for split, share in (("test", entry.test), ("dev", entry.dev)):
        if split not in records:
            taken = _first_by_hash(records["train"], round(share * whole), split)
            records[split] = [keyed for keyed in records["train"] if keyed[1] in taken]
            records["train"] = [keyed for keyed in records["train"] if keyed[1] not in taken]
            unit = "whole documents, " if entry.by_document else ""
            notes.append(f"{split}: {len(records[split])} of {whole} sentences carved out of train ({unit}by hash)")
    for split in SPLITS:
        if not records[split]:
            raise BadInput(f"There are no {split} sentences: {whole} training sentences are too few to carve it out.")


def _first_by_hash(keyed: Sequence[_Keyed], count: int, split: str) -> set[str]:
    """Return the keys of the first `count` sentences in the order of their hashes."""
    sizes: dict[str, int] = {}
    for _, key in keyed:
        sizes[key] = sizes.get(key, 0) + 1
    ranks = {key: hashlib.sha256(f"{_SEED}\x00{split}\x00{key}".encode()).digest() for key in sizes}
    taken: set[str] = set()
    for key in sorted(sizes, key=ranks.__getitem__):
        if count <= 0:
            break
        taken.add(key)
        count -= sizes[key]
    return taken


def _labelled(record: Record) -> LabelledSentence:
    """Drop the file's layout, which only an exporter needs."""
    assert record.spans is not None
    return LabelledSentence(record.sentence.bare(), record.spans)


def _duplicates(parts: Mapping[str, Sequence[LabelledSentence]]) -> dict[str, int]:
    words = {split: [item.sentence.words for item in items] for split, items in parts.items()}
    pairs = (("train", "dev"), ("train", "test"), ("dev", "test"))
    seen = {split: set(rows) for split, rows in words.items()}
    return {f"{first}→{later}": sum(row in seen[first] for row in words[later]) for first, later in pairs}


def _domain(folder: Path, entry: _Entry) -> Domain | None:
    own = folder / OWN_DOMAIN
    if own.is_file():
        try:
            return parse_domain(own.read_text(encoding="utf-8"), origin=str(own))
        except (InvalidDomain, UnicodeDecodeError) as error:
            raise BadInput(f"{error}. Mend {own}, or remove it.") from error
    return load_domain(entry.domain) if entry.domain else None


def _type_map(folder: Path, entry: _Entry) -> TypeMap | None:
    own = folder / OWN_TYPE_MAP
    name = str(own.resolve()) if own.is_file() else entry.type_map
    return load_type_map(name) if name else None


def split_files(folder: Path, id: str = "") -> dict[str, list[Path]]:
    """Return the files of each split that a folder has: several only if a known corpus comes in parts.

    Raises BadInput if there is no training file, or more than one for a split.
    """
    entry = _KNOWN.get(id, _Entry())
    files = data_files(folder)
    by_split: dict[str, list[Path]] = {}
    for split, stems in _STEMS.items():
        paths = next((paths for stem in stems if (paths := [path for path in files if path.stem == stem])), [])
        if len(paths) > 1:
            raise BadInput(f"{folder} has {', '.join(path.name for path in paths)}: more than one file for {split}.")
        if paths:
            by_split[split] = paths
    if "train" not in by_split and entry.parts:
        by_split["train"] = [path for path in files if path.match(entry.parts)]
    if not by_split.get("train"):
        named = ", ".join(path.name for path in files) or "no data file"
        raise BadInput(f"{folder} has no file called train or all (it has {named}); name the training file train.txt.")
    return by_split


def _has_train(folder: Path) -> bool:
    return any(path.stem in _STEMS["train"] for path in data_files(folder))


def data_files(folder: Path) -> list[Path]:
    """Return a folder's files of a format that can be read, by their suffix, sorted."""
    suffixes = {suffix for id in format_ids() for suffix in get_format(id).suffixes}
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
