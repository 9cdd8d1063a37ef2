"""A server with nothing but the editor, for a real browser: `?mode=…&total=…`; the store is $EDITOR_STORE."""

from __future__ import annotations

import json
import os
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support.editor.server import apply, payload
from workbench.http import parts


async def save(request: Request) -> JSONResponse:
    """Apply what came and show what is next, as the route of the workbench does."""
    store, mode = Path(os.environ["EDITOR_STORE"]), request.path_params["mode"]
    answer = apply(store, mode, json.loads(await request.body()))
    return JSONResponse(payload(store, mode, answer, request.path_params["total"]))


app = st.App(
    Path(__file__).with_name("page.py"),
    routes=[Route("/save/{mode}/{total:int}", save, methods=["POST"]), *parts.routes()],
)
