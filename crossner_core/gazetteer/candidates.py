"""The candidates of a name from all sources, their scores, and the choice between them.

A choice rests on the links and categories of the page, on the way that led from the name to the candidate, and on the
prior.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, runtime_checkable
from urllib.parse import unquote

from crossner_core.errors import EndpointUnavailable
from crossner_core.gazetteer.classes import COMMON, ClassSets, TypeMap, specific_types
from crossner_core.gazetteer.lookup import TITLE_VIAS, VIAS, Answers, CachingSource, Resource, Source, Via
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.gazetteer.titles import RESOURCE, local_name, resource_uri, strip_suffix, title_of

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\w+")
_ENDINGS = ("ians", "ian", "als", "al", "ics", "ic", "ions", "ion", "s")
_SHORTEST = 4  # letters that must be left
_EMPTY = frozenset(
    {"from", "with", "that", "their", "established", "disestablishment", "entity", "disambiguated", "other"}
)


@dataclass(frozen=True, slots=True)
class PageContext:
    """The page that sentences come from: its title and its categories' titles, without `Category:`."""

    title: str
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signals:
    """Evidence for one resource among several: pages linked nearby (titles) and the word stems of categories."""

    linked: frozenset[str] = frozenset()
    stems: frozenset[str] = frozenset()


NO_SIGNALS = Signals()


@lru_cache(maxsize=1 << 16)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the informative words: `MusicalArtist`, `music artists` → `music`, `artist`."""
    stems = (_stem(word.casefold()) for word in _WORD.findall(text))
    return frozenset(stem for stem in stems if len(stem) >= _SHORTEST and stem not in _EMPTY and stem.isalpha())


def stems_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the stems of several texts."""
    return frozenset().union(*map(stems, texts))


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > _SHORTEST + 2:
        return word[:-3] + "y"
    going = True
    while going:
        going = False
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
                word, going = word.removesuffix(ending), True
                break
    return word


# Ways from a name to a resource: those of a source that looks names up, then those of a compiled gazetteer alone.
WAY_WEIGHT: Mapping[str, float] = {
    "title": 0.9,
    "lowercased": 0.9,  # the first letter of a title is always a capital: the case rules weigh lower case
    "redirect": 0.8,
    "label": 0.8,
    "name": 0.65,
    "suffix": 0.65,
    "comma": 0.6,
    "possessive": 0.6,
    "plural": 0.55,
}
STATED = frozenset({"title", "redirect", "label", "name"})  # by the source; the others are derived from these
DIRECT = frozenset({"title", "redirect", "lowercased"})  # the source states that the plain name means this resource
DIRECT_ODDS = 8.0  # for a direct way against another one, where no links were counted
LINK_SCORE, PAGE_SCORE = 0.95, 0.92
BY_REDIRECT = 0.99  # times a link's score
DESCRIBED = 0.5  # times a link's score
UNTYPED = 0.5  # times a link's score
SURNAME, RIVAL_SURNAME = 0.85, 0.5  # times a page name's score
SINGLE = 0.95  # times the score of a name of one word
LINKED_SHARE = 0.9


def scan_score(way: str, case: float, share: float, resource_share: float, words: int) -> float:
    """Score a name found in plain text; `share` is how likely its type is the right one among its rivals' types."""
    return WAY_WEIGHT[way] * case * share * float(resource_share**0.25) * (SINGLE if words == 1 else 1.0)


def link_score(surface: str, target: str, way: str, types: int) -> float:
    """Score a link by how its page was found, how many types that has, and whether its text names the page."""
    score = LINK_SCORE / max(types, 1)
    if way != "title":
        score *= BY_REDIRECT
    return score * DESCRIBED if is_described(surface, target) else score


def is_described(surface: str, target: str) -> bool:
    """Tell whether link text describes a page without naming it: `the country` for United States."""
    title = title_of(target)
    return surface.islower() and title[1:] != title[1:].lower() and surface != title


_REMEMBERED = 1 << 16


class EntryFlag(Protocol):
    """A way from a surface to a page, or several joined; iterates over the single ones."""

    @property
    def name(self) -> str | None:
        """The name of a single way: `TITLE`."""
        ...


class PageEntry(Protocol):
    """What a scanning source holds on a page; `crossner_core.gazetteer.compiled.Entry` fits."""

    @property
    def entity(self) -> str:
        """The page title."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        ...

    @property
    def flags(self) -> Iterable[EntryFlag]:
        """The ways that led to it."""
        ...

    @property
    def prior(self) -> int:
        """How often it is linked, 0 if not counted."""
        ...


@runtime_checkable
class ScanningSource(Protocol):
    """A source that finds all its names in running text by itself; `CompiledGazetteer` fits."""

    @property
    def tree(self) -> ClassTree:
        """The tree of its classes."""
        ...

    def matches(self, rows: Sequence[Sequence[str]], /) -> Sequence[Sequence[tuple[int, int, int]]]:
        """Return for each row of tokens every known surface as (start, end, number), by start, longest first."""
        ...

    def entries_of(self, key: int, /) -> Sequence[PageEntry]:
        """Return the pages of a surface by its number."""
        ...

    def page(self, title: str, /) -> PageEntry | None:
        """Return the page that a link to a title reaches."""
        ...


@dataclass(frozen=True)
class Candidate:
    """A resource that a name may stand for.

    `entity` is its page title and `address` its URI, `classes` are names without their address, most specific first,
    `way` is how the name led to it, `types` are its entity types in the domain, `source` is where it was found.
    """

    entity: str
    address: str
    classes: tuple[str, ...]
    types: tuple[str, ...]
    way: str
    prior: int
    source: str
    is_common: bool
    is_person: bool
    _above: tuple[str, ...]

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of what it is: of its classes, those above them, its types and the suffix of its title."""
        alias = strip_suffix(self.entity)
        suffix = self.entity[len(alias) :] if alias else ""
        return stems_of((*self.classes, *self._above, *self.types)) | stems(suffix)


Candidates = tuple[Candidate, ...]


class Knowledge:
    """Queries sources in order; a name belongs to the first one that has a class for it.

    An unavailable source is reported, added to `down` and skipped. Answers of scanning sources are cached.
    """

    def __init__(self, sources: Sequence[Source], domain: TypeMap | None, report: Callable[[str], None]) -> None:
        self.sources, self._domain, self._report = tuple(sources), domain, report
        self._scanners = {number: source for number, source in enumerate(sources) if isinstance(source, ScanningSource)}
        self.scanning = tuple(self._scanners.items())
        self.asking = tuple((number, source) for number, source in enumerate(sources) if number not in self._scanners)
        self._of_class = lru_cache(maxsize=_REMEMBERED)(self._classify)
        self.candidates_of_key = lru_cache(maxsize=_REMEMBERED)(self._candidates_of_key)
        self._page = lru_cache(maxsize=_REMEMBERED)(self._page_of)

    def pages(self, titles: Iterable[str], down: set[str]) -> dict[str, Candidates]:
        """Return the pages that titles lead to, directly or by a redirect; unknown titles are left out."""
        gathered: dict[str, Candidates] = {}
        for number, source in enumerate(self.sources):
            missing = [title for title in dict.fromkeys(titles) if title not in gathered]
            if not missing:
                break
            if number in self._scanners:
                known = {title: page for title in missing if (page := self._page(number, title))}
                gathered |= known
            else:
                gathered |= self._ask(source, sorted(missing), TITLE_VIAS, down)
        return gathered

    def names(self, names: Iterable[str], down: set[str]) -> dict[str, tuple[int, Candidates]]:
        """Return the candidates of names in the sources to query, with the index of the first source that has any."""
        gathered: dict[str, tuple[int, Candidates]] = {}
        for number, source in self.asking:
            missing = sorted({name for name in names if name not in gathered})
            if not missing:
                break
            answers = self._ask(source, missing, frozenset(VIAS), down)
            gathered |= {name: (number, candidates) for name, candidates in answers.items()}
        return gathered

    def of_words(self, words: Sequence[str]) -> Candidates:
        """Return what exactly these tokens may mean in the scanning sources, the first source's candidates first."""
        gathered: list[Candidate] = []
        for number, source in self.scanning:
            for start, end, key in source.matches([words])[0]:
                if (start, end) == (0, len(words)):
                    gathered += self.candidates_of_key(number, key)
        return tuple(gathered)

    def _ask(self, source: Source, names: Sequence[str], vias: frozenset[Via], down: set[str]) -> dict[str, Candidates]:
        gathered = {}
        for name, matches in self._answers(source, names, down).items():
            if usable := tuple(self._candidate(item, source) for item in matches if item.via in vias):
                gathered[name] = usable
        return gathered

    def _answers(self, source: Source, names: Sequence[str], down: set[str]) -> Answers:
        if source.name not in down:
            try:
                return source.lookup(names)
            except EndpointUnavailable as error:
                down.add(source.name)
                self._report(str(error))
        return source.cached(names) if isinstance(source, CachingSource) else {}

    def _candidate(self, item: Resource, source: Source) -> Candidate:
        entity = _title_of_address(item.entity)
        return self._made(entity, item.entity, item.classes, item.via, 0, source.name, BUILTIN)

    def _candidates_of_key(self, at: int, key: int) -> Candidates:
        source = self._scanners[at]
        return tuple(self._of_page(page, source, at) for page in source.entries_of(key) if page.classes)

    def _page_of(self, at: int, title: str) -> Candidates:
        source = self._scanners[at]
        page = source.page(title)
        return (self._of_page(page, source, at),) if page is not None and page.classes else ()

    def _of_page(self, page: PageEntry, source: ScanningSource, at: int) -> Candidate:
        ways = [name.lower() for flag in page.flags if (name := flag.name) is not None]
        way = way_of(ways)
        name = self.sources[at].name
        return self._made(page.entity, address_of(page.entity), page.classes, way, page.prior, name, source.tree)

    def _made(
        self, entity: str, address: str, classes: tuple[str, ...], way: str, prior: int, source: str, tree: ClassTree
    ) -> Candidate:
        names, above, types, common, person = self._of_class(classes, _Tree(tree))
        return Candidate(entity, address, names, types, way, prior, source, common, person, above)

    def _classify(
        self, classes: tuple[str, ...], boxed: _Tree
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool, bool]:
        tree = boxed.tree
        names = tuple(sorted({local_name(item) for item in classes}, key=lambda name: (-tree.depth(name), name)))
        above = tuple(dict.fromkeys(step for name in names for step in tree.ancestors(name)))
        common = bool(ClassSets((names,), tree).traits()[0] & COMMON)
        types = () if self._domain is None else specific_types(names, self._domain, tree)
        return names, above, types, common, "Person" in names or "Person" in above


def way_of(ways: Sequence[str]) -> str:
    """Return the most telling way: the best of those the source states, or the weakest of the derived ones."""
    known = sorted((way for way in ways if way in WAY_WEIGHT), key=lambda way: (-WAY_WEIGHT[way], way))
    stated = [way for way in known if way in STATED]
    return (stated or known[::-1] or ["name"])[0]


class _Tree:
    """A class tree as a key of a cache, by identity: it is large and never changes."""

    __slots__ = ("tree",)

    def __init__(self, tree: ClassTree) -> None:
        self.tree = tree

    def __hash__(self) -> int:
        return id(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tree) and self.tree is other.tree


def address_of(title: str) -> str:
    """Return the DBpedia URI of a page title as it stands; `resource_uri` would write a first letter as a capital."""
    address = resource_uri(title)
    if title[:1].isascii() and title[:1].islower():
        return RESOURCE + title[0] + address[len(RESOURCE) + 1 :]
    return address


def _title_of_address(address: str) -> str:
    """Return the page title of a DBpedia URI; another source's URI stays as it is."""
    if not address.startswith(RESOURCE):
        return address
    return unquote(address[len(RESOURCE) :]).replace("_", " ")


_UNTYPED_ODDS = 0.25


@dataclass(frozen=True, slots=True)
class Choice:
    """The resource chosen, its entity type if the domain has one, and why.

    `share` in (0, 1] says how likely the type is the right one among the rivals', `resource_share` the same of the
    resource.
    """

    candidate: Candidate
    type: str | None
    share: float
    resource_share: float
    reason: str


def choose(candidates: Sequence[Candidate], signals: Signals = NO_SIGNALS, *, typed: bool = True) -> Choice:
    """Choose among one name's candidates; `typed` tells whether there is a domain whose types count.

    In order of: being linked by the page; being what the plain name means by title or redirect; words shared with the
    page's categories; having a type, prior and way; title. The plain name's own page without a type gives way to one
    that the categories support.
    """
    if len(candidates) == 1:
        return _chosen(candidates, candidates[0], signals, "the only page of this name")
    overlaps = [len(candidate.stems & signals.stems) if signals.stems else 0 for candidate in candidates]
    spoken = any(
        overlap for candidate, overlap in zip(candidates, overlaps, strict=True) if candidate.way not in DIRECT
    )

    def rank(at: int) -> tuple[bool, bool, int, float, int, float, str]:
        candidate, overlap = candidates[at], overlaps[at]
        direct = candidate.way in DIRECT and (bool(candidate.types) or not typed or bool(overlap) or not spoken)
        odds = (
            WAY_WEIGHT[candidate.way] * (candidate.prior + 1) * (1.0 if candidate.types or not typed else _UNTYPED_ODDS)
        )
        return (
            candidate.entity not in signals.linked,
            not direct,
            -overlap,
            -odds,
            len(candidate.types),
            -WAY_WEIGHT[candidate.way],
            candidate.entity,
        )

    order = sorted(range(len(candidates)), key=rank)
    best, second = rank(order[0]), rank(order[1])
    candidate = candidates[order[0]]
    return _chosen(candidates, candidate, signals, _reason(best, second, candidate, bool(overlaps[order[0]])))


def _reason(best: tuple[object, ...], second: tuple[object, ...], candidate: Candidate, overlap: bool) -> str:
    if best[0] != second[0]:
        return "the page links to it"
    if best[1] != second[1]:
        return "the plain name is its title" if candidate.way == "title" else "the plain name leads to it"
    if best[2] != second[2] and overlap:
        return "the page's categories point to it"
    return "the most likely by links, type and way"


def why_lost(candidate: Candidate, winner: Choice) -> str:
    """Return in words why a candidate was not chosen."""
    if candidate.entity == winner.candidate.entity:
        return "the same page by another way"
    return f"{winner.candidate.entity} won: {winner.reason}"


def _chosen(candidates: Sequence[Candidate], candidate: Candidate, signals: Signals, reason: str) -> Choice:
    kind = candidate.types[0] if candidate.types else None
    if len(candidates) == 1:
        return Choice(candidate, kind, 1.0 / max(len(candidate.types), 1), 1.0, reason)
    all_odds = [odds(rival) for rival in candidates]
    total = sum(all_odds)
    same = sum(
        odd / max(len(rival.types), 1)
        for rival, odd in zip(candidates, all_odds, strict=True)
        if kind is None or kind in rival.types
    )
    share = same / total
    mine = sum(odd for rival, odd in zip(candidates, all_odds, strict=True) if rival.entity == candidate.entity) / total
    if candidate.entity in signals.linked:
        share, mine = max(share, LINKED_SHARE / max(len(candidate.types), 1)), max(mine, LINKED_SHARE)
    elif signals.stems & candidate.stems:
        share, mine = (share + 1.0 / max(len(candidate.types), 1)) / 2, (1 + mine) / 2
    return Choice(candidate, kind, share, mine, reason)


def odds(candidate: Candidate) -> float:
    """Return how likely a name means a candidate, by the way that led to it and how often it is linked, unscaled."""
    value = WAY_WEIGHT[candidate.way] ** 2 * (candidate.prior + 1)
    return value * DIRECT_ODDS if candidate.way in DIRECT and not candidate.prior else value
