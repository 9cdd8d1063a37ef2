"""Self-describing recipe fields, and their shared checks."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Container, Iterator, Mapping
from dataclasses import Field, field, fields
from typing import Any

from crossner_core.errors import InvalidConfig


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    min: float | None = None,
    max: float | None = None,
    group: str = "target",
    only: Mapping[str, tuple[object, ...]] | None = None,
    unless: tuple[Mapping[str, Container[object]], ...] = (),
    later: bool = False,
    before: Any = None,
    lines: bool = False,
    title: str = "",
    names: Mapping[str, str] | None = None,
) -> Any:
    """Make a dataclass field with the metadata that a form or a flag needs.

    `only` maps other fields to the values for which this one has an effect; each entry of `unless` is a combination of
    values for which it still has none. A `later` field is left out of hashes at its default, so that results from
    before it existed keep their keys. One whose default is not what was done before it existed has that value as
    `before`: it is what results from then mean, and what hashes leave out. `lines` marks a field with several long
    words, one per line. `title` and `names` are what people read for the field and for its choices; flags and stored
    configs keep name and choices.
    """
    metadata: dict[str, Any] = {"help": help, "choices": choices, "min": min, "max": max, "group": group}
    metadata |= {"only": only or {}, "unless": unless, "lines": lines}
    metadata |= {"later": later or before is not None, **({} if before is None else {"before": before})}
    metadata |= {"title": title, "names": names or {}}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def value_before(spec: Field[Any]) -> Any:
    """Return the value that stands for how it was before a field existed."""
    return spec.metadata.get("before", spec.default)


def is_as_before(spec: Field[Any], value: Any) -> bool:
    """Return whether a field was added later and has the value that stands for how it was before."""
    return bool(spec.metadata["later"]) and value == value_before(spec)


def matters(spec: Field[Any], values: Mapping[str, Any]) -> bool:
    """Return whether a field has any effect with these values of the others."""
    return not hindering(spec, values)


def hindering(spec: Field[Any], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the other fields whose values leave this one without effect; empty if it has one."""
    lacking = tuple(name for name, allowed in spec.metadata["only"].items() if values.get(name) not in allowed)
    met = (
        condition
        for condition in spec.metadata["unless"]
        if all(values.get(name) in those for name, those in condition.items())
    )
    return lacking or tuple(next(met, ()))


def value_name(value: Any) -> str:
    """Format the value of a field for people."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


class Checked:
    """Base of dataclasses of options: each field is checked on creation."""

    def __post_init__(self) -> None:
        for name, value in checked(self):
            object.__setattr__(self, name, value)


def checked(config: Any) -> Iterator[tuple[str, Any]]:
    """Check type and range of each field of a dataclass of options; yield names with normalised values."""
    hints = typing.get_type_hints(type(config))
    for spec in fields(config):
        value = getattr(config, spec.name)
        _check_type(spec.name, value, hints[spec.name])
        if hints[spec.name] is float:  # 1 and 1.0 are the same recipe with the same hash
            value = float(value)
        _check_range(spec.name, value, spec.metadata)
        yield spec.name, value


def _check_type(name: str, value: Any, expected: Any) -> None:
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return
    kind = typing.get_origin(expected) or expected
    if not isinstance(value, kind) or (expected is int and isinstance(value, bool)):
        raise InvalidConfig(f"{name} is {value!r}; it must be of type {kind.__name__}.")
    for item in value if kind is tuple else ():
        _check_type(name, item, typing.get_args(expected)[0])
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidConfig(f"{name} is {value!r}; it must be a finite number.")


def _check_range(name: str, value: Any, metadata: types.MappingProxyType[Any, Any]) -> None:
    if isinstance(value, tuple):
        for item in value:
            _check_range(name, item, metadata)
        return
    choices, low, high = metadata["choices"], metadata["min"], metadata["max"]
    if choices is not None and value not in choices:
        raise InvalidConfig(f"{name} is {value!r}; choose one of {', '.join(choices)}.")
    if (low is not None and value < low) or (high is not None and value > high):
        raise InvalidConfig(f"{name} is {value!r}; it must lie in [{_shown(low)}, {_shown(high)}].")


def _shown(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
