"""Inputs made from the fields of an options dataclass: what they ask, allow and explain comes from the fields.

They are plain widgets, not for `st.form`: which of them are shown depends on the values of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from functools import partial
from typing import Any

import streamlit as st

from crossner_core.encoders.names import word_encoders
from crossner_core.errors import InvalidConfig
from crossner_core.options.base import matters, value_name
from crossner_core.training.recipe import Recipe, source_names
from crossner_core.type_maps import type_map_ids
from pages import shell
from pages.components.marked_text import as_text
from workbench.runs.recipe_names import (
    architecture_name,
    choice_name,
    field_name,
    field_title,
    other_than_default,
    setting_name,
    setting_title,
)
from workbench.runs.source_corpora import Source

_COLUMNS = 3
_FIRST = ("architecture", "setting", "encoder", "source", "seed", "max_epochs")
_GROUP_TITLES = {
    "model": "Model",
    "target": "Training on the target",
    "source": "Source domain",
    "machine": "Seed and machine",
}
_SEVERAL = ("source",)
Offered = Sequence[str] | Mapping[str, str]
"""Values to choose from, with words for them if it is a mapping."""


def recipe_inputs(
    key: str,
    sources: Sequence[Source] = (),
    encoders: Sequence[str] = (),
    *,
    without: Sequence[str] = (),
    start: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Draw the inputs of a recipe; return the values of those that have an effect.

    `sources` are what can be a source corpus, `encoders` those to offer (any other can be typed),
    `without` the fields that are asked elsewhere, `start` what fields begin with instead of their defaults.
    """
    begin = start or {}
    own_encoder = (begin["encoder"],) if "encoder" in begin else ()
    named = (Recipe.encoder, *encoders, *word_encoders(), *own_encoder)
    offered: dict[str, Offered] = {"encoder": tuple(dict.fromkeys(named))}
    maps = {"name": "by name", "parent": "by name, else by parent"}
    maps |= {id: f"by the map {id}" for id in type_map_ids()}
    own_map = str(begin.get("source_map", Recipe.source_map))
    offered["source_map"] = {own_map: own_map} | maps
    if sources:
        offered["source"] = {source.name: source.words for source in sources}
    first = [name for name in _FIRST if name not in without]
    values = option_inputs(Recipe, key, only=first, choices=offered, start=begin)
    st.caption(as_text(f"{setting_title(values['setting'])}."))
    rest = [spec for spec in fields(Recipe) if spec.name not in {*first, *without}]
    for title, names in _sections(rest, values).items():
        with st.expander(title, key=f"{key}-section-{title}"):
            values |= option_inputs(Recipe, key, only=names, choices=offered, given=values, start=begin)
    changed = other_than_default(Recipe, values)
    if changed:
        st.caption(as_text(f"Other than the defaults: {changed}."))
    return values


def option_inputs(
    config: type,
    key: str,
    *,
    only: Sequence[str] | None = None,
    choices: Mapping[str, Offered] | None = None,
    free: Sequence[str] = ("encoder",),
    given: Mapping[str, Any] | None = None,
    whatever: bool = False,
    start: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Draw an input for each field that has an effect given the others' values; return plain values.

    `only` names the fields to draw, in this order; `choices` what to offer for some, where those named in `free` take
    other values too; `given` are values asked elsewhere; `whatever` draws fields without effect too; `start` gives
    initial values in place of the defaults; that of a choice must be on offer. What a person set is kept while the
    field is not shown. A list with an entry that is not a number shows an error below its input, and has no value.
    """
    specs = {spec.name: spec for spec in fields(config)}
    begin = {spec.name: spec.default for spec in fields(config)} | dict(start or {})
    standing = _standing(config, key, given or {}, begin)
    names = specs if only is None else only
    shown = [specs[name] for name in names if whatever or matters(specs[name], standing)]
    asked: dict[str, Any] = {}
    for left in range(0, len(shown), _COLUMNS):  # row by row: the tab key follows the order of drawing
        for column, spec in zip(st.columns(_COLUMNS), shown[left : left + _COLUMNS], strict=False):
            with column, shell.shown_errors():
                asked[spec.name] = _input(
                    spec, begin[spec.name], f"{key}-{spec.name}", (choices or {}).get(spec.name), spec.name in free
                )
    return asked


def changed_options(config: type, key: str, *, start: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Draw an input for each field; return the values that differ from the initial ones."""
    begin = {spec.name: spec.default for spec in fields(config)} | dict(start or {})
    return {name: value for name, value in option_inputs(config, key, start=begin).items() if value != begin[name]}


def chosen_options(config: type, key: str, label: str, placeholder: str, *, without: Sequence[str]) -> dict[str, Any]:
    """Let fields be chosen, all but those of `without`, and draw an input for each of these; return their values."""
    names = [spec.name for spec in fields(config) if spec.name not in without]
    chosen = st.multiselect(
        label, names, format_func=field_name, key=f"{key}:fields", persist_state="session", placeholder=placeholder
    )
    return option_inputs(config, f"{key}-recipe", only=chosen, whatever=True)


def _standing(config: type, key: str, given: Mapping[str, Any], begin: Mapping[str, Any]) -> dict[str, Any]:
    """Return every field's current value: what was given or typed before, the default where it has no effect."""
    specs = fields(config)
    values = {name: st.session_state.get(f"{key}-{name}", value) for name, value in begin.items()} | dict(given)
    for spec in specs:
        if not matters(spec, values):
            values[spec.name] = spec.default
    return values


def _sections(rest: Sequence[Field[Any]], values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Sort fields by what they belong to: this architecture, this setting, else their group."""
    own = {
        "architecture": f"{architecture_name(values['architecture'])} options",
        "setting": f"{setting_name(values['setting'])} options",
    }
    groups: dict[str, list[str]] = {title: [] for title in (*own.values(), *_GROUP_TITLES.values())}
    for spec in rest:
        decides = spec.metadata["only"]
        if all(values.get(name) in allowed for name, allowed in decides.items() if name in own):
            part = next((own[name] for name in own if name in decides), _GROUP_TITLES[spec.metadata["group"]])
            groups[part].append(spec.name)
    return {title: names for title, names in groups.items() if names}


def _input(spec: Field[Any], begin: Any, key: str, offered: Offered | None, is_free: bool) -> Any:
    """Draw the input of one field; its value stays in the session while it is not drawn."""
    label = _label(spec)
    shared: dict[str, Any] = {"help": spec.metadata["help"], "key": key, "persist_state": "session"}
    if isinstance(spec.default, tuple):
        return _list_input(
            spec, begin, label, tuple(offered or spec.metadata["choices"] or ()) or None, is_free, shared
        )
    if spec.name in _SEVERAL and offered:
        return _names_input(begin, label, offered, shared)
    choices = tuple(offered or spec.metadata["choices"] or ())
    if choices:
        start = choices.index(begin) if begin in choices else 0
        words = offered if isinstance(offered, Mapping) else {}
        named = partial(choice_name, spec) if offered is None else lambda value: words.get(value, str(value))
        return st.selectbox(
            label, choices, index=start, format_func=named, accept_new_options=bool(offered) and is_free, **shared
        )
    if isinstance(spec.default, bool):
        return st.selectbox(label, (True, False), index=int(not begin), format_func=value_name, **shared)
    if isinstance(spec.default, int):
        low, high = int(spec.metadata["min"]), int(spec.metadata["max"])
        return st.number_input(label, value=begin, min_value=low, max_value=high, step=1, **shared)
    if isinstance(spec.default, float):
        least, most = float(spec.metadata["min"]), float(spec.metadata["max"])
        step = spec.default / 10 or 0.01
        return st.number_input(label, value=begin, min_value=least, max_value=most, step=step, format="%.4g", **shared)
    return st.text_input(label, value=begin, **shared)


def _names_input(begin: str, label: str, offered: Offered, shared: Mapping[str, Any]) -> str:
    """Let several names be chosen, or typed with a weight behind them; return them as a recipe writes them."""
    names = [part.strip() for part in begin.split(",")]
    if not set(source_names(begin)) <= set(offered):
        names = [next(iter(offered))]
    words = offered if isinstance(offered, Mapping) else {}
    chosen = st.multiselect(
        label,
        tuple(dict.fromkeys((*offered, *names))),
        default=names,
        format_func=lambda name: words.get(name, name),
        accept_new_options=True,
        placeholder="Choose one or more, or type NAME*2",
        **shared,
    )
    if not chosen:
        raise InvalidConfig(f"{label} is empty; choose one or more, or another transfer setting.")
    return ", ".join(chosen)


def _label(spec: Field[Any]) -> str:
    """Name a field, without the prefix of the only architecture or setting that it is for."""
    owners = (f"{id}_" for allowed in spec.metadata["only"].values() for id in allowed if isinstance(id, str))
    short = next((spec.name.removeprefix(owner) for owner in owners if spec.name.startswith(owner)), spec.name)
    name = field_title(spec, short=short)
    return name[:1].upper() + name[1:]


def _list_input(
    spec: Any, begin: Any, label: str, offered: Sequence[str] | None, is_free: bool, shared: Mapping[str, Any]
) -> tuple[Any, ...]:
    if offered is not None:
        default = begin or None  # None lets a page set the value it begins with
        chosen = st.multiselect(label, tuple(offered), default=default, accept_new_options=is_free, **shared)
        return tuple(chosen)
    text = st.text_input(label, value=", ".join(map(value_name, begin)), **shared)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    kind = type(spec.default[0]) if spec.default else str
    try:
        return tuple(kind(part) for part in parts)
    except ValueError as error:
        what = "whole numbers" if kind is int else "numbers"
        raise InvalidConfig(f"{label} is {text!r}; write {what} separated by commas, such as 10, 25, 40.") from error
