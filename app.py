"""The ASGI entry: Streamlit behind the gate, with the routes for sign-in and health; nothing else."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from workbench.http.gate import Gate
from workbench.http.routes import Accounts
from workbench.settings import get_settings

_SETTINGS = get_settings()


@asynccontextmanager
async def _lifespan(_app: st.App) -> AsyncIterator[dict[str, Any]]:
    """Load what every page needs, then keep it out of later garbage collections (each would cost 100 ms)."""
    import pages.shell  # noqa: F401

    gc.collect()
    gc.freeze()
    yield {}


def _farewell() -> bytes:
    """Make the message that sends a browser whose session has ended to the sign-in page."""
    message = ForwardMsg()
    message.auth_redirect.url = "/auth/login?out=1"
    return message.SerializeToString()


# The main script lies in pages/ on purpose: Streamlit looks for a folder `pages` beside it, and would serve what
# it found there before the page list has said who may see what.
app = st.App(
    Path(__file__).parent / "pages" / "main.py",
    lifespan=_lifespan,
    routes=Accounts(_SETTINGS).routes(),
    middleware=[Middleware(Gate, settings=_SETTINGS, farewell=_farewell())],
)
