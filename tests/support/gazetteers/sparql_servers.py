"""A real SPARQL endpoint in process, and how to make it misbehave."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from pyoxigraph import QueryResultsFormat, QuerySolutions, RdfFormat, Store

from crossner_core.gazetteer.endpoint import CircuitBreaker
from crossner_core.gazetteer.lookup import SparqlSource
from crossner_core.suggest.base import AnswerCache

RESULTS_JSON = "application/sparql-results+json"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
FOAF_NAME = "http://xmlns.com/foaf/0.1/name"
DBR, DBO = "http://dbpedia.org/resource/", "http://dbpedia.org/ontology/"


@dataclass
class Reply:
    """What the server does with one request."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0  # seconds before each byte
    cut: int | None = None  # bytes after which the connection ends
    hang: float = 0.0  # seconds before anything is said


@dataclass
class Endpoint:
    """A running server: its address, and the queries it was sent with their forms, headers and paths."""

    url: str
    queries: list[Any] = field(default_factory=list)
    forms: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


Behaviour = Callable[[int, Any], Reply]


def sparql_form(body: bytes) -> tuple[str, dict[str, list[str]]]:
    """Return the query of a form, and the form."""
    form = parse_qs(body.decode())
    return form["query"][0], form


class MemoryCache:
    """A cache of endpoints' answers that lives as long as the test."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], dict[str, Any]] = {}

    def get_many(self, endpoint: str, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        return {key: self.values[endpoint, key] for key in keys if (endpoint, key) in self.values}

    def put_many(self, endpoint: str, values: Mapping[str, dict[str, Any]]) -> None:
        self.values.update({(endpoint, key): value for key, value in values.items()})


def triples(resources: dict[str, tuple[str, ...]], *, redirects: dict[str, str] | None = None) -> bytes:
    """Write resources (title → class names) and redirects (title → title) as N-Triples."""
    lines = []
    for title, classes in resources.items():
        uri = f"<{DBR}{title.replace(' ', '_')}>"
        lines += [f"{uri} <{RDF_TYPE}> <{DBO}{name}> ." for name in classes]
        lines.append(f'{uri} <{RDFS_LABEL}> "{title}"@en .')
    for title, target in (redirects or {}).items():
        name, to = title.replace(" ", "_"), target.replace(" ", "_")
        lines.append(f"<{DBR}{name}> <{DBO}wikiPageRedirects> <{DBR}{to}> .")
    return ("\n".join(lines) + "\n").encode()


def oxigraph(data: bytes) -> Callable[[str], Reply]:
    """Return what answers queries over N-Triples truthfully."""
    store = Store()
    store.load(data, format=RdfFormat.N_TRIPLES)

    def answer(query: str) -> Reply:
        results = store.query(query)
        assert isinstance(results, QuerySolutions)
        body = results.serialize(format=QueryResultsFormat.JSON)
        assert body is not None
        return Reply(body, headers={"Content-Type": RESULTS_JSON})

    return answer


@contextmanager
def serve(
    behave: Behaviour, *, path: str = "/sparql", read: Callable[[bytes], tuple[Any, Any]] = sparql_form
) -> Iterator[Endpoint]:
    """Run a server that does with request n (from 0) what `behave(n, query)` says; `read` reads a query and more."""
    endpoint, over, counting = Endpoint(""), threading.Event(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            query, form = read(self.rfile.read(int(self.headers["Content-Length"])))
            with counting:
                number = len(endpoint.queries)
                endpoint.queries.append(query)
                endpoint.forms.append(form)
                endpoint.headers.append(dict(self.headers))
                endpoint.paths.append(self.path)
            self.close_connection = True
            try:
                self.send(behave(number, query))
            except OSError:
                return  # the client gave up, as it should

        def send(self, reply: Reply) -> None:
            if reply.hang and over.wait(reply.hang):
                return
            if reply.cut == 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            body = reply.body[: reply.cut]
            for piece in [body[at : at + 1] for at in range(len(body))] if reply.drip else [body]:
                if reply.drip and over.wait(reply.drip):
                    return
                self.wfile.write(piece)
                self.wfile.flush()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # so that closing the server waits for every request
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def source(url: str, cache: AnswerCache | None = None, **options: Any) -> SparqlSource:
    """Build a source that is quick to give up and knows no other test's breaker."""
    given_options = {"timeout": 2.0, "deadline": 10.0, "backoff": 0.01, "breaker": CircuitBreaker(), **options}
    return SparqlSource(url, MemoryCache() if cache is None else cache, rng=random.Random(0), **given_options)
