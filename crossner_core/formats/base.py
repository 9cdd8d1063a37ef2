"""What every format shares: records, problems, options, layouts, and the registry."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import PurePosixPath
from typing import Any, Protocol

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats.source import Data, clip
from crossner_core.records import Record as JsonRecord
from crossner_core.records import read as read_record
from crossner_core.registry import Registry
from crossner_core.schema import LabelledSentence, Sentence, SentenceLayout, Span

HEAD = 8192
NEWLINES = ("\n", "\r\n", "\r")
NamedFile = tuple[str, bytes]  # name, or path relative to the documents' folder, with "/"
InputFile = tuple[str, Data]  # the same of a file to read, which need not be in memory


@dataclass(frozen=True, slots=True)
class Work:
    """What stands in a layer for a sentence: spans, by whom, and since when.

    Of suggestions `proposed` has the source and the score of each span.
    """

    spans: tuple[Span, ...]
    by: str = ""
    when: dt.datetime | None = None
    proposed: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A sentence of a file; `spans` is None where the file has no annotation, () where it states there is none.

    To be written with other layers beside, `layers` has them by name, that of its spans, `layer`, included.
    """

    sentence: Sentence
    spans: tuple[Span, ...] | None = None
    layers: Mapping[str, Work] = field(default_factory=dict)
    layer: str = "gold"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a line (counted from 1) of a file."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file, whatever its format."""

    skip_bad: bool = field(
        default=False, metadata={"doc": "Leave bad sentences out and report them; else refuse the file."}
    )
    types: tuple[str, ...] | None = field(default=None, metadata={"doc": "Entity types allowed; all if not given."})
    type_map: Mapping[str, str] = field(
        default_factory=dict, metadata={"doc": "The file's type name → ours; an empty name leaves the type out."}
    )
    strict_map: str = field(
        default="", metadata={"doc": "Name of a type map that must name every type; if empty, others stay as they are."}
    )
    lenient: bool = field(default=False, metadata={"doc": "A stray I- begins an entity, as in conlleval."})
    id_prefix: str | None = field(default=None, metadata={"doc": "Prefix of the ids given to sentences without one."})
    max_tokens: int = field(default=2_000, metadata={"doc": "Maximum number of tokens in a sentence."})
    max_line: int = field(default=100_000, metadata={"doc": "Maximum number of characters in a line."})

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.max_line < 1:
            raise InvalidConfig(f"max_tokens ({self.max_tokens}) and max_line ({self.max_line}) must be at least 1.")

    def our_type(self, theirs: str) -> str:
        """Return our name of a type of the file, empty if it is left out; raise BadInput if it is not allowed."""
        if self.strict_map and theirs not in self.type_map:
            raise BadInput(
                f"entity type {clip(theirs)} is not in the type map {self.strict_map}, which has "
                f"{', '.join(self.type_map)}; add it there, or read the file without that map."
            )
        ours = self.type_map.get(theirs, theirs)
        if not ours.isprintable() or ours != ours.strip():
            raise BadInput(
                f"entity type {clip(ours)} has a character that a tag cannot hold, or white space at an end; rename it "
                "with a type map."
            )
        if ours and self.types is not None and ours not in self.types:
            named = clip(theirs) if ours == theirs else f"{clip(theirs)}, here {clip(ours)},"
            raise BadInput(f"entity type {named} is not one of {', '.join(self.types)}; rename it with a type map.")
        return ours


@dataclass(frozen=True)
class Layout:
    """How a file, or the files of a document, were laid out, so that they can be written back unchanged.

    All values are JSON-serializable. They are stored with each sentence: long values belong in the sentences' notes.
    """

    newline: str = "\n"
    bom: bool = False
    tail: str | None = None  # what follows the last sentence; None: one newline
    type_map: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.newline not in NEWLINES:
            raise InvalidConfig(
                f"A layout's newline is {self.newline!r}; allowed are {', '.join(map(repr, NEWLINES))}."
            )

    @property
    def gap(self) -> str:
        """What stands between two sentences where neither notes anything else."""
        return self.newline

    @property
    def format(self) -> str:
        """The id of the format this is a layout of."""
        return next(id for id, known in FORMATS.items() if known.layout_type is type(self))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable form, which `layout_from_dict` reads."""
        return {"format": self.format, **asdict(self)}

    def our_spans(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Rename the types of a file's spans to ours, without those that the type map leaves out."""
        renamed = (replace(span, type=self.type_map.get(span.type, span.type)) for span in spans)
        return tuple(span for span in renamed if span.type)

    def outer_type(self, type_name: str) -> str:
        """Return the file's name for one of our types."""
        return next((theirs for theirs, ours in self.type_map.items() if ours == type_name), type_name)


@dataclass(frozen=True)
class Parsed:
    """What a file, or the files of one document, hold: its sentences in order and its layout.

    `problems` concern sentences that were left out, `hint` is what to do about them; `losses` counts by kind what the
    file holds but a record cannot (`{"relations": 3}`); `notes` say how it was read where it could be read otherwise.
    A reader may give a document in pieces, all but the last `more`: each with its own problems and losses, and the last
    with the layout, hint and notes of all.
    """

    name: str
    format: str
    sentences: tuple[Record, ...]
    problems: tuple[Problem, ...]
    layout: Layout
    losses: Mapping[str, int] = field(default_factory=dict)
    hint: str = ""
    notes: tuple[str, ...] = ()
    more: bool = False

    @property
    def labelled(self) -> tuple[LabelledSentence, ...]:
        """The sentences that carry an annotation, an empty one included."""
        return tuple(LabelledSentence(r.sentence, r.spans) for r in self.sentences if r.spans is not None)

    @property
    def type_names(self) -> tuple[str, ...]:
        """The entity types used, sorted."""
        return tuple(sorted({span.type for record in self.sentences for span in record.spans or ()}))


def in_pieces(pieces: Iterable[Parsed]) -> Iterator[list[Parsed]]:
    """Yield the pieces of each document."""
    held: list[Parsed] = []
    for piece in pieces:
        held.append(piece)
        if not piece.more:
            yield held
            held = []


def whole(pieces: Sequence[Parsed]) -> Parsed:
    """Put the pieces of a document together."""
    last = pieces[-1]
    if len(pieces) == 1:
        return last
    return replace(
        last,
        sentences=tuple(record for piece in pieces for record in piece.sentences),
        problems=tuple(problem for piece in pieces for problem in piece.problems),
        losses=sum((Counter(piece.losses) for piece in pieces), Counter[str]()),
    )


@dataclass(frozen=True)
class Written:
    """Files to write, and counts by kind of what the sentences have but the files do not hold."""

    files: tuple[NamedFile, ...]
    losses: Mapping[str, int]


@dataclass(frozen=True)
class Notes(JsonRecord):
    """What a format notes of a sentence besides the layout of its file, where it is needed; a format adds fields."""

    before: str = ""  # what stood between it and the sentence before


class Reader(Protocol):
    """Read files into documents (one per file unless the format is `by_document`), problems included.

    Of a file it reads no more than it needs for what it yields, where the format allows.
    """

    def __call__(self, files: Sequence[InputFile], options: Any) -> Iterable[Parsed]: ...


class Writer(Protocol):
    """Write documents as files; count by kind in `losses` what these cannot hold."""

    def __call__(self, documents: Sequence[Parsed], losses: Counter[str]) -> Iterable[NamedFile]: ...


@dataclass(frozen=True)
class Format:
    """A file format: stable id, title, file suffixes, reader and writer.

    A format `by_document` writes each document by itself, as files of its own or all in `one_file`; `beside` lists
    suffixes of companion files with the same stem, or full names of files shared by all (`(".txt",
    "annotation.conf")`), and all files of such a format are read at once.
    A file whose beginning (`HEAD` bytes) matches `content` is of this format, whatever its name; a format that
    `is_chosen` is never guessed. One that is only read has `no_writer`, the reason; one that `holds_entities` keeps to
    which resources spans are linked; one that `holds_layers` writes the layers of records, and counts what it cannot.
    One that `annotates_documents` says of whole documents alone that somebody annotated them.
    Single-text formats are made by `text.text_format`. `bytes_per_second` is about
    how many are imported in a second.
    """

    id: str
    title: str
    suffixes: tuple[str, ...]
    reader: Reader
    writer: Writer
    options_type: type[ReadOptions] = ReadOptions
    layout_type: type[Layout] = Layout
    notes_type: type[Notes] = Notes
    by_document: bool = False
    one_file: bool = False
    beside: tuple[str, ...] = ()
    content: re.Pattern[bytes] | None = None
    is_chosen: bool = False
    example: str = ""
    no_writer: str = ""
    holds_entities: bool = False
    holds_layers: bool = False
    annotates_documents: bool = False
    bytes_per_second: int = 500_000

    def options(self, **values: Any) -> ReadOptions:
        """Make this format's options; raise InvalidConfig for an unknown name."""
        valid = [option.name for option in fields(self.options_type)]
        if unknown := sorted(set(values) - set(valid)):
            raise InvalidConfig(f"Format {self.id} has no option {', '.join(unknown)}; it has {', '.join(valid)}.")
        return self.options_type(**values)

    def owns(self, name: str, names: Collection[str]) -> bool:
        """Tell by name whether a file among others is of this format, or a companion of one that is."""
        path = PurePosixPath(name)
        if path.suffix.lower() in self.suffixes or path.name in self.beside:
            return True
        return path.suffix in self.beside and any(str(path.with_suffix(suffix)) in names for suffix in self.suffixes)


ENTITY_LINKS = "links of entities to resources"
"""The kind of loss where a file does not hold to which resources entities are linked."""

FORMATS: Registry[Format] = Registry("crossner_core.formats", "format", apart=("base",))


def register(new: Format) -> Format:
    """Add a format to the registry; a second one of the same id is a programming error."""
    return FORMATS.add(new.id, new)


def format_ids() -> tuple[str, ...]:
    """The ids of all formats, sorted."""
    return FORMATS.ids()


def written_ids() -> tuple[str, ...]:
    """The ids of the formats that are written, too, sorted."""
    return tuple(id for id in format_ids() if not get_format(id).no_writer)


def own_options(id: str) -> tuple[Field[Any], ...]:
    """The options of a format besides those that all have."""
    shared = {option.name for option in fields(ReadOptions)}
    return tuple(option for option in fields(get_format(id).options_type) if option.name not in shared)


def options_from_text(id: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Read a format's own options from text, lists cut at blanks; raise InvalidConfig naming those that there are."""
    known = {option.name: option for option in own_options(id)}
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            listed = ", ".join(known) or "none of its own"
            raise InvalidConfig(f"Format {id} has no option {name!r}; it has {listed}.")
        kind = str(known[name].type)
        try:
            made[name] = _VALUES[kind](value)
        except (KeyError, ValueError) as error:
            raise InvalidConfig(f"{name} is {value!r}, which is no {kind}; {known[name].metadata['doc']}") from error
    return made


_VALUES: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "str | None": str,
    "int | None": int,
    "tuple[str, ...]": lambda value: tuple(value.split()),
    "bool": lambda value: {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[
        value.lower()
    ],
}


def known_suffixes() -> tuple[str, ...]:
    """The suffixes of all files that any format reads, sorted."""
    names = {name for known in map(get_format, format_ids()) for name in (*known.suffixes, *known.beside)}
    return tuple(sorted({PurePosixPath(f"x{name}").suffix for name in names}))


def get_format(id: str) -> Format:
    """Return a format; raise InvalidConfig listing the known ones."""
    return FORMATS.one(id)


def layout_from_dict(values: Mapping[str, Any]) -> Layout:
    """Make a layout from what `Layout.to_dict` returned."""
    own = {key: value for key, value in values.items() if key != "format"}
    layout_type = get_format(values["format"]).layout_type
    valid = [part.name for part in fields(layout_type)]
    if unknown := sorted(set(own) - set(valid)):
        raise InvalidConfig(f"Unknown layout keys {', '.join(unknown)}; valid are {', '.join(valid)}.")
    return layout_type(**own)


def check_layout(sentence: SentenceLayout) -> None:
    """Raise BadInput or InvalidConfig where a kept layout is not what its format writes; unknown formats are free."""
    values = sentence.file.layout if sentence.file is not None else {"format": ""}
    for what, kept in (("notes", sentence.notes), ("layout", values)):
        if not isinstance(kept, Mapping):
            raise BadInput(f"the {what} of {sentence.format} must be an object, not {clip(repr(kept))}.")
    if sentence.format in format_ids():
        read_record(get_format(sentence.format).notes_type, sentence.notes, f"the notes of {sentence.format}")
    if read_record(str, values["format"], "the layout's format") in format_ids():
        layout = layout_from_dict(values)
        own = {name: value for name, value in values.items() if name != "format"}
        if read_record(type(layout), own, "the layout") != layout:
            raise BadInput(f"the layout has values of another kind: {clip(repr(own), 200)}.")


def notes_of(sentence: Sentence, format: str) -> Mapping[str, Any]:
    """Return what `format` needs to write the sentence back unchanged; empty if it was read from another format."""
    return sentence.layout.notes if sentence.layout is not None and sentence.layout.format == format else {}


def before_of(sentence: Sentence) -> str | None:
    """Return what stood before a sentence in its document's running text, from whatever format; None without such."""
    if sentence.offset is None or sentence.layout is None:
        return None
    layout = _file_layout(sentence)
    first = "" if sentence.offset == 0 else layout.gap if layout is not None else " "
    return str(sentence.layout.notes.get("before", first))


def tail_of(sentence: Sentence) -> str | None:
    """Return what follows the last sentence of a document's running text, as a layout has it."""
    layout = _file_layout(sentence)
    return layout.tail if layout is not None and sentence.offset is not None else None


def _file_layout(sentence: Sentence) -> Layout | None:
    file = sentence.layout.file if sentence.layout is not None else None
    return layout_from_dict(file.layout) if file is not None and file.layout.get("format") in format_ids() else None


def join_pieces(
    pieces: Iterable[str], records: Sequence[Record], format: str, gap: str, layout: Layout, *, apart: str = ""
) -> str:
    """Join sentences with the text that stood between them; `gap` where a sentence has none noted.

    The gap is also put before text that does not begin with `apart`, a regular expression: what a file began with
    need not come first again.
    """
    begins = re.compile(apart)
    parts: list[str] = []
    for piece, record in zip(pieces, records, strict=True):
        before = notes_of(record.sentence, format).get("before", gap if parts else "")
        parts += [before if not parts or begins.match(before) else gap + before, piece]
    parts.append(layout.newline if layout.tail is None else layout.tail)
    return "".join(parts)
