"""The routes by which parts in the browser save and get what is next: JSON in, JSON out, no script runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound, StorageError
from crossner_core.records import parse, to_json
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.http import cookies
from workbench.http.answers import json_answer, problem, refusal
from workbench.http.headers import same_origin
from workbench.labelling import outbox, reviewing, screen
from workbench.settings import Settings, open_store

TOKEN_HEADER = "x-form-token"
LARGEST_MESSAGE = 4 * 1024 * 1024
"""Bytes; a message of the editor holds the work of at most a hundred sentences."""

_THREADS = 4
"""Messages that are worked on at a time; the others wait without holding a thread."""

_OLD_PAGE = "This page is from before the last sign-in of this browser; reload it."
_OTHER_SITE = "This message came from another site and was refused."
_OTHER_PERSON = "Somebody else has signed in with this browser; reload the page."


_Use = Callable[[Store, Actor, int, str, object], object]
"""A use case: store, actor, campaign, the stage or queue that the path names, and the message."""


def _ask(store: Store, actor: Actor, campaign_id: int, _stage: str, message: object) -> screen.Answer:
    return screen.ask(store, actor, campaign_id, message)


_USES: Mapping[str, _Use] = {
    "/labelling/{campaign:int}/{part:str}": screen.answer,
    "/labelling/{campaign:int}/{part:str}/questions": _ask,
    "/label-review/{campaign:int}/{part:str}": reviewing.answer,
}


def address(campaign_id: int, stage: str) -> str:
    """Return the path to which the editor of a campaign's stage posts its messages."""
    return f"/labelling/{campaign_id}/{stage}"


def review_address(campaign_id: int, check_id: str) -> str:
    """Return the path to which the label review of a queue posts its messages."""
    return f"/label-review/{campaign_id}/{check_id}"


class Saves:
    """Handlers that share the settings and a bounded number of threads, so that no use case runs on the event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._slots: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        return [Route(path, partial(self.save, use), methods=["POST"]) for path, use in _USES.items()]

    async def save(self, use: _Use, request: Request) -> Response:
        """Check origin, form token and size, then hand the message to the use case in a thread."""
        if not same_origin(request.headers, required=True):
            return problem(403, _OTHER_SITE)
        token = request.headers.get(TOKEN_HEADER, "")
        if not cookies.form_token_fits(cookies.session_token(request, self.settings), token):
            return problem(403, _OLD_PAGE, reason="reload")
        body = await _body(request)
        if body is None:
            return problem(413, f"The message is larger than {LARGEST_MESSAGE:,} bytes; nothing of it was saved.")
        if self._slots is None:
            self._slots = anyio.CapacityLimiter(_THREADS)
        campaign_id, part = request.path_params["campaign"], request.path_params["part"]
        answer = partial(self._answer, use, request.state.actor, campaign_id, part, body)
        return await anyio.to_thread.run_sync(answer, limiter=self._slots)

    def _answer(self, use: _Use, actor: Actor, campaign_id: int, part: str, body: bytes) -> Response:
        try:
            message = parse(body.decode("utf-8"), "JSON")
            if outbox.is_of_another(actor, message):
                return problem(409, _OTHER_PERSON, reason="reload")
            answer = use(open_store(self.settings), actor, campaign_id, part, message)
        except UnicodeDecodeError as error:
            return problem(400, f"The message is not UTF-8: {error.reason} at byte {error.start}.")
        except BadInput as error:
            return problem(400, f"The message cannot be read: {error}")
        except (NotAllowed, NotFound, Conflict, StorageError) as error:
            return refusal(error, f"A message of user {actor.id} for campaign {campaign_id} was not saved")
        return json_answer(200, {name: value for name, value in to_json(answer).items() if value is not None})


async def _body(request: Request) -> bytes | None:
    """Read the body; None if it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_MESSAGE:
            return None
    return bytes(body)
