"""Type maps: how the entity types of a corpus are renamed, folded into fewer, or left out. A file a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.records import parse

_HERE = Path(__file__).parent
_KEYS = ("title", "types", "drop", "others")
OTHERS = ("refuse", "keep")


@dataclass(frozen=True, slots=True)
class TypeMap:
    """A file's type names → ours; an empty name leaves the type out. `strict`: other types are refused."""

    name: str
    title: str
    types: Mapping[str, str]
    strict: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """The options of `formats.open_file` that apply this map."""
        return {"type_map": dict(self.types), "strict_map": self.name if self.strict else ""}

    @property
    def type_names(self) -> tuple[str, ...]:
        """The names that come out of it, each once, in the order of the file."""
        return tuple(dict.fromkeys(ours for ours in self.types.values() if ours))


def type_map_ids() -> tuple[str, ...]:
    """The names of the type maps that come with the engine, sorted."""
    return tuple(sorted(path.stem for path in _HERE.glob("*.toml")))


def load_type_map(name: str) -> TypeMap:
    """Load a type map by its name, or from a TOML file by its path; raise InvalidConfig naming those there are."""
    if name in type_map_ids():
        return _builtin(name)
    path = Path(name).expanduser()
    if path.suffix != ".toml" and "/" not in name:
        raise InvalidConfig(
            f"Unknown type map {name!r}; known are {', '.join(type_map_ids())}. Or give the path of a .toml file."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInput(f"The type map {name} cannot be read: {reason}.") from error
    return parse_type_map(text, name=path.stem, origin=name)


def parse_type_map(toml_text: str, *, name: str, origin: str) -> TypeMap:
    """Read a type map; raise BadInput beginning with `origin` where it is none.

    `[types]` holds THEIRS = "OURS", `drop` lists types whose entities are left out, `others` says what becomes of
    types in neither: refuse (where it is not given) or keep.
    """
    try:
        values = parse(toml_text, "TOML")
    except BadInput as error:
        raise BadInput(f"{origin}: {error}") from error
    if unknown := sorted(set(values) - set(_KEYS)):
        raise BadInput(f"{origin}: unknown keys {', '.join(unknown)}; valid are {', '.join(_KEYS)}.")
    types, drop = _types(values.get("types"), origin), _drop(values.get("drop", []), origin)
    if both := sorted(set(types) & set(drop)):
        raise BadInput(f"{origin}: {', '.join(both)} is both in [types] and in drop; leave it in one of them.")
    others, title = values.get("others", OTHERS[0]), values.get("title", name)
    if others not in OTHERS:
        raise BadInput(f"{origin}: others is {others!r}; choose one of {', '.join(OTHERS)}.")
    if not isinstance(title, str):
        raise BadInput(f"{origin}: title must be a string, not {title!r}.")
    return TypeMap(name, title, {**types, **dict.fromkeys(drop, "")}, others == "refuse")


@lru_cache(maxsize=32)
def _builtin(name: str) -> TypeMap:
    path = _HERE / f"{name}.toml"
    return parse_type_map(path.read_text(encoding="utf-8"), name=name, origin=path.name)


def _types(values: Any, origin: str) -> dict[str, str]:
    if not isinstance(values, dict) or not values:
        raise BadInput(f'{origin}: it has no [types] table; write a line THEIRS = "OURS" a type there.')
    for theirs, ours in values.items():
        if not isinstance(ours, str) or not ours.strip() or not theirs.strip():
            raise BadInput(
                f"{origin}: type {theirs!r} becomes {ours!r}, which is no name; types to leave out go in drop."
            )
    return dict(values)


def _drop(values: Any, origin: str) -> Sequence[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadInput(f"{origin}: drop must be a list of type names, not {values!r}.")
    return values
