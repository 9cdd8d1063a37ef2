"""From the classes a resource carries to the one entity type of a domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from crossner_core.gazetteer.ontology import ancestors
from crossner_core.gazetteer.source import VIAS, Candidate
from crossner_core.gazetteer.titles import local_name


class ChildType(Protocol):
    """What of an entity type is needed here."""

    @property
    def parent(self) -> str | None:
        """The entity type above it."""
        ...


class TypeMap(Protocol):
    """What of a domain is needed here; `crossner_core.domains.Domain` fits."""

    @property
    def type_names(self) -> tuple[str, ...]:
        """The names of the types."""
        ...

    def type(self, name: str, /) -> ChildType:
        """Find a type."""
        ...

    def type_for_class(self, dbpedia_class: str, /) -> str | None:
        """Name the type that one DBpedia class stands for by itself, None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Resolution:
    """The entity type a name most likely has: its resource, and how many types and resources it had to choose from."""

    type: str
    candidate: Candidate
    types: int
    resources: int


def specific_types(classes: Iterable[str], domain: TypeMap) -> tuple[str, ...]:
    """Return the entity types of the classes or of the nearest mapped classes above them, most spoken for first.

    Left out is a type that stands above another of them, in the class tree or in the domain.
    """
    votes: dict[str, int] = {}
    mapped: dict[str, set[str]] = {}
    for item in classes:
        name = local_name(item)
        for step in (name, *ancestors(name)):
            if (kind := domain.type_for_class(step)) is not None:
                votes[kind] = votes.get(kind, 0) + 1
                mapped.setdefault(kind, set()).add(step)
                break
    above = {step for steps in mapped.values() for name in steps for step in ancestors(name)}
    lowest = {kind for kind, steps in mapped.items() if steps - above}
    lowest -= {parent for kind in lowest for parent in _parents(kind, domain)}
    return tuple(sorted(lowest, key=lambda kind: (-votes[kind], kind)))


def _parents(kind: str, domain: TypeMap) -> list[str]:
    found: list[str] = []
    while (parent := domain.type(found[-1] if found else kind).parent) is not None:
        found.append(parent)
    return found


def resolve(candidates: Sequence[Candidate], domain: TypeMap) -> Resolution | None:
    """Choose a resource and its type; None if the domain has no type for any.

    The resource with the fewest types, then by the way that led to it (a title before a label), then by its URI.
    """
    typed = [(item, kinds) for item in candidates if (kinds := specific_types(item.classes, domain))]
    if not typed:
        return None
    candidate, kinds = min(typed, key=lambda pair: (len(pair[1]), VIAS.index(pair[0].via), pair[0].entity))
    every = {kind for _, others in typed for kind in others}
    return Resolution(kinds[0], candidate, len(every), len(candidates))
