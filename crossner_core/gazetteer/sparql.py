"""Any SPARQL endpoint by URL: batched, cached, patient within limits, and never wrongly sure that a name is unknown."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence

from crossner_core.errors import EndpointUnavailable, InvalidConfig
from crossner_core.gazetteer import transport
from crossner_core.gazetteer.asking import Asker
from crossner_core.gazetteer.breaker import CircuitBreaker, breaker_for
from crossner_core.gazetteer.queries import Answers, Query, check_language, label_query, read_answers, title_query
from crossner_core.gazetteer.source import Cache, Candidate
from crossner_core.gazetteer.titles import is_askable

PUBLIC_ENDPOINT = "https://dbpedia.org/sparql"


class SparqlSource:
    """Looks names up at an endpoint: page titles first, labels for the names that are no typed page.

    `timeout` bounds one query and `deadline` one `lookup`, both in seconds of wall time; `batch_size` is in names
    (Virtuoso's compile cost grows faster than linearly past 200). A batch whose answer is cut short is halved and
    asked again. Complete answers go into the cache as they come, so what one look-up got before it failed is kept.
    """

    def __init__(
        self,
        endpoint: str,
        cache: Cache,
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
        """Return the names that the cache knows, found or truly not found; asks nobody."""
        keys = {self._key(name): name for name in names}
        answers: Answers = {}
        for key, value in self._cache.get_many(self.endpoint, list(keys)).items():
            try:
                answers[keys[key]] = tuple(Candidate.from_json(item) for item in value["candidates"])
            except (KeyError, TypeError, ValueError):
                continue  # written by another version: as good as not kept
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
        for at in range(0, len(names), self._batch_size):
            if time.monotonic() >= until:
                raise EndpointUnavailable(
                    f"SPARQL endpoint {self.endpoint} answered {at} of {len(names)} names within {self._deadline:g} s; "
                    "those are kept, ask again for the rest."
                )
            batch = names[at : at + self._batch_size]
            try:
                found = self._answer(batch, until)
            except (transport.Transient, transport.Incomplete, transport.Refused) as error:
                retry_after = getattr(error, "retry_after", None)
                if not answers or retry_after:  # else it is up, only not quick enough for this deadline
                    self._breaker.failed(str(error), retry_after)
                raise EndpointUnavailable(
                    f"SPARQL endpoint {self.endpoint} gave no complete answer: {error}. "
                    f"{at} of {len(names)} names were answered and kept."
                ) from error
            self._breaker.succeeded()
            self._keep(found)
            answers |= found
        return answers

    def _keep(self, found: Answers) -> None:
        self._cache.put_many(
            self.endpoint,
            {self._key(name): {"candidates": [item.to_json() for item in items]} for name, items in found.items()},
        )

    def _answer(self, names: Sequence[str], until: float) -> Answers:
        answers = self._complete(names, title_query, until)
        untitled = [name for name in names if not answers[name]]
        if untitled:
            answers |= self._complete(untitled, lambda batch: label_query(batch, self._language), until)
        return answers

    def _complete(self, names: Sequence[str], build: Callable[[Sequence[str]], Query], until: float) -> Answers:
        """Ask for a batch; halve it for as long as its answer comes back cut short."""
        query = build(names)
        try:
            return read_answers(query, self._asker.rows(query.text, until))
        except transport.Incomplete:
            if len(names) == 1:  # cannot be halved: once more, then it is an error
                return read_answers(query, self._asker.rows(query.text, until))
        middle = len(names) // 2
        return self._complete(names[:middle], build, until) | self._complete(names[middle:], build, until)
