"""Order a pool by a strategy: one function or a weighted mixture of several, then without look-alikes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crossner_core.acquisition import signals
from crossner_core.acquisition.base import Acquisition, Order, Pool, acquisition, acquisition_ids
from crossner_core.acquisition.vectors import places, without_look_alikes
from crossner_core.errors import InvalidConfig

SELF_TRAINING = "with self-training"
"""Suffix of a strategy whose models also learn from the rest of the pool."""
AND_GAZETTEER = f"{SELF_TRAINING} and gazetteer"
"""The same, with what gazetteer and links propose there as well."""
# The recommended strategy: on three corpora its mean over seeds beats random sentences, and the same strategy without
# gazetteer or without self-training, at every size measured for both (docs/results/loop.md).
RECOMMENDED = f"token_entropy + bert_km {AND_GAZETTEER}"
# The same where there is no gazetteer.
WITHOUT_GAZETTEER = f"token_entropy + bert_km {SELF_TRAINING}"
# Orders the queue before there is a model: the first usable one. Clusters first: on music, twenty sentences chosen this
# way gave the best first model; those with most names or farthest apart (k-centre) gave the worst.
COLD_START = ("bert_km", "gazetteer_entities", "random")
# A function that chooses sets sees this many candidates per sentence wanted: the best by the other functions.
CANDIDATES = 5
# A set is chosen among at most this many sentences, a random sample of a larger pool.
MOST = 20_000
# Sentences whose embeddings have a larger cosine are look-alikes.
ALIKE = 0.95
_STUDENTS = re.compile(rf"(?<![a-z_]){SELF_TRAINING}(?P<gazetteer> and gazetteer)?$")
_PART = re.compile(r"\s*(?:(?P<weight>\d+(?:\.\d+)?)\s*\*)?\s*(?P<id>[a-z_]+)\s*(?:\((?P<options>[^()]*)\))?\s*")


@dataclass(frozen=True)
class Member:
    """A function of a mixture with its weight and options."""

    function: Acquisition
    weight: float = 1.0
    config: Any = None

    @property
    def words(self) -> str:
        """The function's title, after its weight."""
        return self.function.title if self.weight == 1 else f"{self.weight:g} × {self.function.title}"


@dataclass(frozen=True)
class Strategy:
    """Functions with weights: scores are turned into ranks in [0, 1] and added; at most one chooses sets.

    With `self_training` the models also learn from the rest of the pool as unlabelled text; with `gazetteer` they also
    use what gazetteer and links propose there.
    """

    functions: str
    members: tuple[Member, ...]
    self_training: bool = False
    gazetteer: bool = False

    @property
    def text(self) -> str:
        """The strategy as text that `strategy` parses."""
        return f"{self.functions} {self.students}".strip()

    @property
    def students(self) -> str:
        """The suffix after its functions."""
        return AND_GAZETTEER if self.gazetteer else SELF_TRAINING if self.self_training else ""

    @property
    def words(self) -> str:
        """The strategy in words: its functions by their titles."""
        titles = " + ".join(member.words for member in self.members)
        return f"{titles}, {self.students}" if self.students else titles

    @property
    def needs(self) -> frozenset[str]:
        """The signals that any of its functions reads, and embeddings, which identify look-alikes."""
        return frozenset().union(*(member.function.needs for member in self.members), {signals.EMBEDDING})

    @property
    def model(self) -> bool:
        """Whether any of its functions needs a trained model."""
        return any(member.function.model for member in self.members)


@dataclass(frozen=True)
class Selection:
    """Indices into the pool, the next first, and notes on how they were chosen."""

    order: Order
    notes: tuple[str, ...] = field(default=())


def strategy(text: str) -> Strategy:
    """Parse a strategy such as `2*token_entropy + rare_types(power=1) + k_centre`; raise InvalidConfig.

    A weight precedes `*` (default 1; functions that choose sets allow no other), options follow a function in brackets;
    SELF_TRAINING or AND_GAZETTEER may end it.
    """
    bare, students = _STUDENTS.sub("", text.strip()), _STUDENTS.search(text.strip())
    parts = bare.split("+")
    members = tuple(_member(part, text) for part in parts)
    if sum(member.function.choose is not None for member in members) > 1:
        raise InvalidConfig(f"The strategy {text!r} has two functions that choose sets; at most one can.")
    gazetteer = students is not None and students["gazetteer"] is not None
    return Strategy(" + ".join(part.strip() for part in parts), members, students is not None, gazetteer)


def without_idle_weights(text: str) -> str:
    """Return a strategy without the weights of functions that choose sets.

    For strategies stored when such weights were accepted; they never affected the order, and `strategy` rejects them.
    """
    sets = "|".join(id for id in acquisition_ids() if acquisition(id).choose is not None)
    return re.sub(rf"(?<![\w.])\d+(?:\.\d+)?\s*\*\s*(?=(?:{sets})(?![a-z_]))", "", text)


def select(
    pool: Pool, count: int, chosen: Strategy, rng: np.random.Generator, *, batch: int | None = None
) -> Selection:
    """Order the pool's best `count` sentences by a strategy, or all of a smaller pool.

    A function that chooses sets chooses the first `batch` as a set of its own: what is annotated before the next round
    should not be an arbitrary part of a much larger set. Functions whose signals are missing are left out, with a note.
    One of COLD_START replaces the strategy if no function is left, or none of those that need a model.
    """
    members, notes = _usable(pool, chosen)
    count = min(count, len(pool))
    if not count:
        return Selection(np.zeros(0, dtype=np.int64), (*notes, "The pool is empty."))
    by_score = [member for member in members if member.function.score is not None]
    sets = [member for member in members if member.function.choose is not None]
    ranked = _ranked(pool, by_score, rng) if by_score else rng.permutation(len(pool))
    if sets:
        sizes = (count,) if batch is None or batch >= count else (batch, count - batch)
        ranked = _in_sets(pool, ranked, sizes, bool(by_score), sets[0], rng)
    if len(members) == 1 and members[0].function.id == "random":
        return Selection(ranked[:count], notes)
    if (vectors := pool.signals.get(signals.EMBEDDING)) is not None:
        ranked = without_look_alikes(ranked, np.asarray(vectors, dtype=np.float32), count, ALIKE)
    return Selection(ranked[:count], notes)


def _member(part: str, text: str) -> Member:
    match = _PART.fullmatch(part)
    if match is None:
        raise InvalidConfig(
            f"The strategy {text!r} cannot be read at {part.strip()!r}; write functions joined by +, each with a "
            f"weight before it (2*longest) and options in brackets; functions are {', '.join(acquisition_ids())}."
        )
    function, weight = acquisition(match["id"]), float(match["weight"] or 1.0)
    if function.choose is not None and weight != 1:
        raise InvalidConfig(
            f"The weight of {function.id} is {weight:g}; it can only be 1: a function that chooses sets has no scores "
            "to weight; it chooses among the best by the others. Leave its weight out, or weight the others."
        )
    if not 0 < weight <= 1000:
        raise InvalidConfig(f"The weight of {function.id} is {weight:g}; it must lie in (0, 1000].")
    return Member(function, weight, function.configured(_options(match["options"] or "", function)))


def _options(text: str, function: Acquisition) -> Mapping[str, float]:
    values = {}
    for pair in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = pair.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise InvalidConfig(
                f"The option {pair!r} of {function.id} cannot be read; write name=number, as in length_power=0.5."
            ) from None
    return values


def _usable(pool: Pool, chosen: Strategy) -> tuple[tuple[Member, ...], tuple[str, ...]]:
    usable = tuple(member for member in chosen.members if _can(member.function, pool))
    left_out = [member.function.id for member in chosen.members if member not in usable]
    if not left_out:
        return usable, ()
    why = f"Left out because their signals are missing: {', '.join(left_out)}."
    if usable and (not chosen.model or any(member.function.model for member in usable)):
        return usable, (why,)
    cold = next(member for name in COLD_START for member in strategy(name).members if _can(member.function, pool))
    return (cold,), (why, f"Until there is a model: {cold.function.id}.")


def _can(function: Acquisition, pool: Pool) -> bool:
    beside = {signals.PROPOSED: pool.proposed is not None, signals.PREDICTED: pool.predicted is not None}
    return all(beside.get(name, name in pool.signals) for name in function.needs)


def _ranked(pool: Pool, members: list[Member], rng: np.random.Generator) -> Order:
    """Return the whole pool, best first; ties in random order."""
    total = np.zeros(len(pool))
    for member in members:
        assert member.function.score is not None
        total += member.weight * places(member.function.score(pool, member.config, rng))
    return np.lexsort((rng.random(len(pool)), -total))


def _in_sets(
    pool: Pool, ranked: Order, sizes: Sequence[int], is_scored: bool, member: Member, rng: np.random.Generator
) -> Order:
    """Let a function choose a set of each size, one after the other, each among the best that are left."""
    order, end = np.zeros(0, dtype=np.int64), 0
    for size in sizes:
        done = order[:end]
        among = ranked[~np.isin(ranked, done)][: max(CANDIDATES * size, 50) if is_scored else MOST]
        order, end = np.concatenate([done, _as_set(pool, done, among, size, member, rng)]), end + size
    return order


def _as_set(pool: Pool, before: Order, among: Order, count: int, member: Member, rng: np.random.Generator) -> Order:
    """Let a function choose among some sentences of the pool; the rest follow in their order."""
    assert member.function.choose is not None
    known = pool.gold_embeddings
    if known is not None and len(before):
        known = np.concatenate([known, pool.signals[signals.EMBEDDING][before]])
    part = Pool(
        [pool.sentences[index] for index in among],
        pool.types,
        {name: values[among] for name, values in pool.signals.items()},
        pool.gold,
        known,
    )
    chosen = among[member.function.choose(part, count, member.config, rng)]
    taken = set(chosen.tolist())
    return np.concatenate([chosen, np.array([index for index in among if index not in taken], dtype=np.int64)])
