"""Types of the fields of untrusted JSON; `crossner_core.records.read` explains what does not fit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from crossner_core.schema import UNSTORABLE, is_storable

_LARGEST = 2**53
"""The largest integer that a browser writes exactly."""


def _whole(value: Any) -> Any:
    """Accept 3.0 as 3: browsers do not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _storable(value: str) -> str:
    if not is_storable(value):
        raise ValueError(f"{UNSTORABLE}.")
    return value


def _storable_within(value: Any) -> Any:
    """Check all texts within a JSON value, keys too."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            _storable(part)
        elif isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list):
            waiting += part
    return value


def among(allowed: Sequence[str]) -> AfterValidator:
    """Allow these texts and no others."""

    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"is {value[:60]!r}; allowed are {', '.join(allowed)}.")
        return value

    return AfterValidator(check)


Whole = Annotated[int, Strict(), Field(ge=0, le=_LARGEST), BeforeValidator(_whole)]
Truth = Annotated[bool, Strict()]
Text = Annotated[str, Strict(), AfterValidator(_storable)]
Object = Annotated[dict[str, Any], AfterValidator(_storable_within)]
