"""The routes for what the editor shows beside a sentence, fetched when it is looked at so that a save stays small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from crossner_core.errors import BadInput, Conflict, InvalidSpan, NotAllowed, NotFound, StorageError
from crossner_core.records import to_json
from workbench.http.answers import json_answer, refusal
from workbench.labelling import context, guidelines, linking
from workbench.settings import Settings, open_store

_THREADS = 2
"""Requests that are worked on at a time; those that save have threads of their own."""


class Beside:
    """Handlers that share the settings and a bounded number of threads; they read, and change nothing."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._slots: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        place = "/labelling/{campaign:int}/{stage:str}"
        return [
            Route(f"{place}/context", self.context, methods=["GET"]),
            Route(f"{place}/guidelines", self.guidelines, methods=["GET"]),
            Route(f"{place}/entities", self.entities, methods=["GET"]),
        ]

    async def context(self, request: Request) -> Response:
        """Answer with what stands around the sentences of `tasks`, `each` sentences on either side."""
        return await self._in_thread(self._context, request)

    def _context(self, request: Request) -> Any:
        store, place = open_store(self.settings), request.path_params
        tasks = [_number(part, "tasks") for part in request.query_params.get("tasks", "").split(",") if part]
        each = _number(request.query_params.get("each", "1"), "each")
        around = context.around(store, request.state.actor, place["campaign"], place["stage"], tasks, each=each)
        return {"contexts": around}

    async def guidelines(self, request: Request) -> Response:
        """Answer with the campaign's guidelines, or with their version alone if the browser has that `version`."""
        return await self._in_thread(self._guidelines, request)

    def _guidelines(self, request: Request) -> Any:
        store, campaign = open_store(self.settings), request.path_params["campaign"]
        version = request.query_params.get("version", "")
        return guidelines.guidelines(store, request.state.actor, campaign, version=version)

    async def entities(self, request: Request) -> Response:
        """Answer with what a span of the sentence of `task`, tokens `start` to `end`, may name; `type` is its type."""
        return await self._in_thread(self._entities, request)

    def _entities(self, request: Request) -> Any:
        store, place, asked = open_store(self.settings), request.path_params, request.query_params
        task, start, end = (_number(asked.get(name, ""), name) for name in ("task", "start", "end"))
        where = (store, request.state.actor, place["campaign"], place["stage"], task)
        return {"candidates": linking.candidates(*where, start=start, end=end, type=asked.get("type", ""))}

    async def _in_thread(self, answer: Callable[[Request], Any], request: Request) -> Response:
        if self._slots is None:
            self._slots = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(_answered, answer, request, limiter=self._slots)


def _answered(answer: Callable[[Request], Any], request: Request) -> Response:
    try:
        return json_answer(200, to_json(answer(request)))
    except (BadInput, Conflict, InvalidSpan, NotAllowed, NotFound, StorageError) as error:
        return refusal(error, f"{request.url.path} was not answered for user {request.state.actor.id}")


def _number(text: str, name: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise BadInput(f"The request's {name} must be whole numbers, not {text[:40]!r}.")
    return int(text)
