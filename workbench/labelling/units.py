"""Compare two annotators' spans: one unit for each entity they agree or disagree about. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crossner_core.errors import BadInput
from crossner_core.schema import Span
from workbench.labelling.work import Choice, Flag

KINDS = ("agree", "flagged", "boundary", "type", "boundary+type", "entity", "missing", "extra")


@dataclass(frozen=True, slots=True)
class Unit:
    """The spans of annotator 1 (`first`) and annotator 2 (`second`) for one entity; `note` is annotator 2's.

    missing: only annotator 2 has it; extra: only annotator 1 has it; entity: both have it, linked to different
    resources; flagged: both have it, but annotator 2 doubts it.
    """

    kind: str
    first: Span | None
    second: Span | None
    note: str = ""

    @property
    def extent(self) -> tuple[int, int]:
        """Tokens `[start, end)` that either span covers."""
        spans = [span for span in (self.first, self.second) if span]
        return min(span.start for span in spans), max(span.end for span in spans)


def units(first: Iterable[Span], second: Iterable[Span], flags: Iterable[Flag] = ()) -> tuple[Unit, ...]:
    """Pair the spans, each at most once, and return the units in the order of the text.

    The closest pairs go first: the same tokens, then the same type with the largest overlap, then any overlap.
    """
    notes = {(flag.start, flag.end): flag.note for flag in flags}
    left, right = sorted(set(first)), sorted(set(second))
    pairs = sorted(_rank(a, b) for a in left for b in right if a.start < b.end and b.start < a.end)
    units: list[Unit] = []
    used_left: set[Span] = set()
    used_right: set[Span] = set()
    for _, a, b in pairs:
        if a not in used_left and b not in used_right:
            used_left.add(a)
            used_right.add(b)
            units.append(_unit(a, b, notes))
    units += [_unit(a, None, notes) for a in left if a not in used_left]
    units += [_unit(None, b, notes) for b in right if b not in used_right]
    return tuple(sorted(units, key=lambda unit: (unit.extent, unit.kind)))


def _rank(a: Span, b: Span) -> tuple[tuple[int, int, int], Span, Span]:
    overlap = min(a.end, b.end) - max(a.start, b.start)
    same_place = (a.start, a.end) == (b.start, b.end)
    return (0 if same_place else 1 if a.type == b.type else 2, -overlap, a.start), a, b


def _unit(a: Span | None, b: Span | None, notes: Mapping[tuple[int, int], str]) -> Unit:
    note = notes.get((a.start, a.end), "") if a else ""
    if a is None or b is None:
        return Unit("missing" if a is None else "extra", a, b, note)
    wrong = [name for name, same in (("boundary", (a.start, a.end) == (b.start, b.end)), ("type", a.type == b.type))
             if not same]  # fmt: skip
    if wrong:
        return Unit("+".join(wrong), a, b, note)
    if a.entity != b.entity:
        return Unit("entity", a, b, note)
    return Unit("flagged" if (a.start, a.end) in notes else "agree", a, b, note)


def check_choices(found: Sequence[Unit], choices: Iterable[Choice], spans: Iterable[Span], *, complete: bool) -> None:
    """Raise BadInput for a choice about no unit, and, when `complete`, unless the choices and the spans agree.

    Complete means a choice for every unit, where `first` and `second` mean that annotator's span, or no entity
    where they have none, `none` neither, and `other` that at least one span of the expert touches the unit.
    """
    given, chosen = linked(spans), {choice.unit: choice.choice for choice in choices}
    unknown = [unit for unit in chosen if unit >= len(found)]
    if unknown:
        raise BadInput(f"There is no unit {unknown[0]}; this sentence has {len(found)}. Drop your changes.")
    if not complete:
        return
    undecided = [number for number in range(len(found)) if number not in chosen]
    if undecided:
        raise BadInput(f"{len(undecided)} of {len(found)} units are undecided; decide each before submitting.")
    for number, choice in chosen.items():
        if not _holds(found[number], choice, given):
            raise BadInput(f"Unit {number} is decided as {choice!r}, but the spans do not match. Drop your changes.")


def linked(spans: Iterable[Span]) -> dict[Span, str | None]:
    """Return the spans with their entities, which are no part of what makes two spans equal."""
    return {span: span.entity for span in spans}


def holds(given: Mapping[Span, str | None], span: Span | None) -> bool:
    """Return whether a span is among those given, with the same entity."""
    return span is not None and span in given and given[span] == span.entity


def _holds(unit: Unit, choice: str, given: Mapping[Span, str | None]) -> bool:
    start, end = unit.extent
    if choice == "other":
        return any(span.start < end and start < span.end for span in given)
    wanted = {"first": unit.first, "second": unit.second, "none": None}[choice]
    unwanted = {unit.first, unit.second} - {wanted, None}
    return (wanted is None or holds(given, wanted)) and not unwanted & given.keys()
