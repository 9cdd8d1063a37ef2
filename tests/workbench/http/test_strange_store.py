"""A store that fails is words: strangers get "try later", no path, host, account or driver's text; the log has it."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from crossner_core.errors import SignInRefused, StoreFailed
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.accounts.sign_in import sign_in
from workbench.http.cookies import FORM_COOKIE, SESSION_COOKIE, form_token
from workbench.http.gate import STORE_FAILED, Authenticator, Gate, by_cookie
from workbench.http.routes import Accounts
from workbench.settings import Settings

SECRET = "A" * 43
SIGNED_IN = {"cookie": f"{SESSION_COOKIE}=somebody; {FORM_COOKIE}={SECRET}", "origin": "http://testserver"}


async def _echo(socket: WebSocket) -> None:
    await socket.accept()
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            await socket.send_text(await socket.receive_text())


def _client(settings: Settings, *authenticators: Authenticator) -> TestClient:
    routes = [
        *Accounts(settings).routes(),
        Route("/page", lambda request: PlainTextResponse("drawn")),
        WebSocketRoute("/socket", _echo),
    ]
    gate = Gate(Starlette(routes=routes), settings=settings, authenticators=authenticators or (by_cookie,))
    return TestClient(gate, follow_redirects=False)


@pytest.fixture(params=["sqlite", "postgres"])
def down(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Settings whose store cannot be reached: a folder that is not there, a server that does not run."""
    if request.param == "postgres":
        pytest.importorskip("psycopg")
        url = "postgresql://carol:hunter2@127.0.0.1:9/gold"
    else:
        url = f"sqlite:///{tmp_path / 'absent' / 'gold.sqlite3'}"
    return Settings(home=tmp_path, database_url=url)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/page"), ("GET", "/auth/login"), ("POST", "/auth/login"), ("POST", "/auth/logout"), ("GET", "/health")],
)
def test_stranger_learns_nothing_of_a_store_that_is_down(
    down: Settings, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    fields = {"form_token": form_token(SECRET), "name": "ada", "password": "long enough"}
    data = fields if method == "POST" else None
    with caplog.at_level(logging.ERROR):
        answer = _client(down).request(method, path, data=data, headers=SIGNED_IN)
    assert answer.status_code == 503
    assert StoreFailed.TRY_LATER in answer.text or answer.text == "unavailable"
    shown = answer.text.lower()
    assert not [
        word for word in ("gold", "absent", "127.0.0.1", "carol", "hunter2", "sqlite", "psycopg") if word in shown
    ]
    assert path == "/health" or "gold" in caplog.text
    assert "hunter2" not in caplog.text


def test_websocket_is_closed_until_later_where_the_store_is_down(down: Settings) -> None:
    with pytest.raises(WebSocketDisconnect) as closed, _client(down).websocket_connect("/socket", headers=SIGNED_IN):
        pass
    assert closed.value.code == STORE_FAILED


def test_open_websocket_is_closed_when_the_store_breaks(tmp_path: Path) -> None:
    answers = iter([Actor(id=1, name="ann", display_name="Ann", role="annotator")] * 2)

    def breaking(connection: HTTPConnection, settings: Settings) -> Actor:
        for actor in answers:
            return actor
        raise StoreFailed("The store at /srv/gold.sqlite3 failed.")

    client = _client(Settings(home=tmp_path), breaking)
    with client.websocket_connect("/socket", headers=SIGNED_IN) as socket:
        socket.send_text("before")
        assert socket.receive_text() == "before"
        socket.send_text("after")
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
    assert closed.value.code == STORE_FAILED


@pytest.mark.parametrize("name", ["a\x00da", "ada\x1b[2J", "a\u202eda"])
def test_sign_in_with_a_name_that_no_account_can_have_is_refused_like_any_other(store: Store, name: str) -> None:
    with pytest.raises(SignInRefused, match="do not open an account"):
        sign_in(store, name=name, password="whatever it is", address="here")
