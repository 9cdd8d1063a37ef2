"""What people type and link to: commands with flags and help, page addresses, and options with their defaults."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any
from unittest import mock

import typer.main

from crossner_core.acquisition.base import acquisition, acquisition_ids
from crossner_core.adaptation.__main__ import main as pretrain_command
from crossner_core.experiments.__main__ import main as study_command
from crossner_core.gazetteer.preannotate import PreannotationConfig
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import SimulationOptions
from crossner_core.training.__main__ import main as train_command
from crossner_core.training.recipe import Recipe
from crossner_core.wikipedia.entity_tagging import TaggingConfig
from crossner_core.wikipedia.shards import BuildConfig, SentenceRules
from pages.main import page_list
from workbench.accounts.roles import EVERYONE
from workbench.cli import app
from workbench.settings import Settings

# Names under which options lie in stores, files and recipes; what class they are of is of no account.
OPTIONS: dict[str, Any] = {
    "recipe": Recipe,
    "DAPT": DaptOptions,
    "entity tagging": TaggingPretrainOptions,
    "simulation": SimulationOptions,
    "annotator": AnnotatorOptions,
    "second look": LabelReviewOptions,
    "pre-annotation": PreannotationConfig,
    "corpus": BuildConfig,
    "sentences of a corpus": SentenceRules,
    "entity-tagging corpus": TaggingConfig,
}
ENGINE: dict[str, tuple[Callable[[list[str]], Any], list[str]]] = {
    "crossner_core.training": (train_command, []),
    "crossner_core.adaptation": (pretrain_command, []),
    "crossner_core.adaptation dapt": (pretrain_command, ["dapt"]),
    "crossner_core.adaptation entity-tagging": (pretrain_command, ["entity-tagging"]),
    "crossner_core.experiments": (study_command, []),
    "crossner_core.experiments list": (study_command, ["list"]),
}


def made(_folder: Any = None) -> dict[str, Any]:
    """Return all of it."""
    options = {name: _options(kind) for name, kind in OPTIONS.items()}
    options |= {f"acquisition {id}": _options(acquisition(id).config) for id in acquisition_ids()}
    settings = {name: [repr(spec.default), spec.description] for name, spec in Settings.model_fields.items()}
    return {
        "commands": dict(_commands(typer.main.get_command(app), "workbench")),
        "engine": {name: _help(*how) for name, how in ENGINE.items()},
        "pages": {role: _addresses(role) for role in EVERYONE},
        "options": options,
        "settings": settings,
    }


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield all commands below one, each with its help and with its flags: names, default, and help."""
    flags = {}
    for one in command.params:
        named = ("opts", "secondary_opts", "required", "nargs", "multiple", "envvar", "help")
        said = {what: value for what in named if (value := getattr(one, what, None))}
        flags[one.name] = {**said, "default": repr(one.default)}
    yield name, {"help": command.help, "flags": flags}
    for part, below in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(below, f"{name} {part}")


def _help(command: Callable[[list[str]], Any], words: list[str]) -> list[str]:
    """Return what an engine's command prints when it is asked for help."""
    printed = io.StringIO()
    asked = words if words == ["list"] else [*words, "--help"]
    with (
        mock.patch.dict(os.environ, COLUMNS="120"),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        command(asked)
    return printed.getvalue().splitlines()


def _addresses(role: str) -> dict[str, list[str]]:
    """Return the addresses of the pages that a role sees, by section."""
    with mock.patch("streamlit.Page", lambda _file, **given: given["url_path"]):
        return {section: list(pages) for section, pages in page_list(role).items()}


def _options(kind: Any) -> dict[str, Any]:
    """Return the fields of options by name: the default and, where there are any, choices, bounds and the like."""
    found = {}
    for spec in fields(kind):
        default = spec.default if spec.default is not MISSING else spec.default_factory()
        parts = {name: value for name, value in spec.metadata.items() if name not in ("help", "doc") and value}
        found[spec.name] = {"default": _plain(default), **{name: _plain(value) for name, value in parts.items()}}
    return found


def _plain(value: Any) -> Any:
    """Return a value without the names of classes; sets in order."""
    if is_dataclass(value):
        return {spec.name: _plain(getattr(value, spec.name)) for spec in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
