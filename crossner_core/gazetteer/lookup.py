"""Names looked up in DBpedia by SPARQL: at any endpoint by its URL, or in process from a file.

Both run the same two queries. Endpoints are queried in batches and cached, and a failed look-up never counts as an
unknown name.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

from crossner_core.errors import BadInput, EndpointUnavailable, InvalidConfig
from crossner_core.gazetteer.endpoint import Asker, CircuitBreaker, breaker_for, read_rows
from crossner_core.gazetteer.titles import ONTOLOGY, collapse, is_askable, literal, resource_uri, strip_suffix
from crossner_core.records import Record
from crossner_core.suggest.base import AnswerCache
from crossner_core.web import Incomplete, Refused, Transient

if TYPE_CHECKING:
    from pyoxigraph import Quad, Store


Via = Literal["title", "redirect", "label", "name"]
VIAS: tuple[Via, ...] = get_args(Via)
TITLE_VIAS: frozenset[Via] = frozenset({"title", "redirect"})


@dataclass(frozen=True, slots=True, order=True)
class Resource(Record):
    """A resource a name may stand for: its URI, its DBpedia classes (URIs, sorted) and how the name led to it."""

    entity: str
    classes: tuple[str, ...]
    via: Via


class Source(Protocol):
    """Looks names up: surface forms or page titles, white space already collapsed to single spaces."""

    @property
    def name(self) -> str:
        """What messages call the source."""
        ...

    def lookup(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        """Return the typed resources of every name, () where there are none; EndpointUnavailable if incomplete."""
        ...


@runtime_checkable
class CachingSource(Protocol):
    """A source that can return earlier answers without sending a request."""

    def cached(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        """Return the names known from earlier answers; names never answered are left out."""
        ...


RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
FOAF_NAME = "http://xmlns.com/foaf/0.1/name"
REDIRECTS = f"{ONTOLOGY}wikiPageRedirects"
_LANGUAGE = re.compile(r"[a-z]{2,8}(-[a-zA-Z0-9]{1,8})*\Z")

Answers = dict[str, tuple[Resource, ...]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query over a batch of names and, for each key its rows carry, the names that key answers."""

    text: str
    names_of: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the batch, once."""
        return tuple(dict.fromkeys(name for names in self.names_of.values() for name in names))


def check_language(language: str) -> str:
    """Return a language tag that may stand in a query; InvalidConfig for anything else."""
    if not _LANGUAGE.match(language):
        raise InvalidConfig(f"Language is {language!r}; give a tag such as en or pt-br.")
    return language


def _values(terms: Iterable[str], names: Sequence[str]) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Group names by term; one duplicate in a VALUES list makes a Virtuoso endpoint hang."""
    grouped: dict[str, tuple[str, ...]] = {}
    for term, name in zip(terms, names, strict=True):
        grouped[term] = (*grouped.get(term, ()), name)
    return " ".join(grouped), grouped


def title_query(names: Sequence[str]) -> Query:
    """Query the classes of the pages with these titles, and of the pages they redirect to."""
    terms, grouped = _values((f"<{resource_uri(name)}>" for name in names), names)
    text = _union(
        f"VALUES ?title {{ {terms} }} ?title a ?class .",
        f"VALUES ?redirect {{ {terms} }} ?redirect <{REDIRECTS}> ?resource . ?resource a ?class .",
    )
    return Query(text, {term[1:-1]: rows for term, rows in grouped.items()})


def label_query(names: Sequence[str], language: str = "en") -> Query:
    """Query the classes of resources whose rdfs:label or foaf:name is the name."""
    terms, grouped = _values((literal(name, check_language(language)) for name in names), names)
    text = _union(
        f"VALUES ?label {{ {terms} }} ?resource <{RDFS_LABEL}> ?label . ?resource a ?class .",
        f"VALUES ?name {{ {terms} }} ?resource <{FOAF_NAME}> ?name . ?resource a ?class .",
    )
    return Query(text, {rows[0]: rows for rows in grouped.values()})


def _union(*arms: str) -> str:
    """Write a query of arms, each with its own VALUES list; the variable an arm binds tells which it was.

    No BIND and no OPTIONAL: Virtuoso's compiler fails on both next to VALUES and UNION.
    """
    keep = f'FILTER(STRSTARTS(STR(?class), "{ONTOLOGY}"))'
    united = "\n  UNION ".join(f"{{ {arm} {keep} }}" for arm in arms)
    return f"SELECT DISTINCT ?{' ?'.join(VIAS)} ?resource ?class WHERE {{\n  {united}\n}}"


def read_answers(query: Query, rows: Iterable[Mapping[str, str]]) -> Answers:
    """Gather rows into candidates, sorted; every name of the batch is there, () where nothing was found."""
    classes: dict[tuple[Via, str, str], set[str]] = {}
    for row in rows:
        via = next((via for via in VIAS if row.get(via) in query.names_of), None)
        if via is not None and "class" in row:
            resource = row.get("resource", row[via])
            classes.setdefault((via, row[via], resource), set()).add(row["class"])
    best: dict[str, dict[str, Resource]] = {name: {} for name in query.names}
    for (via, key, resource), found in sorted(classes.items(), key=lambda item: VIAS.index(item[0][0])):
        for name in query.names_of[key]:
            best[name].setdefault(resource, Resource(resource, tuple(sorted(found)), via))
    return {name: tuple(sorted(found.values())) for name, found in best.items()}


SAMPLE = Path(__file__).parent / "sample" / "dbpedia-sample.nt"
SUFFIXES = (".nt", ".ttl")
BATCH = 500

_stores: dict[tuple[Path, int, int, str], Store] = {}
_stores_lock = threading.Lock()


class EmbeddedSource:
    """Answers like an endpoint from a file; loads it at the first look-up, once per process and file state."""

    def __init__(self, path: Path | str = SAMPLE, *, language: str = "en") -> None:
        self.path = Path(path)
        if self.path.suffix not in SUFFIXES:
            raise BadInput(f"{self.path}: a gazetteer file ends in {' or '.join(SUFFIXES)}.")
        self._language = check_language(language)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def lookup(self, names: Iterable[str]) -> Answers:
        """Return the typed resources of every name, () where there are none; BadInput if the file is unusable."""
        wanted = list(dict.fromkeys(names))
        askable = [name for name in wanted if is_askable(name)]
        store, answers = load(self.path, self._language), Answers()
        for start in range(0, len(askable), BATCH):
            batch = askable[start : start + BATCH]
            answer = _run(store, title_query(batch))
            untitled = [name for name in batch if not answer[name]]
            if untitled:
                answer |= _run(store, label_query(untitled, self._language))
            answers |= answer
        return {name: answers.get(name, ()) for name in wanted}


def load(path: Path, language: str = "en") -> Store:
    """Return the store of a file, from memory unless the file changed."""
    try:
        state = path.stat()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).") from error
    key = (path.resolve(), state.st_mtime_ns, state.st_size, language)
    with _stores_lock:
        if key not in _stores:
            _stores[key] = _read(path, language)
        return _stores[key]


def _read(path: Path, language: str) -> Store:
    from pyoxigraph import RdfFormat, Store

    store = Store()
    try:
        store.load(path=str(path), format=RdfFormat.TURTLE if path.suffix == ".ttl" else RdfFormat.N_TRIPLES)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"{path}: is not a valid {path.suffix[1:]} file: {error}") from error
    store.extend(list(_aliases(store, language)))
    return store


def _aliases(store: Store, language: str) -> Iterator[Quad]:
    """Yield names that the file only implies: `Queen (band)` is also called `Queen`, and untagged labels count too."""
    from pyoxigraph import Literal, NamedNode, Quad

    name = NamedNode(FOAF_NAME)
    for predicate in (NamedNode(RDFS_LABEL), name):
        for quad in store.quads_for_pattern(None, predicate, None, None):
            written = quad.object
            if not isinstance(written, Literal) or written.language not in (None, language):
                continue
            title = collapse(written.value)
            if written.language is None:
                yield Quad(quad.subject, predicate, Literal(title, language=language))
            if alias := strip_suffix(title):
                yield Quad(quad.subject, name, Literal(alias, language=language))


def _run(store: Store, query: Query) -> Answers:
    from pyoxigraph import QueryResultsFormat, QuerySolutions

    results = store.query(query.text)
    assert isinstance(results, QuerySolutions)  # both queries are SELECT
    document = json.loads(results.serialize(format=QueryResultsFormat.JSON) or b"")
    return read_answers(query, read_rows(document))


class SparqlSource:
    """Looks names up at an endpoint: page titles first, labels for the names that are no typed page.

    `timeout` bounds one query and `deadline` one `lookup`, both in seconds of wall time; `batch_size` is in names
    (Virtuoso's compile cost grows faster than linearly past 200). A batch whose answer is cut short is halved and
    asked again. Complete answers go into the cache as they come, so what one look-up got before it failed is kept.
    """

    def __init__(
        self,
        endpoint: str,
        cache: AnswerCache,
        timeout: float = 30.0,
        deadline: float = 120.0,
        batch_size: int = 200,
        retries: int = 3,
        *,
        backoff: float = 0.5,
        max_rows: int = 10_000,
        language: str = "en",
        rng: random.Random,
        breaker: CircuitBreaker | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        for what, value in (("deadline", deadline), ("batch_size", batch_size)):
            if not value > 0:
                raise InvalidConfig(f"SPARQL {what} is {value}, must be above 0.")
        self._asker = Asker(
            endpoint, timeout=timeout, retries=retries, backoff=backoff, max_rows=max_rows, rng=rng, sleep=sleep
        )
        self.endpoint = self._asker.endpoint
        self._cache, self._deadline = cache, deadline
        self._batch_size, self._language = batch_size, check_language(language)
        self._breaker = breaker or breaker_for(endpoint)

    @property
    def name(self) -> str:
        """The endpoint's URL."""
        return self.endpoint

    def cached(self, names: Iterable[str]) -> Answers:
        """Return the names in the cache, found or known to be missing; sends no request."""
        keys = {self._key(name): name for name in names}
        answers: Answers = {}
        for key, value in self._cache.get_many(self.endpoint, list(keys)).items():
            try:
                answers[keys[key]] = tuple(Resource.from_dict(item) for item in value["candidates"])
            except (KeyError, TypeError, BadInput):
                continue  # written by another version: as if not cached
        return answers

    def lookup(self, names: Iterable[str]) -> Answers:
        """Return the typed resources of every name; raise EndpointUnavailable if one could not be answered."""
        wanted = list(dict.fromkeys(names))
        answers = self.cached(wanted)
        missing = [name for name in wanted if name not in answers and is_askable(name)]
        if missing:
            answers |= self._look_up(missing)
        return {name: answers.get(name, ()) for name in wanted}

    def _key(self, name: str) -> str:
        return f"{self._language}:{name}"

    def _look_up(self, names: Sequence[str]) -> Answers:
        if refusal := self._breaker.refusal():
            raise EndpointUnavailable(f"SPARQL endpoint {self.endpoint} is {refusal}")
        until, answers = time.monotonic() + self._deadline, Answers()
        for start in range(0, len(names), self._batch_size):
            if time.monotonic() >= until:
                raise EndpointUnavailable(
                    f"SPARQL endpoint {self.endpoint} answered {start} of {len(names)} names within "
                    f"{self._deadline:g} s; those are kept; try again for the rest."
                )
            batch = names[start : start + self._batch_size]
            try:
                fetched = self._answer(batch, until)
            except (Transient, Incomplete, Refused) as error:
                retry_after = getattr(error, "retry_after", None)
                if not answers or retry_after:  # else it is up, only too slow for this deadline
                    self._breaker.failed(str(error), retry_after)
                raise EndpointUnavailable(
                    f"SPARQL endpoint {self.endpoint} gave no complete answer: {error}. "
                    f"{start} of {len(names)} names were answered and kept."
                ) from error
            self._breaker.succeeded()
            self._keep(fetched)
            answers |= fetched
        return answers

    def _keep(self, answers: Answers) -> None:
        self._cache.put_many(
            self.endpoint,
            {self._key(name): {"candidates": [item.to_dict() for item in items]} for name, items in answers.items()},
        )

    def _answer(self, names: Sequence[str], until: float) -> Answers:
        answers = self._complete(names, title_query, until)
        untitled = [name for name in names if not answers[name]]
        if untitled:
            answers |= self._complete(untitled, lambda batch: label_query(batch, self._language), until)
        return answers

    def _complete(self, names: Sequence[str], build: Callable[[Sequence[str]], Query], until: float) -> Answers:
        """Query a batch; halve it as long as its answer is cut short."""
        query = build(names)
        try:
            return read_answers(query, self._asker.rows(query.text, until))
        except Incomplete:
            if len(names) == 1:  # cannot be halved: once more, then it is an error
                return read_answers(query, self._asker.rows(query.text, until))
        middle = len(names) // 2
        return self._complete(names[:middle], build, until) | self._complete(names[middle:], build, until)
