"""A person's work on one task: read from untrusted JSON field by field, from rows, and written back as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from crossner_core.errors import BadInput, InvalidSpan, UnknownType
from crossner_core.schema import Sentence, Span, check_spans
from db.tables import CHOICES, Annotation
from workbench.labelling.json_fields import a_bool, a_list, a_text, an_int, an_object, one_of

SPAN_ORIGINS = ("new", "accepted", "retyped", "moved", "kept", "first", "second", "other")
_MAX_COMMENT = 4_000
_MAX_NOTE = 1_000
_MAX_MARKS = 2_000


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """A span somebody decided on; `origin` says how it came about."""

    start: int
    end: int
    type: str
    surface: str
    origin: str = "new"

    @property
    def span(self) -> Span:
        return Span(self.start, self.end, self.type)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A suggestion somebody deleted."""

    start: int
    end: int
    type: str
    source: str


@dataclass(frozen=True, slots=True)
class Flag:
    """Annotator 2's mark on a span of annotator 1."""

    start: int
    end: int
    type: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The expert's choice for one unit."""

    unit: int
    choice: str


@dataclass(frozen=True, slots=True)
class Work:
    """A full snapshot of what somebody did on one task."""

    spans: tuple[WorkSpan, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    flags: tuple[Flag, ...] = ()
    decisions: tuple[Choice, ...] = ()
    no_entities: bool = False
    comment: str = ""

    @property
    def plain_spans(self) -> tuple[Span, ...]:
        return tuple(span.span for span in self.spans)

    def to_json(self) -> dict[str, Any]:
        """Return the work as the editor's JSON."""
        return {
            "spans": [asdict(span) for span in self.spans],
            "rejected": [asdict(one) for one in self.rejected],
            "flags": [asdict(flag) for flag in self.flags],
            "decisions": [asdict(choice) for choice in self.decisions],
            "no_entities": self.no_entities,
            "comment": self.comment,
        }


def work_of(annotation: Annotation) -> Work:
    """Return the stored work of an annotation."""
    return Work(
        spans=tuple(WorkSpan(s.start, s.end, s.type, s.surface, s.origin) for s in annotation.spans),
        rejected=tuple(Rejected(r.start, r.end, r.type, r.source) for r in annotation.rejected),
        flags=tuple(Flag(f.start, f.end, f.type, f.note) for f in annotation.flags),
        decisions=tuple(Choice(d.unit, d.choice) for d in annotation.decisions),
        no_entities=annotation.no_entities,
        comment=annotation.comment,
    )


def parse_work(raw: object, *, sentence: Sentence, types: Iterable[str]) -> Work:
    """Read untrusted JSON; raise BadInput, InvalidSpan or UnknownType at the first thing that is not allowed."""
    fields = an_object(raw, "work")
    spans = [_span(one, sentence) for one in _marks(fields, "spans")]
    check_spans(sentence, (span.span for span in spans))
    known = tuple(types)
    for span in spans:
        if span.type not in known:
            raise UnknownType(
                f"The type {span.type!r} of {span.surface!r} is not one of this campaign: {', '.join(known)}."
            )
    work = Work(
        spans=tuple(sorted(spans, key=lambda span: span.start)),
        rejected=_distinct(_rejected(one, sentence) for one in _marks(fields, "rejected")),
        flags=_flags([_flag(one, sentence) for one in _marks(fields, "flags")]),
        decisions=_choices(_marks(fields, "decisions")),
        no_entities=a_bool(fields.get("no_entities", False), "no_entities"),
        comment=a_text(fields.get("comment", ""), "comment", at_most=_MAX_COMMENT),
    )
    if work.no_entities and work.spans:
        raise BadInput(f"The sentence is marked as having no entities, but has {len(work.spans)}; remove one of both.")
    return work


def _marks(fields: Mapping[str, Any], name: str) -> list[Any]:
    return a_list(fields.get(name, []), name, at_most=_MAX_MARKS)


def _place(raw: object, what: str, sentence: Sentence) -> tuple[dict[str, Any], int, int, str]:
    fields = an_object(raw, what)
    start, end = an_int(fields.get("start"), f"{what} start"), an_int(fields.get("end"), f"{what} end")
    if not 0 <= start < end <= len(sentence.tokens):
        raise InvalidSpan(f"The {what} [{start}, {end}) lies outside the {len(sentence.tokens)} tokens.")
    return fields, start, end, a_text(fields.get("type"), f"{what} type", at_most=200)


def _span(raw: object, sentence: Sentence) -> WorkSpan:
    fields, start, end, type_name = _place(raw, "span", sentence)
    surface = sentence.surface(start, end)
    if fields.get("surface") != surface:
        raise InvalidSpan(
            f"The span [{start}, {end}) says its text is {fields.get('surface')!r}, but it is {surface!r}; "
            "drop your changes to get the sentence afresh."
        )
    origin = one_of(fields.get("origin", "new"), "span origin", SPAN_ORIGINS)
    return WorkSpan(start, end, type_name, surface, origin)


def _rejected(raw: object, sentence: Sentence) -> Rejected:
    fields, start, end, type_name = _place(raw, "rejected suggestion", sentence)
    return Rejected(start, end, type_name, a_text(fields.get("source"), "source", at_most=200))


def _flag(raw: object, sentence: Sentence) -> Flag:
    fields, start, end, type_name = _place(raw, "flag", sentence)
    return Flag(start, end, type_name, a_text(fields.get("note", ""), "note", at_most=_MAX_NOTE))


def _distinct(rejected: Iterable[Rejected]) -> tuple[Rejected, ...]:
    return tuple(sorted(set(rejected), key=lambda one: (one.start, one.end, one.type, one.source)))


def _flags(flags: list[Flag]) -> tuple[Flag, ...]:
    """Return one flag a place, in order; of two the one with a note stays."""
    by_place: dict[tuple[int, int], Flag] = {}
    for flag in sorted(flags, key=lambda one: bool(one.note)):
        by_place[flag.start, flag.end] = flag
    return tuple(by_place[place] for place in sorted(by_place))


def _choices(raw: list[Any]) -> tuple[Choice, ...]:
    choices: dict[int, Choice] = {}
    for one in raw:
        fields = an_object(one, "decision")
        unit = an_int(fields.get("unit"), "unit")
        if unit in choices:
            raise BadInput(f"Unit {unit} is decided twice; one decision for each is allowed.")
        choices[unit] = Choice(unit, one_of(fields.get("choice"), "choice", CHOICES))
    return tuple(choices[unit] for unit in sorted(choices))
