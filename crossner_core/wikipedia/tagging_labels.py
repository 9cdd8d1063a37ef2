"""From the classes of linked pages to the labels of the entity-tagging corpus, in three sizes.

Source: NER-BERT (Liu et al. 2021), sections 2.2 and 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from crossner_core.errors import InvalidConfig
from crossner_core.gazetteer.ontology import THING, ClassTree

ENTITY = "ENTITY"
FULL, MERGED, FOUR = VERSIONS = ("full", "merged", "4types")
# The kinds below which classes get fine; the ontology's own top is no measure, for Person lies below Animal there.
KINDS = ("Person", "Organisation", "Place", "Work", "Event", "Species")
# Buildings left Place in newer versions of the ontology.
FOUR_TYPES = {
    "Person": "person",
    "Organisation": "organisation",
    "Place": "location",
    "Location": "location",
    "ArchitecturalStructure": "location",
}
_NOT_NAME = re.compile(r"[^a-z0-9]")


def label_name(cls: str) -> str:
    """Write a class as an entity type: `MusicalArtist` → `musicalartist`."""
    return cls if cls == ENTITY else _NOT_NAME.sub("", cls.lower())


def class_of(classes: Iterable[str]) -> str:
    """Return the most specific class, ENTITY where there is none; `classes` are most specific first."""
    return next((one for one in classes if one != THING), ENTITY)


def labels(version: str, mentions: Mapping[str, int], tree: ClassTree, *, depth: int, below: int) -> dict[str, str]:
    """Give each class (with its mentions) its label in a version of the corpus; raise InvalidConfig for no version.

    `full` keeps every class. `merged` moves a class to the one above it as long as it lies more than `depth` steps
    below its kind (`KINDS`, or the ontology's top), or has fewer than `below` mentions with those that were moved to
    it. `4types` leaves person, organisation and location; all else, the paper's "miscellaneous", is ENTITY.
    """
    if version == FULL:
        return {cls: label_name(cls) for cls in mentions}
    if version == MERGED:
        return {cls: label_name(into) for cls, into in _merged(mentions, tree, depth, below).items()}
    if version == FOUR:
        return {cls: _four(cls, tree) for cls in mentions}
    raise InvalidConfig(f"There is no version {version!r}; there are {', '.join(VERSIONS)}.")


def _four(cls: str, tree: ClassTree) -> str:
    return next((FOUR_TYPES[step] for step in (cls, *tree.ancestors(cls)) if step in FOUR_TYPES), ENTITY)


def _merged(mentions: Mapping[str, int], tree: ClassTree, depth: int, below: int) -> dict[str, str]:
    path = {cls: _path(cls, tree) for cls in mentions}  # from the kind down to the class
    into = {cls: path[cls][min(depth, len(path[cls]) - 1)] for cls in mentions}
    for level in range(max((len(one) for one in path.values()), default=0) - 1, 0, -1):
        sums: dict[str, int] = {}
        for cls, target in into.items():
            sums[target] = sums.get(target, 0) + mentions[cls]
        for cls, target in into.items():
            steps = path[cls]
            if level < len(steps) and steps[level] == target and sums[target] < below:
                into[cls] = steps[level - 1]
    return into


def _path(cls: str, tree: ClassTree) -> list[str]:
    found = [cls]
    while found[-1] not in KINDS and (above := tree.parents.get(found[-1])):
        found.append(above[0])
    return found[::-1]
