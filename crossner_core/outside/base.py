"""An outside model: its settings, what is sent to it, and what its answer names; loads and sends nothing."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from crossner_core.domains import Domain
from crossner_core.errors import InvalidConfig
from crossner_core.options.base import Checked, option
from crossner_core.schema import LabelledSentence, Sentence
from crossner_core.web import check_address

SCORE = 0.6
"""What a suggestion counts that comes without a usable score, before gold has shown what its source is worth.

More than a hint, and less than a campaign's *accept all* takes along by default.
"""
GUIDELINE = 2000
"""Characters of a type's guideline that are sent."""
EXAMPLES_FROM = 20
"""Gold sentences, the oldest ones, among which examples are chosen."""


class Unreadable(Exception):
    """An answer that is not what was asked for; the sentence gets nothing from it."""


class NotTaken(Unreadable):
    """A request that the service does not take; it may take the next one."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: where it goes, and its body. `most_output` is how many tokens its answer can have."""

    url: str
    body: Mapping[str, Any]
    most_output: int = 0

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        return json.dumps(self.body, ensure_ascii=False, sort_keys=True).encode("utf-8", errors="replace")

    @property
    def key(self) -> str:
        """What names the request in a cache: the same sentence, prompt, model and options give the same."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Named:
    """A text that an answer names as an entity, with its type as written there."""

    text: str
    type: str
    score: float = SCORE


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer names, in its order; `malformed` counts entries that are none."""

    named: tuple[Named, ...]
    malformed: int = 0


@dataclass(frozen=True)
class OutsideModel(Checked, ABC):
    """An outside model, as the file of outside models describes it. It never holds a key: that is in a variable.

    A kind of service is a subclass in a file of `crossner_core/suggest/`. Prices are in `currency`.
    """

    name: str = option("", "Name of the model here.")
    address: str = option("", "Where requests are sent to.")
    model: str = option("", "Name of the model there.")
    key_variable: str = option("", "Environment variable that holds the key; none is sent without it.")
    input_price: float = option(0.0, "Price of a million tokens sent.", min=0, max=1e6)
    output_price: float = option(0.0, "Price of a million tokens of answers.", min=0, max=1e6)
    request_price: float = option(0.0, "Price of a request.", min=0, max=1e6)
    currency: str = option("USD", "Currency of the prices.")
    timeout: float = option(60.0, "Seconds until an answer must be complete.", min=1, max=600)
    retries: int = option(4, "How often a request that failed for a while is sent again.", min=0, max=10)
    at_once: int = option(4, "Requests at the same time.", min=1, max=32)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,59}", self.name):
            raise InvalidConfig(f"An outside model is called {self.name!r}; allowed are letters, digits, - _ and .")
        check_address(self.address, what=f"The address of {self.name}", example="https://api.example/v1")
        if "?" in self.address or "#" in self.address:
            raise InvalidConfig(
                f"The address of {self.name} has a part behind ? or #; give it without: the address is shown and kept."
            )
        if self.key_variable and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_variable):
            raise InvalidConfig(
                f"The key_variable of {self.name} is no name of an environment variable. It names the variable that "
                "holds the key, such as OUTSIDE_KEY; the key itself does not belong into the file."
            )
        if not re.fullmatch(r"\w{1,8}", self.currency):
            raise InvalidConfig(f"The currency of {self.name} is {self.currency!r}; give a code such as EUR.")

    @property
    def takes_examples(self) -> int:
        """How many labelled sentences go along with a request at most."""
        return 0

    @abstractmethod
    def request(self, domain: Domain, sentence: Sentence, examples: Sequence[LabelledSentence] = ()) -> Request:
        """Return the request about a sentence; `examples` are at most `takes_examples`, from `chosen_examples`."""

    @abstractmethod
    def read(self, document: Any) -> Reading:
        """Read a parsed answer; raise Unreadable if it is not what was asked for."""

    def usage(self, document: Any) -> tuple[int | None, int | None]:
        """Return how many tokens were sent and answered, by a parsed answer; None where it does not say."""
        return None, None

    @property
    def has_price(self) -> bool:
        """Whether a request costs anything."""
        return bool(self.input_price or self.output_price or self.request_price)

    def price(self, requests: int, input_tokens: int, output_tokens: int) -> float:
        """Return what requests and tokens cost."""
        tokens = input_tokens * self.input_price + output_tokens * self.output_price
        return requests * self.request_price + tokens / 1e6


def chosen_examples(model: OutsideModel, gold: Sequence[LabelledSentence]) -> tuple[LabelledSentence, ...]:
    """Return what a model takes of gold sentences: of the first `EXAMPLES_FROM`, each time the one with most new types.

    They stay the same while gold grows beyond those, and so do the requests whose answers are kept.
    """
    left, chosen = list(gold[:EXAMPLES_FROM]), list[LabelledSentence]()
    shown: set[str] = set()
    while left and len(chosen) < model.takes_examples:
        best = max(left, key=lambda item: len({span.type for span in item.spans} - shown))
        left.remove(best)
        chosen.append(best)
        shown |= {span.type for span in best.spans}
    return tuple(chosen)


def settings_of(kind: type[OutsideModel]) -> tuple[str, ...]:
    """Return the keys that a table of this kind may have, besides `kind`."""
    return tuple(spec.name for spec in fields(kind) if spec.name != "name")


def guideline(text: str) -> str:
    """Return a guideline in one line, cut after `GUIDELINE` characters."""
    line = " ".join(text.split())
    return line if len(line) <= GUIDELINE else f"{line[:GUIDELINE].rsplit(' ', 1)[0]} …"
