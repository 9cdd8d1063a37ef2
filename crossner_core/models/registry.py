"""The architectures: one file each in this package, whose name is its id; listed without importing torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from crossner_core.registry import Registry

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.models.base import TokenTagger


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture by its id; it is built from a recipe, which holds its options."""

    id: str
    title: str
    build: Callable[[Encoder, Sequence[str], Any], TokenTagger]


ARCHITECTURES: Registry[Architecture] = Registry(
    "crossner_core.models", "architecture", by_name=True, apart=("registry", "base", "viterbi", "heads", "dropout")
)


def register(id: str) -> Callable[[Any], Any]:
    """Register a class (or function) that makes a TokenTagger from (encoder, tags, recipe)."""

    def keep(build: Any) -> Any:
        ARCHITECTURES.add(id, Architecture(id, architecture_title(id), build))
        return build

    return keep


def architecture_ids() -> tuple[str, ...]:
    """Return the ids of all architectures, sorted; imports none of them."""
    return ARCHITECTURES.ids()


def architecture(id: str) -> Architecture:
    """Import and return one architecture; raise InvalidConfig naming the known ones."""
    return ARCHITECTURES.one(id)


def architecture_title(id: str) -> str:
    """Return an architecture's title, defined with its options in `crossner_core.options` without torch.

    Without a file there, the title is derived from the id.
    """
    options = _options(id)
    return id.replace("_", " ") if options is None else str(options.TITLE)


def decoding(id: str, *, constrained: bool) -> str:
    """Return in words how an architecture chooses a sentence's tags, held to IOB2 (`constrained`) or not.

    Its options say so; without, it is the best path.
    """
    held, free = getattr(_options(id), "DECODING", ("IOB2", "best path"))
    return str(held if constrained else free)


def _options(id: str) -> ModuleType | None:
    name = f"crossner_core.options.{id}"
    return importlib.import_module(name) if find_spec(name) is not None else None
