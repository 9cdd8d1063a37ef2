"""The disk is full for a while, again and again: the server may write nothing."""

from __future__ import annotations

import asyncio
import random
import resource

from benchmarks.drills.annotators import crowd, drill, judge, until_acknowledged
from benchmarks.drills.drill import Drill, Options, Outcome
from benchmarks.latency_store import make_scene
from tests.support.serving import Server


def run(options: Options) -> Outcome:
    """Fill the disk `times` times for up to two seconds; what was not acknowledged is sent again."""
    times, annotators = options.times or 20, options.annotators or 4
    scene = make_scene(options.folder, annotators=annotators, sentences=40 * annotators + 60 * times, seed=options.seed)
    server, rng = Server(options.folder), random.Random(options.seed)
    people = crowd(scene, [server], options.seed)

    async def harm() -> None:
        for _ in range(times):
            await until_acknowledged(people)
            await asyncio.sleep(rng.uniform(0, 0.5))
            # Nothing at all, or until the log of writes ahead has grown.
            server.limit_files(rng.choice((0, 100_000, 1_000_000)))
            await asyncio.sleep(rng.uniform(0.2, 2))
            server.limit_files(resource.RLIM_INFINITY)

    drill(people, [server], harm)
    outcome = judge(people, options.folder)
    outcome.figures = {"times without space": times, **outcome.figures}
    return outcome


DRILL = Drill("the disk is full for a while", run)
