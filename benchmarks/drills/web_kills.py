"""The web app is killed in the middle of saves, again and again."""

from __future__ import annotations

import asyncio
import random

from benchmarks.drills.annotators import crowd, drill, judge, until_acknowledged
from benchmarks.drills.drill import Drill, Options, Outcome
from benchmarks.latency_store import make_scene
from tests.support.serving import Server


def run(options: Options) -> Outcome:
    """Kill the server `times` times, each at a random moment after somebody was acknowledged something."""
    times, annotators = options.times or 20, options.annotators or 4
    scene = make_scene(options.folder, annotators=annotators, sentences=40 * annotators + 30 * times, seed=options.seed)
    server, rng = Server(options.folder), random.Random(options.seed)
    people = crowd(scene, [server], options.seed)

    async def harm() -> None:
        for _ in range(times):
            await until_acknowledged(people)
            await asyncio.sleep(rng.uniform(0, 1))
            server.kill()
            await asyncio.to_thread(server.start)

    drill(people, [server], harm)
    outcome = judge(people, options.folder)
    outcome.figures = {"kills": times, **outcome.figures}
    return outcome


DRILL = Drill("the web app is killed in the middle of saves", run)
