"""The architectures: one file each in this package, whose name is its id; listed without importing torch."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import InvalidConfig

if TYPE_CHECKING:
    from crossner_core.encoders import Encoder
    from crossner_core.models.base import TokenTagger

# Files of this package that are no architecture.
_SHARED = {"registry", "base", "viterbi", "heads", "dropout"}


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture by its id, with the config dataclass that its builder wants."""

    id: str
    title: str
    config: type
    build: Callable[[Encoder, Sequence[str], Any], TokenTagger]


_REGISTERED: dict[str, Architecture] = {}


def register(id: str, title: str, config: type) -> Callable[[Any], Any]:
    """Register a class (or function) that makes a TokenTagger from (encoder, tags, config)."""

    def keep(build: Any) -> Any:
        if id not in architecture_ids():
            raise InvalidConfig(f"Architecture {id!r} must live in a file of that name in crossner_core/models.")
        _REGISTERED[id] = Architecture(id, title, config, build)
        return build

    return keep


def architecture_ids() -> tuple[str, ...]:
    """Return the ids of all architectures, sorted; imports none of them."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in names if name not in _SHARED and not name.startswith("_")))


def architecture(id: str) -> Architecture:
    """Import and return one architecture; raise InvalidConfig naming the known ones."""
    if id not in architecture_ids():
        raise InvalidConfig(f"Unknown architecture {id!r}; choose one of {', '.join(architecture_ids())}.")
    importlib.import_module(f"crossner_core.models.{id}")
    if id not in _REGISTERED:
        raise InvalidConfig(f"crossner_core/models/{id}.py registers no architecture {id!r}.")
    return _REGISTERED[id]


@cache
def architecture_title(id: str) -> str:
    """Return an architecture's title without importing it: what its file hands to `register`."""
    if id not in architecture_ids():
        raise InvalidConfig(f"Unknown architecture {id!r}; choose one of {', '.join(architecture_ids())}.")
    file = Path(__file__).parent / f"{id}.py"
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "register":
            first, title = (
                ast.literal_eval(argument) if isinstance(argument, ast.Constant) else None for argument in call.args[:2]
            )
            if first == id and isinstance(title, str):
                return title
    return architecture(id).title  # it registers in some other way: import it after all


def config_from(recipe: Any, config: type) -> Any:
    """Make an architecture's config from the recipe's fields of the same names; others keep their defaults."""
    given = {spec.name: getattr(recipe, spec.name) for spec in fields(config) if hasattr(recipe, spec.name)}
    return config(**given)
