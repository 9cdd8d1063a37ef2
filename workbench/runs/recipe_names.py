"""A recipe in words: its architecture and setting by their titles, what is not the default, what has no effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import Any

from crossner_core.models.registry import architecture_ids, architecture_title
from crossner_core.options.base import value_name
from crossner_core.training.recipe import Recipe, effective
from crossner_core.training.settings.registry import setting, setting_ids

MACHINE = tuple(spec.name for spec in fields(Recipe) if spec.metadata["group"] == "machine")
"""Fields that decide where and with which seed to train, not what: seed, device, number format, memory."""
_NAMED = ("architecture", "setting", "encoder", "source", *MACHINE)


def architecture_name(id: str) -> str:
    """Return an architecture's title; its id if it is not registered any more."""
    return architecture_title(id) if id in architecture_ids() else id


def setting_title(id: str) -> str:
    """Return a transfer setting's name with what it does; its id if it is not registered any more."""
    return setting(id).title if id in setting_ids() else id


def setting_name(id: str) -> str:
    """Return the short name of a transfer setting."""
    return setting_title(id).split(":")[0]


def encoder_name(encoder: str) -> str:
    """Return the short name of an encoder: the last part of a folder."""
    return encoder.rstrip("/").rsplit("/", 1)[-1] if encoder.startswith(("/", ".", "~")) else encoder


def recipe_name(recipe: Mapping[str, Any]) -> str:
    """Name what decides a method: setting, source, architecture and encoder."""
    source = f" from {recipe['source']}" if "source" in effective(recipe) and recipe.get("source") else ""
    return (
        f"{setting_name(recipe['setting'])}{source} · {architecture_name(recipe['architecture'])} · "
        f"{encoder_name(recipe['encoder'])}"
    )


def row_name(text: str) -> str:
    """Return what people read for a study's row, column or line: settings and architectures by their names."""
    return " − ".join(map(_side_name, text.split(" − ")))


def _side_name(side: str) -> str:
    parts = side.split(", ")
    named = [_part_name(part) for part in parts]
    return side if named == parts else " · ".join(named)


def _part_name(part: str) -> str:
    id, *rest = part.split(": ")
    return ": ".join([setting_name(id) if id in setting_ids() else architecture_name(id), *rest])


def field_name(name: str) -> str:
    """Return the name of a field for people."""
    return name.replace("_", " ")


def field_title(spec: Field[Any], *, short: str = "") -> str:
    """Return what people read for a field of options; `short` stands for its name where it has no title."""
    return spec.metadata.get("title") or field_name(short or spec.name)


def choice_name(spec: Field[Any], value: Any) -> str:
    """Return what people read for a value of a field of options."""
    if named := {"architecture": architecture_name, "setting": setting_name}.get(spec.name):
        return named(value)
    if value in (spec.metadata["choices"] or ()):
        return spec.metadata["names"].get(value) or field_name(str(value))
    return value_name(value)


def recipe_value(name: str, value: Any) -> str | None:
    """Format the value of a recipe field, architecture and setting by their names; None stays None."""
    named = {"architecture": architecture_name, "setting": setting_name}.get(name, value_name)
    return None if value is None else named(value)


def other_than_default(config: type, values: Mapping[str, Any], *, leave: Sequence[str] = _NAMED) -> str:
    """List the values that differ from the defaults, except the fields in `leave`; the class's own come first."""
    defaults = {spec.name: spec.default for spec in fields(config)}
    changed = [name for name, value in values.items() if name not in leave and value != defaults.get(name)]
    changed.sort(key=lambda name: name not in config.__annotations__)
    specs = {spec.name: spec for spec in fields(config)}
    return ", ".join(
        f"{field_title(specs[name])} {choice_name(specs[name], values[name])}"
        if name in specs
        else f"{field_name(name)} {value_name(values[name])}"
        for name in changed
    )
