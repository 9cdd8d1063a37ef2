"""The machine's clock jumps by seconds, hours and days, forward and back, under the web app and the worker."""

from __future__ import annotations

import asyncio
import random
import time

from benchmarks.drills.annotators import crowd, drill, judge, until_acknowledged
from benchmarks.drills.drill import Drill, Options, Outcome
from benchmarks.latency_store import make_scene
from db import job_rows
from db.engine import Store
from tests.support.clock import JumpingClock
from tests.support.serving import Server
from tests.support.training_store import own_dataset, person, recipe_here, start_worker
from tests.support.workers import SLOW_STEPS
from workbench.runs.adaptation import get_run, start_run

HOUR = 3600
JUMPS = (-2 * 24 * HOUR, -13 * HOUR, -HOUR, -40, 40, HOUR, 13 * HOUR, 2 * 24 * HOUR)


def run(options: Options) -> Outcome:
    """Let the clock jump `times` times to a random place within two days of now while people save and a run trains."""
    times, annotators, rng = options.times or 20, options.annotators or 4, random.Random(options.seed)
    scene = make_scene(options.folder, annotators=annotators, sentences=40 * annotators + 30 * times, seed=options.seed)
    clock = JumpingClock(options.folder)
    server = Server(options.folder, environment=clock.environment)
    people = crowd(scene, [server], options.seed, (0.0, 0.3))
    store = Store(f"sqlite:///{options.folder.resolve() / 'workbench.sqlite3'}")
    actor = person(store, "researcher")
    recipe = recipe_here(options.folder, max_epochs=3 * times, patience=1000)
    trained = start_run(store, actor, dataset_id=own_dataset(store, actor).id, recipe=recipe)
    worker = start_worker(store, options.folder, prelude=SLOW_STEPS, environment=clock.environment)

    async def harm() -> None:
        await asyncio.to_thread(_until_it_runs, store, actor, trained)
        for _ in range(times):
            clock.set(rng.choice(JUMPS))
            await until_acknowledged(people)
            await asyncio.sleep(rng.uniform(0.2, 1.5))

    try:
        drill(people, [server], harm)
        worker.communicate(timeout=300)
    finally:
        worker.kill()
    outcome = judge(people, options.folder, may_reject=True)
    ended = get_run(store, actor, trained).run
    with store.read() as session:
        attempts = job_rows.for_runs(session, [trained])[trained].attempts
    store.close()
    outcome.figures = {"jumps": times, **outcome.figures, "run": ended.state, "its attempts": attempts}
    outcome.check(ended.state == "done" and attempts == 1, f"the run is {ended.state} after {attempts} attempts")
    return outcome


def _until_it_runs(store: Store, actor: object, run_id: int) -> None:
    end = time.monotonic() + 120
    while get_run(store, actor, run_id).run.state == "queued" and time.monotonic() < end:
        time.sleep(0.2)


DRILL = Drill("the clock jumps under web app and worker", run)
