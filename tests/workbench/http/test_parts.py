"""Browser parts: served to signed-in people under the hash of their content, and kept by browsers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from db.engine import Store
from tests.support.screens import give_session
from workbench.accounts.actors import Actor
from workbench.http import parts
from workbench.http.cookies import SESSION_COOKIE
from workbench.http.gate import Gate
from workbench.settings import Settings


@pytest.fixture
def server(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(home=tmp_path, database_url=store.url.render_as_string(hide_password=False))
    with TestClient(Gate(Starlette(routes=parts.routes()), settings=settings)) as client:
        yield client


def test_part_is_kept_under_its_hash_and_changes_address_with_its_content(
    server: TestClient, store: Store, people: dict[str, Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_SCRIPTS", {})
    first = parts.publish("toy", "export default 1")
    assert re.fullmatch(r"/parts/toy\.[0-9a-f]{20}\.js", first)
    stranger = server.get(first)
    assert (stranger.status_code, stranger.text, stranger.headers["cache-control"]) == (
        401,
        "Sign in first.",
        "no-store",
    )
    server.cookies.set(SESSION_COOKIE, give_session(store, people["ann1"]))
    kept = server.get(first)
    assert (kept.text, kept.headers["content-type"]) == ("export default 1", "text/javascript; charset=utf-8")
    assert "immutable" in kept.headers["cache-control"] and "private" in kept.headers["cache-control"]
    second = parts.publish("toy", "export default 2")
    assert second != first and server.get(second).text == "export default 2"
    outdated = server.get(first)
    assert (outdated.text, outdated.headers["cache-control"]) == ("export default 2", "no-store")
    unknown = server.get("/parts/toys.js")
    assert (unknown.status_code, unknown.headers["cache-control"]) == (404, "no-store")
    assert second in parts.loader(second)
