"""Inputs and outputs of acquisition functions, and their registry; listing them does not import torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_core.errors import InvalidConfig
from crossner_core.registry import Registry
from crossner_core.schema import LabelledSentence, Sentence, Span

Scores = NDArray[np.float64]
Order = NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """N sentences without gold and what is known about them; all array indices refer to `sentences`.

    `signals` holds the arrays named in a function's `needs` (see `signals.py`). `gold` are the sentences labelled so
    far, `gold_embeddings` (G, H) their embeddings if requested. `proposed` are a gazetteer's spans, `predicted` the
    model's; both are None if not requested. Without a model there are no model signals.
    """

    sentences: Sequence[Sentence]
    types: Sequence[str]
    signals: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    gold: Sequence[LabelledSentence] = ()
    gold_embeddings: NDArray[np.float32] | None = None
    proposed: Sequence[Sequence[Span]] | None = None
    predicted: Sequence[Sequence[Span]] | None = None

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each sentence, (N,)."""
        return np.array([len(sentence.tokens) for sentence in self.sentences], dtype=np.int64)


# (pool, config, generator) → (N,) scores; higher is sooner.
Score = Callable[[Pool, Any, np.random.Generator], Scores]
# (pool, n, config, generator) → indices of the chosen sentences, in order.
Choose = Callable[[Pool, int, Any, np.random.Generator], Order]


@dataclass(frozen=True)
class NoOptions:
    """The config of a function that has nothing to set."""


@dataclass(frozen=True, slots=True)
class Acquisition:
    """An acquisition function by its id: it scores each sentence independently, or chooses a set as a whole.

    `needs` names the signals it reads; `model` is whether any of them comes from a trained model.
    """

    id: str
    title: str
    reference: str
    config: type
    needs: frozenset[str]
    score: Score | None = None
    choose: Choose | None = None

    @property
    def model(self) -> bool:
        """Whether it can only be used once a model has been trained."""
        from crossner_core.acquisition.signals import OF_MODEL

        return bool(self.needs & OF_MODEL)

    def configured(self, values: Mapping[str, Any]) -> Any:
        """Make its config from plain values; raise InvalidConfig naming the valid fields."""
        known = {spec.name for spec in fields(self.config)}
        if unknown := sorted(set(values) - known):
            valid = ", ".join(sorted(known)) or "none"
            raise InvalidConfig(f"{self.id} has no option {', '.join(unknown)}; valid are {valid}.")
        return self.config(**values)


FUNCTIONS: Registry[Acquisition] = Registry(
    "crossner_core.acquisition",
    "acquisition function",
    apart=("base", "signals", "scoring", "signal_store", "selecting", "vectors", "queue", "ordering"),
    order=lambda function: function.id != "random",
)


def scoring(
    id: str, title: str, reference: str, *, needs: Sequence[str] = (), config: type = NoOptions
) -> Callable[[Score], Score]:
    """Register a function that scores each sentence."""

    def keep(function: Score) -> Score:
        FUNCTIONS.add(id, Acquisition(id, title, reference, config, frozenset(needs), score=function))
        return function

    return keep


def choosing(
    id: str, title: str, reference: str, *, needs: Sequence[str] = (), config: type = NoOptions
) -> Callable[[Choose], Choose]:
    """Register a function that chooses a set of sentences."""

    def keep(function: Choose) -> Choose:
        FUNCTIONS.add(id, Acquisition(id, title, reference, config, frozenset(needs), choose=function))
        return function

    return keep


def acquisition_ids() -> tuple[str, ...]:
    """Return the ids of all acquisition functions, random first."""
    return FUNCTIONS.ids()


def acquisition(id: str) -> Acquisition:
    """Return one acquisition function; raise InvalidConfig naming the known ones."""
    return FUNCTIONS.one(id)
