"""Corpus formats: one module per format, with its reader and writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import base, layers, sniff
from crossner_core.formats.source import MOST_PROBLEMS, describe
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
        base.whole(every),
        name=name,
        layout=first.layout,
        hint=first.hint,
        notes=tuple(dict.fromkeys(note for document in every for note in document.notes)),
    )


def read_files(files: Sequence[base.InputFile], format: str | None = None, **options: Any) -> list[base.Parsed]:
    """Read files, each alone or together with those that belong to it (`group_files`); otherwise like `open_file`.

    All are read before any is refused, so that one error lists the problems of all.
    """
    with without_collecting():
        return [base.whole(pieces) for pieces in base.in_pieces(stream_files(files, format, **options))]


def stream_files(files: Sequence[base.InputFile], format: str | None = None, **options: Any) -> Iterator[base.Parsed]:
    """Yield what files hold as it is read, large documents in pieces; otherwise like `read_files`.

    What cannot be used is refused at the end, or once there are as many problems as a file may have: until then,
    nothing is to be kept for good.
    """
    files = [(_storable_name(name), data) for name, data in files]
    errors: list[BadInput] = []
    for chosen, group in group_files([name for name, _ in files], format):
        try:
            yield from _stream_group([files[index] for index in group], chosen, options, errors)
        except BadInput as error:
            errors.append(error)
    if errors:
        raise _joined(errors)


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
    wanted = base.get_format(format)
    files = tuple(wanted.writer(documents, losses))
    if not wanted.holds_entities:
        records = [record for document in documents for record in document.sentences]
        written = [record.spans or () for record in records]
        if wanted.holds_layers:
            others = ((name, record) for record in records for name in record.layers if name != record.layer)
            written += [record.layers[name].spans for name, record in others]
        losses[base.ENTITY_LINKS] += sum(span.entity is not None for spans in written for span in spans)
    if not wanted.holds_layers:
        layers.count_all(documents, losses)
    if wanted.annotates_documents:
        plain = [document for document in documents if not (wanted.holds_layers and layers.layer_names(document))]
        layers.count_bare(plain, losses)
    return base.Written(files, +losses)


def _relaid(sentence: Sentence, chosen: base.Format) -> Sentence:
    """Return a sentence as another format notes it: of a document's running text, what stood before it there."""
    before = base.before_of(sentence) if chosen.by_document else None
    layout = SentenceLayout(chosen.id, {"before": before}) if before is not None else None
    return replace(sentence, layout=layout)


def _stream_group(
    files: Sequence[base.InputFile], format: str | None, options: dict[str, Any], errors: list[BadInput]
) -> Iterator[base.Parsed]:
    chosen = base.get_format(format) if format else sniff.guess_format(*files[0])
    if chosen.beside and len(dict(files)) < len(files):
        twice = next(name for name, count in Counter(name for name, _ in files).items() if count > 1)
        raise BadInput(f"Two files are called {twice!r}; those of a document are told apart by name.")
    made = chosen.options(**options)
    problems, sentences = list[base.Problem](), 0
    for piece in chosen.reader(files, made):
        yield piece
        problems += piece.problems
        sentences += len(piece.sentences)
        if piece.more and (made.skip_bad or len(problems) < MOST_PROBLEMS):
            continue
        if error := _refusal(piece, problems, sentences, made.skip_bad):
            errors.append(error)
            if sum(len(each.problems) for each in errors) >= MOST_PROBLEMS:
                raise _joined(errors)
        problems, sentences = [], 0


def _refusal(last: base.Parsed, problems: Sequence[base.Problem], sentences: int, skip_bad: bool) -> BadInput | None:
    """Return why a document cannot be used, by its last piece and what all of them hold; None if it can."""
    listed = tuple(map(str, problems))
    if listed and not skip_bad:
        return BadInput(describe(listed) + (f"\n{last.hint}" if last.hint else ""), listed)
    if not sentences:
        what = f"every sentence is bad. {describe(listed)}" if listed else "the file holds no sentence."
        return BadInput(f"{last.name}: {what}", listed)
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
