"""Measure predictions over the API: how soon one sentence is answered by a warm MiniLM tagger, and many at once.

    python -m benchmarks.api_predict [--requests 300] [--clients 4] [--threads 0] [--out FILE] [--no-bars]

A small MiniLM tagger is trained, the real server is started on its store, and clients of `workbench/client.py` send
sentences of about 35 tokens over connections that stay open. The first request, which starts the process and loads the
tagger, is stated alone. The bar: one sentence is answered within 50 ms at p95, by one client after the other. Beside it
stands the processor time of both processes for each of these requests, which remains when the machine is busy.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossner_core.training.recipe import Recipe
from db.engine import Store
from db.migrate import migrate
from tests.support.builders import make_people
from tests.support.serving import resident_bytes, server_process
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset
from workbench.accounts import tokens
from workbench.accounts.actors import Actor
from workbench.client import Client
from workbench.jobs.worker import Worker
from workbench.runs import adaptation
from workbench.settings import Settings

BAR = 50.0
"""Milliseconds at p95."""
_WARM = 20
_BATCH = 32


def main() -> int:
    """Train, measure, print; return 0 if the bar is met."""
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
        migrate(store)
        researcher = make_people(store)["res"]
        run = train(store, home, researcher)
        secret = tokens.create_token(store, researcher, name="benchmark").secret
        own = {"CROSSNER_WORKER_THREADS": str(options.threads), "CROSSNER_API_PER_MINUTE": "1000000"}
        with server_process(home, environment=own) as (url, process):
            rows = measure(url, secret, run, options, process.pid)
            rows["memory of the web process, MB"] = round(resident_bytes(process.pid) / 1e6)
            rows["memory of the process that predicts, MB"] = sum(
                round(resident_bytes(child) / 1e6) for child in _children(process.pid)
            )
        store.close()
    rows["load average"] = [round(value, 2) for value in os.getloadavg()]
    for what, value in rows.items():
        print(f"{what}: {value}")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    p95 = rows["one sentence, ms"]["p95"]
    print(f"{'met' if p95 < BAR else 'NOT met'}: one sentence in {p95} ms at p95, bar {BAR:.0f}")
    return 0 if p95 < BAR or options.no_bars else 1


def train(store: Store, home: Path, researcher: Actor) -> int:
    """Train MiniLM for one epoch on a few made-up sentences; return the run."""
    dataset = own_dataset(store, researcher)
    run = adaptation.start_run(store, researcher, dataset_id=dataset.id, recipe=Recipe(max_epochs=1, encoder="minilm"))
    Worker(store, Settings(home=home, database_url=str(store.url))).run(once=True)
    return run


def measure(url: str, secret: str, run: int, options: argparse.Namespace, pid: int) -> dict[str, Any]:
    """Return the figures by name."""
    texts = _texts(200)
    with Client(url, secret) as client:
        begun = time.perf_counter()
        client.predict(texts[:1], run=run)
        rows: dict[str, Any] = {"first request, which loads the tagger, s": round(time.perf_counter() - begun, 2)}
        for number in range(_WARM):
            client.predict([texts[number]], run=run)
        before = _cpu_ms([pid, *_children(pid)])
        times = [_milliseconds(client, [texts[number % len(texts)]], run) for number in range(options.requests)]
        spent = _cpu_ms([pid, *_children(pid)]) - before
        rows["one sentence, ms"] = _summary(times)
        rows["one sentence, processor time, ms"] = round(spent / options.requests, 1)
        batches = [_milliseconds(client, texts[:_BATCH], run) for _ in range(max(10, options.requests // 10))]
        rows[f"{_BATCH} sentences, ms"] = _summary(batches)
        rows["sentences a second, in batches"] = round(_BATCH * 1000 / float(np.mean(batches)))
        empty = [_me(client) for _ in range(options.requests)]
        rows["a request without a model (GET /me), ms"] = _summary(empty)
    rows[f"one sentence, {options.clients} clients at a time, ms"] = _summary(
        _at_once(url, secret, run, texts, options)
    )
    return rows


def _at_once(url: str, secret: str, run: int, texts: Sequence[str], options: argparse.Namespace) -> list[float]:
    times: list[float] = []

    def work() -> None:
        with Client(url, secret) as client:
            for number in range(options.requests // options.clients):
                times.append(_milliseconds(client, [texts[number % len(texts)]], run))

    threads = [threading.Thread(target=work) for _ in range(options.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def _milliseconds(client: Client, texts: Sequence[str], run: int) -> float:
    begun = time.perf_counter()
    client.predict(texts, run=run)
    return 1000 * (time.perf_counter() - begun)


def _me(client: Client) -> float:
    begun = time.perf_counter()
    client.get("/me")
    return 1000 * (time.perf_counter() - begun)


def _summary(times: Sequence[float]) -> dict[str, float]:
    return {
        name: round(float(np.percentile(times, share)), 1) for name, share in (("p50", 50), ("p95", 95), ("max", 100))
    }


def _texts(count: int) -> list[str]:
    """Return sentences of about 35 tokens, each of some made-up ones."""
    items = own_sentences(4 * count)
    return [" ".join(item.sentence.text for item in items[4 * at : 4 * at + 4]) for at in range(count)]


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text(encoding="utf-8").split()]


def _cpu_ms(pids: Sequence[int]) -> float:
    """Return the processor time that processes have used."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # user and system
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--threads", type=int, default=0, help="of the process that predicts; 0: as the server has it")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-bars", action="store_true", help="exit with 0 though the bar is missed")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
