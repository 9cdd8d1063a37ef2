"""Proposals for a sentence: the suggestions of all sources merged, one score per span, its sources listed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from crossner_core.calibration.sources import (
    NO_GOLD,
    SourceWeights,
    learn_sources,
    log_odds,
    shifted,
    weigh,
)
from crossner_core.schema import Span, Suggestion
from crossner_core.suggest.base import kind_of, reads_sentences


@dataclass(frozen=True, slots=True)
class Proposal:
    """A span that one or more sources propose; `score` is the probability that start, end and type are correct.

    `sources` are listed best first. `group` states which sources agree, which propose an overlapping span instead, and
    whether a model read the sentence without suggesting anything here.
    """

    start: int
    end: int
    type: str
    score: float
    sources: tuple[str, ...]
    group: str
    entity: str | None = None

    @property
    def span(self) -> Span:
        return Span(self.start, self.end, self.type)


def propose(suggestions: Sequence[Suggestion], weights: SourceWeights) -> tuple[Proposal, ...]:
    """Merge a sentence's suggestions: best first, then the longest, then the first; they may overlap."""
    merged = []
    for proposal in _merged(suggestions, weights):
        offset = weights.groups.get(proposal.group, NO_GOLD).offset
        merged.append(replace(proposal, score=shifted(proposal.score, offset)))
    return tuple(
        sorted(
            merged,
            key=lambda proposal: (
                -proposal.score,
                proposal.start - proposal.end,
                proposal.start,
                proposal.sources,
                proposal.type,
            ),
        )
    )


def best_of(proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """Return non-overlapping proposals, chosen greedily by score, in text order."""
    chosen: list[Proposal] = []
    for proposal in proposals:
        if not any(_overlap(proposal, other) for other in chosen):
            chosen.append(proposal)
    return tuple(sorted(chosen, key=lambda proposal: proposal.start))


def best_spans(suggestions: Sequence[Suggestion], weights: SourceWeights | None = None) -> tuple[Span, ...]:
    """Return the spans of the best proposals in a sentence, without overlaps; without weights raw scores are used."""
    return tuple(proposal.span for proposal in best_of(propose(suggestions, weights or SourceWeights())))


def learn(known: Iterable[tuple[Sequence[Suggestion], Collection[Span]]]) -> SourceWeights:
    """Learn the weight of each source, type and agreement from sentences with gold."""
    rows = list(known)
    weights = learn_sources(rows)
    by_group: dict[str, list[tuple[float, bool]]] = {}
    for suggestions, gold in rows:
        for proposal in _merged(suggestions, weights):
            by_group.setdefault(proposal.group, []).append((log_odds(proposal.score), proposal.span in gold))
    return replace(weights, groups={group: weigh(pairs) for group, pairs in sorted(by_group.items())})


def _merged(suggestions: Sequence[Suggestion], weights: SourceWeights) -> list[Proposal]:
    """Return one proposal per span, scored from its sources and its rivals.

    Agreeing sources: 1 - the product of their doubts. Of overlapping spans at most one is correct: a proposal with odds
    o scores o / (1 + o + the odds of its rivals).
    """
    places: dict[Span, list[tuple[float, Suggestion]]] = {}
    for suggestion in suggestions:
        places.setdefault(suggestion.span, []).append((weights.believed(suggestion), suggestion))
    for scored in places.values():
        scored.sort(key=lambda row: (-row[0], row[1].source))
    odds = {span: math.exp(log_odds(1.0 - _doubt(scored))) for span, scored in places.items()}
    readers = {kind_of(suggestion.source) for suggestion in suggestions if reads_sentences(suggestion.source)}
    proposals = []
    for span, scored in places.items():
        rivals = [other for other in places if other != span and other.start < span.end and span.start < other.end]
        against = sum(odds[other] for other in rivals)
        score = odds[span] / (1.0 + odds[span] + against) if rivals else 1.0 - _doubt(scored)
        entity = next((suggestion.entity for _, suggestion in scored if suggestion.entity), None)
        sources = tuple(dict.fromkeys(suggestion.source for _, suggestion in scored))
        group = _group(_kinds(scored), {kind for other in rivals for kind in _kinds(places[other])}, readers)
        proposals.append(Proposal(span.start, span.end, span.type, score, sources, group, entity))
    return proposals


def _kinds(scored: Sequence[tuple[float, Suggestion]]) -> set[str]:
    return {kind_of(suggestion.source) for _, suggestion in scored}


def _doubt(scored: Sequence[tuple[float, Suggestion]]) -> float:
    """Return the product of the sources' doubts; two runs, or a name found twice, are not independent."""
    surest: dict[str, float] = {}
    for score, suggestion in scored:
        kind = kind_of(suggestion.source)
        surest[kind] = max(surest.get(kind, 0.0), score)
    return math.prod(1.0 - score for score in surest.values())


def _group(kinds: set[str], others: set[str], readers: set[str]) -> str:
    words = " and ".join(sorted(kinds))
    if others:
        words += f" against {' and '.join(sorted(others))}"
    return words + "".join(f", not {kind}" for kind in sorted(readers - kinds - others))


def _overlap(proposal: Proposal, other: Proposal) -> bool:
    return proposal.start < other.end and other.start < proposal.end
