"""Uploads behind the gate: who may, how many files and bytes a person may hold, and what is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from workbench.accounts.actors import Actor
from workbench.http import uploads
from workbench.http.gate import Gate
from workbench.settings import Settings


@dataclass
class Site:
    """An app that holds uploads as the frontend does, behind a gate that believes a header about who asks."""

    client: TestClient = field(init=False)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def put(self, name: str, *, by: str = "researcher", session: str = "s", data: bytes = b"12345", **more: Any) -> int:
        headers = {"x-role": by, "origin": "http://testserver"}
        path = f"/_stcore/upload_file/{session}/{name}"
        return self.client.put(path, headers=headers, content=data, **more).status_code


@contextmanager
def _site(tmp_path: Path) -> Iterator[Site]:
    site = Site()

    async def put(request: Request) -> Response:
        parts = request.path_params
        site.files.setdefault(parts["session"], {})[parts["file"]] = await request.body()
        return Response(status_code=204)

    def by_header(connection: HTTPConnection, _settings: Settings) -> Actor | None:
        role = connection.headers["x-role"]
        return Actor(id=len(role), name=role, display_name=role, role=role)

    app = Starlette(routes=[Route("/_stcore/upload_file/{session}/{file}", put, methods=["PUT"])])
    gate = Gate(
        app,
        settings=Settings(home=tmp_path),
        authenticators=[by_header],
        held=lambda session, files: [file for file in files if file in site.files.get(session, {})],
    )
    with TestClient(gate) as client:
        site.client = client
        yield site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(uploads, "MOST_FILES", 3)
    monkeypatch.setattr(uploads, "MOST_BYTES", 20)
    monkeypatch.setattr(uploads, "MOST_BYTES_OF_ALL", 25)
    with _site(tmp_path) as made:
        yield made


def test_only_those_who_import_may_upload(site: Site) -> None:
    assert [site.put("a", by=role) for role in ("annotator", "expert", "researcher", "admin")] == [403, 403, 204, 204]
    assert sum(map(len, site.files.values())) == 1


def test_number_and_sum_are_limited_over_all_sessions_of_a_person(site: Site) -> None:
    assert [site.put(name, session=name) for name in "abcd"] == [204, 204, 204, 413]
    site.files.clear()  # the sessions ended
    assert site.put("e", data=b"x" * 20) == 204
    assert site.put("f", data=b"x") == 413
    assert site.put("e", data=b"x" * 19) == 204  # the same file again replaces it


def test_everybody_together_is_limited(site: Site) -> None:
    assert site.put("a", data=b"x" * 20) == 204
    assert site.put("b", by="admin", data=b"x" * 6) == 503
    assert site.put("b", by="admin", data=b"x" * 5) == 204


def test_a_length_must_be_stated(site: Site) -> None:
    assert site.put("a", data=iter([b"12", b"34"])) == 411  # type: ignore[arg-type]
    assert not site.files


def test_what_is_refused_or_fails_takes_no_room(site: Site) -> None:
    assert site.put("a", data=b"x" * 21) == 413
    assert site.put("a", data=b"x" * 20) == 204


def test_real_limits_take_the_largest_import(tmp_path: Path) -> None:
    from workbench.data.exchange import MAX_BYTES

    assert 3 * MAX_BYTES <= uploads.MOST_BYTES <= uploads.MOST_BYTES_OF_ALL
