"""The SPARQL source and the reading of a whole endpoint against a real Virtuoso, which the public endpoint is.

Only where CROSSNER_VIRTUOSO is set and Debian's virtuoso-opensource is installed.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossner_core.gazetteer.endpoint import CircuitBreaker
from crossner_core.gazetteer.facts import Label, Redirect, Typed
from crossner_core.gazetteer.from_endpoint import EndpointConfig, EndpointFacts
from crossner_core.gazetteer.lookup import SparqlSource
from tests.support.gazetteers.sparql_servers import MemoryCache, triples

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (os.environ.get("CROSSNER_VIRTUOSO") and shutil.which("virtuoso-t") and shutil.which("isql-vt")),
        reason="set CROSSNER_VIRTUOSO=1 and install virtuoso-opensource to try a real Virtuoso",
    ),
]
INI = """[Database]
DatabaseFile = {home}/v.db
ErrorLogFile = {home}/v.log
LockFile = {home}/v.lck
TransactionFile = {home}/v.trx
xa_persistent_file = {home}/v.pxa
ErrorLogLevel = 7
FileExtend = 200
[TempDatabase]
DatabaseFile = {home}/vt.db
TransactionFile = {home}/vt.trx
[Parameters]
ServerPort = 127.0.0.1:{sql}
DisableUnixSocket = 1
CheckpointInterval = 0
NumberOfBuffers = 4000
DirsAllowed = {home}
SchedulerInterval = 0
[HTTPServer]
ServerPort = 127.0.0.1:{http}
ServerRoot = {home}
MaxClientConnections = 5
[SPARQL]
ResultSetMaxRows = 10000
DefaultGraph = http://dbpedia.org
"""
TITLES = [
    *(f"Person {n}" for n in range(11_000)),
    *(f"{name} {n}" for name in ("Café", "日本", "Ωmega", "O'Neil", "Ünter") for n in range(100)),
]
REDIRECTS = {f"Alias {n}": f"Person {n}" for n in range(0, 11_000, 4)}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def virtuoso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a fresh server with TITLES and REDIRECTS in it."""
    home, sql, http = tmp_path_factory.mktemp("virtuoso"), free_port(), free_port()
    (home / "virtuoso.ini").write_text(INI.format(home=home, sql=sql, http=http))
    (home / "d.nt").write_bytes(triples(dict.fromkeys(TITLES, ("Person",)), redirects=REDIRECTS))
    server = subprocess.Popen(
        ["virtuoso-t", "+configfile", str(home / "virtuoso.ini"), "+foreground"],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while "Server online" not in _log(home) and time.monotonic() < until:
            time.sleep(0.2)
        load = f"DB.DBA.TTLP_MT(file_to_string_output('{home}/d.nt'), '', 'http://dbpedia.org', 0);\n"
        subprocess.run(["isql-vt", str(sql), "dba", "dba"], input=load, text=True, check=True, capture_output=True)
        yield f"http://127.0.0.1:{http}/sparql"
    finally:
        server.terminate()
        server.wait(30)


def _log(home: Path) -> str:
    log = home / "v.log"
    return log.read_text() if log.exists() else ""


@pytest.mark.parametrize("page_size", [5000, 700])
def test_virtuoso_is_read_whole_whatever_its_letters(virtuoso: str, page_size: int) -> None:
    config = EndpointConfig(classes=("Person",), page_size=page_size, retries=1)
    reader = EndpointFacts(
        virtuoso, config, rng=random.Random(0), on_problem=print, breaker=CircuitBreaker(cooldown=1.0)
    )
    found = list(reader)
    assert Counter(type(fact) for fact in found) == {
        Typed: len(TITLES),
        Label: len(TITLES),
        Redirect: len(REDIRECTS),
    }
    assert {fact.entity for fact in found if isinstance(fact, Typed)} == set(TITLES)
    assert {fact for fact in found if isinstance(fact, Redirect)} == {Redirect(*item) for item in REDIRECTS.items()}


def test_virtuoso_answers_look_ups(virtuoso: str) -> None:
    source = SparqlSource(virtuoso, MemoryCache(), rng=random.Random(0), breaker=CircuitBreaker())
    names = [*TITLES[:150], *TITLES[-150:], "Alias 4", "Nobody"]
    found = source.lookup(names)
    assert all(found[name] for name in names[:-1]) and found["Nobody"] == ()
    assert found["Alias 4"][0].via == "redirect"
