"""A route of the API is declared once: the server answers by it, and OpenAPI and the page are written from it."""

from __future__ import annotations

import base64
import binascii
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import compile_path

from crossner_core.errors import BadInput
from crossner_core.registry import Registry
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.http.api.etags import refuse_changed

ROOT = "/api/v1"
LEFT_OUT = "left-out"
"""The header that says what a file could not hold."""
Scope = Literal["read", "write", "train"]
Id = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""A number that names a row; the store's largest is 2³¹ − 1."""
MOST_IN_PAGE = 200
T = TypeVar("T")


class Inputs(BaseModel):
    """What a request states in its path and its query; those of the path are named in the route's path."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Nothing(Inputs):
    """No parameters."""


class Body(BaseModel):
    """What a request states in its body, as JSON; types are not converted."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class Files(BaseModel):
    """Files that a request brings as multipart/form-data, each in a field `files`; on disk until it is answered."""

    model_config = ConfigDict(frozen=True)
    files: tuple[tuple[str, Path], ...]


class Answer(BaseModel):
    """What a route answers, as JSON."""

    model_config = ConfigDict(frozen=True, from_attributes=True, use_attribute_docstrings=True)

    def encoded(self) -> bytes:
        """Return it as the bytes of a body in JSON."""
        return in_utf8(self.model_dump_json())


class PageInputs(Inputs):
    """The part of a list that is asked for."""

    cursor: Annotated[str, Field(max_length=100)] | None = None
    """`next` of the page before; the first page without it."""
    limit: Annotated[int, Field(ge=1, le=MOST_IN_PAGE)] = 50
    """Items at most."""


class Page(Answer, Generic[T]):
    """A part of a list; `next` is the cursor of the next part, null at the end."""

    items: list[T]
    next: str | None = None


class Accepted(Answer):
    """What was left to the worker."""

    follow: str
    """The address that says how far it is."""


@dataclass(frozen=True, slots=True)
class File:
    """An answer that is a file; `left_out` is what its format could not hold, by kind and number."""

    name: str
    data: bytes
    media_type: str = "application/octet-stream"
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """Whose request it is, and the store it is about."""

    store: Store
    actor: Actor
    token_id: int
    if_match: tuple[str, ...] | None = None
    """Tags in the header If-Match; None without it."""

    def refuse_changed(self, answer: Answer) -> None:
        """Raise `Changed` if what is to be changed, as it would be answered now, is not what If-Match says."""
        refuse_changed(answer.encoded(), self.if_match)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One route; `roles` are those that its use cases let in, which check them by themselves.

    `later` is what it answers, with 202, where it leaves what takes long to the worker.

    `creates`: a repeated request would make a second thing, so that idempotency keys are taken. `slots` name the
    threads it waits for: `short`, `long` (whole files) or `model`. `most_bytes` limits the body. `matches`: it takes
    If-Match, and its function hands what is to be changed to `Call.refuse_changed`. `version` returns what an answer is
    made of as a text, for less than the answer costs, or None.
    """

    method: str
    path: str
    scope: Scope
    roles: tuple[str, ...]
    use: tuple[Callable[..., Any], ...]
    answer: Any
    later: type[Accepted] | None
    handle: Callable[..., Any]
    inputs: type[Inputs]
    body: type[Body] | type[Files] | None
    status: int
    creates: bool
    slots: str
    most_bytes: int
    matches: bool
    version: Callable[..., str | None] | None

    @property
    def name(self) -> str:
        return self.handle.__name__

    @property
    def group(self) -> str:
        """The file it is declared in."""
        return self.handle.__module__.rsplit(".", 1)[1]

    @property
    def summary(self) -> str:
        return self._texts[0]

    @property
    def description(self) -> str:
        return self._texts[1]

    @property
    def path_names(self) -> tuple[str, ...]:
        """The parameters in the path."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def is_read(self) -> bool:
        """Whether it only reads, so that what it answers has a tag."""
        return self.method == "GET"

    @property
    def takes_files(self) -> bool:
        return self.body is not None and issubclass(self.body, Files)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return compile_path(self.path)[0]

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters in a path below the root, None if it is another route's."""
        matched = self._pattern.match(path)
        return matched.groupdict() if matched else None

    @property
    def _texts(self) -> tuple[str, str]:
        first, _, rest = (self.handle.__doc__ or "").strip().partition("\n")
        return first, " ".join(rest.split())


ROUTES: Registry[Declared] = Registry("workbench.http.api.routes", "route of the API")
JSON_BYTES = 4 * 1024 * 1024
"""Largest body in JSON."""

Handler = TypeVar("Handler", bound=Callable[..., Any])


def route(
    method: str,
    path: str,
    *,
    scope: Scope,
    roles: Sequence[str],
    use: Callable[..., Any] | tuple[Callable[..., Any], ...],
    status: int = 200,
    creates: bool = False,
    slots: str = "short",
    most_bytes: int = JSON_BYTES,
    matches: bool = False,
    version: Callable[..., str | None] | None = None,
) -> Callable[[Handler], Handler]:
    """Declare a route by the function that answers it: `(call, inputs)` or `(call, inputs, body)`.

    Its annotations are the parameters, the body and the answer, or the answer and the one that follows later; its
    docstring is what the documents say.
    """

    def declare(handle: Handler) -> Handler:
        hints = typing.get_type_hints(handle, include_extras=True)
        answers = typing.get_args(hints["return"]) if isinstance(hints["return"], UnionType) else (hints["return"],)
        declared = Declared(
            method=method,
            path=path,
            scope=scope,
            roles=tuple(roles),
            use=use if isinstance(use, tuple) else (use,),
            answer=answers[0],
            later=answers[1] if answers[1:] else None,
            handle=handle,
            inputs=hints["inputs"],
            body=hints.get("body"),
            status=status,
            creates=creates,
            slots=slots,
            most_bytes=most_bytes,
            matches=matches,
            version=version,
        )
        if unknown := set(declared.path_names) - set(declared.inputs.model_fields):
            raise TypeError(f"{method} {path}: {sorted(unknown)} are no fields of {declared.inputs.__name__}.")
        ROUTES.add(declared.name, declared)
        return handle

    return declare


def routes() -> tuple[Declared, ...]:
    """Return all routes, by path and method."""
    ROUTES.load()
    order = ("GET", "POST", "PUT", "PATCH", "DELETE")
    return tuple(sorted(ROUTES.values(), key=lambda route: (route.group, route.path, order.index(route.method))))


def in_utf8(text: str) -> bytes:
    """Return JSON in UTF-8; half a surrogate pair, which UTF-8 has no bytes for, becomes JSON's escape for it."""
    return text.encode("utf-8", "backslashreplace")


def cursor_of(number: int) -> str:
    """Return the opaque text by which a client asks for what comes after a number of a row, or of items."""
    return base64.urlsafe_b64encode(f"after:{number}".encode()).decode().rstrip("=")


def number_in(cursor: str | None) -> int:
    """Return the number in a cursor, 0 without one; raise BadInput for a text that is none."""
    if cursor is None:
        return 0
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    matched = re.fullmatch(r"after:(0|[1-9]\d{0,9})", text, re.ASCII)
    if matched is None or (number := int(matched[1])) > 2**31 - 1 or cursor_of(number) != cursor:
        raise BadInput(f"{cursor[:60]!r} is no cursor; take `next` of the page before, or leave it out.")
    return number


def part_of(rows: Sequence[T], inputs: PageInputs) -> tuple[list[T], str | None]:
    """Return the part of a whole list that is asked for, by number of items, and the next cursor."""
    offset = number_in(inputs.cursor)
    end = offset + inputs.limit
    return list(rows[offset:end]), cursor_of(end) if end < len(rows) else None


def with_ids_after(rows: Sequence[T], inputs: PageInputs, id_of: Callable[[T], int]) -> tuple[list[T], str | None]:
    """Return the part of a list, newest first, of those whose ids are lower than the cursor's, and the next cursor."""
    after = number_in(inputs.cursor)
    left = [row for row in rows if not after or id_of(row) < after]
    part = left[: inputs.limit]
    return part, cursor_of(id_of(part[-1])) if len(left) > len(part) else None


def given(inputs: BaseModel, *names: str) -> Mapping[str, Any]:
    """Return those of these values that were stated."""
    return {name: getattr(inputs, name) for name in names if getattr(inputs, name) is not None}
