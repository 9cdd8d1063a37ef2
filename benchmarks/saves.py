"""Measure saving: how soon events are acknowledged, how many a process can take, and what a session costs in memory.

    python -m benchmarks.saves [--annotators 50] [--seconds 60] [--against CHECKOUT] [--out saves.json]

Annotators each send an event a second to a real server, then, in a last phase, each as soon as the last one is
acknowledged; between the two a person works beside them in headless Chromium. On SQLite, and where CROSSNER_POSTGRES
is the URL of a PostgreSQL server on which databases may be made, there as well: one web process, and two behind one
address.
`--against` measures the server of another checkout in the same run, on SQLite.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.latency_browser import at_the_annotate_page
from benchmarks.latency_store import Scene, crowd, lost_events, make_scene
from benchmarks.splitter import one_address
from tests.support.paths import ROOT
from tests.support.postgres import fresh_database
from tests.support.serving import CHROMIUM, resident_bytes, server_process

ACKNOWLEDGED_BAR, NEXT_BAR = 100.0, 30.0
"""Milliseconds at p95, with every annotator sending an event a second."""
EVENTS_BAR = 150.0
"""Events a second of one process, with every annotator sending as soon as it can."""
_SETTLE = 3.0
"""Seconds of a phase that do not count: the first events load what later ones use."""


@dataclass(slots=True)
class Measured:
    """What was measured on one arrangement of store and web processes."""

    name: str
    processes: int
    acknowledged: list[float] = field(default_factory=list)
    saturated: list[float] = field(default_factory=list)
    events_a_second: float = 0.0
    cpu_ms_an_event: float = 0.0
    """Of all web processes, without a pause; what remains when the machine is busy with other things, too."""
    enter_to_next: list[float] = field(default_factory=list)
    megabytes_a_session: float = 0.0
    megabytes: float = 0.0
    """Of all web processes, with every session."""
    events: int = 0
    lost: list[str] = field(default_factory=list)
    load: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the figures, milliseconds as p50, p95 and p99."""
        return {
            "name": self.name,
            "processes": self.processes,
            "acknowledged": percentiles(self.acknowledged),
            "saturated": percentiles(self.saturated),
            "events_a_second": round(self.events_a_second, 1),
            "cpu_ms_an_event": round(self.cpu_ms_an_event, 2),
            "enter_to_next": percentiles(self.enter_to_next),
            "megabytes_a_session": round(self.megabytes_a_session, 2),
            "events": self.events,
            "lost": self.lost,
            "load": self.load,
        }


def percentiles(milliseconds: Sequence[float], shares: Sequence[int] = (50, 95, 99)) -> dict[str, float]:
    """Return p50, p95 and p99, or those of other shares; nothing of nothing."""
    if not milliseconds:
        return {}
    return {f"p{share}": round(float(np.percentile(milliseconds, share)), 1) for share in shares}


def measure(
    name: str,
    *,
    annotators: int,
    seconds: float,
    submits: int,
    root: Path = ROOT,
    postgres: str = "",
    processes: int = 1,
) -> Measured:
    """Measure one arrangement; `root` is the checkout whose server is run, `postgres` a server's URL or nothing."""
    measured = Measured(name, processes)
    with tempfile.TemporaryDirectory() as folder, database(postgres) as url, ExitStack() as stack:
        home = Path(folder)
        sentences = int(annotators * max(seconds, 40) * 8 / processes) + 500
        scene = make_scene(home, annotators=annotators + 1, sentences=sentences, seed=1, url=url)
        environment = store_at(url)
        servers = [
            stack.enter_context(
                server_process(home, environment=environment, root=root, log_name=f"server{number}.log")
            )
            for number in range(processes)
        ]
        address = stack.enter_context(one_address([base for base, _ in servers]))
        pids = [process.pid for _, process in servers]
        saved = _paced(measured, home, address, scene, pids, seconds, submits if root == ROOT else 0)
        saved += _saturated(measured, home, address, scene, pids, seconds / 2)
        measured.events, measured.lost = len(saved), lost_events(home, saved, url)
        print(f"{name}: {measured.events} events, {len(measured.lost)} lost", file=sys.stderr, flush=True)
        measured.load = tuple(round(load, 1) for load in os.getloadavg())
    return measured


def _paced(
    measured: Measured, home: Path, address: str, scene: Scene, pids: Sequence[int], seconds: float, submits: int
) -> list[dict[str, Any]]:
    """Let everybody send an event a second; afterwards the last person works beside them in a browser."""
    before = _memory(pids)
    saved: list[dict[str, Any]] = []
    with crowd(home, address, scene, scene.people[:-1], period=4.0) as report:
        time.sleep(_SETTLE)
        measured.megabytes = _memory(pids)
        measured.megabytes_a_session = (measured.megabytes - before) / len(scene.people[:-1])
        began = time.monotonic()
        time.sleep(seconds)
        ended = time.monotonic()
        if submits and CHROMIUM is not None:  # later: a browser that starts takes a processor for seconds
            with at_the_annotate_page(address, scene.people[-1], 1) as person:
                timings = person.work(submits)
            measured.enter_to_next = timings.enter_to_next
            saved += timings.events
    window = [event for event in report["saved"] if began <= event["sent_at"] < ended]
    measured.acknowledged = [event["milliseconds"] for event in window]
    return saved + report["saved"]


def _saturated(
    measured: Measured, home: Path, address: str, scene: Scene, pids: Sequence[int], seconds: float
) -> list[dict[str, Any]]:
    """Let everybody send as soon as the last event is acknowledged."""
    with crowd(home, address, scene, scene.people[:-1], period=0.0) as report:
        time.sleep(_SETTLE)
        began, busy = time.monotonic(), _cpu_seconds(pids)
        time.sleep(seconds)
        ended, busy = time.monotonic(), _cpu_seconds(pids) - busy
    window = [event for event in report["saved"] if began <= event["sent_at"] + event["milliseconds"] / 1000 <= ended]
    measured.saturated = [event["milliseconds"] for event in window]
    measured.events_a_second = len(window) / (ended - began)
    measured.cpu_ms_an_event = busy * 1000 / max(1, len(window))
    return list(report["saved"])


def _memory(pids: Sequence[int]) -> float:
    """Return the megabytes of memory that processes hold."""
    return sum(map(resident_bytes, pids)) / 2**20


def _cpu_seconds(pids: Sequence[int]) -> float:
    """Return the processor time that processes have used."""
    fields = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def database(server_url: str) -> AbstractContextManager[str | None]:
    """Make a database for one measurement and drop it; without a server there is none to make."""
    return fresh_database(server_url) if server_url else nullcontext()


def store_at(url: str | None) -> dict[str, str]:
    """Return the environment of a server whose store lies in this database; without one it lies in its home."""
    return {"CROSSNER_DATABASE_URL": url} if url else {}


def missed_bars(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the missed bars, in words; another checkout has none."""
    missed = []
    for row in rows:
        bars = [("acknowledged at p95, ms", row["acknowledged"].get("p95"), ACKNOWLEDGED_BAR)]
        if row["enter_to_next"]:
            bars.append(("Enter → next at p95, ms", row["enter_to_next"]["p95"], NEXT_BAR))
        for what, value, bar in bars:
            if not value or value >= bar:
                missed.append(f"{row['name']}: {what} is {value}, the bar is under {bar:g}")
        if row["processes"] == 1 and row["events_a_second"] < EVENTS_BAR:
            missed.append(f"{row['name']}: {row['events_a_second']} events/s, the bar is {EVENTS_BAR:g}")
        missed += [f"{row['name']}: lost {event}" for event in row["lost"][:3]]
    return missed


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| server | acknowledged p50 / p95 / p99 ms | events/s at most | then p95 ms | CPU ms an event "
        "| Enter → next p95 ms | MB a session | events | lost | load |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        waits = " / ".join(str(row["acknowledged"].get(name, "–")) for name in ("p50", "p95", "p99"))
        cells = [row["name"], waits, row["events_a_second"], row["saturated"].get("p95", "–")]
        cells += [
            row["cpu_ms_an_event"],
            row["enter_to_next"].get("p95", "–"),
            row["megabytes_a_session"],
            row["events"],
            len(row["lost"]),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} | {row['load'][0]} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print the table, and return 1 when a bar was missed."""
    parser = argparse.ArgumentParser(description="Measure saving.")
    parser.add_argument("--annotators", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the paced phase; the other takes half of it")
    parser.add_argument("--submits", type=int, default=20, help="sentences the person in the browser submits")
    parser.add_argument("--against", type=Path, help="another checkout, whose server is measured first")
    parser.add_argument("--only", nargs="+", choices=("sqlite", "postgresql", "two"), help="leave the others out")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--no-bars", action="store_true", help="return 0 even when a bar was missed")
    options = parser.parse_args()
    sizes = {"annotators": options.annotators, "seconds": options.seconds, "submits": options.submits}
    postgres = os.environ.get("CROSSNER_POSTGRES", "")
    others, rows = [], []
    if options.against:
        others.append(measure("another checkout, SQLite", root=options.against.resolve(), **sizes).to_json())
    wanted = options.only or ("sqlite", *(("postgresql", "two") if postgres else ()))
    if "sqlite" in wanted:
        rows.append(measure("SQLite", **sizes).to_json())
    if "postgresql" in wanted:
        rows.append(measure("PostgreSQL", postgres=postgres, **sizes).to_json())
    if "two" in wanted:
        rows.append(measure("PostgreSQL, two processes", postgres=postgres, processes=2, **sizes).to_json())
    missed = missed_bars(rows)
    print(table([*others, *rows]))
    print("\n".join(f"Missed: {bar}." for bar in missed) or "All bars are met.")
    if options.out:
        options.out.write_text(json.dumps({"rows": [*others, *rows], "missed": missed}, indent=1), encoding="utf-8")
    return 1 if missed and not options.no_bars else 0


if __name__ == "__main__":
    raise SystemExit(main())
