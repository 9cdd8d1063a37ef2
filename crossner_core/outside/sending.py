"""One request to an outside model: its parsed answer, or an error that says what may help."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from crossner_core import web
from crossner_core.errors import BadInput
from crossner_core.outside.base import NotTaken, Request, Unreadable
from crossner_core.records import parse
from crossner_core.web import Incomplete, Refused, TimedOut, Transient, Watch

AGENT = "crossner-workbench/0.1"
LARGEST_ANSWER = 2**20  # bytes
LARGEST_COMPLAINT = 2**14  # bytes that are read of an answer with an error
MOST_WORDS = 200  # characters that are shown of what the service says of an error
RETRIED = web.RETRIED | {500, 529}
ABOUT_THIS_ONE = frozenset({400, 413, 422})
"""What a service answers to a request that it does not take, while it may take the next one."""


def post(request: Request, key: str, *, timeout: float, watch: Watch) -> Any:
    """Return the parsed answer; raise Transient, Refused, or Unreadable where only this request is in question."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": AGENT}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    made = urllib.request.Request(request.url, data=request.data, headers=headers, method="POST")
    try:
        answer, body = web.send(made, timeout=timeout, largest=LARGEST_ANSWER, watch=watch)
    except urllib.error.HTTPError as error:
        with error:
            raise _by_status(error, key) from None  # the error holds the request, and so the key
    except Incomplete as error:
        raise Unreadable(str(error)) from error
    try:
        return parse(body.decode(), "JSON")
    except (BadInput, UnicodeDecodeError) as error:
        kind = answer.get_content_type()
        raise Unreadable(f"the answer is not JSON but {len(body)} bytes of {kind}") from error


def _by_status(error: urllib.error.HTTPError, key: str) -> Exception:
    """Return what an HTTP status means; what the service says of it is quoted, but never about keys."""
    message = web.status_of(error)
    if error.code in RETRIED:
        wait = web.retry_after(error.headers.get("Retry-After"))
        return TimedOut(message, wait) if error.code in (408, 504) else Transient(message, wait)
    if 300 <= error.code < 400:
        return Refused(f"{message}: redirects are not followed; give the address it should be asked at")
    if error.code in (401, 403):
        return Refused(f"{message}: it does not take the key" if key else f"{message}: it asks for a key")
    message += _complaint(error, key)
    return NotTaken(message) if error.code in ABOUT_THIS_ONE else Refused(message)


def _complaint(error: urllib.error.HTTPError, key: str) -> str:
    """Return what the service says in JSON of an error, in one short line without the key; empty if it says nothing."""
    try:
        document = json.loads(error.read(LARGEST_COMPLAINT))
        said = document.get("error", document.get("detail", document.get("message")))
        text = said.get("message") if isinstance(said, dict) else said
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    if not isinstance(text, str) or not text.strip():
        return ""
    line = " ".join((text.replace(key, "…") if key else text).split())
    shown = "".join(letter for letter in line if letter.isprintable())[:MOST_WORDS]
    return f" (“{shown}”)"
