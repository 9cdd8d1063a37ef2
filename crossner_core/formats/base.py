"""What every format shares: records, problems, options, layouts, and the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats.source import Source, clip, decode
from crossner_core.schema import LabelledSentence, Sentence, Span

LAYOUT_KEY = "_layout"  # in sentence.meta: {format id: what that format needs to write this sentence as it came}
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Record:
    """A sentence of a file; `spans` is None where the file has no annotation, () where it says there is no entity."""

    sentence: Sentence
    spans: tuple[Span, ...] | None = None


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
        default_factory=dict, metadata={"doc": "The file's type name → ours; to an empty name: not an entity here."}
    )
    strict_map: str = field(
        default="", metadata={"doc": "Name of a type map that must name every type; if empty, others stay as they are."}
    )
    lenient: bool = field(default=False, metadata={"doc": "A stray I- begins an entity, as conlleval has it."})
    id_prefix: str | None = field(default=None, metadata={"doc": "Begins the ids of sentences that have none."})
    max_tokens: int = field(default=2_000, metadata={"doc": "Most tokens in a sentence."})
    max_line: int = field(default=100_000, metadata={"doc": "Most characters in a line."})

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.max_line < 1:
            raise InvalidConfig(f"max_tokens ({self.max_tokens}) and max_line ({self.max_line}) must be at least 1.")

    def our_type(self, theirs: str) -> str:
        """Rename a type of the file, empty where it is left out; raise BadInput at one that may not be there."""
        if self.strict_map and theirs not in self.type_map:
            raise BadInput(
                f"entity type {clip(theirs)} is not in the type map {self.strict_map}, which has "
                f"{', '.join(self.type_map)}; add it there, or read the file without that map."
            )
        ours = self.type_map.get(theirs, theirs)
        if ours and self.types is not None and ours not in self.types:
            named = clip(theirs) if ours == theirs else f"{clip(theirs)}, here {clip(ours)},"
            raise BadInput(f"entity type {named} is not one of {', '.join(self.types)}; rename it by a type map.")
        return ours


@dataclass(frozen=True)
class Layout:
    """How a file was laid out, so that it can be written as it came; all values fit JSON."""

    newline: str = "\n"
    bom: bool = False
    tail: str | None = None  # what follows the last sentence; None: one newline
    type_map: Mapping[str, str] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """The id of the format this is a layout of."""
        return next(id for id, known in _FORMATS.items() if known.layout_type is type(self))

    def to_dict(self) -> dict[str, Any]:
        """Give a JSON-able form, which `layout_from_dict` reads."""
        return {"format": self.format, **asdict(self)}

    def our_spans(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Rename the types of a file's spans to ours, without those that the type map leaves out."""
        renamed = (Span(span.start, span.end, self.type_map.get(span.type, span.type)) for span in spans)
        return tuple(span for span in renamed if span.type)

    def outer_type(self, type_name: str) -> str:
        """Give the file's name for one of our types."""
        return next((theirs for theirs, ours in self.type_map.items() if ours == type_name), type_name)


@dataclass(frozen=True)
class Parsed:
    """What a file held: its sentences in order, the problems of those left out, and its layout."""

    name: str
    format: str
    sentences: tuple[Record, ...]
    problems: tuple[Problem, ...]
    layout: Layout

    @property
    def labelled(self) -> tuple[LabelledSentence, ...]:
        """The sentences that carry an annotation, an empty one included."""
        return tuple(LabelledSentence(r.sentence, r.spans) for r in self.sentences if r.spans is not None)

    @property
    def type_names(self) -> tuple[str, ...]:
        """The entity types used, sorted."""
        return tuple(sorted({span.type for record in self.sentences for span in record.spans or ()}))


class Reader(Protocol):
    """Read decoded text; gather problems in `source`, each under the line it is found on."""

    def __call__(self, source: Source, options: Any) -> tuple[list[Record], Layout]: ...


class Writer(Protocol):
    """Write records in order as one text."""

    def __call__(self, records: Sequence[Record], layout: Any) -> str: ...


@dataclass(frozen=True)
class Format:
    """A file format: stable id, title, suffixes it goes by, and its reader and writer."""

    id: str
    title: str
    suffixes: tuple[str, ...]
    reader: Reader
    writer: Writer
    options_type: type[ReadOptions] = ReadOptions
    layout_type: type[Layout] = Layout

    def options(self, **values: Any) -> ReadOptions:
        """Make this format's options; raise InvalidConfig at a name it does not know."""
        valid = [option.name for option in fields(self.options_type)]
        if unknown := sorted(set(values) - set(valid)):
            raise InvalidConfig(f"Format {self.id} has no option {', '.join(unknown)}; it has {', '.join(valid)}.")
        return self.options_type(**values)


_FORMATS: dict[str, Format] = {}


def register(new: Format) -> Format:
    """Add a format to the registry; a second one of the same id is a programming error."""
    if new.id in _FORMATS:
        raise InvalidConfig(f"Two formats are called {new.id!r}.")
    _FORMATS[new.id] = new
    return new


def format_ids() -> tuple[str, ...]:
    """The ids of all formats, sorted."""
    return tuple(sorted(_FORMATS))


def get_format(id: str) -> Format:
    """Find a format; raise InvalidConfig naming those there are."""
    if id not in _FORMATS:
        raise InvalidConfig(f"Unknown format {id!r}; known are {', '.join(format_ids())}.")
    return _FORMATS[id]


def layout_from_dict(values: Mapping[str, Any]) -> Layout:
    """Make a layout from what `Layout.to_dict` gave."""
    own = {key: value for key, value in values.items() if key != "format"}
    layout_type = get_format(values["format"]).layout_type
    valid = [part.name for part in fields(layout_type)]
    if unknown := sorted(set(own) - set(valid)):
        raise InvalidConfig(f"Unknown layout keys {', '.join(unknown)}; valid are {', '.join(valid)}.")
    return layout_type(**own)


def open_file(path: str | Path, format: str | None = None, *, name: str | None = None, **options: Any) -> Parsed:
    """Read a file; its format is guessed by suffix and content where it is not given.

    Raises BadInput listing file, line and reason if anything is wrong, unless `skip_bad=True`.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    return read_bytes(data, name=name or path.name, format=format, **options)


def read_bytes(data: bytes, *, name: str, format: str | None = None, **options: Any) -> Parsed:
    """Read the bytes of a file called `name` (an upload); else as `open_file`."""
    from crossner_core.formats.sniff import guess_format

    source = decode(data, name)
    chosen = get_format(format) if format else guess_format(source)
    made = chosen.options(**options)
    source.check_lines(made.max_line)
    records, layout = chosen.reader(source, made)
    problems = tuple(Problem(name, line, reason) for line, reason in sorted(source.problems))
    if problems and not made.skip_bad:
        if problems[-1].line == len(source.lines) and not source.text.endswith(("\n", "\r")):
            source.hint = f"{name} has no line end after line {len(source.lines):,}: if it ends in the middle of "
            source.hint += "that, as a copy that broke off does, get the file again."
        text = describe(problems) + (f"\n{source.hint}" if source.hint else "")
        raise BadInput(text, tuple(map(str, problems)))
    if not records:
        what = f"every sentence is bad. {describe(problems)}" if problems else "the file holds no sentence."
        raise BadInput(f"{name}: {what}", tuple(map(str, problems)))
    return Parsed(name, chosen.id, tuple(records), problems, layout)


def write(records: Iterable[Record | LabelledSentence | Sentence], format: str, layout: Layout | None = None) -> str:
    """Write records as text; with the layout they came in, unchanged ones come out as they came.

    Encoding is the caller's (UTF-8, newlines as they are). Raises BadInput if a record cannot be said in that format.
    """
    chosen = get_format(format)
    if layout is not None and type(layout) is not chosen.layout_type:
        raise InvalidConfig(f"A layout of format {layout.format} does not fit format {chosen.id}.")
    own = layout if layout is not None else chosen.layout_type()
    return ("\ufeff" if own.bom else "") + chosen.writer([_as_record(one) for one in records], own)


def _as_record(one: Record | LabelledSentence | Sentence) -> Record:
    if isinstance(one, Record):
        return one
    return Record(one) if isinstance(one, Sentence) else Record(one.sentence, one.spans)


def describe(problems: Sequence[Problem]) -> str:
    """List the first problems, one a line, and say how many more there are."""
    lines = [str(problem) for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"… and {len(problems) - SHOWN} more problems.")
    return "\n".join(lines)


def own_layout(sentence: Sentence, format: str) -> Mapping[str, Any]:
    """Give what `format` left in the sentence's meta; empty if it came from elsewhere."""
    layout: Mapping[str, Any] = sentence.meta.get(LAYOUT_KEY, {}).get(format, {})
    return layout


def meta_with(own: Mapping[str, Any], format: str, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Join meta and a format's own layout of one sentence; nothing is added where there is none."""
    return {**(meta or {}), **({LAYOUT_KEY: {format: dict(own)}} if own else {})}


def join_pieces(pieces: Iterable[str], records: Sequence[Record], format: str, gap: str, layout: Layout) -> str:
    """Join sentences with what stood between them; `gap` where a sentence does not say."""
    parts: list[str] = []
    for piece, record in zip(pieces, records, strict=True):
        parts += [own_layout(record.sentence, format).get("before", gap if parts else ""), piece]
    parts.append(layout.newline if layout.tail is None else layout.tail)
    return "".join(parts)
