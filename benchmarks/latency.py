"""Measure the latency for an annotator: Enter → next sentence, and how soon a change is acknowledged as saved.

    python -m benchmarks.latency [--users 25] [--submits 50] [--out latency.json]

Starts the real server on a store of its own, works on the annotate page in a headless browser, alone and then
with background users, and checks at the end that every acknowledged event is in the store.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.latency_browser import Timings, at_the_annotate_page
from benchmarks.latency_store import applied_count, crowd, lost_events, make_scene
from tests.support.serving import serve

NEXT_BAR = 50.0
"""Milliseconds at p95 from Enter to the frame with the next sentence."""
SAVED_BAR = 200.0
"""Milliseconds at p95 from sending an event to its acknowledgement on the screen, with background users."""
_SETTLE = 5.0


@dataclass(slots=True)
class Phase:
    """One measurement: milliseconds by the name of what was measured, and the machine's load around it."""

    name: str
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    load: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the percentiles with the loads before and after."""
        figures = {name: summary(values) for name, values in self.milliseconds.items()}
        return {"name": self.name, "load": self.load, "seconds": round(self.seconds, 1), "figures": figures}


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return count, p50, p95 and the highest of some milliseconds."""
    if not values:
        return {"count": 0}
    p50, p95 = np.percentile(values, [50, 95])
    return {"count": len(values), "p50": round(p50, 1), "p95": round(p95, 1), "max": round(max(values), 1)}


def measure(home: Path, *, users: int, submits: int, sentences: int, seed: int) -> dict[str, Any]:
    """Measure alone and with background users; return the phases and the events that got lost."""
    scene = make_scene(home, annotators=users + 1, sentences=sentences, seed=seed)
    acknowledged: list[Mapping[str, Any]] = []
    phases = []
    with serve(home) as address, at_the_annotate_page(address, scene.people[0], seed) as person:
        with _timed("alone") as alone:
            timings = person.work(submits)
        alone.milliseconds = _named(timings)
        acknowledged += timings.events
        phases.append(alone)
        if users:
            name = f"with {users} background users"
            with crowd(home, address, scene, scene.people[1 : users + 1], seed=seed) as report:
                time.sleep(_SETTLE)
                with _timed(name) as together:
                    began = time.monotonic()
                    timings = person.work(submits)
                    ended = time.monotonic()
            acknowledged += [*timings.events, *report["saved"]]
            window = [message for message in report["saved"] if began <= message["sent_at"] <= ended]
            together.milliseconds = _named(timings) | {
                f"{title} (background users)": [
                    message["milliseconds"] for message in window if message["kind"] == kind
                ]
                for title, kind in (("autosave sent → acknowledged", "draft"), ("submit sent → acknowledged", "submit"))
            }
            phases.append(together)
    lost = lost_events(home, acknowledged)
    return {
        "phases": [phase.to_json() for phase in phases],
        "acknowledged": len(acknowledged),
        "applied": applied_count(home),
        "lost": lost,
    }


def _named(timings: Timings) -> dict[str, list[float]]:
    return {
        "Enter → next sentence": timings.enter_to_next,
        "sent → Saved": timings.draft_sent_to_saved + timings.submit_sent_to_saved,
        "sent → Saved, autosaves only": timings.draft_sent_to_saved,
        "sent → Saved, submits only": timings.submit_sent_to_saved,
        "Enter → Saved": timings.enter_to_saved,
    }


@contextmanager
def _timed(name: str) -> Iterator[Phase]:
    phase = Phase(name)
    before, began = os.getloadavg()[0], time.monotonic()
    yield phase
    phase.load, phase.seconds = (round(before, 2), round(os.getloadavg()[0], 2)), time.monotonic() - began


def missed_bars(report: Mapping[str, Any]) -> list[str]:
    """Return the missed bars, in words."""
    missed = []
    for phase in report["phases"]:
        bars = {"Enter → next sentence": NEXT_BAR}
        if phase["name"] != "alone":
            bars["sent → Saved"] = SAVED_BAR
        for name, bar in bars.items():
            reached = phase["figures"][name].get("p95", float("inf"))
            if not reached < bar:
                missed.append(f"{name}, {phase['name']}: p95 is {reached} ms, the bar is under {bar:g} ms")
    if report["lost"]:
        missed.append(f"{len(report['lost'])} acknowledged events are not in the store: {report['lost'][:3]}")
    return missed


def table(report: Mapping[str, Any]) -> str:
    """Return the figures as a Markdown table, with the loads and the count of events below it."""
    lines = ["| phase | what | count | p50 ms | p95 ms | max ms |", "|---|---|---|---|---|---|"]
    for phase in report["phases"]:
        for name, figures in phase["figures"].items():
            cells = [str(figures.get(key, "–")) for key in ("count", "p50", "p95", "max")]
            lines.append(f"| {phase['name']} | {name} | {' | '.join(cells)} |")
    loads = "; ".join(f"{phase['name']} {phase['load'][0]} → {phase['load'][1]}" for phase in report["phases"])
    lines.append(f"\nLoad average of the machine ({os.cpu_count()} cores): {loads}.")
    lines.append(
        f"Events: {report['acknowledged']} acknowledged, {report['applied']} in the store, {len(report['lost'])} lost."
    )
    return "\n".join(lines)


def main() -> int:
    """Measure, print the table, and return 1 when a bar was missed."""
    parser = argparse.ArgumentParser(description="Measure the latency for an annotator.")
    parser.add_argument("--users", type=int, default=25, help="background users of the second phase; 0 leaves it out")
    parser.add_argument("--submits", type=int, default=50, help="sentences the person in the browser submits per phase")
    parser.add_argument("--sentences", type=int, default=3000, help="size of the campaign")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--home", type=Path, help="an empty folder for the store and the server's log; default: temporary"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--no-bars", action="store_true", help="return 0 even when a bar was missed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = options.home or Path(temporary)
        if (home / "workbench.sqlite3").exists():
            parser.error(f"{home} already holds a store; give an empty folder.")
        report = measure(
            home, users=options.users, submits=options.submits, sentences=options.sentences, seed=options.seed
        )
    missed = missed_bars(report)
    print(table(report))
    print("\n".join(f"Missed: {bar}." for bar in missed) or "All bars are met.")
    if options.out:
        options.out.write_text(json.dumps({**report, "missed": missed}, indent=1), encoding="utf-8")
    return 1 if missed and not options.no_bars else 0


if __name__ == "__main__":
    raise SystemExit(main())
