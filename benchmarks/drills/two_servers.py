"""Two web servers on one store; one of them at a time is killed."""

from __future__ import annotations

import asyncio
import random

from benchmarks.drills.annotators import crowd, drill, judge, until_acknowledged
from benchmarks.drills.drill import Drill, Options, Outcome
from benchmarks.latency_store import make_scene
from benchmarks.saves import database, store_at
from tests.support.serving import Server


def run(options: Options) -> Outcome:
    """Kill one of the two servers `times` times; its people go on at either. On SQLite, or at `url` on PostgreSQL."""
    times, annotators = options.times or 10, options.annotators or 6
    with database(options.url) as url:
        scene = make_scene(
            options.folder, annotators=annotators, sentences=60 * annotators + 60 * times, seed=options.seed, url=url
        )
        rng = random.Random(options.seed)
        servers = [Server(options.folder, environment=store_at(url)) for _ in range(2)]
        people = crowd(scene, servers, options.seed)

        async def harm() -> None:
            for _ in range(times):
                await until_acknowledged(people, more=10)
                server = rng.choice(servers)
                server.kill()
                await until_acknowledged(people, more=10)  # the other one serves alone
                await asyncio.to_thread(server.start)

        drill(people, servers, harm)
        outcome = judge(people, options.folder, url)
    store = "PostgreSQL" if url else "SQLite"
    outcome.figures = {"store": store, "kills of one of two servers": times, **outcome.figures}
    return outcome


DRILL = Drill("two web servers on one store, one of them killed at a time", run)
