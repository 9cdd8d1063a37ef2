"""A person's work on one task: read from untrusted JSON, from rows, and written back as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import AfterValidator, Field, Strict

from crossner_core.errors import BadInput, InvalidSpan, UnknownType
from crossner_core.records import read
from crossner_core.schema import Sentence, Span, check_spans, is_entity
from db.tables import CHOICES, Annotation
from workbench.labelling.json_fields import Text, Truth, Whole, among

SPAN_ORIGINS = ("new", "accepted", "retyped", "moved", "identical", "kept", "confirmed", "first", "second", "other")
_MAX_COMMENT = 4_000
_MAX_NOTE = 1_000
_MAX_MARKS = 2_000
_EXAMPLE = "http://dbpedia.org/resource/Jazz"


def _entity(value: str) -> str:
    if not is_entity(value):
        raise ValueError(f"is {value[:60]!r}; allowed are NIL and the address of a resource, such as {_EXAMPLE}.")
    return value


_Name = Annotated[Text, Field(max_length=200)]
_Entity = Annotated[Text, AfterValidator(_entity)]
_Marks = Field(max_length=_MAX_MARKS)


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """A span somebody decided on; `origin` is how it came about.

    With `elsewhere` the same words are proposed in other sentences for as long as this span stands. `entity` is the
    resource that it names, as in `Span`.
    """

    start: Whole
    end: Whole
    type: _Name
    surface: Annotated[str, Strict()]
    origin: Annotated[Text, among(SPAN_ORIGINS)] = "new"
    elsewhere: Truth = False
    entity: _Entity | None = None

    @property
    def span(self) -> Span:
        return Span(self.start, self.end, self.type, self.entity)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A suggestion somebody deleted."""

    start: Whole
    end: Whole
    type: _Name
    source: _Name


@dataclass(frozen=True, slots=True)
class Flag:
    """Annotator 2's mark on a span of annotator 1."""

    start: Whole
    end: Whole
    type: _Name
    note: Annotated[Text, Field(max_length=_MAX_NOTE)] = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The expert's choice for one unit."""

    unit: Whole
    choice: Annotated[Text, among(CHOICES)]


@dataclass(frozen=True, slots=True)
class Work:
    """A full snapshot of what somebody did on one task; an `example` is shown to all beside the guidelines."""

    spans: Annotated[tuple[WorkSpan, ...], _Marks] = ()
    rejected: Annotated[tuple[Rejected, ...], _Marks] = ()
    flags: Annotated[tuple[Flag, ...], _Marks] = ()
    decisions: Annotated[tuple[Choice, ...], _Marks] = ()
    no_entities: Truth = False
    comment: Annotated[Text, Field(max_length=_MAX_COMMENT)] = ""
    example: Truth = False

    @property
    def proposed_elsewhere(self) -> dict[tuple[str, str], tuple[int, int]]:
        """What is proposed in other sentences: words and type, with the place of the first such span."""
        asking = [span for span in self.spans if span.elsewhere]
        return {(span.surface, span.type): (span.start, span.end) for span in reversed(asking)}

    @property
    def plain_spans(self) -> tuple[Span, ...]:
        return tuple(span.span for span in self.spans)


def work_of(annotation: Annotation) -> Work:
    """Return the stored work of an annotation."""
    return Work(
        spans=tuple(
            WorkSpan(s.start, s.end, s.type, s.surface, s.origin, s.elsewhere, s.entity) for s in annotation.spans
        ),
        rejected=tuple(Rejected(r.start, r.end, r.type, r.source) for r in annotation.rejected),
        flags=tuple(Flag(f.start, f.end, f.type, f.note) for f in annotation.flags),
        decisions=tuple(Choice(d.unit, d.choice) for d in annotation.decisions),
        no_entities=annotation.no_entities,
        comment=annotation.comment,
        example=annotation.example,
    )


def parse_work(raw: object, *, sentence: Sentence, types: Iterable[str]) -> Work:
    """Read untrusted JSON; raise BadInput, InvalidSpan or UnknownType at the first thing that is not allowed."""
    work = read(Work, raw, "work")
    for span in work.spans:
        _check_place("span", span, sentence)
        _check_surface(span, sentence)
    check_spans(sentence, work.plain_spans)
    known = tuple(types)
    for span in work.spans:
        if span.type not in known:
            raise UnknownType(
                f"The type {span.type!r} of {span.surface!r} is not one of this campaign: {', '.join(known)}."
            )
    for suggestion in work.rejected:
        _check_place("rejected suggestion", suggestion, sentence)
    for flag in work.flags:
        _check_place("flag", flag, sentence)
    if work.no_entities and work.spans:
        raise BadInput(f"The sentence is marked as having no entities, but has {len(work.spans)}; remove either.")
    return replace(
        work,
        spans=tuple(sorted(work.spans, key=lambda span: span.start)),
        rejected=tuple(sorted(set(work.rejected), key=lambda mark: (mark.start, mark.end, mark.type, mark.source))),
        flags=_flags(work.flags),
        decisions=_choices(work.decisions),
    )


def _check_place(what: str, mark: WorkSpan | Rejected | Flag, sentence: Sentence) -> None:
    if not 0 <= mark.start < mark.end <= len(sentence.tokens):
        raise InvalidSpan(f"The {what} [{mark.start}, {mark.end}) lies outside the {len(sentence.tokens)} tokens.")


def _check_surface(span: WorkSpan, sentence: Sentence) -> None:
    surface = sentence.surface(span.start, span.end)
    if span.surface != surface:
        raise InvalidSpan(
            f"The span [{span.start}, {span.end}) came with the text {span.surface!r}, but covers {surface!r}; "
            "drop your changes to reload the sentence."
        )


def _flags(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """Return one flag per place, in order; of two, the one with a note stays."""
    by_place: dict[tuple[int, int], Flag] = {}
    for flag in sorted(flags, key=lambda flag: bool(flag.note)):
        by_place[flag.start, flag.end] = flag
    return tuple(by_place[extent] for extent in sorted(by_place))


def _choices(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    by_unit: dict[int, Choice] = {}
    for choice in choices:
        if choice.unit in by_unit:
            raise BadInput(f"Unit {choice.unit} is decided twice; one decision for each is allowed.")
        by_unit[choice.unit] = choice
    return tuple(by_unit[unit] for unit in sorted(by_unit))
