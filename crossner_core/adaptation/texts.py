"""Where the words of a corpus come from: text files, labelled files, levels of a Wikipedia corpus; all in streams."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import open_file
from crossner_core.schema import LabelledSentence, Sentence

Texts = Callable[[], Iterator[Sequence[str]]]
Sentences = Callable[[], Iterator[LabelledSentence]]
LAST_LINE = ("refuse", "keep", "drop")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
MAX_LINE = 1_000_000  # bytes; a longer one is no line of text


def text_files(paths: Sequence[Path], *, last_line: str = "refuse") -> Texts:
    """Give the lines of UTF-8 files as words, a line a document; empty ones are passed over.

    `last_line` says what becomes of a last line without a newline, which may have been cut off: refuse the file, keep
    the line or drop it. Raises BadInput, before anything is read, for a file that is missing, empty or cut off.
    """
    if last_line not in LAST_LINE:
        raise InvalidConfig(f"last_line is {last_line!r}; choose one of {', '.join(LAST_LINE)}.")
    for path in paths:
        _check_end(path, last_line)

    def read() -> Iterator[Sequence[str]]:
        for path in paths:
            yield from _lines(path, last_line)

    return read


def labelled_texts(paths: Sequence[Path]) -> Texts:
    """Give the sentences of files in any format as words; a whole file is held in memory while it is read."""

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
    """Give the labelled sentences of files in any format; a whole file is held in memory while it is read.

    Silver tags may begin an entity by I-.
    """

    def read() -> Iterator[LabelledSentence]:
        for path in paths:
            yield from open_file(path, lenient=True).labelled

    return read


def level_texts(
    folder: Path, domain: str, level: str, percent: float = 100.0, seed: int = 0, *, gazetteers: Path | None = None
) -> Texts:
    """Give a share of a level of a pre-annotated Wikipedia corpus as words, a sentence a document.

    What entity type a class is, says the gazetteer that annotated the corpus where `gazetteers` (by default the folder
    of that name beside the corpora's) holds it, else DBpedia's own classes do.
    """
    from crossner_core.domains import load_domain  # a corpus needs pyarrow, text files do not
    from crossner_core.subsets import check_percent
    from crossner_core.wikipedia.corpus import Corpus
    from crossner_core.wikipedia.levels import Levels, annotators_tree, check_level

    check_level(level)
    check_percent(percent)
    corpus = Corpus.open(folder)
    levels = Levels(corpus, load_domain(domain), tree=annotators_tree(corpus, gazetteers))

    def read() -> Iterator[Sequence[str]]:
        for text in levels.texts(level, percent, seed):
            yield text.split()

    return read


def describe_files(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return name, size and SHA-256 of files: what an encoder's provenance says of its corpus."""
    found = []
    for path in paths:
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found.append({"name": path.name, "bytes": path.stat().st_size, "sha256": digest})
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    return found


def _check_end(path: Path, last_line: str) -> None:
    if path.suffix.lower() in PACKED:
        raise BadInput(f"{path} is packed; unpack it, and give the text itself.")
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
            "it again. If it is whole, add a newline; `python -m crossner_core.adaptation` also knows --last-line keep "
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


def types_of(*parts: Iterable[LabelledSentence]) -> tuple[str, ...]:
    """Return the entity types that occur, sorted; one pass over the sentences."""
    return tuple(sorted({span.type for items in parts for item in items for span in item.spans}))
