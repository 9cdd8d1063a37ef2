"""Command-line flags made from the fields of the recipe, so that there is one place to add a field."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from crossner_core.training.recipe import Recipe


def takes_recipe(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for every field of Recipe; it is called with `recipe`, made and checked."""
    hints = typing.get_type_hints(Recipe)
    wrapped = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in wrapped.parameters.items() if name != "recipe"]
    file = Annotated[
        Path | None, typer.Option("--recipe", help="JSON or TOML file with recipe fields; flags win over it.")
    ]
    added = [inspect.Parameter("recipe_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=file)]
    for spec in fields(Recipe):
        annotation: Any = Annotated[(_type(spec, hints[spec.name]), _option(spec, hints[spec.name]))]
        added.append(inspect.Parameter(spec.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))

    @functools.wraps(command)
    def call(**values: Any) -> Any:
        given = {spec.name: values.pop(spec.name) for spec in fields(Recipe)}
        base = _read(values.pop("recipe_file"))
        recipe = Recipe.from_dict({**base, **{name: value for name, value in given.items() if value is not None}})
        return command(**values, recipe=recipe)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + added
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del call.__wrapped__
    return call


def _type(spec: Field[Any], hint: Any) -> Any:
    """Return the type of a flag that need not be given: its choices where it has some."""
    choices = spec.metadata["choices"]
    return (Literal[tuple(choices)] if choices else hint) | None


def _option(spec: Field[Any], hint: Any) -> Any:
    flag = spec.name.replace("_", "-")
    names = f"--{flag}/--no-{flag}" if hint is bool else f"--{flag}"
    return typer.Option(names, help=f"{spec.metadata['help']} [{spec.default}]", show_default=False)


def _read(file: Path | None) -> dict[str, Any]:
    """Read recipe fields from a file; raise BadInput where it holds none."""
    if file is None:
        return {}
    import json
    import tomllib

    from workbench.commands.common import read_in, refuse

    text = read_in(file).decode("utf-8", "replace")
    try:
        values = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        refuse(f"{file} is neither JSON nor TOML as its name says: {error}.")
    return values if isinstance(values, dict) else refuse(f"{file} must hold recipe fields, e.g. batch_size = 16.")
