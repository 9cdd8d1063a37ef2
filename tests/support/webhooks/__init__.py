"""A receiver of webhooks on this machine, which answers as a test wants, and what sends to it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook as Verifier

from db.engine import Store
from workbench.settings import Settings
from workbench.webhooks.sending import Sender

ALL = ("gold.made", "round.ended", "run.ended", "campaign.finished")
Answer = Callable[[BaseHTTPRequestHandler, int], None]


@dataclass
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    def verified(self, secret: str) -> dict[str, Any]:
        """Return the payload; the verifier of Standard Webhooks raises where the signature is another one's."""
        payload: dict[str, Any] = Verifier(secret).verify(self.body, self.headers)
        return payload


@dataclass
class Receiver:
    """What came to it, in order."""

    url: str
    requests: list[Request] = field(default_factory=list)


def status(*codes: int, **headers: str) -> Answer:
    """Answer with these codes in turn, the last one from then on."""

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        handler.send_response(codes[min(number, len(codes) - 1)])
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


@contextmanager
def receiving(answer: Answer | None = None, *, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a receiver on a free port of this machine, with `tls` one that speaks https."""
    respond = status(204) if answer is None else answer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            number = len(receiver.requests)
            receiver.requests.append(Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            respond(self, number)

        def log_message(self, *_: object) -> None:
            """Keep the output of tests clean."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A sender that hangs up is expected."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(f"http://localhost:{server.server_address[1]}/hooks")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def settings_here(store: Store, home: Path, **changes: Any) -> Settings:
    """Return settings that allow webhooks to this machine over http, unless `changes` say otherwise."""
    values = {"webhook_private_hosts": "localhost", "webhook_plain_http": True, **changes}
    return Settings(home=home, database_url=str(store.url), **values)


def send_all(store: Store, settings: Settings, *, seconds: float = 10.0) -> int:
    """Send what is due now and wait for it; return how many attempts were begun."""
    sender, begun = Sender(store, settings), 0
    while count := sender.send_due():
        begun += count
        assert sender.wait(seconds)
    return begun
