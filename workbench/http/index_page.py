"""Streamlit's page tells its script where the server is, or the script tries two addresses that do not exist."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Scope, Send

_MARK = b"<head>"
_SCRIPT = b"<head><script>window.__streamlit={BACKEND_BASE_URL:window.location.origin+'/'}</script>"
"""The paths of the app begin at the root, as those of the gate do. Without this the script of /annotate first asks for
/annotate/_stcore/health and /annotate/_stcore/host-config: two errors in the console for every page opened."""


def plain_page(scope: Scope) -> Scope:
    """Return the scope so that a page which a browser opens is answered uncompressed; it is small."""
    headers = scope["headers"]
    if not any(name == b"accept" and b"text/html" in value for name, value in headers):
        return scope
    return {**scope, "headers": [pair for pair in headers if pair[0] != b"accept-encoding"]}


def with_server_address(method: str, send: Send) -> Send:
    """Wrap `send` to add the server's address to a whole HTML page; anything else passes as it is."""
    start: Message | None = None
    body = bytearray()

    async def addressed(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start" and _is_page(method, message):
            start = message
        elif message["type"] != "http.response.body" or start is None:
            await send(message)
        else:
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                page = bytes(body).replace(_MARK, _SCRIPT, 1)
                MutableHeaders(scope=start)["content-length"] = str(len(page))
                await send(start)
                await send({"type": "http.response.body", "body": page})

    return addressed


def _is_page(method: str, start: Message) -> bool:
    headers = MutableHeaders(scope=start)
    is_whole = start["status"] == 200 and "content-encoding" not in headers
    return method == "GET" and is_whole and headers.get("content-type", "").startswith("text/html")
