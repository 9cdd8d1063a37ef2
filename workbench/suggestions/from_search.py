"""Propose an entity type for what a search found, in all its hits at once: looked at first, withdrawn as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crossner_core.errors import BadInput, NotFound, UnknownType
from crossner_core.schema import Sentence, Span
from crossner_core.suggest.search import SEARCH
from db import search_rows, suggestion_rows
from db.engine import Store
from db.tables import Campaign, SuggestionRow
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.data import searching
from workbench.data.patterns import Ranges
from workbench.data.searching import Search
from workbench.data.values import sentence_of
from workbench.suggestions.by_people import open_sentences, withdraw_source, write_suggestions

MOST_SENTENCES = 10_000
_NAMED = 5
(_KIND,) = SEARCH.kinds


@dataclass(frozen=True, slots=True)
class Place:
    """One occurrence: the tokens `[start, end)` of a sentence; `overlaps` are the suggestions it touches, in words.

    `repeats`: the same span and type are suggested already.
    """

    sentence_id: int
    sentence: Sentence
    start: int
    end: int
    overlaps: tuple[str, ...]
    repeats: bool

    @property
    def surface(self) -> str:
        return self.sentence.surface(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Preview:
    """What proposing would write: `places`, and what it leaves out.

    `begun` counts hits in sentences that somebody has begun or that are gold, `inside` those that begin or end within
    a word, `proposed` those that a search has proposed before.
    """

    sentences: int
    places: tuple[Place, ...]
    begun: int
    inside: int
    proposed: int

    @property
    def surfaces(self) -> Counter[str]:
        """Return how often each text occurs among the places."""
        return Counter(place.surface for place in self.places)


class _Row(NamedTuple):
    type: str
    sentence_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Proposed:
    """What one search proposed: its source, some of the texts, the types, how many suggestions, how many are begun."""

    source: str
    words: str
    texts: tuple[str, ...]
    types: tuple[str, ...]
    suggestions: int
    begun: int


def preview(store: Store, actor: Actor, campaign_id: int, search: Search, type: str) -> Preview:
    """Return where a type would be proposed for what a search found; nothing is written.

    Raises BadInput for a search without text, or with hits in more than `MOST_SENTENCES` sentences.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        _check(campaign, search, type)
        total, ids = searching.matching(store, session, campaign, current, search, offset=0, limit=MOST_SENTENCES)
        if total > MOST_SENTENCES:
            raise BadInput(
                f"{total:,} sentences match; up to {MOST_SENTENCES:,} can be proposed in. Narrow the search."
            )
        rows = search_rows.sentences(session, ids)
        titles = domain_of(campaign).titles
        still = open_sentences(session, campaign_id, ids)
        suggested = search_rows.suggestions(session, still)
    ranges = searching.ranges(search, [row.text for row, _ in rows])
    places, begun, inside, proposed = list[Place](), 0, 0, 0
    for (row, _), some in zip(rows, ranges, strict=True):
        if row.id not in still:
            begun += len(some)
            continue
        sentence, others = sentence_of(row), suggested.get(row.id, [])
        spans = _spans(sentence, some, type)
        inside += len(some) - len(spans)
        fresh = [span for span in spans if not any(_is_searched(other, span) for other in others)]
        proposed += len(spans) - len(fresh)
        withheld = row.control and current.role not in KEEPERS
        places += [_place(row.id, sentence, span, () if withheld else others, titles) for span in fresh]
    return Preview(len({place.sentence_id for place in places}), tuple(places), begun, inside, proposed)


def propose(
    store: Store,
    actor: Actor,
    campaign_id: int,
    search: Search,
    type: str,
    *,
    surfaces: Collection[str] | None = None,
    overlapping: bool = True,
) -> tuple[str, int]:
    """Write the places of `preview` as suggestions under a source of their own; return it, and how many were written.

    Only those with one of the `surfaces`, if given, and with `overlapping` off none that touches a suggestion.
    """
    looked_at = preview(store, actor, campaign_id, search, type)
    spans: dict[int, list[Span]] = {}
    for place in looked_at.places:
        if (surfaces is None or place.surface in surfaces) and (overlapping or not place.overlaps):
            spans.setdefault(place.sentence_id, []).append(Span(place.start, place.end, type))
    if not spans:
        raise BadInput("Nothing is left to propose; choose more of the texts, or search for something else.")
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        _check(campaign, search, type)
        source = f"{_KIND}:{current.name}, {now():%Y-%m-%d %H:%M:%S}"
        written = write_suggestions(session, campaign_id, spans, source=source)
        about = ("source of suggestions", source)
        audit.record(session, current, "propose_from_search", about, campaign_id, type=type, suggestions=written)
        return source, written


def proposed(store: Store, actor: Actor, campaign_id: int) -> tuple[Proposed, ...]:
    """Return what searches have proposed in a campaign and was not withdrawn, the newest first."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        by_source: dict[str, list[_Row]] = {}
        for source, type, sentence_id, start, end in suggestion_rows.of_kind(session, campaign_id, _KIND):
            by_source.setdefault(source, []).append(_Row(type, sentence_id, start, end))
        still = open_sentences(session, campaign_id, {row.sentence_id for rows in by_source.values() for row in rows})
        some = {row.sentence_id for rows in by_source.values() for row in rows[:_NAMED]}
        named = {row.id: sentence_of(row) for row, _ in search_rows.sentences(session, sorted(some))}
        return tuple(_proposed(source, rows, still, named) for source, rows in by_source.items())


def withdraw(store: Store, actor: Actor, campaign_id: int, source: str) -> tuple[int, int]:
    """Withdraw what a search proposed; return how many suggestions, and how many stay.

    Those stay that lie in a sentence somebody has begun: what they were shown does not change under their hands.
    """
    require(actor, *OVERSEERS)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        refuse_archived(campaign)
        if not source.startswith(f"{_KIND}:") or not suggestion_rows.count_of(session, campaign_id, source):
            raise NotFound(f"No search has proposed anything as {source!r}; it may have been withdrawn already.")
        removed, stay = withdraw_source(session, campaign_id, source)
        about = ("source of suggestions", source)
        audit.record(session, current, "withdraw_from_search", about, campaign_id, suggestions=removed)
        return removed, stay


def _check(campaign: Campaign, search: Search, type: str) -> None:
    refuse_archived(campaign)
    known = domain_of(campaign).type_names
    if type not in known:
        raise UnknownType(f"The type {type!r} is not one of this campaign: {', '.join(known)}.")
    if not search.text.strip():
        raise BadInput("There is no text to propose a type for; search for a text or a regular expression first.")


def _spans(sentence: Sentence, ranges: Ranges, type: str) -> list[Span]:
    """Return the matches that begin and end with a token, space at their ends aside, as spans."""
    starts = {token.start: number for number, token in enumerate(sentence.tokens)}
    ends = {token.end: number + 1 for number, token in enumerate(sentence.tokens)}
    spans = []
    for low, high in ranges:
        words = sentence.text[low:high]
        start, end = low + len(words) - len(words.lstrip()), high - len(words) + len(words.rstrip())
        if start in starts and end in ends:
            spans.append(Span(starts[start], ends[end], type))
    return spans


def _is_searched(suggestion: SuggestionRow, span: Span) -> bool:
    return suggestion.source.startswith(f"{_KIND}:") and _is_same(suggestion, span)


def _is_same(suggestion: SuggestionRow, span: Span) -> bool:
    return (suggestion.start, suggestion.end, suggestion.type) == (span.start, span.end, span.type)


def _place(
    sentence_id: int, sentence: Sentence, span: Span, others: Sequence[SuggestionRow], titles: Mapping[str, str]
) -> Place:
    touched = [other for other in others if other.start < span.end and span.start < other.end]
    return Place(
        sentence_id,
        sentence,
        span.start,
        span.end,
        tuple(
            f"{sentence.surface(other.start, other.end)} "
            f"({titles.get(other.type, other.type)}, {other.source} {other.score:.2f})"
            for other in touched
        ),
        any(_is_same(other, span) for other in touched),
    )


def _proposed(source: str, rows: Sequence[_Row], still: Collection[int], named: Mapping[int, Sentence]) -> Proposed:
    texts = dict.fromkeys(named[row.sentence_id].surface(row.start, row.end) for row in reversed(rows[:_NAMED]))
    return Proposed(
        source=source,
        words=source.removeprefix(f"{_KIND}:"),
        texts=tuple(texts),
        types=tuple(sorted({row.type for row in rows})),
        suggestions=len(rows),
        begun=sum(row.sentence_id not in still for row in rows),
    )
