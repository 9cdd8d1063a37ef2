"""The resources that names may stand for, from all sources alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, runtime_checkable
from urllib.parse import unquote

from crossner_core.errors import EndpointUnavailable
from crossner_core.gazetteer.class_sets import COMMON, ClassSets
from crossner_core.gazetteer.classes import TypeMap, specific_types
from crossner_core.gazetteer.context import stems, stems_of
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.gazetteer.queries import Answers
from crossner_core.gazetteer.scoring import STATED, WAY_WEIGHT
from crossner_core.gazetteer.source import TITLE_VIAS, VIAS, CachingSource, Candidate, Source, Via
from crossner_core.gazetteer.titles import RESOURCE, local_name, resource_uri, strip_suffix

_REMEMBERED = 1 << 16


class KnownFlag(Protocol):
    """A way from a surface to a page, or several joined; iterates over the single ones."""

    @property
    def name(self) -> str | None:
        """The name of a single way: `TITLE`."""
        ...


class KnownPage(Protocol):
    """What a scanning source knows of a page; `crossner_core.gazetteer.compiled.Entry` fits."""

    @property
    def entity(self) -> str:
        """The page title."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        ...

    @property
    def flags(self) -> Iterable[KnownFlag]:
        """The ways that led to it."""
        ...

    @property
    def prior(self) -> int:
        """How often it is linked, 0 if nobody counted."""
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

    def entries_of(self, key: int, /) -> Sequence[KnownPage]:
        """Return the pages of a surface by its number."""
        ...

    def page(self, title: str, /) -> KnownPage | None:
        """Return the page that a link to a title reaches."""
        ...


@dataclass(frozen=True)
class Option:
    """A resource that a name may stand for.

    `entity` is its page title and `address` its URI, `classes` are names without their address, most specific first,
    `way` says how the name led to it, `types` are its entity types in the domain. `source` names who knows it.
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


Options = tuple[Option, ...]


class Knowledge:
    """Asks sources in their order; a name belongs to the first of them that knows a class of it.

    A source that is unavailable is reported, added to `down` and passed over. What scanning sources say is remembered.
    """

    def __init__(self, sources: Sequence[Source], domain: TypeMap | None, report: Callable[[str], None]) -> None:
        self.sources, self._domain, self._report = tuple(sources), domain, report
        self._scanners = {at: one for at, one in enumerate(sources) if isinstance(one, ScanningSource)}
        self.scanning = tuple(self._scanners.items())
        self.asking = tuple((at, one) for at, one in enumerate(sources) if at not in self._scanners)
        self._of_class = lru_cache(maxsize=_REMEMBERED)(self._classify)
        self.options_of_key = lru_cache(maxsize=_REMEMBERED)(self._options_of_key)
        self._page = lru_cache(maxsize=_REMEMBERED)(self._page_of)

    def pages(self, titles: Iterable[str], down: set[str]) -> dict[str, Options]:
        """Return what pages the titles lead to, directly or by a redirect; those nobody knows are left out."""
        found: dict[str, Options] = {}
        for at, source in enumerate(self.sources):
            missing = [title for title in dict.fromkeys(titles) if title not in found]
            if not missing:
                break
            if at in self._scanners:
                known = {title: page for title in missing if (page := self._page(at, title))}
                found |= known
            else:
                found |= self._ask(source, sorted(missing), TITLE_VIAS, down)
        return found

    def names(self, names: Iterable[str], down: set[str]) -> dict[str, tuple[int, Options]]:
        """Return what names stand for in the sources that must be asked, with the place of the first that knows."""
        found: dict[str, tuple[int, Options]] = {}
        for at, source in self.asking:
            missing = sorted({name for name in names if name not in found})
            if not missing:
                break
            answers = self._ask(source, missing, frozenset(VIAS), down)
            found |= {name: (at, options) for name, options in answers.items()}
        return found

    def _ask(self, source: Source, names: Sequence[str], vias: frozenset[Via], down: set[str]) -> dict[str, Options]:
        found = {}
        for name, candidates in self._answers(source, names, down).items():
            if usable := tuple(self._option(item, source) for item in candidates if item.via in vias):
                found[name] = usable
        return found

    def _answers(self, source: Source, names: Sequence[str], down: set[str]) -> Answers:
        if source.name not in down:
            try:
                return source.lookup(names)
            except EndpointUnavailable as error:
                down.add(source.name)
                self._report(str(error))
        return source.cached(names) if isinstance(source, CachingSource) else {}

    def _option(self, item: Candidate, source: Source) -> Option:
        entity = _title_of_address(item.entity)
        return self._made(entity, item.entity, item.classes, item.via, 0, source.name, BUILTIN)

    def _options_of_key(self, at: int, key: int) -> Options:
        source = self._scanners[at]
        return tuple(self._of_page(page, source, at) for page in source.entries_of(key) if page.classes)

    def _page_of(self, at: int, title: str) -> Options:
        source = self._scanners[at]
        page = source.page(title)
        return (self._of_page(page, source, at),) if page is not None and page.classes else ()

    def _of_page(self, page: KnownPage, source: ScanningSource, at: int) -> Option:
        ways = [name.lower() for flag in page.flags if (name := flag.name) is not None]
        way = way_of(ways)
        name = self.sources[at].name
        return self._made(page.entity, address_of(page.entity), page.classes, way, page.prior, name, source.tree)

    def _made(
        self, entity: str, address: str, classes: tuple[str, ...], way: str, prior: int, source: str, tree: ClassTree
    ) -> Option:
        names, above, types, common, person = self._of_class(classes, _Tree(tree))
        return Option(entity, address, names, types, way, prior, source, common, person, above)

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
    """Name the way that says most: the best of those the source states, or the weakest step of what was made of it."""
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
