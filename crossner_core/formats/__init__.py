"""Corpus formats: one module per format, with its reader and writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import base, sniff
from crossner_core.formats.source import describe
from crossner_core.memory import without_collecting
from crossner_core.schema import LabelledSentence, Sentence, SentenceLayout


def open_file(path: str | Path, format: str | None = None, *, name: str | None = None, **options: Any) -> base.Parsed:
    """Read a file; its format is guessed from suffix and content if not given.

    Raises BadInput listing file, line and reason if anything is wrong, unless `skip_bad=True`.
    """
    path = Path(path)
    return read_bytes(file_bytes(path), name=name or path.name, format=format, **options)


def file_bytes(path: Path) -> bytes:
    """Read a file's bytes; raise BadInput if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error


def read_bytes(data: bytes, *, name: str, format: str | None = None, **options: Any) -> base.Parsed:
    """Read the bytes of a file called `name` (an upload); otherwise like `open_file`. All its documents become one."""
    first, *others = read_files([(name, data)], format, **options)
    if not others:
        return first
    every = (first, *others)
    return replace(
        first,
        name=name,
        sentences=tuple(record for document in every for record in document.sentences),
        problems=tuple(problem for document in every for problem in document.problems),
        losses=sum((Counter(document.losses) for document in every), Counter[str]()),
        notes=tuple(dict.fromkeys(note for document in every for note in document.notes)),
    )


def read_files(files: Sequence[base.NamedFile], format: str | None = None, **options: Any) -> list[base.Parsed]:
    """Read files, each alone or together with those that belong to it (`group_files`); otherwise like `open_file`.

    All are read before any is refused, so that one error lists the problems of all.
    """
    files = [(_storable_name(name), data) for name, data in files]
    parsed: list[base.Parsed] = []
    errors: list[BadInput] = []
    for chosen, group in group_files([name for name, _ in files], format):
        try:
            parsed += _read_group([files[index] for index in group], chosen, options)
        except BadInput as error:
            errors.append(error)
    if errors:
        raise _joined(errors)
    return parsed


def group_files(names: Sequence[str], format: str | None = None) -> list[tuple[str | None, list[int]]]:
    """Group files that are read together: (format, their indices); the format is None where the content decides.

    All files of a format with companion files form one group; every other file is a group of its own.
    """
    several = [id for id in ([format] if format else base.format_ids()) if base.get_format(id).beside]
    groups: list[tuple[str | None, list[int]]] = []
    together: dict[str, list[int]] = {}
    all_names = frozenset(names)
    for index, name in enumerate(names):
        owner = next((id for id in several if format or base.get_format(id).owns(name, all_names)), None)
        if owner in together:
            together[owner].append(index)
            continue
        groups.append((owner or format, [index]))
        if owner is not None:
            together[owner] = groups[-1][1]
    return groups


def write(
    records: Iterable[base.Record | LabelledSentence | Sentence], format: str, layout: base.Layout | None = None
) -> str:
    """Write records as text; given the layout they were read with, unchanged ones are reproduced exactly.

    The caller encodes it (UTF-8, newlines unchanged). Raises BadInput if the format cannot hold a record.
    """
    if base.get_format(format).by_document:
        raise InvalidConfig(f"Format {format} writes several files; one text was asked for.")
    ((_, data),) = write_files([make_document("", records, format, layout)], format).files
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"Format {format} writes no text; one was asked for.") from error


def make_document(
    name: str,
    records: Iterable[base.Record | LabelledSentence | Sentence],
    format: str,
    layout: base.Layout | None = None,
) -> base.Parsed:
    """Make a document to write in a format, in the layout it was read with or that format's default."""
    chosen = base.get_format(format)
    if layout is not None and type(layout) is not chosen.layout_type:
        raise InvalidConfig(f"A layout of format {layout.format} does not fit format {chosen.id}.")
    made = tuple(map(_as_record, records))
    own = layout if layout is not None else chosen.layout_type()
    if layout is None:  # what a sentence notes of its file fits that file's layout alone, except for running text
        tails = [base.tail_of(record.sentence) for record in made[-1:] if chosen.by_document]
        own = replace(own, tail=tails[0]) if tails else own
        made = tuple(replace(record, sentence=_relaid(record.sentence, chosen)) for record in made)
    return base.Parsed(name, chosen.id, made, (), own)


def write_files(documents: Sequence[base.Parsed], format: str) -> base.Written:
    """Write documents made by `make_document` as files of a format; a single-text format gives one file each."""
    losses: Counter[str] = Counter()
    files = tuple(base.get_format(format).writer(documents, losses))
    return base.Written(files, +losses)


def _relaid(sentence: Sentence, chosen: base.Format) -> Sentence:
    """Return a sentence as another format notes it: of a document's running text, what stood before it there."""
    before = base.before_of(sentence) if chosen.by_document else None
    layout = SentenceLayout(chosen.id, {"before": before}) if before is not None else None
    return replace(sentence, layout=layout)


def _read_group(files: Sequence[base.NamedFile], format: str | None, options: dict[str, Any]) -> list[base.Parsed]:
    chosen = base.get_format(format) if format else sniff.guess_format(*files[0])
    if chosen.beside and len(dict(files)) < len(files):
        twice = next(name for name, count in Counter(name for name, _ in files).items() if count > 1)
        raise BadInput(f"Two files are called {twice!r}; those of a document are told apart by name.")
    made = chosen.options(**options)
    with without_collecting():
        parsed = list(chosen.reader(files, made))
    if errors := [error for document in parsed if (error := _refusal(document, made.skip_bad))]:
        raise _joined(errors)
    return parsed


def _refusal(parsed: base.Parsed, skip_bad: bool) -> BadInput | None:
    """Return why a document cannot be used; None if it can."""
    problems = tuple(map(str, parsed.problems))
    if problems and not skip_bad:
        return BadInput(describe(problems) + (f"\n{parsed.hint}" if parsed.hint else ""), problems)
    if not parsed.sentences:
        what = f"every sentence is bad. {describe(problems)}" if problems else "the file holds no sentence."
        return BadInput(f"{parsed.name}: {what}", problems)
    return None


def _storable_name(name: str) -> str:
    """Return a file's name as a document's: what is no text, or would not print, becomes `�`."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)


def _joined(errors: Sequence[BadInput]) -> BadInput:
    return BadInput("\n".join(map(str, errors)), tuple(line for error in errors for line in error.problems))


def _as_record(item: base.Record | LabelledSentence | Sentence) -> base.Record:
    if isinstance(item, base.Record):
        return item
    return base.Record(item) if isinstance(item, Sentence) else base.Record(item.sentence, item.spans)
