"""The paper's four shares and the acceptance of suggestions, counted from plain values. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crossner_core.schema import Span, Suggestion
from crossner_core.suggest.base import is_from_names
from workbench.labelling.units import units

OUTCOMES = ("accepted", "retyped", "moved", "deleted", "ignored")


@dataclass(frozen=True, slots=True)
class Figure:
    """A share with its definition in words and the paper's value; `reason` states why the value is None."""

    name: str
    definition: str
    paper: float
    numerator: int
    denominator: int
    value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Outcome, with annotator 1, of the suggestions of one source and type."""

    source: str
    type: str
    accepted: int
    retyped: int
    moved: int
    deleted: int
    ignored: int

    @property
    def total(self) -> int:
        return self.accepted + self.retyped + self.moved + self.deleted + self.ignored

    @property
    def rate(self) -> float:
        """Share of the suggestions accepted as they were."""
        return self.accepted / self.total


@dataclass(frozen=True, slots=True)
class Material:
    """What is known of one sentence; a layer that is not submitted is None.

    `suggestions` are those shown, none overlapping another; `shown` is False for controls.
    """

    preannotated: bool
    shown: bool
    blind: bool
    links: int
    suggestions: tuple[Suggestion, ...]
    first: tuple[Span, ...] | None = None
    rejected: frozenset[tuple[int, int, str]] = frozenset()
    second: tuple[Span, ...] | None = None
    flags: int = 0
    gold: tuple[Span, ...] | None = None


def four_figures(material: Sequence[Material]) -> tuple[Figure, ...]:
    """Return the shares pre-annotated, corrected, flagged and changed by the expert."""
    return _preannotated(material), _corrected(material), _flagged(material), _changed(material)


def _figure(name: str, definition: str, paper: float, numerator: int, denominator: int, reason: str) -> Figure:
    value = numerator / denominator if denominator else None
    return Figure(name, definition, paper, numerator, denominator, value, "" if denominator else reason)


def _preannotated(material: Iterable[Material]) -> Figure:
    seen = [item for item in material if item.preannotated]
    return _figure(
        "pre-annotated",
        "Entities that the gazetteers suggest, divided by the entities with a hyperlink, in the sentences that have "
        "been pre-annotated. Suggestions of trained models do not count. Names without a link are suggested too, so "
        "it can go over 100 %.",
        0.6364,
        sum(is_from_names(s.source) for item in seen for s in item.suggestions),
        sum(item.links for item in seen),
        "No pre-annotated sentence has a hyperlink yet.",
    )


def _corrected(material: Iterable[Material]) -> Figure:
    seen = [item for item in material if item.first is not None and item.shown and item.preannotated]
    return _figure(
        "corrected",
        "Entities in which annotator 1's spans differ from the suggestions (added, retyped, moved, or a suggestion not "
        "taken over), divided by the entities with a hyperlink, in the sentences annotator 1 has submitted and saw "
        "suggestions for. The paper's value is above its pre-annotated share, so additions must count in it.",
        0.7333,
        sum(
            unit.kind != "agree"
            for item in seen
            for unit in units((s.span for s in item.suggestions), item.first or ())
        ),
        sum(item.links for item in seen),
        "Annotator 1 has submitted no sentence with suggestions and a hyperlink yet.",
    )


def _flagged(material: Iterable[Material]) -> Figure:
    seen = [item for item in material if item.second is not None and item.first is not None and not item.blind]
    return _figure(
        "flagged",
        "Entities of annotator 1 that annotator 2 flagged as perhaps wrong, divided by all entities of annotator 1, in "
        "the checked sentences. Blind checks are left out: there annotator 2 sees nothing to flag.",
        0.0859,
        sum(item.flags for item in seen),
        sum(len(item.first or ()) for item in seen),
        "No entity of annotator 1 has been checked yet.",
    )


def _changed(material: Iterable[Material]) -> Figure:
    changed = total = 0
    for item in material:
        if item.first is None or item.second is None or item.gold is None or item.blind:
            continue
        marked = units(item.first, item.second)
        extents = [unit.extent for unit in marked]
        gold = set(item.gold)
        added = [s for s in item.gold if not any(s.start < end and start < s.end for start, end in extents)]
        changed += len(added) + sum(unit.second not in gold if unit.second else unit.first in gold for unit in marked)
        total += len(added) + len(marked)
    return _figure(
        "changed by the expert",
        "Annotations whose gold is not what annotator 2 had left, divided by all annotations: each entity that "
        "annotator 1 or 2 marked and each one the expert added, in the adjudicated sentences. Blind checks are left "
        "out, since annotator 2 did not review annotator 1's work there.",
        0.0857,
        changed,
        total,
        "No checked sentence with an annotation has been adjudicated yet.",
    )


def acceptance(material: Iterable[Material]) -> tuple[Acceptance, ...]:
    """Return what became of the suggestions annotator 1 saw, by source and type, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for item in material:
        if item.first is not None and item.shown:
            for suggestion in item.suggestions:
                counts[suggestion.source, suggestion.type, outcome(suggestion, item.first, item.rejected)] += 1
    pairs = {(source, type_name) for source, type_name, _ in counts}
    made = [
        Acceptance(source, type_name, **{name: counts[source, type_name, name] for name in OUTCOMES})
        for source, type_name in pairs
    ]
    return tuple(sorted(made, key=lambda row: (row.source, -row.total, row.type)))


def outcome(suggestion: Suggestion, spans: Sequence[Span], rejected: frozenset[tuple[int, int, str]]) -> str:
    """Return the outcome of a suggestion with an annotator: one of `OUTCOMES`.

    deleted: removed by hand; ignored: still undecided when the sentence was submitted.
    """
    if suggestion.span in spans:
        return "accepted"
    if any((span.start, span.end) == (suggestion.start, suggestion.end) for span in spans):
        return "retyped"
    if any(span.start < suggestion.end and suggestion.start < span.end for span in spans):
        return "moved"
    return "deleted" if (suggestion.start, suggestion.end, suggestion.type) in rejected else "ignored"
