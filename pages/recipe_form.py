"""A form made from the recipe's own fields: what it asks, allows and explains comes from the dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

import streamlit as st

from crossner_core.training.recipe import Recipe

_SHOWN_FIRST = ("setting", "source", "encoder", "architecture", "seed", "max_epochs")
_GROUP_TITLES = {
    "model": "Model",
    "target": "Training on the target",
    "source": "Source domain",
    "machine": "Seed and machine",
}


def recipe_inputs(key: str, sources: tuple[str, ...] = ()) -> dict[str, Any]:
    """Draw the inputs and return the recipe's values; `sources` are the data sets that can be a source corpus."""
    specs = {spec.name: spec for spec in fields(Recipe)}
    options: Mapping[str, tuple[str, ...]] = {"source": sources or (str(specs["source"].default),)}
    values: dict[str, Any] = {}
    columns = st.columns(3)
    for number, name in enumerate(_SHOWN_FIRST):
        with columns[number % 3]:
            values[name] = _input(specs[name], key, options.get(name))
    with st.expander("All settings"):
        for group, title in _GROUP_TITLES.items():
            rest = [spec for spec in specs.values() if spec.metadata["group"] == group and spec.name not in values]
            if not rest:
                continue
            st.caption(title)
            columns = st.columns(3)
            for number, spec in enumerate(rest):
                with columns[number % 3]:
                    values[spec.name] = _input(spec, key, None)
    return values


def _input(spec: Field[Any], key: str, options: tuple[str, ...] | None) -> Any:
    label = spec.name.replace("_", " ")
    shared: dict[str, Any] = {"help": spec.metadata["help"], "key": f"{key}-{spec.name}"}
    choices = options or spec.metadata["choices"]
    if choices:
        start = choices.index(spec.default) if spec.default in choices else 0
        return st.selectbox(label, choices, index=start, **shared)
    if isinstance(spec.default, bool):
        return st.checkbox(label, value=spec.default, **shared)
    if isinstance(spec.default, int):
        low, high = spec.metadata["min"], spec.metadata["max"]
        return st.number_input(label, value=spec.default, min_value=int(low), max_value=int(high), step=1, **shared)
    if isinstance(spec.default, float):
        low, high = float(spec.metadata["min"]), float(spec.metadata["max"])
        small = spec.default < 0.01
        return st.number_input(
            label,
            value=spec.default,
            min_value=low,
            max_value=high,
            step=spec.default / 10 or 0.01,
            format="%.1e" if small else "%.3f",
            **shared,
        )
    return st.text_input(label, value=spec.default, **shared)
