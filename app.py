"""The ASGI entry point: Streamlit behind the gate, with the routes of sign-in, health, saves, API and parts."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import get_instance

from workbench.http import parts
from workbench.http.api.serving import Api
from workbench.http.beside import Beside
from workbench.http.gate import Gate
from workbench.http.oidc import ProviderSignIn
from workbench.http.protocols.serving import Protocols
from workbench.http.routes import Accounts
from workbench.http.saves import Saves
from workbench.settings import get_settings

_LOG = logging.getLogger(__name__)
_SETTINGS = get_settings()
_ACCOUNTS = Accounts(_SETTINGS)
_PAGES = Path(__file__).parent / "pages"
_API = Api(_SETTINGS)


def _report_broken(module: str) -> None:
    """Log that a module of the pages cannot be imported."""
    _LOG.exception("%s cannot be loaded; the screens that use it will fail, the others work", module)


@asynccontextmanager
async def _lifespan(_app: st.App) -> AsyncIterator[dict[str, Any]]:
    """Import what the screens use, then exempt it from garbage collection (a full one would cost 100 ms)."""
    from pages.main import SECTIONS

    screens = {screen.file for section in SECTIONS.values() for screen in section}
    for name in sorted(module.name for module in walk_packages([str(_PAGES)], "pages.", onerror=_report_broken)):
        if name.removeprefix("pages.") not in screens:  # a screen is a script: importing it would draw it
            try:
                import_module(name)
            except Exception:  # a broken part must not stop the others
                _report_broken(name)
    gc.collect()
    gc.freeze()
    yield {}


def _farewell() -> bytes:
    """Build the message that redirects a browser whose session has ended to the sign-in page."""
    message = ForwardMsg()
    message.auth_redirect.url = "/auth/login?out=1"
    return message.SerializeToString()


def _held_uploads(session: str, files: Sequence[str]) -> list[str]:
    """Return which of a browser session's uploads Streamlit still holds."""
    manager = get_instance().uploaded_file_mgr
    return [file.file_id for file in manager.get_files(session, files)]


# The main script lies in pages/ on purpose: Streamlit looks for a folder `pages` beside the main script, and would
# serve its files before the page list has decided who may see what.
app = st.App(
    _PAGES / "main.py",
    lifespan=_lifespan,
    routes=[
        *_ACCOUNTS.routes(),
        *ProviderSignIn(_ACCOUNTS).routes(),
        *Saves(_SETTINGS).routes(),
        *Beside(_SETTINGS).routes(),
        *Protocols(_API).routes(),
        *_API.routes(),
        *parts.routes(),
    ],
    middleware=[Middleware(Gate, settings=_SETTINGS, farewell=_farewell(), held=_held_uploads)],
)
