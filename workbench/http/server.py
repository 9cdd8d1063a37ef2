"""Run the web app: one process, uvicorn, on the address of the settings."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path

import uvicorn
from pydantic import ValidationError

from crossner_core.errors import WorkbenchError
from crossner_core.folders import for_owner_only
from db.migrate import migrate
from workbench.accounts.oidc.provider_settings import read_provider
from workbench.accounts.ways import acting
from workbench.settings import Settings, get_settings, open_store

_ROOT = Path(__file__).resolve().parents[2]
_BACKLOG = 2048
_LARGEST_MESSAGE = 200 * 1024 * 1024
"""Bytes of one websocket message, Streamlit's own default."""


def run(settings: Settings) -> None:
    """Serve until interrupted; a taken port ends the process with one line and exit code 2."""
    try:
        os.environ |= settings.environment()  # where the app and its pages read them
        read_provider(settings.sign_in_provider)  # a mistake in it ends the process here, with its words
        listening = listen(settings.host, settings.port)
        migrate(open_store(settings))
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error
    port = listening.getsockname()[1]
    os.environ |= {
        "STREAMLIT_SERVER_ADDRESS": settings.host,
        "STREAMLIT_SERVER_PORT": str(port),
        "STREAMLIT_BROWSER_SERVER_ADDRESS": settings.host,
    }
    if str(_ROOT) not in sys.path:  # where `app` lies beside the packages: the checkout, or site-packages
        sys.path.insert(0, str(_ROOT))
    print(f"Web app: {address(settings.host, port)}", flush=True)
    with listening, acting("page"):
        server = uvicorn.Server(_config(settings.host, port))
        server.run(sockets=[listening])
    if not server.started:
        raise SystemExit(1)


def _config(host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        "app:app",
        host=host,
        port=port,
        ws="websockets-sansio",
        ws_max_size=_LARGEST_MESSAGE,
        ws_ping_interval=30,
        ws_ping_timeout=30,
        ws_per_message_deflate=False,
        # Trusted only from a proxy that the operator names, or the limit on sign-in attempts could be bypassed.
        proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=3,
    )


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen; raise WorkbenchError with the next step when the port is taken or not ours to use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without an explicit protocol asyncio does not disable Nagle's algorithm: 40 ms more on every other response.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise WorkbenchError(
                f"Port {port} on {host} is taken, perhaps by a workbench that runs already: "
                f"open {address(host, port)}, or choose another port, as in CROSSNER_PORT={port % 65535 + 1}."
            ) from error
        raise WorkbenchError(
            f"Nothing can listen on {host}:{port} ({error.strerror}); set CROSSNER_HOST and CROSSNER_PORT."
        ) from error
    bound.set_inheritable(True)
    return bound


def address(host: str, port: int) -> str:
    """Return the URL of an address and port."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def main() -> None:
    """Serve with the settings of the environment; a wrong one ends the process with a message and exit code 2."""
    for_owner_only()
    try:
        settings = get_settings()
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(("CROSSNER", *map(str, problem["loc"]))).upper()
            print(f"{name}={problem['input']!r}: {problem['msg']}.", file=sys.stderr)
        raise SystemExit(2) from error
    run(settings)


if __name__ == "__main__":
    main()
