"""Findings of checks (a place in the gold, its spans, proposed spans, a score and a reason), and the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crossner_core.errors import BadInput
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.registry import Registry
from crossner_core.schema import LabelledSentence, Sentence, Span

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder

# What can be wrong at a place. `conflict`: a near-duplicate is labelled differently; `leak`: another split has the
# sentence.
KINDS = ("type", "boundary", "boundary+type", "missing", "extra", "conflict", "leak")


@dataclass(frozen=True)
class Gold:
    """The sentences to look at, each with its split, and the domain's types in order, with their titles if known."""

    items: tuple[LabelledSentence, ...]
    splits: tuple[str, ...]
    types: tuple[str, ...]
    titles: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.items:
            raise BadInput("There is no gold yet, so nothing to look at again; adjudicate some sentences first.")

    def title(self, type_name: str) -> str:
        """Return what people call a type."""
        return self.titles.get(type_name, type_name)


@dataclass(frozen=True, slots=True)
class Finding:
    """A doubt about tokens `[start, end)` of item `item`; `there` are all spans that touch them.

    `score` in [0, 1] ranks the findings of one check. `proposed` would replace `there`; the two are equal if nothing is
    proposed. `other` is the item it is compared with, whose spans there are `other_there`. The probabilities are what
    each side has where the two differ: from models that did not learn from the item, or shares of the same words in
    gold; None if the check has neither.
    """

    item: int
    kind: str
    start: int
    end: int
    there: tuple[Span, ...]
    proposed: tuple[Span, ...]
    score: float
    why: str
    other: int | None = None
    other_there: tuple[Span, ...] = ()
    proposed_probability: float | None = None
    present_probability: float | None = None


@dataclass(frozen=True)
class Desk:
    """The context of a check: a loaded encoder, a callback to stop, and a callback for progress."""

    encoder: Encoder | None = None
    should_stop: Callable[[], bool] = lambda: False
    report: Callable[[float], None] = field(default=lambda share: None)


Find = Callable[[Gold, LabelReviewOptions, Desk], "list[Finding] | None"]


@dataclass(frozen=True, slots=True)
class Check:
    """A check by its id; `line` describes what it finds; `find` returns None when stopped."""

    id: str
    title: str
    line: str
    find: Find


CHECKS: Registry[Check] = Registry("crossner_core.label_review.checks", "check", by_name=True)


def register(id: str, title: str, line: str) -> Callable[[Find], Find]:
    """Register a function as the check of the file's name."""

    def keep(find: Find) -> Find:
        CHECKS.add(id, Check(id, title, line, find))
        return find

    return keep


def check_ids() -> tuple[str, ...]:
    """Return the ids of all checks, sorted."""
    return CHECKS.ids()


def check(id: str) -> Check:
    """Return a check; raise InvalidConfig naming the known ones."""
    return CHECKS.one(id)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the most doubtful first; the order is deterministic."""
    return sorted(
        findings, key=lambda finding: (-finding.score, finding.item, finding.start, finding.end, finding.other or 0)
    )


def touching(spans: Iterable[Span], start: int, end: int) -> tuple[Span, ...]:
    """Return the spans that share a token with `[start, end)`, in order."""
    return tuple(sorted(span for span in spans if span.start < end and start < span.end))


def in_words(sentence: Sentence, spans: Sequence[Span], titles: Mapping[str, str] | None = None) -> str:
    """Return spans as readable text: surface (type), the type by its title if there are any."""
    named = titles or {}
    words = (f"{sentence.surface(span.start, span.end)} ({named.get(span.type, span.type)})" for span in spans)
    return ", ".join(words) or "no entity"
