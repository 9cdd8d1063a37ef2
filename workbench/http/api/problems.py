"""Errors as application/problem+json (RFC 9457), each class of ours in one place."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from crossner_core import errors
from crossner_core.errors import BadInput, StorageError, StoreFailed, WorkbenchError
from workbench.http.api.etags import Changed

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: its name in `type`, its status and its title."""

    name: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        """Where the page of the API explains it."""
        return f"/api/v1/#problem-{self.name}"


TOKEN = Kind("token", 401, "No valid token")
SCOPE = Kind("scope", 403, "The token's scope does not allow this")
NO_ROUTE = Kind("no-route", 404, "There is no such route")
METHOD = Kind("method", 405, "The route does not have this method")
TOO_LARGE = Kind("too-large", 413, "The body is too large")
MEDIA = Kind("media-type", 415, "The body has a media type that is not read")
RATE = Kind("rate", 429, "Too many requests")
CHANGED = Kind("changed", 412, "It has changed since it was read")
FAILED = Kind("failed", 500, "The server failed")
_INVALID = Kind("invalid", 400, "A value that is not allowed")
_OURS: Mapping[type[WorkbenchError], Kind] = {
    errors.StorageError: Kind("store", 503, "The store does not answer"),
    errors.RateLimited: RATE,
    errors.NotAllowed: Kind("not-allowed", 403, "Your role does not allow this"),
    errors.NotFound: Kind("not-found", 404, "It does not exist, or not for you"),
    errors.Conflict: Kind("conflict", 409, "It does not go with what is stored"),
    errors.CheckpointError: Kind("no-model", 409, "There is no model that can be used"),
    errors.EncoderUnavailable: Kind("no-encoder", 409, "An encoder cannot be loaded"),
    errors.EndpointUnavailable: Kind("endpoint", 502, "A server that this one asked did not answer"),
    errors.BadInput: _INVALID,
    errors.InvalidSpan: _INVALID,
    errors.UnknownType: _INVALID,
    errors.InvalidDomain: _INVALID,
    errors.InvalidConfig: _INVALID,
    errors.InvalidAccount: _INVALID,
    Changed: CHANGED,
    errors.WorkbenchError: Kind("unable", 503, "This could not be done"),
}
KINDS: tuple[Kind, ...] = tuple(
    dict.fromkeys((TOKEN, SCOPE, NO_ROUTE, METHOD, TOO_LARGE, MEDIA, RATE, *_OURS.values(), FAILED))
)


def kind_of(error: WorkbenchError) -> Kind:
    """Return the kind of an error of ours: that of its class, or of the nearest class it is derived from."""
    return next(_OURS[base] for base in type(error).__mro__ if base in _OURS)


def problem(
    kind: Kind, detail: str, *, path: str, problems: Sequence[str] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a problem; `problems` are single ones among several, such as the lines of a file."""
    value: dict[str, Any] = {
        "type": kind.uri, "title": kind.title, "status": kind.status, "detail": detail, "instance": path,
    }  # fmt: skip
    if problems:
        value["problems"] = list(problems)
    # Half a surrogate pair, which UTF-8 has no bytes for, becomes the escape that JSON has for it.
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Response(text, kind.status, dict(headers or {}), MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class Explained:
    """What is answered to an error of a use case."""

    kind: Kind
    detail: str
    problems: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


def explained(error: WorkbenchError, path: str) -> Explained:
    """Return what is answered to an error of a use case; of a store's own trouble only the log hears."""
    kind = kind_of(error)
    if isinstance(error, StorageError):
        log.error("%s was not answered: %s", path, error)
        return Explained(kind, StoreFailed.TRY_LATER, headers={"retry-after": "5"})
    return Explained(kind, str(error), tuple(error.problems) if isinstance(error, BadInput) else ())


def refusal(error: WorkbenchError, path: str) -> Response:
    """Answer with an error of a use case."""
    made = explained(error, path)
    return problem(made.kind, made.detail, path=path, problems=made.problems, headers=made.headers)
