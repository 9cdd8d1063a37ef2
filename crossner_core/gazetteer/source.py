"""What a gazetteer answers, and the seams a source, a cache and a domain must fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

Via = Literal["title", "redirect", "label", "name"]
VIAS: tuple[Via, ...] = get_args(Via)
TITLE_VIAS: frozenset[Via] = frozenset({"title", "redirect"})


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A resource a name may stand for: its URI, its DBpedia classes (URIs, sorted) and how the name led to it."""

    entity: str
    classes: tuple[str, ...]
    via: Via

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as plain JSON values."""
        return {"entity": self.entity, "classes": list(self.classes), "via": self.via}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Candidate:
        """Read what `to_json` wrote; KeyError or ValueError if it is something else."""
        if value["via"] not in VIAS:
            raise ValueError(f"via is {value['via']!r}, not one of {', '.join(VIAS)}")
        return cls(str(value["entity"]), tuple(str(item) for item in value["classes"]), value["via"])


class Source(Protocol):
    """Looks names up: surface forms or page titles, white space already collapsed to single spaces."""

    @property
    def name(self) -> str:
        """What messages call the source."""
        ...

    def lookup(self, names: Iterable[str]) -> dict[str, tuple[Candidate, ...]]:
        """Return the typed resources of every name, () where there are none; EndpointUnavailable if incomplete."""
        ...


@runtime_checkable
class CachingSource(Protocol):
    """A source that can say what it knows already without asking anybody."""

    def cached(self, names: Iterable[str]) -> dict[str, tuple[Candidate, ...]]:
        """Return the names known from earlier answers; names never answered are left out."""
        ...


class Cache(Protocol):
    """Keeps complete answers of an endpoint; values are JSON objects."""

    def get_many(self, endpoint: str, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the values of the keys that are kept."""
        ...

    def put_many(self, endpoint: str, values: Mapping[str, dict[str, Any]]) -> None:
        """Keep the values, in place of older ones."""
        ...


class MemoryCache:
    """A cache that lives as long as the process."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], dict[str, Any]] = {}

    def get_many(self, endpoint: str, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the values of the keys that are kept."""
        return {key: self.values[endpoint, key] for key in keys if (endpoint, key) in self.values}

    def put_many(self, endpoint: str, values: Mapping[str, dict[str, Any]]) -> None:
        """Keep the values, in place of older ones."""
        self.values.update({(endpoint, key): value for key, value in values.items()})
