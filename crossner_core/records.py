"""Values stored or sent as JSON: read by the types of their dataclass, written by one function."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from crossner_core.errors import BadInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

_KINDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "string": "a text", "list": "a list",
    "tuple": "a list", "dict": "an object", "mapping": "an object", "dataclass": "an object", "model": "an object",
    "none": "nothing",
}  # fmt: skip
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


class Record:
    """Base of dataclasses stored as JSON objects, one key per field; unknown keys are rejected."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return cast(dict[str, Any], to_json(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; raise BadInput naming what does not fit."""
        return read(cls, dict(values), cls.__name__)


def to_json(value: Any) -> Any:
    """Return dataclasses, sequences, mappings, dates, times and paths as JSON values, a class as its name."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=_name)


def read(kind: type[T], value: object, what: str) -> T:
    """Build a dataclass from plain values by the types of its fields; raise BadInput for the first that does not fit.

    The message states the value's name, what it is and what is allowed; `what` names the whole.
    """
    from pydantic import ValidationError

    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(value))
    except ValidationError as error:
        raise BadInput(_problem(error, kind, what)) from error


def read_json(kind: type[T], text: str | bytes, what: str) -> T:
    """Do the same as `read` for unparsed JSON; text with half a surrogate pair is rejected."""
    from pydantic import ValidationError

    try:
        return cast(T, _adapter(cast(Any, kind)).validate_json(text))
    except ValidationError as error:
        raise BadInput(_problem(error, kind, what)) from error


def parse(text: str, kind: str) -> Any:
    """Parse JSON or TOML (`kind`); raise BadInput where it is neither, is nested too deep or has too long a number."""
    try:
        return json.loads(text) if kind == "JSON" else tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise BadInput(f"not {kind}: it is nested too deep.") from error
    except ValueError as error:
        reason = "a number has too many digits" if "integer string conversion" in str(error) else str(error)
        raise BadInput(f"not {kind}: {reason}.") from error


def _name(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    raise TypeError(f"{type(value).__name__} has no JSON")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _problem(error: ValidationError, kind: type[Any], what: str) -> str:
    """Describe what is wrong with the first value that does not fit."""
    first = error.errors(include_url=False)[0]
    type_, context, value = first["type"], first.get("ctx", {}), first["input"]
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".") or what
    if type_ in ("missing", "missing_argument"):
        return f"{name} is missing."
    if type_ in _UNKNOWN_KEY:
        valid = [spec.name for spec in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "model_fields", ()))
        known = f"; valid are {', '.join(valid) or 'none'}" if valid or is_dataclass(kind) else ""
        return f"{name} is no key of {what}{known if len(first['loc']) == 1 else ''}."
    if type_ == "json_invalid":
        return f"{what} is not JSON: {context['error']}."
    if type_ == "value_error":
        return f"{name} {context['error']}"
    if type_ == "string_unicode":
        return f"{name} holds half a surrogate pair, which cannot be stored."
    if type_.endswith(("too_long", "too_short")):
        parts = "characters" if isinstance(value, str) else "values"
        return f"{name} has {len(value)} {parts}; {_bound(context, 'min_length', 'max_length')} are allowed."
    if type_ in ("greater_than_equal", "less_than_equal"):
        return f"{name} is {value}; {_bound(context, 'ge', 'le')} is allowed."
    if allowed := _KINDS.get(type_.split("_")[0]):
        return f"{name} must be {allowed}, not {_shown(value)}."
    return f"{name} is {_shown(value)}: {first['msg']}."


def _bound(context: Mapping[str, Any], low: str, high: str) -> str:
    return f"at least {context[low]}" if low in context else f"at most {context[high]}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
