"""Fifty annotators who think for 3 to 6 seconds between two events."""

from __future__ import annotations

import asyncio
import math

from benchmarks.drills.annotators import crowd, drill, judge
from benchmarks.drills.drill import Drill, Options, Outcome
from benchmarks.latency_store import make_scene
from benchmarks.saves import database, percentiles, store_at
from tests.support.serving import Server, resident_bytes

MOST_MILLISECONDS = 200.0
MOST_GROWTH = 1.15
THINK = (3.0, 6.0)


def run(options: Options) -> Outcome:
    """Let `annotators` work for `seconds`, on SQLite or at `url` on PostgreSQL."""
    annotators, resident = options.annotators or 50, list[int]()
    with database(options.url) as url:
        sentences = math.ceil(annotators * (options.seconds / 10 + 10))
        scene = make_scene(options.folder, annotators=annotators, sentences=sentences, seed=options.seed, url=url)
        server = Server(options.folder, environment=store_at(url))
        people = crowd(scene, [server], options.seed, THINK)

        async def harm() -> None:
            for _ in range(10):
                await asyncio.sleep(options.seconds / 10)
                assert server.process is not None
                resident.append(resident_bytes(server.process.pid))

        drill(people, [server], harm)
        outcome = judge(people, options.folder, url)
    # Where the first tenth ends everybody has signed in and the editors are drawn.
    waits = percentiles([event.milliseconds for person in people for event in person.saved], (50, 95, 99, 100))
    figures = {f"acknowledged in ms, {name[1:]} %": wait for name, wait in waits.items()}
    growth = resident[-1] / resident[len(resident) // 3]
    outcome.figures |= {"store": "PostgreSQL" if url else "SQLite", **figures}
    outcome.figures |= {
        "memory at the end, MB": resident[-1] / 1e6,
        "its growth since the first third": f"{growth:.2f} ×",
    }
    slow = waits.get("p95", math.inf)
    outcome.check(
        slow < MOST_MILLISECONDS, f"95 % are acknowledged in {slow:.0f} ms, not under {MOST_MILLISECONDS:.0f}"
    )
    outcome.check(growth < MOST_GROWTH, f"the web process grew by a factor of {growth:.2f}")
    return outcome


DRILL = Drill("fifty annotators with pauses of 3 to 6 seconds", run)
