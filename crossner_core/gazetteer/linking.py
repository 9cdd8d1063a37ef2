"""Which resource a span names: candidates from its link, gazetteers and earlier decisions, the likeliest first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from crossner_core.gazetteer.candidates import Candidate, Knowledge, odds, stems_of
from crossner_core.gazetteer.classes import TypeMap
from crossner_core.gazetteer.lookup import Answers, CachingSource, Source
from crossner_core.gazetteer.titles import detokenise, resource_uri, title_of, title_of_entity
from crossner_core.schema import Sentence
from crossner_core.tokenize import words_of

log = logging.getLogger(__name__)

LINKED_HERE = 1000.0
LINKED_NEARBY = 50.0
OF_TYPE, OF_OTHER_TYPE = 8.0, 0.125
SHARED_WORD = 2.0
"""What the odds of a candidate are multiplied by: for being what a link over the span or one nearby leads to, for
having the span's entity type or only others, and for each word stem that it shares with the text."""
DECIDED_BEFORE = 20.0
"""The same for each sentence in which the same words were linked to it."""
UNKNOWN = 0.3
"""Odds of a resource that no source knows, about those of a rarely linked page."""


@dataclass(frozen=True, slots=True)
class LinkCandidate:
    """A resource that a span may name; `address` is `NIL` where people found none for the same words before.

    `classes` are class names, most specific first; `score` in [0, 1] compares it with the others; `why` is in words.
    """

    address: str
    title: str
    classes: tuple[str, ...]
    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known beside the sentence: titles that the document links, words around it, and how often the same words
    were linked to each resource before.
    """

    linked: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    before: Mapping[str, int] | None = None


NO_EVIDENCE = Evidence()


class Linker:
    """Proposes resources for spans; sources are asked as `Preannotator` asks them, but none is waited for.

    Of a source that keeps the answers of an endpoint, only what it has kept is read.
    """

    def __init__(
        self, sources: Sequence[Source], domain: TypeMap | None, *, on_problem: Callable[[str], None] = log.warning
    ) -> None:
        near = [_KeptAnswers(source) if isinstance(source, CachingSource) else source for source in sources]
        self._knowledge = Knowledge(near, domain, on_problem)

    def candidates(
        self, sentence: Sentence, start: int, end: int, *, type: str | None = None, evidence: Evidence = NO_EVIDENCE
    ) -> tuple[LinkCandidate, ...]:
        """Return what tokens `[start, end)` may name, the likeliest first; () if nothing is known."""
        own = [link for link in sentence.links if link.start < end and start < link.end]
        here = {title_of(link.target) for link in own if (link.start, link.end) == (start, end)}
        touching = {title_of(link.target) for link in own} - here
        down: set[str] = set()
        pages = self._knowledge.pages([*here, *touching], down)
        surface = detokenise(" ".join(sentence.surface(start, end).split()))
        gathered = [*_reached(pages, here), *self._named(surface, down), *_reached(pages, touching)]
        nearby = evidence.linked | {title_of(link.target) for link in sentence.links}
        stems = stems_of((*sentence.words[:start], *sentence.words[end:], *evidence.words))
        weighed = _Weighed(here, nearby, stems, type, dict(evidence.before or {}))
        made: dict[str, LinkCandidate] = {}
        for candidate in gathered:
            made.setdefault(candidate.address, weighed.of(candidate))
        for title in sorted((here | touching) - pages.keys()):
            made.setdefault(resource_uri(title), weighed.unknown(title))
        for address in weighed.before:
            made.setdefault(address, weighed.only_before(address))
        return _ranked(made.values())

    def _named(self, surface: str, down: set[str]) -> Iterable[Candidate]:
        yield from self._knowledge.of_words(words_of(surface))
        for _, candidates in self._knowledge.names([surface], down).values():
            yield from candidates


@dataclass(frozen=True, slots=True)
class _Weighed:
    """What speaks for the candidates of one span; a score made here is odds, not yet a share."""

    here: set[str]
    nearby: frozenset[str]
    stems: frozenset[str]
    type: str | None
    before: Mapping[str, int]

    def of(self, candidate: Candidate) -> LinkCandidate:
        value, why = odds(candidate), []
        if candidate.entity in self.here:
            value, why = value * LINKED_HERE, ["linked here"]
        elif candidate.entity in self.nearby:
            value, why = value * LINKED_NEARBY, ["linked nearby"]
        if self.type is not None and candidate.types:
            value *= OF_TYPE if self.type in candidate.types else OF_OTHER_TYPE
        shared = sorted(self.stems & candidate.stems)
        value *= SHARED_WORD ** len(shared)
        if shared:
            why.append(f"the text speaks of {', '.join(shared[:3])}")
        made = LinkCandidate(candidate.address, candidate.entity, candidate.classes, value, ", ".join(why))
        return self._with_before(made)

    def unknown(self, title: str) -> LinkCandidate:
        """Weigh the page of a link that no source knows."""
        value = UNKNOWN * (LINKED_HERE if title in self.here else 1.0)
        why = "linked here" if title in self.here else "a link touches it"
        return self._with_before(LinkCandidate(resource_uri(title), title, (), value, why))

    def only_before(self, address: str) -> LinkCandidate:
        return self._with_before(LinkCandidate(address, title_of_entity(address), (), UNKNOWN, ""))

    def _with_before(self, made: LinkCandidate) -> LinkCandidate:
        if not (times := self.before.get(made.address, 0)):
            return made
        why = f"chosen {times} time{'s' if times > 1 else ''} for the same words"
        return replace(made, score=made.score * DECIDED_BEFORE * times, why=", ".join(filter(None, (made.why, why))))


class _KeptAnswers:
    """A source that answers with what another has kept, and sends nothing."""

    def __init__(self, source: CachingSource) -> None:
        self._source = source

    @property
    def name(self) -> str:
        return str(getattr(self._source, "name", "kept answers"))

    def lookup(self, names: Iterable[str]) -> Answers:
        return self._source.cached(names)


def _reached(pages: Mapping[str, Sequence[Candidate]], titles: Iterable[str]) -> Iterable[Candidate]:
    for title in sorted(titles):
        for candidate in pages.get(title, ()):
            yield replace(candidate, way="title")


def _ranked(made: Iterable[LinkCandidate]) -> tuple[LinkCandidate, ...]:
    """Return the candidates with their odds as shares, the largest first."""
    ordered = sorted(made, key=lambda candidate: (-candidate.score, candidate.title))
    total = sum(candidate.score for candidate in ordered)
    return tuple(replace(candidate, score=round(candidate.score / total, 4)) for candidate in ordered)
