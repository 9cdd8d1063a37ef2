"""Why a place was suggested or not, and which resources lost: for people who look at one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossner_core.gazetteer.disambiguation import why_lost
from crossner_core.gazetteer.places import Place
from crossner_core.schema import Sentence


@dataclass(frozen=True, slots=True)
class ExplainedCandidate:
    """A resource that a name might have stood for.

    `way` says how the name led to it (`title`, `redirect`, `suffix`, …), `source` which gazetteer knows it, `reason`
    why it won or lost.
    """

    entity: str
    address: str
    classes: tuple[str, ...]
    types: tuple[str, ...]
    way: str
    prior: int
    source: str
    won: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A place over tokens `[start, end)` that was considered, and what came of it.

    `source` is `link`, `page` or `dbpedia`. `case` says how much its letters look like a name, 0 if not at all.
    `won` tells whether it is a mention; it is a suggestion too where `type` is not None. `reason` says why.
    """

    start: int
    end: int
    surface: str
    source: str
    case: float
    score: float
    entity: str | None
    type: str | None
    won: bool
    reason: str
    candidates: tuple[ExplainedCandidate, ...]


def explanation(place: Place, sentence: Sentence, won: Sequence[Place], min_score: float) -> Explanation:
    """Explain one place of a sentence, given those that won."""
    choice, is_in = place.choice, any(place is one for one in won)
    return Explanation(
        place.start,
        place.end,
        sentence.surface(place.start, place.end),
        place.source,
        place.case,
        round(place.score, 4),
        choice.option.entity if choice is not None else None,
        place.type,
        is_in,
        _wins(place) if is_in else _loses(place, sentence, won, min_score),
        tuple(_candidates(place)),
    )


def _candidates(place: Place) -> Iterator[ExplainedCandidate]:
    choice = place.choice
    for one in place.options:
        won = choice is not None and one is choice.option
        reason = "" if choice is None else choice.reason if won else why_lost(one, choice)
        yield ExplainedCandidate(
            one.entity, one.address, one.classes, one.types, one.way, one.prior, one.source, won, reason
        )


def _wins(place: Place) -> str:
    return "the best at its place" if place.type is not None else "known, but no class of it has a type in the domain"


def _loses(place: Place, sentence: Sentence, won: Sequence[Place], min_score: float) -> str:
    if place.choice is None and place.type is None:
        return "no source knows a class of the linked page"
    over = [one for one in won if one.start < place.end and place.start < one.end]
    if over:
        return f"gives way to {sentence.surface(over[0].start, over[0].end)!r}"
    if place.case == 0.0:
        return "not written like a name: small letters, a stop word, or a word of a longer name"
    return f"scores below {min_score:g}" if place.score < min_score else "gives way to another name"
