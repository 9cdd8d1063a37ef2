"""The API on a real socket, behind the gate and without Streamlit, and tokens for people who call it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from db.engine import Store
from workbench.accounts import tokens
from workbench.accounts.actors import Actor
from workbench.client import ApiProblem, Client
from workbench.http.api.serving import Api
from workbench.http.gate import Gate
from workbench.http.protocols.serving import Protocols
from workbench.http.server import listen
from workbench.settings import Settings


def settings_for(store: Store, home: Path, **changes: object) -> Settings:
    """Return the settings of a server on a store."""
    url = store.url.render_as_string(hide_password=False)
    return Settings(home=home, database_url=url, **changes)  # type: ignore[arg-type]


def gated(settings: Settings) -> Gate:
    """Return the API and the protocols of other tools behind the gate."""
    api = Api(settings)
    return Gate(Starlette(routes=[*Protocols(api).routes(), *api.routes()]), settings=settings)


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """Serve the API and the protocols from a thread of this process and yield its address."""
    app = gated(settings)
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


def secret_of(store: Store, actor: Actor, scope: str = "train") -> str:
    """Make a token for a person and return it."""
    return tokens.create_token(store, actor, name="of a test", scope=scope, days=1).secret


def client_of(url: str, store: Store, actor: Actor, scope: str = "train") -> Client:
    """Return a client with a token of this person."""
    return Client(url, secret_of(store, actor, scope), waits=0)


def refused(client: Client, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> ApiProblem:
    """Return the problem that the API answers a request with."""
    with pytest.raises(ApiProblem) as caught:
        client.request(method, path, body=body, **more)
    return caught.value
