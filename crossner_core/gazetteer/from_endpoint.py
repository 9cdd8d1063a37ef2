"""Read the facts of a whole SPARQL endpoint, class by class and page by page; complete, or an error."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from crossner_core.errors import EndpointUnavailable, InvalidConfig
from crossner_core.gazetteer.endpoint import Asker, CircuitBreaker, breaker_for
from crossner_core.gazetteer.facts import Fact, Label, Redirect, Typed
from crossner_core.gazetteer.lookup import RDFS_LABEL, REDIRECTS, check_language
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.gazetteer.titles import ONTOLOGY, RESOURCE, collapse
from crossner_core.gazetteer.triples import titles_of
from crossner_core.web import Incomplete, Refused, TimedOut, Transient

SMALLEST = 10  # resources per page; an endpoint that cannot return this few cannot be read


@dataclass(frozen=True)
class EndpointConfig:
    """How an endpoint is read."""

    classes: tuple[str, ...] = ()
    """The classes wanted, with all below them; none means every class of the tree."""
    language: str = "en"
    """The language of the labels."""
    page_size: int = 5000
    """Resources per query; halved where that is too much for the endpoint."""
    timeout: float = 120.0
    """Seconds for one query."""
    deadline: float | None = None
    """Seconds for everything; None for as long as it takes."""
    retries: int = 5
    """How often a query that failed temporarily is retried."""
    backoff: float = 1.0
    """Seconds before the first retry; twice as long before each further one."""
    max_rows: int = 10_000
    """Rows at which an answer counts as cut off."""

    def __post_init__(self) -> None:
        if not SMALLEST <= self.page_size < self.max_rows:
            raise InvalidConfig(
                f"Endpoint page_size is {self.page_size}, must be at least {SMALLEST} and below max_rows "
                f"({self.max_rows}), or a full page would look like one cut off."
            )
        if self.deadline is not None and not self.deadline > 0:
            raise InvalidConfig(f"Endpoint deadline is {self.deadline}, must be above 0 seconds or none.")
        check_language(self.language)


class EndpointFacts:
    """Reads the facts of an endpoint, once.

    Each page starts after the last resource seen, since Virtuoso refuses to sort past row 10,000 for an OFFSET.
    Resources are compared in escaped form, since Virtuoso sorts non-ASCII letters differently than it compares them.
    Every class is counted first and the result checked against that: silently dropped rows are an error, too.
    Nothing is kept between readings; after an error everything is read again.
    """

    def __init__(
        self,
        endpoint: str,
        config: EndpointConfig,
        *,
        tree: ClassTree = BUILTIN,
        rng: random.Random,
        on_problem: Callable[[str], None],
        on_progress: Callable[[str, int], None] | None = None,
        breaker: CircuitBreaker | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config, self._tree, self._on_problem = config, tree, on_problem
        self._on_progress = on_progress or (lambda cls, resources: None)
        self._asker = Asker(
            endpoint,
            timeout=config.timeout,
            retries=config.retries,
            backoff=config.backoff,
            max_rows=config.max_rows,
            rng=rng,
            sleep=sleep,
        )
        self._breaker = breaker or breaker_for(endpoint)
        self._size = config.page_size
        self._until = inf
        self._counts: dict[str, int] = {}

    @property
    def endpoint(self) -> str:
        """The endpoint's URL."""
        return self._asker.endpoint

    def __iter__(self) -> Iterator[Fact]:
        """Yield the facts; raise EndpointUnavailable unless every one of them came."""
        if refusal := self._breaker.refusal():
            raise EndpointUnavailable(f"SPARQL endpoint {self.endpoint} is {refusal}")
        self._until = inf if self._config.deadline is None else time.monotonic() + self._config.deadline
        self._counts = {}
        for cls in self._wanted():
            if (size := self._count(members := f"?s a <{ONTOLOGY}{cls}> . {_ONLY_PAGES}", "?s", cls)) == 0:
                continue
            self._counts[cls] = size
            yield from self._class(cls, members, size)
            self._breaker.succeeded()
            self._on_progress(cls, size)
        if not self._counts:
            raise EndpointUnavailable(
                f"SPARQL endpoint {self.endpoint} has no resource {RESOURCE}… of the {len(self._wanted())} classes "
                "asked for; check its address and the classes."
            )

    def _wanted(self) -> list[str]:
        """Return the classes to query, superclasses first."""
        unknown = [cls for cls in self._config.classes if not self._tree.known(cls)]
        for cls in unknown:
            self._on_problem(
                f"Class {cls} is not in the ontology ({self._tree.source}); it is queried without subclasses."
            )
        chosen = self._tree.descendants(self._config.classes) if self._config.classes else tuple(self._tree.parents)
        return sorted({*chosen, *unknown}, key=lambda cls: (self._tree.depth(cls), cls))

    def _class(self, cls: str, members: str, size: int) -> Iterator[Fact]:
        """Yield the facts of a class, page by page; labels and redirects only where no class above gave them."""
        named = not self._covered(cls, size)
        label = f'?s <{RDFS_LABEL}> ?o . FILTER(LANG(?o) = "{self._config.language}" || LANG(?o) = "")'
        redirect = f"?o <{REDIRECTS}> ?s ."
        due = {kind: self._count(f"{members} {kind}", "*", cls) if named else 0 for kind in (label, redirect)}
        came, seen = dict.fromkeys(due, 0), 0
        for after, page in self._pages(cls, members):
            if (seen := seen + len(page)) > size:
                break
            titles = dict(zip(page, _titles(list(page)), strict=True))
            yield from (Typed(title, cls) for title in titles.values() if title)
            for kind in due:
                if not due[kind]:
                    continue
                for row in self._within(cls, f"{members} {kind}", after, list(page.values())):
                    came[kind] += 1
                    yield from _fact(titles.get(row.get("s", ""), ""), row.get("o", ""), is_label=kind == label)
        for what, expected, found in (
            ("resources", size, seen),
            ("labels", due[label], came[label]),
            ("redirects", due[redirect], came[redirect]),
        ):
            if found != expected:
                raise self._unavailable(cls, f"it counts {expected:,} {what} but returned {found:,}")

    def _covered(self, cls: str, size: int) -> bool:
        """Tell whether a superclass, already read, has all members of a class."""
        for above in self._tree.ancestors(cls):
            if self._counts.get(above, 0) >= size:
                both = f"?s a <{ONTOLOGY}{cls}> . ?s a <{ONTOLOGY}{above}> . {_ONLY_PAGES}"
                return self._count(both, "?s", cls) == size
        return False

    def _pages(self, cls: str, members: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each page of a class's resources (IRI → key) and the key before it, until a page is empty."""
        after, before = "", frozenset[str]()
        while True:
            page = {row.get("s", ""): row.get("k", "") for row in self._page(cls, members, after)}
            if not page:
                return
            if not before.isdisjoint(page):
                raise self._unavailable(cls, f"it returned {next(iter(page))} twice, so pages cannot be told apart")
            yield after, page
            after, before = list(page.values())[-1], frozenset(page)

    def _page(self, cls: str, members: str, after: str) -> list[dict[str, str]]:
        while True:
            query = (
                f"SELECT DISTINCT ?s ({_KEY} AS ?k) WHERE {{ {members} FILTER({_KEY} > {_quoted(after)}) }} "
                f"ORDER BY {_KEY} LIMIT {self._size}"
            )
            try:
                return self._ask(query, can_shrink=True)
            except (Incomplete, Transient) as error:
                if self._size <= SMALLEST or not _helps(error):
                    raise self._unavailable(cls, str(error), error) from error
                self._size = max(SMALLEST, self._size // 2)
            except Refused as error:
                raise self._unavailable(cls, str(error), error) from error

    def _within(self, cls: str, pattern: str, after: str, keys: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yield the rows of a pattern about a page of resources; halve the page where the answer is cut short."""
        query = f"SELECT ?s ?o WHERE {{ {pattern} FILTER({_KEY} > {_quoted(after)} && {_KEY} <= {_quoted(keys[-1])}) }}"
        try:
            rows = self._ask(query, can_shrink=True)
        except (Incomplete, Transient) as error:
            if len(keys) == 1 or not _helps(error):
                raise self._unavailable(cls, str(error), error) from error
            middle = len(keys) // 2
            yield from self._within(cls, pattern, after, keys[:middle])
            yield from self._within(cls, pattern, keys[middle - 1], keys[middle:])
            return
        except Refused as error:
            raise self._unavailable(cls, str(error), error) from error
        yield from rows

    def _count(self, pattern: str, what: str, cls: str) -> int:
        counted = f"COUNT(DISTINCT {what})" if what != "*" else "COUNT(*)"
        try:
            rows = self._ask(f"SELECT ({counted} AS ?n) WHERE {{ {pattern} }}")
            return int(rows[0]["n"])
        except (Incomplete, Transient, Refused) as error:
            raise self._unavailable(cls, str(error), error) from error
        except (LookupError, ValueError) as error:
            raise self._unavailable(cls, "its answer to a count is not a number") from error

    def _ask(self, query: str, *, can_shrink: bool = False) -> list[dict[str, str]]:
        """Send a query, once more if its answer was cut short: that may be temporary, too."""
        try:
            return self._asker.rows(query, self._until, can_shrink=can_shrink)
        except Incomplete:
            return self._asker.rows(query, self._until, can_shrink=can_shrink)

    def _unavailable(self, cls: str, why: str, error: Exception | None = None) -> EndpointUnavailable:
        if isinstance(error, Transient):
            self._breaker.failed(why, error.retry_after)
        elif error is None:
            why += "; its data changed meanwhile, or it silently drops rows"
        return EndpointUnavailable(
            f"SPARQL endpoint {self.endpoint} could not be read completely at class {cls}: {why}. Nothing was built; "
            "try again later, ask for fewer classes, or build from DBpedia's dumps."
        )


_KEY = "ENCODE_FOR_URI(STR(?s))"
_ONLY_PAGES = f'FILTER(STRSTARTS(STR(?s), "{RESOURCE}"))'


def _helps(error: Exception) -> bool:
    """Tell whether asking for less may help: not where the endpoint asks to wait or is unreachable."""
    return isinstance(error, Incomplete | TimedOut)


def _quoted(iri: str) -> str:
    """Return an IRI as a SPARQL string; what ends a string in it is escaped."""
    return '"' + iri.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def _titles(iris: Sequence[str]) -> list[str]:
    """Return the page titles of resources, "" for what is none: a part of a page (`Ada__1`) or an unusable name."""
    names = [iri.removeprefix(RESOURCE) for iri in iris]
    titles = titles_of([name.encode(errors="replace").replace(b"\n", b"%00") for name in names])
    return ["" if "__" in name else title for name, title in zip(names, titles, strict=True)]


def _fact(title: str, other: str, *, is_label: bool) -> Iterator[Fact]:
    if not title:
        return
    if is_label:
        if text := collapse(other):
            yield Label(title, text)
    elif other.startswith(RESOURCE) and (source := _titles([other])[0]):
        yield Redirect(source, title)
