"""Ask an outside model about many sentences: from the cache where it can be, within a budget, some at a time."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from crossner_core.domains import Domain
from crossner_core.errors import BadInput, EndpointUnavailable, InvalidConfig
from crossner_core.outside.answers import check
from crossner_core.outside.base import Named, NotTaken, OutsideModel, Reading, Request, Unreadable
from crossner_core.outside.sending import post
from crossner_core.records import read
from crossner_core.schema import LabelledSentence, Sentence, Suggestion, is_storable
from crossner_core.suggest.base import AnswerCache
from crossner_core.web import Refused, TimedOut, Transient, Watch

CHUNK = 64
"""Sentences whose answers are looked up in the cache at a time."""
IN_A_ROW = 5
"""Sentences in a row without a usable answer after which no further one is sent."""
BACKOFF = 1.0
"""Seconds before the first retry; twice as long before each further one."""
LONGEST_PAUSE = 120.0
"""Seconds that are waited before a retry; a service that asks for more is not asked again."""
GRACE = 3.0
"""Seconds for requests under way to end by themselves when asking stops."""
_LOOK = 0.2
_OVERHEAD = 64
MOST_OF_A_TYPE = 200


@dataclass(frozen=True, slots=True)
class Spend:
    """What requests take: how many they are, tokens, and money."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class Budget(Protocol):
    """What may be spent. It is called from several threads."""

    def reserve(self, most: Spend) -> bool:
        """Set aside what a request takes at most; return whether that was left."""
        ...

    def settle(self, reserved: Spend, spent: Spend) -> None:
        """Replace what was set aside by what was spent."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sentence, by its index: `suggestions` is None without a usable answer, and `why` says why.

    `spent` is what this outcome took; an answer `from_cache` took nothing.
    """

    index: int
    suggestions: tuple[Suggestion, ...] | None
    why: str = ""
    dropped: Counter[str] = field(default_factory=Counter)
    is_foreign: bool = False
    from_cache: bool = False


class _Stopped(Exception):
    """Asking stops, so this request is not made."""


class _OutOfBudget(Exception):
    """Nothing is left for this request."""


class Asker:
    """Asks one model about sentences of a domain.

    After `outcomes` has ended, `budget_spent` is whether it ended for lack of budget. A request that failed for a while
    (429, 5xx, silence, a dropped connection) is sent again, after a pause that doubles, or as long as the service asks;
    meanwhile no other is sent. What was set aside for a request that may have been answered stays spent.
    """

    def __init__(
        self,
        model: OutsideModel,
        domain: Domain,
        source: str,
        *,
        key: str,
        cache: AnswerCache,
        budget: Budget,
        rng: random.Random,
        backoff: float = BACKOFF,
        examples: Sequence[LabelledSentence] = (),
    ) -> None:
        self.model, self.domain, self.source, self.examples = model, domain, source, examples
        self.budget_spent = False
        self._key, self._cache, self._budget = check_key(model, key), cache, budget
        self._rng, self._backoff = rng, backoff
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._watches: set[Watch] = set()
        self._not_before = 0.0

    def outcomes(
        self, sentences: Sequence[Sentence], should_stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Outcome]:
        """Yield what became of each sentence, as it is known, until all are, the budget is spent, or it shall stop.

        Raises EndpointUnavailable, after all that was answered, where going on makes no sense.
        """
        self._stop.clear()
        self.budget_spent = False
        with ThreadPoolExecutor(self.model.at_once, thread_name_prefix="outside") as threads:
            try:
                yield from self._outcomes(threads, sentences, should_stop)
            finally:
                self._end()

    def _outcomes(
        self, threads: ThreadPoolExecutor, sentences: Sequence[Sentence], should_stop: Callable[[], bool]
    ) -> Iterator[Outcome]:
        waiting, under_way = self._uncached(sentences), set[Future[Outcome]]()
        failure, in_a_row, more = "", 0, True
        while more or under_way:
            while more and len(under_way) < self.model.at_once:
                ready = None if should_stop() else next(waiting, None)
                if isinstance(ready, Outcome):
                    yield ready
                elif ready is not None:
                    index, request = ready
                    under_way.add(threads.submit(self._ask, index, sentences[index], request))
                else:
                    more = False
            if under_way and (failure or should_stop()):
                self._end()
            for future in wait(under_way, timeout=_LOOK, return_when=FIRST_COMPLETED).done:
                under_way.discard(future)
                try:
                    outcome = future.result()
                except _Stopped:
                    continue
                except _OutOfBudget:
                    self.budget_spent, more = True, False
                except (Refused, Transient) as error:
                    failure, more = failure or str(error), False
                else:
                    yield outcome
                    in_a_row = 0 if outcome.suggestions is not None and not outcome.is_foreign else in_a_row + 1
                    if in_a_row >= IN_A_ROW:
                        why = outcome.why or "it names nothing that stands in the sentence"
                        failure = failure or f"{in_a_row} sentences in a row got no usable answer, the last: {why}"
                        more = False
        if failure:
            raise EndpointUnavailable(f"{self.model.name} at {self.model.address} is not asked further: {failure}.")

    def _end(self) -> None:
        """Let requests under way end within moments, and then end them."""
        self._stop.set()
        until = time.monotonic() + GRACE
        while self._watches and time.monotonic() < until:
            time.sleep(0.02)
        with self._lock:
            for watch in self._watches:
                watch.fire()

    def _uncached(self, sentences: Sequence[Sentence]) -> Iterator[Outcome | tuple[int, Request]]:
        """Yield each sentence's outcome from the cache, or its request."""
        for first in range(0, len(sentences), CHUNK):
            some = sentences[first : first + CHUNK]
            requests = [self.model.request(self.domain, sentence, self.examples) for sentence in some]
            kept = self._cache.get_many(self.model.address, [request.key for request in requests])
            for offset, (sentence, request) in enumerate(zip(some, requests, strict=True)):
                reading = _kept(kept.get(request.key))
                if reading is None:
                    yield first + offset, request
                else:
                    yield replace(self._outcome(first + offset, sentence, reading), from_cache=True)

    def _ask(self, index: int, sentence: Sentence, request: Request) -> Outcome:
        """Ask about a sentence until there is an answer; keep it."""
        try:
            reading = self._reading(request)
        except Unreadable as error:
            return Outcome(index, None, str(error))
        reading = _tidied(reading, sentence)
        self._cache.put_many(self.model.address, {request.key: asdict(reading)})
        return self._outcome(index, sentence, reading)

    def _outcome(self, index: int, sentence: Sentence, reading: Reading) -> Outcome:
        checked = check(reading, sentence, self.domain, self.source)
        return Outcome(index, checked.suggestions, "", checked.dropped, checked.is_foreign)

    def _reading(self, request: Request) -> Reading:
        attempt = 0
        while True:
            self._wait()
            try:
                return self._once(request)
            except Transient as error:
                asked = error.retry_after or 0.0
                if asked > LONGEST_PAUSE:
                    raise Refused(f"{error}, and asks to wait {asked:,.0f} s; resume then") from error
                pause = min(LONGEST_PAUSE, self._backoff * 2**attempt * (0.5 + self._rng.random()))
                attempt += 1
                if attempt > self.model.retries:
                    if isinstance(error, TimedOut):
                        raise Unreadable(str(error)) from error
                    raise
                with self._lock:
                    self._not_before = max(self._not_before, time.monotonic() + max(pause, asked))

    def _wait(self) -> None:
        """Wait until requests may be sent again; raise _Stopped if asking stops meanwhile."""
        while (pause := self._not_before - time.monotonic()) > 0:
            if self._stop.wait(min(pause, 1.0)):
                break
        if self._stop.is_set():
            raise _Stopped

    def _once(self, request: Request) -> Reading:
        most = most_of(self.model, request)
        if not self._budget.reserve(most):
            raise _OutOfBudget
        try:
            with self._watched() as watch:
                document = post(request, self._key, timeout=self.model.timeout, watch=watch)
        except TimedOut:
            if self._stop.is_set():
                raise _Stopped from None
            raise  # it may have been answered and charged for all the same
        except (Transient, Refused, NotTaken):
            self._budget.settle(most, Spend(requests=1))
            raise
        sent, answered = self.model.usage(document)
        tokens = most.input_tokens if sent is None else sent, most.output_tokens if answered is None else answered
        self._budget.settle(most, Spend(1, *tokens, self.model.price(1, *tokens)))
        return self.model.read(document)

    @contextmanager
    def _watched(self) -> Iterator[Watch]:
        with Watch(self.model.timeout) as watch:
            with self._lock:
                self._watches.add(watch)
            try:
                yield watch
            finally:
                with self._lock:
                    self._watches.discard(watch)


def most_of(model: OutsideModel, request: Request) -> Spend:
    """Return what a request takes at most: a token has at least one byte, and its answer has a limit."""
    if not request.most_output:
        return Spend(1, 0, 0, model.price(1, 0, 0))
    tokens = len(request.data) + _OVERHEAD
    return Spend(1, tokens, request.most_output, model.price(1, tokens, request.most_output))


def check_key(model: OutsideModel, key: str) -> str:
    """Return a key that a header can hold, "" for a model that takes none; InvalidConfig, which never shows it."""
    if not model.key_variable:
        return ""
    if not key:
        raise InvalidConfig(
            f"{model.name} needs a key, and the variable {model.key_variable} is not set; set it where the app and "
            "the worker are started."
        )
    if not key.isascii() or not key.isprintable() or any(letter.isspace() for letter in key):
        raise InvalidConfig(
            f"The variable {model.key_variable} holds no usable key: only printable ASCII without spaces is allowed."
        )
    return key


def _tidied(reading: Reading, sentence: Sentence) -> Reading:
    """Replace what cannot be kept or is longer than the sentence by "", which stands nowhere; a type likewise."""
    named = (
        Named(
            each.text if len(each.text) <= len(sentence.text) + 10 and is_storable(each.text) else "",
            each.type if len(each.type) <= MOST_OF_A_TYPE and is_storable(each.type) else "",
            each.score,
        )
        for each in reading.named
    )
    return replace(reading, named=tuple(named))


def _kept(value: dict[str, Any] | None) -> Reading | None:
    try:
        return None if value is None else read(Reading, value, "an answer")
    except BadInput:
        return None  # written by another version: as if not kept
