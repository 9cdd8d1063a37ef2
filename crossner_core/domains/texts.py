"""What a model reads of an entity type: several texts that say the same."""

from __future__ import annotations

import re

from crossner_core.domains.loader import Domain, EntityType

TITLE = 0
"""The text that is the title alone comes first."""
_CLASSES = 6
_INNER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+")


def texts_of(domain: Domain) -> dict[str, tuple[str, ...]]:
    """Return the texts of each of a domain's types."""
    return {kind.name: texts_of_type(kind) for kind in domain.types}


def texts_of_type(kind: EntityType) -> tuple[str, ...]:
    """Return the texts of one type: its title, with the names of its classes, with its guideline."""
    texts = [kind.title]
    if kind.dbpedia:
        texts.append(f"{kind.title}: {', '.join(map(texts_of_name, kind.dbpedia[:_CLASSES]))}")
    if kind.guideline.strip():
        texts.append(f"{kind.title}: {' '.join(kind.guideline.split())}")
    return tuple(texts)


def texts_of_name(name: str) -> str:
    """Return the words of a name that nothing else is known of: `RestaurantName` → `restaurant name`.

    What follows an @, the source of a type that is kept apart, is no part of it.
    """
    return _INNER.sub(" ", name.partition("@")[0]).strip().lower()
