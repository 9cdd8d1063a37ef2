"""Pre-annotation: links, a page's repeated names and a scan of unlinked text, typed by gazetteers; and why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from crossner_core.errors import InvalidConfig, UnknownType
from crossner_core.gazetteer.candidates import (
    LINK_SCORE,
    NO_SIGNALS,
    UNTYPED,
    Candidate,
    Candidates,
    Choice,
    Knowledge,
    PageContext,
    Signals,
    choose,
    link_score,
    scan_score,
    stems_of,
    why_lost,
)
from crossner_core.gazetteer.classes import TypeMap
from crossner_core.gazetteer.lookup import Source
from crossner_core.gazetteer.matcher import (
    DBPEDIA,
    LINK,
    PAGE,
    Place,
    ScanRules,
    Words,
    best_links,
    leftmost_longest,
    ngrams,
)
from crossner_core.gazetteer.propagation import PageNames
from crossner_core.gazetteer.titles import title_of
from crossner_core.schema import Link, Mention, Sentence, Suggestion


@dataclass(frozen=True, slots=True)
class ExplainedCandidate:
    """A resource that a name might have stood for.

    `way` is how the name led to it (`title`, `redirect`, `suffix`, …), `source` the gazetteer that has it, `reason` why
    it won or lost.
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

    `source` is `link`, `page` or `dbpedia`. `case` is how much its letters look like a name, 0 if not at all.
    `won` tells whether it is a mention; it is a suggestion too where `type` is not None. `reason` is why.
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
    choice, is_in = place.choice, any(place is other for other in won)
    return Explanation(
        place.start,
        place.end,
        sentence.surface(place.start, place.end),
        place.source,
        place.case,
        round(place.score, 4),
        choice.candidate.entity if choice is not None else None,
        place.type,
        is_in,
        _wins(place) if is_in else _loses(place, sentence, won, min_score),
        tuple(_candidates(place)),
    )


def _candidates(place: Place) -> Iterator[ExplainedCandidate]:
    choice = place.choice
    for candidate in place.candidates:
        won = choice is not None and candidate is choice.candidate
        reason = "" if choice is None else choice.reason if won else why_lost(candidate, choice)
        yield ExplainedCandidate(
            candidate.entity,
            candidate.address,
            candidate.classes,
            candidate.types,
            candidate.way,
            candidate.prior,
            candidate.source,
            won,
            reason,
        )


def _wins(place: Place) -> str:
    return "the best at its place" if place.type is not None else "known, but its classes have no type in the domain"


def _loses(place: Place, sentence: Sentence, won: Sequence[Place], min_score: float) -> str:
    if place.choice is None and place.type is None:
        return "no source has a class for the linked page"
    over = [winner for winner in won if winner.start < place.end and place.start < winner.end]
    if over:
        return f"gives way to {sentence.surface(over[0].start, over[0].end)!r}"
    if place.case == 0.0:
        return "not written like a name: lower case, a stop word, or a word of a longer name"
    return f"scores below {min_score:g}" if place.score < min_score else "gives way to another name"


_REMEMBERED = 1 << 16
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreannotationConfig:
    """How sentences are pre-annotated."""

    links: bool = field(default=True, metadata={"doc": "type the text of links by the page they point to"})
    scan: bool = field(default=True, metadata={"doc": "look for names outside links, or everywhere without links"})
    propagate: bool = field(
        default=True,
        metadata={"doc": "on a whole page, look for later mentions of linked entities and of the page's own subject"},
    )
    untyped_link: str | None = field(
        default=None,
        metadata={"doc": "entity type of links whose page has no type in this domain; none: no suggestion"},
    )
    min_score: float = field(default=0.0, metadata={"doc": "leave out suggestions below this score"})
    chunk: int = field(default=64, metadata={"doc": "sentences whose names are looked up together"})
    rules: ScanRules = field(default_factory=ScanRules)

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_score <= 1.0:
            raise InvalidConfig(f"Pre-annotation: min_score is {self.min_score}, must lie in [0, 1].")
        if self.chunk < 1:
            raise InvalidConfig(f"Pre-annotation: chunk is {self.chunk}, must be 1 or more.")


class _Known(NamedTuple):
    """What a name may mean and what it means without any signals; a rival can win only by its entity or its stems."""

    candidates: Candidates
    choice: Choice
    entities: frozenset[str] = frozenset()
    stems: frozenset[str] = frozenset()

    @classmethod
    def of(cls, candidates: Candidates, *, typed: bool) -> _Known:
        choice = choose(candidates, typed=typed)
        if len(candidates) == 1:
            return cls(candidates, choice)
        stems = frozenset().union(*(candidate.stems for candidate in candidates))
        return cls(candidates, choice, frozenset(candidate.entity for candidate in candidates), stems)

    def settled(self, signals: Signals, *, typed: bool) -> Choice:
        """Choose by the signals, where they say anything about the candidates."""
        if self.entities.isdisjoint(signals.linked) and self.stems.isdisjoint(signals.stems):
            return self.choice
        return choose(self.candidates, signals, typed=typed)


_Found = dict[tuple[int, int], tuple[float, _Known]]  # token range → how its letters look, what it may mean


class _Row(NamedTuple):
    """A sentence with the places of its links, and those in its plain text where a name may stand."""

    words: Words
    links: list[Place]
    places: list[Place]


class _Page(NamedTuple):
    """The context of one call's sentences: signals, and in page mode the names given so far."""

    signals: Signals
    names: PageNames | None
    pages: Mapping[str, Candidates]


class Preannotator:
    """Finds names with gazetteer sources; a name is taken from the first source that has a class for it.

    An unavailable source is reported once per call through `on_problem` (by default the log) and skipped, so that an
    endpoint that is down costs suggestions, never work. The same input and answers give the same suggestions.
    Without a domain, mentions have classes but no type.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        domain: TypeMap | None,
        config: PreannotationConfig | None = None,
        *,
        on_problem: Callable[[str], None] = log.warning,
    ) -> None:
        self._config, self._typed = config or PreannotationConfig(), domain is not None
        self._knowledge = Knowledge(sources, domain, on_problem)
        self._known = lru_cache(maxsize=_REMEMBERED)(self._known_of)
        names = domain.type_names if domain is not None else ()
        if (untyped := self._config.untyped_link) is not None and untyped not in names:
            has = f"this domain has {', '.join(names)}" if names else "there is no domain"
            raise UnknownType(f"Pre-annotation: untyped_link is {untyped!r}; {has}.")

    def suggest(self, sentences: Iterable[Sentence]) -> list[tuple[Suggestion, ...]]:
        """Return the suggestions of each sentence, in order, none overlapping another.

        Sentences are independent of each other; they may come from many pages.
        """
        return [tuple(_suggestions(row)) for row in self._read(list(sentences), None)]

    def mentions(
        self, sentences: Iterable[Sentence], *, context: PageContext | None = None
    ) -> list[tuple[Mention, ...]]:
        """Return the known names of each sentence, in order, none overlapping another, with a type or without.

        With `context` the sentences are those of one page in order: its links and categories then tell what an
        ambiguous name means, and what it named once is found again. Without it, sentences are independent.
        """
        return [tuple(map(_mention, row)) for row in self._read(list(sentences), context)]

    def explain(
        self, sentence: Sentence, context: PageContext | None = None, *, before: Sequence[Sentence] = ()
    ) -> list[Explanation]:
        """Return every place that was considered, what came of it and why, by start, longest first.

        `before` are the page's earlier sentences, for what it has named already.
        """
        *_, row = self._rows([*before, sentence], context)
        won = self._won(row)
        places = [*row.links, *row.places, *(self._refused(row.words) if self._config.scan else ())]
        places.sort(key=lambda place: (place.start, -place.end, place.source))
        return [explanation(place, sentence, won, self._config.min_score) for place in places]

    def _read(self, rows: Sequence[Sentence], context: PageContext | None) -> Iterator[list[Place]]:
        """Yield the winning places of each sentence."""
        return map(self._won, self._rows(rows, context))

    def _won(self, row: _Row) -> list[Place]:
        won = leftmost_longest(row.places)
        if row.links:
            won = sorted([*best_links(row.links), *won], key=lambda place: place.start)
        least = self._config.min_score
        return [place for place in won if place.score >= least and (place.choice is not None or place.type is not None)]

    def _rows(self, rows: Sequence[Sentence], context: PageContext | None) -> Iterator[_Row]:
        """Yield the places of each sentence where a name may stand."""
        down = set[str]()
        page = self._page(rows, context, down) if context is not None else None
        for start in range(0, len(rows), self._config.chunk):
            chunk = rows[start : start + self._config.chunk]
            pages = page.pages if page is not None else self._pages_of(chunk, down)
            for number, (words, found) in enumerate(self._prepared(chunk, down), start=start):
                linked = words.sentence.links if self._config.links else ()
                links = [self._link(words.sentence, link, pages) for link in linked]
                signals = page.signals if page is not None else _own_signals(links)
                places = [place for key, known in found.items() if (place := self._scanned(words, key, known, signals))]
                if page is not None and page.names is not None:
                    places = _repeated(words, page.names, number, links, places)
                yield _Row(words, links, places)

    def _pages_of(self, rows: Sequence[Sentence], down: set[str], *more: str) -> dict[str, Candidates]:
        """Look up the pages that links lead to, if links count, and those of further titles."""
        links = (link for row in rows for link in row.links) if self._config.links else ()
        titles = {*(title_of(link.target) for link in links), *more}
        return self._knowledge.pages(sorted(titles), down) if titles else {}

    def _page(self, rows: Sequence[Sentence], context: PageContext, down: set[str]) -> _Page:
        config, title = self._config, title_of(context.title)
        pages = self._pages_of(rows, down, title)
        targets = {title_of(link.target) for row in rows for link in row.links} if config.links else set[str]()
        linked = targets | {candidate.entity for target in targets for candidate in pages.get(target, ())}
        names = PageNames(config.rules) if config.propagate else None
        if subject := pages.get(title):
            candidate = choose(subject, typed=self._typed).candidate
            linked |= {candidate.entity}
            if names is not None:
                names.add_subject(candidate)
        return _Page(Signals(frozenset(linked), stems_of(context.categories)), names, pages)

    def _prepared(self, chunk: Sequence[Sentence], down: set[str]) -> Iterator[tuple[Words, _Found]]:
        """Yield each sentence with the known names in its plain text."""
        config, knowledge = self._config, self._knowledge
        prepared = [Words(row, config.rules, links=config.links) for row in chunk]
        scans: list[_Found] = self._scan(prepared) if config.scan else [{} for _ in prepared]
        if config.scan and knowledge.asking:
            for found, asked in zip(scans, self._asked(prepared, scans, down), strict=True):
                found |= asked
        yield from zip(prepared, scans, strict=True)

    # links

    def _link(self, sentence: Sentence, link: Link, pages: Mapping[str, Candidates]) -> Place:
        candidates = pages.get(title_of(link.target), ())
        choice = choose(candidates, typed=self._typed) if candidates else None
        if choice is None or (choice.type is None and self._config.untyped_link is not None):
            untyped = self._config.untyped_link
            score = UNTYPED * LINK_SCORE
            return Place(link.start, link.end, LINK, score, choice, candidates, untyped, target=link.target)
        surface = sentence.surface(link.start, link.end)
        types = len({kind for candidate in candidates for kind in candidate.types})
        score = link_score(surface, link.target, choice.candidate.way, types)
        return Place(link.start, link.end, LINK, score, choice, candidates, choice.type, target=link.target)

    # names in plain text

    def _known_of(self, at: int, key: int) -> _Known | None:
        candidates = self._knowledge.candidates_of_key(at, key)
        return _Known.of(candidates, typed=self._typed) if candidates else None

    def _scan(self, rows: Sequence[Words]) -> list[_Found]:
        """Return for each sentence the places where scanning sources know a name and its letters look like one."""
        scans: list[_Found] = [{} for _ in rows]
        known_of = self._known
        for number, source in self._knowledge.scanning:
            for words, found, matches in zip(rows, scans, source.matches([row.ours for row in rows]), strict=True):
                place_of, case_of = words.place, words.letters.case
                for start, end, key in matches:
                    place = place_of(start, end)
                    if place is None or place in found or not (case := case_of(*place)):
                        continue
                    if (known := known_of(number, key)) is not None:
                        found[place] = case, known
        return scans

    def _refused(self, words: Words) -> Iterator[Place]:
        """Yield the places where scanning sources know a name that is not written like one."""
        for number, source in self._knowledge.scanning:
            for start, end, key in source.matches([words.ours])[0]:
                place = words.place(start, end)
                if place is None or words.letters.case(*place) or (known := self._known(number, key)) is None:
                    continue
                yield Place(*place, DBPEDIA, 0.0, known.choice, known.candidates, known.choice.type, 0.0)

    def _asked(
        self,
        prepared: Sequence[Words],
        scans: Sequence[_Found],
        down: set[str],
    ) -> list[_Found]:
        """Look n-grams up in the sources that cannot scan, except those that an earlier source knows."""
        knowledge, config = self._knowledge, self._config
        first = knowledge.asking[0][0]
        before = any(number < first for number, _ in knowledge.scanning)
        grams = [
            [
                gram
                for gram in ngrams(words.sentence, config.rules, linked=not config.links)
                if not before or (gram.start, gram.end) not in found
            ]
            for words, found in zip(prepared, scans, strict=True)
        ]
        answers = knowledge.names({name for row in grams for gram in row for name in gram.names}, down)
        rows = []
        for row in grams:
            known: _Found = {}
            for gram in row:
                if (answer := next((answers[name] for name in gram.names if name in answers), None)) is not None:
                    known[gram.start, gram.end] = gram.case, _Known.of(answer[1], typed=self._typed)
            rows.append(known)
        return rows

    def _scanned(
        self, words: Words, key: tuple[int, int], found: tuple[float, _Known], signals: Signals
    ) -> Place | None:
        """Settle what a known name means; None for a lower-case word that is not a common noun."""
        (start, end), (case, known) = key, found
        choice = known.settled(signals, typed=self._typed)
        candidate = choice.candidate
        if end - start == 1 and words.words[start].islower() and not self._may_be_small(candidate, signals):
            return None
        score = scan_score(candidate.way, case, choice.share, choice.resource_share, end - start)
        return Place(start, end, DBPEDIA, score, choice, known.candidates, choice.type, case)

    def _may_be_small(self, candidate: Candidate, signals: Signals) -> bool:
        """Tell whether a single lower-case word may name this: `jazz`; `reel` for Reel (dance) only with evidence."""
        if self._config.rules.single_lower:
            return True
        if not candidate.is_common:
            return False
        is_plain = candidate.way not in ("suffix", "name")
        return is_plain or candidate.entity in signals.linked or not candidate.stems.isdisjoint(signals.stems)


def _repeated(words: Words, names: PageNames, at: int, links: Sequence[Place], places: Sequence[Place]) -> list[Place]:
    """Add the places that repeat a name of the page, replacing what the scan found there; add names of links."""
    sentence = words.sentence
    for link in sorted(links, key=lambda place: place.start):
        if link.choice is not None:
            names.add_link(sentence.surface(link.start, link.end), link.target, link.choice.candidate, at, link.end)
    existing = {(place.start, place.end): place for place in places}
    for start, end, name in names.found(words.words, words.letters, at):
        if words.is_free(start, end):
            choice = Choice(name.candidate, name.type, 1.0, 1.0, "the page named it before")
            case, old = words.letters.case(start, end), existing.get((start, end))
            score = name.score(goes_on=words.letters.continues(end))
            rivals = (
                (candidate for candidate in old.candidates if candidate.entity != name.candidate.entity)
                if old is not None
                else ()
            )
            existing[start, end] = Place(start, end, PAGE, score, choice, (name.candidate, *rivals), name.type, case)
    return list(existing.values())


def _own_signals(links: Sequence[Place]) -> Signals:
    linked = frozenset(link.choice.candidate.entity for link in links if link.choice is not None)
    return Signals(linked) if linked else NO_SIGNALS


def _suggestions(row: Sequence[Place]) -> Iterator[Suggestion]:
    for one in row:
        if one.type is not None:
            typed = one.choice is not None and one.choice.type is not None
            entity = one.choice.candidate.address if one.choice is not None and typed else None
            yield Suggestion(one.start, one.end, one.type, one.source, round(one.score, 4), entity)


def _mention(place: Place) -> Mention:
    candidate = place.choice.candidate if place.choice is not None else None
    entity = candidate.entity if candidate is not None else title_of(place.target)
    classes = candidate.classes if candidate is not None else ()
    return Mention(place.start, place.end, entity, classes, place.type, place.source, round(place.score, 4))
