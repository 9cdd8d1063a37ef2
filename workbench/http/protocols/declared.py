"""A protocol of another tool: where it lies, its calls, and how it words an error; a file of this package each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response
from starlette.routing import compile_path

from crossner_core.errors import BadInput, NotFound
from crossner_core.records import read_json
from crossner_core.registry import Registry
from crossner_core.schema import UNSTORABLE, is_storable
from workbench.http.api.declared import JSON_BYTES, Call, Scope
from workbench.http.api.problems import Explained

Reads = Literal["nothing", "body", "form", "skipped"]
"""What becomes of a body: nothing is read, it is read as bytes, or as a form, or it is received and not kept."""
M = TypeVar("M", bound=BaseModel)
_MOST_ID = 2**31 - 1


class Sent(BaseModel):
    """What a tool sends; keys that are not ours to read are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it was read: what stands in its path and its query, and its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""
    form: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    folder: Path | None = None
    """Where the files of a form lie until it is answered."""

    def number(self, name: str) -> int:
        """Return an id in the path; raise NotFound for what is none."""
        text = self.path[name]
        if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:12]) <= _MOST_ID:
            raise NotFound(f"There is no {name} {text[:40]!r}; a {name} has a number.")
        return int(text)

    def stored(self, name: str) -> Path:
        """Return a file of the form, which may come as a plain field; raise BadInput where it is not there."""
        if name not in self.files and name in self.form and self.folder is not None:
            place = self.folder / "field"
            place.write_bytes(self.form[name].encode("utf-8", "surrogatepass"))
            return place
        if name not in self.files:
            raise BadInput(f"The form has no file {name!r}; send one as multipart/form-data.")
        return self.files[name]

    def file(self, name: str) -> bytes:
        """Return the bytes of a file of the form; raises as `stored` does."""
        return self.stored(name).read_bytes()

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field of the form; raise BadInput where it is needed and not there, or no store can hold it."""
        value = self.form.get(name, default)
        if value is None:
            raise BadInput(f"The form has no field {name!r}.")
        if not is_storable(value) or len(value) > 1_000:
            raise BadInput(f"The field {name!r} {UNSTORABLE if len(value) <= 1_000 else 'is too long'}.")
        return value

    def json(self, kind: type[M]) -> M:
        """Return the body as a model; raise BadInput for the first value that does not fit."""
        return read_json(kind, self.body, "the body")


Handle = Callable[[Call, Asked], Response]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One call of a protocol; `roles` are those that its use cases let in, which check them by themselves.

    `path` is below the protocol's root; `slots` name the threads it waits for, `most_bytes` limits the body.
    """

    method: str
    path: str
    scope: Scope
    roles: tuple[str, ...]
    use: tuple[Callable[..., Any], ...]
    handle: Handle
    reads: Reads = "nothing"
    slots: str = "short"
    most_bytes: int = JSON_BYTES

    @property
    def name(self) -> str:
        return self.handle.__name__

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return compile_path(self.path)[0]

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters in a path below the root, None if it is another call's."""
        matched = self._pattern.match(path)
        return matched.groupdict() if matched else None


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A protocol below a root; `has_token_in_path`: its tool sends no header, so that a token may stand in the path."""

    id: str
    title: str
    root: str
    refuse: Callable[[Explained, str], Response]
    has_token_in_path: bool = False
    operations: list[Operation] = field(default_factory=list)

    def operation(
        self,
        method: str,
        path: str,
        *,
        scope: Scope,
        roles: tuple[str, ...],
        use: Callable[..., Any] | tuple[Callable[..., Any], ...],
        reads: Reads = "nothing",
        slots: str = "short",
        most_bytes: int = JSON_BYTES,
    ) -> Callable[[Handle], Handle]:
        """Declare a call by the function that answers it."""

        def declare(handle: Handle) -> Handle:
            self.operations.append(
                Operation(
                    method=method,
                    path=path,
                    scope=scope,
                    roles=roles,
                    use=use if isinstance(use, tuple) else (use,),
                    handle=handle,
                    reads=reads,
                    slots=slots,
                    most_bytes=most_bytes,
                )
            )
            return handle

        return declare


PROTOCOLS: Registry[Protocol] = Registry(
    "workbench.http.protocols", "protocol", apart=("declared", "serving", "predicted")
)


def protocols() -> tuple[Protocol, ...]:
    """Return all protocols."""
    return tuple(PROTOCOLS.one(id) for id in PROTOCOLS.ids())
