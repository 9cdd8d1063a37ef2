"""Classes of pages: the sets of them that a gazetteer stores, and the entity types a domain maps them to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from crossner_core.errors import BadInput
from crossner_core.gazetteer.ontology import BUILTIN, THING, ClassTree
from crossner_core.gazetteer.titles import local_name

# Classes whose pages have proper names: never lower-cased, never in the plural.
# In the real ontology Person is below Animal and ArchitecturalStructure at the top, so they are listed here too.
_PROPER_CLASSES = """
Agent Person Place Location ArchitecturalStructure Work Event Name Language EthnicGroup Holiday MeanOfTransportation
"""
_PROPER = frozenset(_PROPER_CLASSES.split())
_PLACES = frozenset({"Place", "Location", "ArchitecturalStructure"})
PLACE, COMMON = 1, 2


@dataclass(frozen=True, slots=True)
class ClassSets:
    """Sets of class names, each with the deepest class first, and the tree."""

    sets: tuple[tuple[str, ...], ...]
    tree: ClassTree

    def traits(self) -> list[int]:
        """Return for each set whether its pages are places (PLACE) and their names may be lower-case (COMMON)."""
        found = []
        for names in self.sets:
            above = {step for name in names for step in (name, *self.tree.ancestors(name))}
            found.append((PLACE if above & _PLACES else 0) | (0 if above & _PROPER else COMMON))
        return found

    def write(self, path: Path) -> None:
        """Write both to a file."""
        value = {"sets": self.sets, "tree": self.tree.to_json()}
        path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def from_bytes(cls, data: bytes, path: Path) -> ClassSets:
        """Read what `write` wrote to a path; BadInput if it is something else."""
        try:
            value = json.loads(data)
            sets = tuple(tuple(str(name) for name in names) for names in value["sets"])
            return cls(sets, ClassTree.from_json(value["tree"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path}: cannot be read ({error}); build the gazetteer again with --replace.") from error


class ChildType(Protocol):
    """The part of an entity type that is needed here."""

    @property
    def parent(self) -> str | None:
        """The entity type above it."""
        ...


class TypeMap(Protocol):
    """The part of a domain that is needed here; `crossner_core.domains.Domain` fits."""

    @property
    def type_names(self) -> tuple[str, ...]:
        """The names of the types."""
        ...

    def type(self, name: str, /) -> ChildType:
        """Find a type."""
        ...

    def type_for_class(self, dbpedia_class: str, /) -> str | None:
        """Return the type that exactly this DBpedia class is mapped to, None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ClassRow:
    """How a domain maps one class of a gazetteer.

    `via` is the nearest class that the domain maps, itself or one above it, and `type` what it is mapped to; both are
    None for a class that falls through. `known` tells whether the class is in the ontology.
    """

    cls: str
    entities: int
    known: bool
    via: str | None
    type: str | None
    suggestion: str


def type_of_class(dbpedia_class: str, domain: TypeMap, tree: ClassTree = BUILTIN) -> str | None:
    """Return the type of a class, or of the nearest mapped class above it; None if it falls through."""
    via = _nearest(local_name(dbpedia_class), domain, tree)
    return None if via is None else domain.type_for_class(via)


def _nearest(name: str, domain: TypeMap, tree: ClassTree) -> str | None:
    for step in (name, *tree.ancestors(name)):
        if domain.type_for_class(step) is not None:
            return step
    return None


def class_rows(counts: Mapping[str, int], domain: TypeMap, tree: ClassTree = BUILTIN) -> tuple[ClassRow, ...]:
    """Return how the domain maps every class (name → number of its entities), most entities first."""
    via = {name: _nearest(name, domain, tree) for name in counts}
    below: dict[str, list[str]] = {}
    fallen: dict[str, int] = {}
    for name in counts:
        for step in tree.ancestors(name):
            if via[name] is None:
                fallen[step] = fallen.get(step, 0) + 1
    for name in tree.parents:
        if domain.type_for_class(name) is not None:
            for step in tree.ancestors(name):
                below.setdefault(step, []).append(name)
    rows = []
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        found = via[name]
        kind = None if found is None else domain.type_for_class(found)
        suggestion = _suggestion(name, found, below, fallen, tree)
        rows.append(ClassRow(name, counts[name], tree.known(name), found, kind, suggestion))
    return tuple(rows)


def fall_through(counts: Mapping[str, int], domain: TypeMap, tree: ClassTree = BUILTIN) -> tuple[ClassRow, ...]:
    """Return the rows of the classes that have no type in the domain, most entities first."""
    return tuple(row for row in class_rows(counts, domain, tree) if row.type is None)


def _suggestion(
    name: str, via: str | None, below: Mapping[str, Sequence[str]], fallen: Mapping[str, int], tree: ClassTree
) -> str:
    """Return what the domain could do about a class; "" where it is mapped.

    `below` holds the mapped classes below a class, `fallen` how many classes of the gazetteer below it fall through.
    """
    if via is not None:
        return ""
    if name == THING:
        return "is above every class, too general to map"
    if not tree.known(name):
        return f"is not in the ontology ({tree.source}): map it by its name, or use an ontology that has it"
    if mapped := below.get(name):
        more = f" and {len(mapped) - 3} more" if len(mapped) > 3 else ""
        return f"too general by itself: the domain maps {', '.join(mapped[:3])}{more} below it"
    # nothing below it may be mapped, or mapping it would affect those types
    wider = [step for step in tree.ancestors(name) if not below.get(step) and fallen.get(step, 0) > 1]
    if wider:
        return f"map it, or {wider[-1]}, which is above {fallen[wider[-1]]} of the classes without a type"
    return "map it if the domain needs it"


def specific_types(classes: Iterable[str], domain: TypeMap, tree: ClassTree = BUILTIN) -> tuple[str, ...]:
    """Return the entity types of the classes or of the nearest mapped classes above them, most votes first.

    A type above another of them, in the class tree or in the domain, is left out. A class that is not in the tree
    counts only if the domain maps it by name.
    """
    votes: dict[str, int] = {}
    mapped: dict[str, set[str]] = {}
    for item in classes:
        step = _nearest(local_name(item), domain, tree)
        kind = None if step is None else domain.type_for_class(step)
        if step is not None and kind is not None:
            votes[kind] = votes.get(kind, 0) + 1
            mapped.setdefault(kind, set()).add(step)
    above = {step for steps in mapped.values() for name in steps for step in tree.ancestors(name)}
    lowest = {kind for kind, steps in mapped.items() if steps - above}
    lowest -= {parent for kind in lowest for parent in _parents(kind, domain)}
    return tuple(sorted(lowest, key=lambda kind: (-votes[kind], kind)))


def _parents(kind: str, domain: TypeMap) -> list[str]:
    found: list[str] = []
    while (parent := domain.type(found[-1] if found else kind).parent) is not None:
        found.append(parent)
    return found
