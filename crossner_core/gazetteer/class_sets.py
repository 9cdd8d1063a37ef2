"""The classes of pages: every distinct set of them once, with the class tree they belong to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.errors import BadInput

if TYPE_CHECKING:
    from crossner_core.gazetteer.ontology import ClassTree

# What has a proper name: never written with a small first letter, and never in the plural.
# In the real ontology people stand below Animal and buildings below nothing, so they are named here too.
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
        """Return for each set whether its pages are places (PLACE) and whether their names may be small (COMMON)."""
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
        from crossner_core.gazetteer.ontology import ClassTree

        try:
            value = json.loads(data)
            sets = tuple(tuple(str(name) for name in names) for names in value["sets"])
            return cls(sets, ClassTree.from_json(value["tree"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path}: cannot be read ({error}); build the gazetteer again with --replace.") from error
