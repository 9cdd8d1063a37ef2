"""The file of outside models: TOML, a table a model. It holds addresses and names of variables, never a key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig, NotFound
from crossner_core.outside.base import OutsideModel, settings_of
from crossner_core.records import parse
from crossner_core.suggest.base import SuggestionSource, sources

EXAMPLE = 'address = "https://api.example/v1"'


def kinds() -> dict[str, SuggestionSource]:
    """Return the sources of suggestions that ask an outside model, by id."""
    return {each.id: each for each in sources() if each.outside is not None}


def kind_of(model: OutsideModel) -> SuggestionSource:
    """Return the source of suggestions that a model belongs to."""
    return next(each for each in kinds().values() if each.outside is type(model))


def read_models(path: Path) -> dict[str, OutsideModel]:
    """Return the models of a file by name, in its order; none without a file. Raises InvalidConfig."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path.name}, the file of outside models, cannot be read: {error}.") from error
    try:
        tables = parse(text, "TOML")
        return {name: _model(name, table) for name, table in tables.items()}
    except (BadInput, InvalidConfig) as error:
        raise InvalidConfig(f"{path.name}, the file of outside models: {error}") from error


def find_model(models: Mapping[str, OutsideModel], name: str) -> OutsideModel:
    """Return a model; raise NotFound naming those that exist."""
    if name not in models:
        raise NotFound(f"There is no outside model {name!r}; there are: {', '.join(models) or 'none'}.")
    return models[name]


def _model(name: str, table: Any) -> OutsideModel:
    if not isinstance(table, dict):
        raise InvalidConfig(f"{name} stands outside a table; each model is a table, such as [own] with {EXAMPLE}.")
    values = dict(table)
    known = kinds()
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in known:
        given = "has no kind" if kind is None else "has an unknown kind"
        raise InvalidConfig(f"[{name}] {given}; allowed are {', '.join(known)}.")
    made = known[kind].outside
    assert made is not None, "kinds() lists only sources that ask an outside model"
    settings = settings_of(made)
    if unknown := [key for key in values if key not in settings]:
        hint = " A key does not belong into this file: name the variable that holds it as key_variable."
        about = hint if any(part in unknown[0].lower() for part in ("key", "token", "secret")) else ""
        raise InvalidConfig(
            f"[{name}] has an unknown setting {unknown[0]!r}; settings are {', '.join(settings)}.{about}"
        )
    return made(name=name, **values)
