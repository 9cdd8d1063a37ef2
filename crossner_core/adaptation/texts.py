"""Pre-training text: text files, labelled files, levels of a Wikipedia corpus, all streamed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import open_file
from crossner_core.options.character_models import CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.schema import LabelledSentence, Sentence
from crossner_core.subsets import check_percent, keys_of, uniform

if TYPE_CHECKING:
    from crossner_core.domains import Domain

T = TypeVar("T")
Texts = Callable[[], Iterator[Sequence[str]]]
Sentences = Callable[[], Iterator[LabelledSentence]]
LAST_LINE = ("refuse", "keep", "drop")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
MAX_LINE = 1_000_000  # bytes; a longer line is rejected
CHUNK = 512  # documents read ahead, at most


@dataclass(frozen=True, slots=True)
class PretrainText(Generic[T]):
    """What an encoder learns from: documents as words, or labelled sentences, which have `types`.

    `items()` streams them anew on each call; `held_out()` streams what is measured on, None if that is a share of the
    items. `provenance` describes them; its `corpus` entry tells corpora apart.
    """

    items: Callable[[], Iterator[T]]
    held_out: Callable[[], Iterator[T]] | None = None
    types: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


def from_files(
    paths: Sequence[Path], *, labelled: bool = False, held_out: Sequence[Path] = (), last_line: str = "refuse"
) -> PretrainText[Sequence[str]]:
    """Read text files, or the words of labelled files in any format; raise BadInput or InvalidConfig."""
    texts = _labelled_texts(paths) if labelled else text_files(paths, last_line=last_line)
    aside = _labelled_texts(held_out) if labelled else text_files(held_out, last_line=last_line)
    provenance = {"corpus": describe_files(paths), "held_out": describe_files(held_out)}
    return PretrainText(texts, aside if held_out else None, provenance=provenance)


def from_level(
    folder: Path,
    domain: str | Domain,
    level: str,
    *,
    percent: float = 100.0,
    seed: int = 0,
    held_out: Sequence[Path] = (),
    last_line: str = "refuse",
    gazetteers: Path | None = None,
) -> PretrainText[Sequence[str]]:
    """Read a share of a level of a pre-annotated Wikipedia corpus, one sentence per document.

    Classes are mapped to entity types by the gazetteer that annotated the corpus if `gazetteers` (by default the folder
    of that name next to the corpora's) contains it, else by DBpedia's own classes. Raises BadInput, InvalidConfig or
    InvalidDomain.
    """
    from crossner_core.domains import load_domain  # a corpus needs pyarrow, text files do not
    from crossner_core.gazetteer.ontology import BUILTIN
    from crossner_core.wikipedia.corpus import Corpus
    from crossner_core.wikipedia.levels import DOMAIN, Levels, annotators_tree, check_level

    check_level(level)
    check_percent(percent)
    corpus = Corpus.open(folder)
    tree = annotators_tree(corpus, gazetteers)
    name, known = (domain, load_domain(domain)) if isinstance(domain, str) else (domain.name, domain)
    levels = Levels(corpus, known, tree=tree)
    manifest = describe_files([folder / "manifest.json"])
    named = {"manifest": manifest, "domain": name, "level": level, "percent": percent, "seed": seed}
    if level != DOMAIN and tree.parents != BUILTIN.parents:  # that level does not use classes
        classes = json.dumps(sorted((name, list(above)) for name, above in tree.parents.items()))
        named["classes"] = hashlib.sha256(classes.encode()).hexdigest()

    def read() -> Iterator[Sequence[str]]:
        for text in levels.texts(level, percent, seed):
            yield text.split()

    aside = text_files(held_out, last_line=last_line) if held_out else None
    return PretrainText(read, aside, provenance={"corpus": named, "held_out": describe_files(held_out)})


def from_tagged(folder: Path, *, repeat: bool = True, held_out: Sequence[Path] = ()) -> PretrainText[LabelledSentence]:
    """Read an entity-tagging corpus, repeating sentences for balance; raise NotFound or BadInput."""
    from crossner_core.wikipedia.tagged_corpus import TaggingManifest, read_tagged  # needs pyarrow, files do not

    types = (category.category for category in TaggingManifest.read(folder).categories if category.after)
    named = {"manifest": describe_files([folder / "manifest.json"]), "repeat": repeat}
    return _tagged_text(partial(read_tagged, folder, repeat=repeat), types, named, held_out)


def from_labelled(paths: Sequence[Path], *, held_out: Sequence[Path] = ()) -> PretrainText[LabelledSentence]:
    """Read labelled files in any format; raise BadInput for one that cannot be read."""
    sentences = labelled_files(paths)
    if not (types := types_of(sentences())):
        raise BadInput(f"{', '.join(map(str, paths))}: no sentence has an entity, so there is no type to learn.")
    return _tagged_text(sentences, types, describe_files(paths), held_out)


def from_sentences(
    sentences: Sequence[LabelledSentence], held_out: Sequence[LabelledSentence], types: Iterable[str]
) -> PretrainText[LabelledSentence]:
    """Use sentences in memory; if none are held out, a share of them is."""
    return PretrainText(lambda: iter(sentences), (lambda: iter(held_out)) if held_out else None, tuple(types))


def as_words(text: PretrainText[LabelledSentence]) -> PretrainText[Sequence[str]]:
    """Drop the labels."""

    def bare(part: Sentences) -> Texts:
        return lambda: (item.sentence.words for item in part())

    return PretrainText(bare(text.items), bare(text.held_out) if text.held_out else None, provenance=text.provenance)


def from_place(place: Path) -> PretrainText[LabelledSentence]:
    """Read an entity-tagging corpus, a folder of labelled files, or one such file; raise BadInput for anything else."""
    if (place / "manifest.json").is_file():
        return from_tagged(place)
    return from_labelled(labelled_paths(place))


def check_place(place: Path) -> None:
    """Raise BadInput if `from_place` would find nothing to read, without reading it."""
    if not (place / "manifest.json").is_file():
        labelled_paths(place)
        return
    from crossner_core.wikipedia.tagged_corpus import TaggingManifest

    TaggingManifest.read(place)


def labelled_paths(place: Path) -> list[Path]:
    """Return a labelled file, or those of a folder; raise BadInput where there is none."""
    paths = sorted(path for path in place.iterdir() if path.is_file()) if place.is_dir() else [place]
    if not paths or not paths[0].is_file():
        raise BadInput(f"{place} is neither an entity-tagging corpus nor a labelled file or folder of such files.")
    return paths


def text_files(paths: Sequence[Path], *, last_line: str = "refuse") -> Texts:
    """Stream the lines of UTF-8 files as words, one document per line; empty lines are skipped.

    `last_line` decides what happens to a last line without a newline, which may have been cut off: refuse the file,
    keep the line or drop it. Raises BadInput, before anything is read, for a file that is missing, empty or cut off.
    """
    if last_line not in LAST_LINE:
        raise InvalidConfig(f"last_line is {last_line!r}; choose one of {', '.join(LAST_LINE)}.")
    for path in paths:
        _check_end(path, last_line)

    def read() -> Iterator[Sequence[str]]:
        for path in paths:
            yield from _lines(path, last_line)

    return read


def _labelled_texts(paths: Sequence[Path]) -> Texts:
    """Stream the sentences of files in any format as words; a whole file is held in memory while it is read."""

    def read() -> Iterator[Sequence[str]]:
        for sentence in bare_sentences(paths):
            yield sentence.words

    return read


def bare_sentences(paths: Sequence[Path]) -> Iterator[Sentence]:
    """Yield the sentences of files in any format; a whole file is held in memory while it is read.

    Raises BadInput for a file that cannot be read, with file, line and reason.
    """
    for path in paths:
        for record in open_file(path, lenient=True).sentences:
            yield record.sentence


def labelled_files(paths: Sequence[Path]) -> Sentences:
    """Stream the labelled sentences of files in any format; a whole file is held in memory while it is read.

    Silver tags may begin an entity with I-.
    """

    def read() -> Iterator[LabelledSentence]:
        for path in paths:
            yield from open_file(path, lenient=True).labelled

    return read


def describe_files(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return name, size and SHA-256 of files: the provenance of an encoder's corpus."""
    rows = []
    for path in paths:
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            rows.append({"name": path.name, "bytes": path.stat().st_size, "sha256": digest})
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    return rows


def types_of(*parts: Iterable[LabelledSentence]) -> tuple[str, ...]:
    """Return the entity types that occur, sorted; one pass over the sentences."""
    return tuple(sorted({span.type for items in parts for item in items for span in item.spans}))


def share_of(
    text: PretrainText[Sequence[str]], percent: float, options: DaptOptions | CharacterModelOptions, seed: int = 0
) -> PretrainText[Sequence[str]]:
    """Return about `percent` of a text's documents to train on, for curves over its size, and what to measure on.

    Each document is drawn by its text: duplicates are treated alike, and a smaller share is contained in a larger one
    of the same seed. Without separate held-out text, `options` decide which part of the whole is held out, whatever the
    share. 100 leaves the text as it is. Raises InvalidConfig for an invalid percentage.
    """
    check_percent(percent)
    if percent == 100:
        return text

    def away(documents: Sequence[str]) -> npt.NDArray[np.bool_]:
        return is_held_out(documents, options.held_out_share, options.seed)

    def drawn(documents: Sequence[str]) -> npt.NDArray[np.bool_]:
        return uniform(keys_of(documents, seed=seed)) < percent / 100

    share = {"files": text.provenance.get("corpus"), "percent": percent, "seed": seed}
    provenance = {**text.provenance, "corpus": share}
    if text.held_out is None:
        learned = _where(text.items, lambda documents: drawn(documents) & ~away(documents))
        return PretrainText(learned, _where(text.items, away), provenance=provenance)
    return PretrainText(_where(text.items, drawn), text.held_out, provenance=provenance)


def is_held_out(documents: Sequence[str], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return which documents are held out; duplicates are treated alike, wherever they occur."""
    return uniform(keys_of(documents, seed=seed, use="held-out")) < share


def _tagged_text(
    sentences: Sentences, types: Iterable[str], corpus: Any, held_out: Sequence[Path]
) -> PretrainText[LabelledSentence]:
    aside = labelled_files(held_out) if held_out else None
    known = sorted({*types, *(types_of(aside()) if aside else ())})
    return PretrainText(sentences, aside, tuple(known), {"corpus": corpus, "held_out": describe_files(held_out)})


def _where(texts: Texts, chosen: Callable[[Sequence[str]], npt.NDArray[np.bool_]]) -> Texts:
    """Stream the chosen documents in order."""

    def read() -> Iterator[Sequence[str]]:
        stream = texts()
        while chunk := list(itertools.islice(stream, CHUNK)):
            yield from itertools.compress(chunk, chosen([" ".join(words) for words in chunk]))

    return read


def _check_end(path: Path, last_line: str) -> None:
    if path.suffix.lower() in PACKED:
        raise BadInput(f"{path} is compressed; decompress it and pass the text itself.")
    try:
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                raise BadInput(f"{path}:1: the file is empty.")
            file.seek(-1, os.SEEK_END)
            whole = file.read() == b"\n"
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    if not whole and last_line == "refuse":
        raise BadInput(
            f"{path} ends in the middle of a line: there is no newline at its end, so it may have been cut off. Copy "
            "it again. If it is whole, add a newline; `python -m crossner_core.adaptation` also has --last-line keep "
            "and drop."
        )


def _lines(path: Path, last_line: str) -> Iterator[Sequence[str]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE):
                number += 1
                if not line.endswith(b"\n"):
                    if len(line) == MAX_LINE:
                        raise BadInput(
                            f"{path}:{number}: more than {MAX_LINE:,} bytes in one line; break it into lines."
                        )
                    if last_line == "drop":
                        return
                if words := _decode(line, path, number).split():
                    yield words
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error


def _decode(line: bytes, path: Path, number: int) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path}:{number}: byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line is not UTF-8; save "
            "the file as UTF-8."
        ) from error
    if "\x00" in text:
        raise BadInput(f"{path}:{number}: a NUL byte; this is not a text file (or UTF-16: save it as UTF-8).")
    return text
