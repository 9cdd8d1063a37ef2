"""Command-line flags made from the fields of an options dataclass, so that there is one place to add a field."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from crossner_core.training.recipe import Recipe

_RECIPE_TITLES = {
    "model": "Recipe: model",
    "target": "Recipe: training on the target",
    "source": "Recipe: source domain",
    "machine": "Recipe: seed and machine",
}
_OTHER_TITLES = {"target": "Training", "machine": "Seed and machine"}


class GroupedCommand(TyperCommand):
    """A command whose help lists its options under the panels they name."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and then a section for each panel."""
        found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        found |= {title: [] for title in (*_RECIPE_TITLES.values(), *_OTHER_TITLES.values())}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_argument = param.param_type_name == "argument"
                panel = getattr(param, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
                found.setdefault(panel, []).append(record)
        for panel, records in found.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


def takes_recipe(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for every field of Recipe; it is called with `recipe`, made and checked."""

    def make(values: dict[str, Any]) -> Recipe:
        recipe = Recipe.from_dict(values)
        _say_without_effect(recipe.to_dict(), values)
        return recipe

    return _with_flags(command, Recipe, "recipe", make)


def takes_changes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for every field of Recipe but the seed; it is called with `changes`, those given."""

    def make(values: dict[str, Any]) -> dict[str, Any]:
        Recipe.from_dict(values)  # a value out of range is refused before anything begins
        return values

    return _with_flags(command, Recipe, "changes", make, leave=("seed",))


def takes_options(config: type, parameter: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command a flag for every field of a dataclass of options; it is called with `parameter`, one of those."""
    return lambda command: _with_flags(command, config, parameter, lambda values: _made(config, values))


def _made(config: type, values: Mapping[str, Any]) -> Any:
    from workbench.commands.common import refuse

    known = {spec.name for spec in fields(config)}
    if unknown := sorted(set(values) - known):
        refuse(f"Unknown field {', '.join(unknown)}; valid are {', '.join(sorted(known))}.")
    return config(**values)


def _with_flags(
    command: Callable[..., Any],
    config: type,
    parameter: str,
    make: Callable[[dict[str, Any]], Any],
    *,
    leave: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Replace one parameter of a command by a flag for each field of `config`, and one for a file of them."""
    hints = typing.get_type_hints(config)
    wrapped = inspect.signature(command, eval_str=True)
    own = [one for name, one in wrapped.parameters.items() if name != parameter]
    file = Annotated[
        Path | None,
        typer.Option("--recipe", help="JSON or TOML file with such fields; flags win over it."),
    ]
    added = [inspect.Parameter("recipe_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=file)]
    titles = _RECIPE_TITLES if config is Recipe else _OTHER_TITLES
    flags = [spec for spec in fields(config) if spec.name not in leave]
    for spec in flags:
        annotation: Any = Annotated[(_type(spec, hints[spec.name]), _option(spec, hints[spec.name], titles))]
        added.append(inspect.Parameter(spec.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))

    @functools.wraps(command)
    def call(**values: Any) -> Any:
        given = {spec.name: values.pop(spec.name) for spec in flags}
        base = _read(values.pop("recipe_file"))
        chosen = {**base, **{name: value for name, value in given.items() if value is not None}}
        return command(**values, **{parameter: make(chosen)})

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + added
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    del call.__wrapped__
    return call


def _say_without_effect(values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    from workbench.runs.recipe_names import without_effect

    for line in without_effect(values, tuple(given)):
        typer.echo(line, err=True)


def _type(spec: Field[Any], hint: Any) -> Any:
    """Return the type of a flag that need not be given: its choices where it has some."""
    choices = spec.metadata["choices"]
    return (Literal[tuple(choices)] if choices else hint) | None


def _option(spec: Field[Any], hint: Any, titles: Mapping[str, str]) -> Any:
    flag = spec.name.replace("_", "-")
    names = f"--{flag}/--no-{flag}" if hint is bool else f"--{flag}"
    default = ("on" if spec.default else "off") if hint is bool else spec.default
    text = f"{spec.metadata['help']} [{default}]"
    return typer.Option(names, help=text, show_default=False, rich_help_panel=_panel(spec, titles))


def _panel(spec: Field[Any], titles: Mapping[str, str]) -> str:
    """Name the section of the help: what the field needs to have an effect, else its group."""
    if not spec.metadata["only"]:
        return titles.get(spec.metadata["group"], spec.metadata["group"].capitalize())
    decides = spec.metadata["only"].items()
    needs = (f"{name.replace('_', '-')} {' or '.join(map(_word, allowed))}" for name, allowed in decides)
    return f"Only with {' and '.join(needs)}"


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _read(file: Path | None) -> dict[str, Any]:
    """Read fields from a file; raise BadInput where it holds none."""
    if file is None:
        return {}
    import json
    import tomllib

    from workbench.commands.common import read_in, refuse

    text = read_in(file).decode("utf-8-sig", "replace")
    try:
        values = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        refuse(f"{file} is neither JSON nor TOML as its name says: {error}.")
    return values if isinstance(values, dict) else refuse(f"{file} must hold recipe fields, e.g. batch_size = 16.")
