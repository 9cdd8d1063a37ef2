"""What people type and link to: commands with flags, page addresses, options with their defaults; not the help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any
from unittest import mock

import typer.main

from crossner_core.acquisition.base import acquisition, acquisition_ids
from crossner_core.adaptation.__main__ import app as pretrain_app
from crossner_core.experiments.__main__ import app_of_studies
from crossner_core.gazetteer.preannotate import PreannotationConfig
from crossner_core.options.character_models import CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import SimulationOptions
from crossner_core.training.__main__ import app as train_app
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
    "character models": CharacterModelOptions,
    "simulation": SimulationOptions,
    "annotator": AnnotatorOptions,
    "second look": LabelReviewOptions,
    "pre-annotation": PreannotationConfig,
    "corpus": BuildConfig,
    "sentences of a corpus": SentenceRules,
    "entity-tagging corpus": TaggingConfig,
}


def made(_folder: Any = None) -> dict[str, Any]:
    """Return all of it."""
    options = {name: _options(kind) for name, kind in OPTIONS.items()}
    options |= {f"acquisition {id}": _options(acquisition(id).config) for id in acquisition_ids()}
    engine = {"training": train_app, "adaptation": pretrain_app, "experiments": app_of_studies([])}
    return {
        "commands": dict(_commands(app, "workbench")),
        "engine": {name: dict(_commands(part, f"crossner_core.{name}")) for name, part in engine.items()},
        "pages": {role: _addresses(role) for role in EVERYONE},
        "options": options,
        "settings": {name: repr(spec.default) for name, spec in Settings.model_fields.items()},
    }


def _commands(app: typer.Typer, name: str) -> Iterator[tuple[str, Any]]:
    """Yield all commands of an app, each with its flags: names, whether it must be given, and default."""
    yield from _below(typer.main.get_command(app), name)


def _below(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    pinned = ("opts", "secondary_opts", "required", "nargs", "multiple", "envvar")
    flags = {}
    for flag in command.params:
        given = {what: value for what in pinned if (value := getattr(flag, what, None))}
        flags[flag.name] = {**given, "default": repr(flag.default)}
    yield name, flags
    for part, below in sorted(getattr(command, "commands", {}).items()):
        yield from _below(below, f"{name} {part}")


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
    if isinstance(value, range):
        return f"{value[0]} to {value[-1]}"
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
