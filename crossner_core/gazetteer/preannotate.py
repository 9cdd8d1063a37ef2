"""Pre-annotation: links and a scan of the unlinked text, typed by what DBpedia says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from crossner_core.errors import EndpointUnavailable, InvalidConfig, UnknownType
from crossner_core.gazetteer.classes import Resolution, TypeMap, resolve
from crossner_core.gazetteer.matcher import NGram, ScanRules, longest, ngrams
from crossner_core.gazetteer.merge import merge
from crossner_core.gazetteer.queries import Answers
from crossner_core.gazetteer.source import TITLE_VIAS, VIAS, CachingSource, Candidate, Source, Via
from crossner_core.gazetteer.titles import title_of
from crossner_core.schema import Link, Sentence, Suggestion

LINK, DBPEDIA = "link", "dbpedia"
VIA_SCORE: Mapping[Via, float] = {"title": 0.9, "redirect": 0.8, "label": 0.8, "name": 0.65}
LINK_SCORE = 0.95
DESCRIBED = 0.5  # times a link's score
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreannotationConfig:
    """How sentences are pre-annotated."""

    links: bool = field(default=True, metadata={"doc": "type the text of links by the page they point to"})
    scan: bool = field(default=True, metadata={"doc": "look for names outside links, or everywhere without links"})
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


class Preannotator:
    """Suggests entities from gazetteer sources; a name is taken from the first source that knows a class of it.

    A source that is unavailable is reported once a call through `on_problem` (by default the log) and passed over,
    so that one endpoint that is down costs suggestions, never work. Same input and answers, same suggestions.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        domain: TypeMap,
        config: PreannotationConfig | None = None,
        *,
        on_problem: Callable[[str], None] = log.warning,
    ) -> None:
        self._sources, self._domain = tuple(sources), domain
        self._config, self._report = config or PreannotationConfig(), on_problem
        if (untyped := self._config.untyped_link) is not None and untyped not in domain.type_names:
            raise UnknownType(
                f"Pre-annotation: untyped_link is {untyped!r}; this domain has {', '.join(domain.type_names)}."
            )

    def suggest(self, sentences: Iterable[Sentence]) -> list[tuple[Suggestion, ...]]:
        """Return the suggestions of each sentence, in order, none overlapping another."""
        rows, down = list(sentences), set[str]()
        found: list[tuple[Suggestion, ...]] = []
        for at in range(0, len(rows), self._config.chunk):
            found += self._chunk(rows[at : at + self._config.chunk], down)
        return found

    def _chunk(self, sentences: Sequence[Sentence], down: set[str]) -> list[tuple[Suggestion, ...]]:
        config = self._config
        scans = [ngrams(item, config.rules, linked=not config.links) if config.scan else [] for item in sentences]
        names = {name for scan in scans for item in scan for name in item.names}
        links = [link for sentence in sentences for link in sentence.links] if config.links else []
        pages = self._look_up(sorted({title_of(link.target) for link in links}), TITLE_VIAS, down)
        answers = self._look_up(sorted(names), frozenset(VIAS), down)
        found = []
        for sentence, scan in zip(sentences, scans, strict=True):
            layers = list(self._of_links(sentence, pages)), list(self._of_scan(scan, answers))
            best = merge(*layers).best
            found.append(tuple(item for item in best if item.score >= config.min_score))
        return found

    def _look_up(self, names: Sequence[str], vias: frozenset[Via], down: set[str]) -> Answers:
        """Ask the sources in turn, each for the names that those before it did not know in one of these ways."""
        answers: Answers = {}
        for source in self._sources:
            missing = [name for name in names if name not in answers]
            if not missing:
                break
            for name, found in self._ask(source, missing, down).items():
                if usable := tuple(item for item in found if item.via in vias):
                    answers[name] = usable
        return answers

    def _ask(self, source: Source, names: Sequence[str], down: set[str]) -> Answers:
        if source.name not in down:
            try:
                return source.lookup(names)
            except EndpointUnavailable as error:
                down.add(source.name)
                self._report(str(error))
        return source.cached(names) if isinstance(source, CachingSource) else {}

    def _of_links(self, sentence: Sentence, pages: Answers) -> Iterator[Suggestion]:
        for link in sentence.links if self._config.links else ():
            if resolved := resolve(pages.get(title_of(link.target), ()), self._domain):
                score = LINK_SCORE * VIA_SCORE[resolved.candidate.via] / VIA_SCORE["title"] / resolved.types
                if _is_described(sentence.surface(link.start, link.end), link.target):
                    score *= DESCRIBED
                yield _suggestion(link, resolved.type, LINK, score, resolved.candidate)
            elif self._config.untyped_link is not None:
                yield _suggestion(link, self._config.untyped_link, LINK, 0.5 * LINK_SCORE, None)

    def _of_scan(self, scan: Sequence[NGram], answers: Answers) -> Iterator[Suggestion]:
        """Type the longest known names; one that the domain has no type for still covers the shorter ones in it."""
        candidates = {item: next((found for name in item.names if (found := answers.get(name))), ()) for item in scan}
        for item in longest(scan, lambda item: bool(candidates[item])):
            if resolved := resolve(candidates[item], self._domain):
                yield _suggestion(item, resolved.type, DBPEDIA, _scan_score(item, resolved), resolved.candidate)


def _is_described(surface: str, target: str) -> bool:
    """Tell whether link text speaks of a page without naming it: `the country` for United States."""
    title = title_of(target)
    return surface.islower() and title[1:] != title[1:].lower() and surface != title


def _scan_score(item: NGram, resolved: Resolution) -> float:
    """Weigh a match by how the name led to the resource, by its letters and by the rivals of that choice."""
    return VIA_SCORE[resolved.candidate.via] * item.case / (resolved.types * resolved.resources**0.5)


def _suggestion(at: Link | NGram, kind: str, source: str, score: float, candidate: Candidate | None) -> Suggestion:
    return Suggestion(at.start, at.end, kind, source, round(score, 4), candidate.entity if candidate else None)
