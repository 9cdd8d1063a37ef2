"""Shared by all command lines: flags from a dataclass of options, recipes from files, errors as exit codes."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import typer.exceptions
from typer.core import TyperCommand

from crossner_core.errors import BadInput, InvalidConfig, WorkbenchError
from crossner_core.folders import for_owner_only
from crossner_core.records import parse

INTERRUPTED = 130
RECIPE_PANELS = {
    "model": "Recipe: model",
    "target": "Recipe: training on the target",
    "source": "Recipe: source domain",
    "machine": "Recipe: seed and machine",
}
OPTION_PANELS = {"target": "Training", "machine": "Seed and machine", "rules": "Rules", "new": "Rules"}


def new_app(**options: Any) -> typer.Typer:
    """Return an app whose errors and help are plain text."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options)


def flag(help: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """Return the annotation that makes a command's parameter a flag."""
    return typer.Option(*names, help=help, metavar=metavar, **more)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How a command line reports errors: their prefix, their exit code, and the message after an interruption."""

    prefix: str = "error: "
    error: int = 2
    interrupted: str = "Interrupted."


def run_app(app: typer.Typer, arguments: Sequence[str] | None, *, prog: str, outcomes: Outcomes | None = None) -> int:
    """Run a command; return its exit code, 2 for an invalid command line, INTERRUPTED after Ctrl-C."""
    outcomes = outcomes or Outcomes()
    for_owner_only()
    try:
        words = None if arguments is None else list(arguments)
        code = app(args=words, prog_name=prog, standalone_mode=False)
        if code == INTERRUPTED:  # typer's own answer to Ctrl-C
            print(outcomes.interrupted, file=sys.stderr)
        return code if isinstance(code, int) else 0
    except typer.exceptions.TyperException as error:
        message = error.format_message()
        # Without a command the message is the help itself.
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        print(message if is_help else f"{outcomes.prefix}{message} (see --help)", file=sys.stderr)
        return 2
    except WorkbenchError as error:
        print(f"{outcomes.prefix}{error}", file=sys.stderr)
        return outcomes.error
    except (typer.Abort, KeyboardInterrupt):
        print(outcomes.interrupted, file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output closed it (a pipe into head), which is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class OptionsCommand(TyperCommand):
    """A command whose help lists its options by panel."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, then a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        panels |= {title: [] for title in (*RECIPE_PANELS.values(), *OPTION_PANELS.values())}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_argument = param.param_type_name == "argument"
                panel = getattr(param, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
                panels.setdefault(panel, []).append(record)
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


class SeveralValuesCommand(OptionsCommand):
    """A command without arguments, whose options for several values take them in a row: `--seeds 555 666`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line."""
        several = {name for param in self.params if getattr(param, "multiple", False) for name in param.opts}
        return super().parse_args(ctx, list(one_value_each(args, several)))


def one_value_each(words: Sequence[str], several: set[str]) -> Iterator[str]:
    """Yield words, repeating each flag in `several` before each of its values; of a repeated flag the last one counts.

    >>> list(one_value_each(["--seeds", "1", "2", "--keep"], {"--seeds"}))
    ['--seeds', '1', '--seeds', '2', '--keep']
    """
    parts: list[tuple[str, list[str]]] = []
    for word in words:
        name, equals, value = word.partition("=")
        if name in several:
            parts = [part for part in parts if part[0] != name]
            parts.append((name, [value] if equals else []))
        elif _is_flag(word) or not (parts and parts[-1][0]):
            parts.append(("", [word]))
        else:
            parts[-1][1].append(word)
    for name, values in parts:
        if name and not values:
            yield name
        for value in values:
            yield from (name, value) if name else (value,)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-").replace(".", "").isdigit()


def takes_options(
    config: type, parameter: str, *, leave: Sequence[str] = (), panels: Mapping[str, str] = OPTION_PANELS
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command a flag for every field of a dataclass of options but those to `leave` at their defaults.

    It is called with an instance as `parameter`. A file may hold those to `leave`, as a saved recipe does, but at their
    defaults.
    """

    def make(values: Mapping[str, Any]) -> Any:
        made = _made(config, values)
        for spec in fields(config):
            if spec.name in leave and (value := getattr(made, spec.name)) != spec.default:
                raise InvalidConfig(f"{spec.name} is {value!r}, but has no effect with this command; leave it out.")
        return made

    return lambda command: with_flags(command, config, parameter, make, leave=leave, panels=panels)


def _made(config: type, values: Mapping[str, Any]) -> Any:
    known = {spec.name for spec in fields(config)}
    if unknown := sorted(set(values) - known):
        raise InvalidConfig(f"Unknown field {', '.join(unknown)}; valid are {', '.join(sorted(known))}.")
    return config(**values)


def with_flags(
    command: Callable[..., Any],
    config: type,
    parameter: str,
    make: Callable[[dict[str, Any]], Any],
    *,
    leave: Sequence[str] = (),
    panels: Mapping[str, str] = OPTION_PANELS,
    file: bool = True,
) -> Callable[..., Any]:
    """Replace one parameter of a command by a flag for each field of `config`, and one for a `file` of them.

    The command is called with what `make` returns for the given values.
    """
    hints = typing.get_type_hints(config)
    wrapped = inspect.signature(command, eval_str=True)
    parameters = [
        own.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, own in wrapped.parameters.items()
        if name != parameter
    ]
    if file:
        parameters.append(_parameter("recipe_file", Annotated[str | None, _FILE]))
    flags = [spec for spec in fields(config) if spec.name not in leave]
    for spec in flags:
        hint = hints[spec.name]
        annotation: Any = Annotated[(_flag_type(spec, hint), _flag(spec, hint, panels))]
        parameters.append(_parameter(spec.name, annotation))

    @functools.wraps(command)
    def call(**values: Any) -> Any:
        given = {spec.name: _value(hints[spec.name], values.pop(spec.name)) for spec in flags}
        chosen = read_values(text) if (text := values.pop("recipe_file", None)) is not None else {}
        chosen |= {name: value for name, value in given.items() if value is not None}
        return command(**values, **{parameter: make(chosen)})

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    del call.__wrapped__
    return call


_FILE = typer.Option("--recipe", help="JSON or TOML file with these options; flags override it.")


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _flag_type(spec: Field[Any], hint: Any) -> Any:
    """Return the type of an optional flag: its choices if it has any, text for a JSON object."""
    if typing.get_origin(hint) is tuple:
        item: Any = typing.get_args(hint)[0]
        return list[item] | None
    choices = spec.metadata["choices"]
    return (Literal[tuple(choices)] if choices else str if _is_mapping(hint) else hint) | None


def _is_mapping(hint: Any) -> bool:
    kind = typing.get_origin(hint)
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _value(hint: Any, given: Any) -> Any:
    """Return the value for a flag's field; None if it was not given."""
    if given is None or not (_is_mapping(hint) or typing.get_origin(hint) is tuple):
        return given
    return json_object(given) if _is_mapping(hint) else tuple(given) or None


def _flag(spec: Field[Any], hint: Any, panels: Mapping[str, str]) -> Any:
    flag = (spec.metadata.get("flag") or spec.name).replace("_", "-")
    names = f"--{flag}/--no-{flag}" if hint is bool else f"--{flag}"
    default = ("on" if spec.default else "off") if hint is bool else _default(spec)
    text = f"{spec.metadata['help']} [{default}]" if default != "" else spec.metadata["help"]
    metavar = "JSON" if _is_mapping(hint) else "VALUE …" if typing.get_origin(hint) is tuple else None
    return typer.Option(names, help=text, show_default=False, rich_help_panel=_panel(spec, panels), metavar=metavar)


def _default(spec: Field[Any]) -> Any:
    if spec.default_factory is not MISSING:
        return ""
    if spec.default is None:
        return "none"
    return " ".join(map(str, spec.default)) if isinstance(spec.default, tuple) else spec.default


def _panel(spec: Field[Any], panels: Mapping[str, str]) -> str:
    """Return the help section: what the field needs to have an effect, else its group."""
    if not spec.metadata["only"]:
        return panels.get(spec.metadata["group"], spec.metadata["group"].capitalize())
    decides = spec.metadata["only"].items()
    needs = (f"{name.replace('_', '-')} {' or '.join(map(_word, allowed))}" for name, allowed in decides)
    return f"Only with {' and '.join(needs)}"


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; raise InvalidConfig if it is not one."""
    try:
        values = parse(text, "JSON")
    except BadInput as error:
        raise InvalidConfig(f"{text[:60]!r} is {error}") from error
    if not isinstance(values, dict):
        raise InvalidConfig(f"{text!r} is not a JSON object; write it as in '{{\"learning_rate\": 1e-4}}'.")
    return values


def read_values(text: str) -> dict[str, Any]:
    """Read fields from a JSON or TOML file, from standard input for `-`, or from a JSON object itself.

    Raises InvalidConfig with what is wrong.
    """
    path = Path(text)
    if text != "-" and path.suffix not in (".json", ".toml") and (text.lstrip().startswith("{") or not path.is_file()):
        return json_object(text)
    kind = "JSON" if path.suffix == ".json" else "TOML"
    try:
        words = sys.stdin.read() if text == "-" else path.read_text(encoding="utf-8-sig")
        values = parse(words, kind)
    except OSError as error:
        raise InvalidConfig(f"The recipe {text} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"The recipe {text} is not UTF-8: {error.reason} at byte {error.start}.") from error
    except BadInput as error:
        raise InvalidConfig(f"The recipe {text} is {error}") from error
    if not isinstance(values, dict):
        raise InvalidConfig(f"The recipe {text} is not an object; it must contain fields, e.g. batch_size = 16.")
    return values
