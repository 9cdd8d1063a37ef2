"""The web app is killed in the middle of saves, again and again."""

from __future__ import annotations

import asyncio
import random

from benchmarks.drills.annotators import Persistent, judge, work_during
from benchmarks.drills.drill import Drill, Options, Outcome
from benchmarks.drills.server import Server
from benchmarks.latency_store import make_scene


def run(options: Options) -> Outcome:
    """Kill the server `times` times, each at a random moment after somebody was acknowledged something."""
    times, annotators = options.times or 20, options.annotators or 4
    scene = make_scene(options.folder, annotators=annotators, sentences=40 * annotators + 30 * times, seed=options.seed)
    server, rng = Server(options.folder), random.Random(options.seed)
    people = [
        Persistent(person, scene.campaign, [server.address], random.Random(options.seed + number))
        for number, person in enumerate(scene.people)
    ]

    async def harm() -> None:
        for _ in range(times):
            before = _acknowledged(people)
            while _acknowledged(people) == before:
                await asyncio.sleep(0.01)
            await asyncio.sleep(rng.uniform(0, 1))
            server.kill()
            await asyncio.to_thread(server.start)

    server.start()
    try:
        asyncio.run(work_during(people, harm))
    finally:
        server.kill()
    outcome = judge(people, options.folder)
    outcome.figures = {"kills": times, **outcome.figures}
    return outcome


def _acknowledged(people: list[Persistent]) -> int:
    return sum(len(person.saved) for person in people)


DRILL = Drill("the web app is killed in the middle of saves", run)
