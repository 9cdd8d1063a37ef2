"""What an API needs: everything that use cases return can be sent as JSON, and the gate takes more than cookies."""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import datetime as dt
import importlib
import inspect
import json
import pkgutil
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import workbench
from crossner_core.records import to_json
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.http.gate import Gate, by_cookie
from workbench.settings import Settings

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
SAMPLES: dict[Any, Any] = {
    int: 3, float: 0.5, str: "ü", bool: True, bytes: b"bytes", object: "any", Any: {"a": [1]}, Path: Path("a/b"),
    dt.datetime: MOMENT, type(None): None,
}  # fmt: skip


def parts(hint: Any) -> Iterator[Any]:
    """Yield a type and the types it is made of."""
    yield hint
    for part in typing.get_args(hint):
        yield from parts(part)


def hints_of(thing: Any) -> dict[str, Any]:
    """Return the types of a function's or class's annotations, those included that are imported for typing only."""
    names: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(thing)))):  # type: ignore[arg-type]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for imported in node.body:
                assert isinstance(imported, ast.ImportFrom) and imported.module
                module = importlib.import_module(imported.module)
                names |= {one.name: getattr(module, one.name) for one in imported.names}
    return typing.get_type_hints(thing, localns=names)


def use_cases() -> Iterator[Any]:
    """Yield every public function that acts for somebody."""
    for module in pkgutil.walk_packages(workbench.__path__, "workbench."):
        if module.ispkg or module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        for name, function in inspect.getmembers(loaded, inspect.isfunction):
            own = function.__module__ == loaded.__name__ and not name.startswith("_")
            if own and list(inspect.signature(function).parameters)[:2] == ["store", "actor"]:
                yield function


def views() -> list[type]:
    """Return every dataclass that a use case returns."""
    found = {
        part: None
        for function in use_cases()
        for part in parts(hints_of(function).get("return"))
        if dataclasses.is_dataclass(part) and isinstance(part, type)
    }
    return sorted(found, key=lambda view: (view.__module__, view.__qualname__))


def sample(hint: Any) -> Any:
    """Make a value of a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in SAMPLES:
        return SAMPLES[hint]
    if dataclasses.is_dataclass(hint):
        hints = hints_of(hint)
        made = object.__new__(hint)  # values need not fit each other; only their types matter here
        for spec in dataclasses.fields(hint):
            object.__setattr__(made, spec.name, sample(hints[spec.name]))
        return made
    if origin in (typing.Union, types.UnionType):
        return sample(inner[0])
    if origin in (typing.Literal, type):
        return inner[0]
    if origin is typing.Annotated:
        return sample(inner[0])
    if origin is tuple:
        return (sample(inner[0]),) if inner[1:] == (...,) else tuple(map(sample, inner))
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable):
        return [sample(inner[0])]
    if origin in (dict, collections.abc.Mapping):
        return {sample(inner[0]): sample(inner[1])}
    raise AssertionError(f"no sample of {hint}")


def test_views_are_found() -> None:
    names = {view.__name__ for view in views()}
    assert {"CampaignView", "QuestionView", "RunView", "EncoderView", "Overview", "Applied"} <= names
    assert len(names) > 30


@pytest.mark.parametrize("view", views(), ids=lambda view: f"{view.__module__}.{view.__name__}")
def test_view_can_be_sent_as_json(view: type) -> None:
    sent = json.loads(json.dumps(to_json(sample(view)), allow_nan=False))
    assert list(sent) == [spec.name for spec in dataclasses.fields(view)]


def test_moments_and_paths_are_texts() -> None:
    assert to_json({"at": MOMENT, "in": Path("a/b"), "of": (1, 2)}) == {
        "at": "2026-01-02T03:04:05Z", "in": "a/b", "of": [1, 2],
    }  # fmt: skip


def _by_key(connection: HTTPConnection, _settings: Settings) -> Actor | None:
    key = connection.headers.get("authorization")
    return Actor(7, "bot", "Bot", "researcher") if key == "Bearer of tests" else None


def test_gate_asks_its_authenticators_in_turn(tmp_path: Path, store: Store) -> None:
    async def name(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.state.actor.name)

    inner = Starlette(routes=[Route("/name", name)])
    settings = Settings(home=tmp_path)
    with TestClient(Gate(inner, settings=settings, authenticators=(by_cookie, _by_key))) as client:
        assert client.get("/name").status_code == 401
        assert client.get("/name", headers={"Authorization": "Bearer of others"}).status_code == 401
        assert client.get("/name", headers={"Authorization": "Bearer of tests"}).text == "bot"
    with TestClient(Gate(inner, settings=settings)) as client:
        assert client.get("/name", headers={"Authorization": "Bearer of tests"}).status_code == 401
