"""The interface of a source of suggestions, and the registry; listing sources loads nothing heavy.

A new source is a file of this package that registers a `SuggestionSource` under the file's name. Pre-annotation then
queries it, the store keeps its suggestions separate, and calibration learns their weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from crossner_core.domains import Domain
from crossner_core.errors import InvalidConfig
from crossner_core.outside.base import OutsideModel
from crossner_core.registry import Registry
from crossner_core.schema import Sentence, Suggestion


class Suggester(Protocol):
    """Suggests entities, for example `Preannotator.suggest` and `Predictor.predict`."""

    def __call__(self, sentences: Sequence[Sentence], /) -> Sequence[tuple[Suggestion, ...]]:
        """Return the suggestions of each sentence, in order."""
        ...


class AnswerCache(Protocol):
    """Caches complete answers of an endpoint; values are JSON objects."""

    def get_many(self, endpoint: str, keys: Sequence[str], /) -> dict[str, dict[str, Any]]:
        """Return the values of the cached keys."""
        ...

    def put_many(self, endpoint: str, values: Mapping[str, dict[str, Any]], /) -> None:
        """Store the values, replacing older ones."""
        ...


@dataclass(frozen=True)
class Resources:
    """What a source may use: the campaign's domain and seed, named folders, a cache.

    `folder_of` takes a kind (`gazetteer`, `corpus`) and a name, and raises NotFound. `on_problem` reports what was
    unreachable: sentences processed meanwhile are pre-annotated again.
    """

    domain: Domain
    seed: int
    folder_of: Callable[[str, str], Path]
    cache: AnswerCache
    on_problem: Callable[[str], None]


@dataclass(frozen=True)
class NoSettings:
    """The settings of a source that has none."""


@dataclass(frozen=True)
class SuggestionSource:
    """A source of suggestions.

    `kinds` maps the part before the colon of `Suggestion.source` to a display name: the store replaces the suggestions
    of these kinds together, and no kind has two sources. `cost` describes the cost per sentence. `settings` is a frozen
    dataclass whose fields are campaign settings, each with a default and a `doc`. `open` makes the suggester, None if a
    separate job writes the suggestions. `is_trained` marks a source trained on gold: its suggestions must not teach a
    model, and its silence on a sentence that it read counts against what others suggest. `from_people` marks what
    somebody here or elsewhere annotated: to count it among what names in the text suggest would be to know the answer.
    `outside` are the settings of an outside model, which reads whole sentences: it is asked by a job of its own, and
    only where somebody allowed that; None if nothing leaves the machine.
    """

    id: str
    title: str
    cost: str
    kinds: Mapping[str, str]
    settings: type = NoSettings
    open: Callable[[Any, Resources], Suggester] | None = None
    is_trained: bool = False
    from_people: bool = False
    outside: type[OutsideModel] | None = None

    def doc(self, setting: str) -> str:
        """Return a setting's help text for forms."""
        return next(str(field.metadata["doc"]) for field in fields(self.settings) if field.name == setting)

    def settings_from(self, owner: object) -> Any:
        """Build the settings from a campaign's attributes; missing ones keep their defaults."""
        names = [field.name for field in fields(self.settings) if hasattr(owner, field.name)]
        return self.settings(**{name: getattr(owner, name) for name in names})


SOURCES: Registry[SuggestionSource] = Registry("crossner_core.suggest", "source of suggestions", apart=("base",))


def register(source: SuggestionSource) -> SuggestionSource:
    """Add a source to the registry; raise InvalidConfig if one of its kinds belongs to another."""
    for other in SOURCES.values():
        if other.id != source.id and (shared := sorted(set(other.kinds) & set(source.kinds))):
            raise InvalidConfig(f"Suggestions of the kind {shared[0]!r} already belong to the source {other.id!r}.")
    return SOURCES.add(source.id, source)


def sources() -> tuple[SuggestionSource, ...]:
    """Return all sources by id."""
    return tuple(map(SOURCES.one, SOURCES.ids()))


def source(id: str) -> SuggestionSource:
    """Return a source by its id; raise InvalidConfig naming the known ones."""
    return SOURCES.one(id)


def kind_of(stored: str) -> str:
    """Return the kind of a suggestion's `source`: `model` for `model:run 3`."""
    return stored.partition(":")[0]


def source_of(stored: str) -> SuggestionSource | None:
    """Return the source of a suggestion by its `source`; None for an unknown kind."""
    kind = kind_of(stored)
    return next((source for source in sources() if kind in source.kinds), None)


def is_trained(stored: str) -> bool:
    """Return whether a suggestion's `source` names a model trained on gold."""
    source = source_of(stored)
    return source is not None and source.is_trained


def reads_sentences(stored: str) -> bool:
    """Return whether a suggestion's `source` is a model, here or elsewhere: its silence says something, too."""
    source = source_of(stored)
    return source is not None and (source.is_trained or source.outside is not None)


def is_from_names(stored: str) -> bool:
    """Return whether a suggestion's `source` looks up names: it is no model, and does not repeat people's work."""
    source = source_of(stored)
    return source is None or not (source.is_trained or source.from_people or source.outside)


def words_of(stored: str) -> str:
    """Return the display name of a suggestion's `source`; one of an unknown kind is returned unchanged."""
    source = source_of(stored)
    return stored if source is None else source.kinds[kind_of(stored)]
