"""The worker is killed again and again until its job is done; the result must be that of one that was left alone."""

from __future__ import annotations

import random
import shutil
import time

from benchmarks.drills.drill import Drill, Options, Outcome
from db import job_rows
from db.engine import Store
from db.migrate import migrate
from tests.support.training_store import own_dataset, person, recipe_here, start_worker, work
from tests.support.workers import QUICK_TO_NOTICE, SLOW_STEPS, steps_done
from workbench.runs.adaptation import get_run, start_run

SAME = ("test", "dev", "confusion", "predictions", "history", "best_epoch", "steps")
EPOCHS_A_KILL = 2
OFTEN = {"CROSSNER_SAVE_SECONDS": "0.2"}


def run(options: Options) -> Outcome:
    """Kill the worker `times` times, each a random moment after it has made steps beyond the last death."""
    times, rng, folder = options.times or 5, random.Random(options.seed), options.folder
    store = Store(f"sqlite:///{folder / 'store.sqlite3'}")
    migrate(store)
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    recipe = recipe_here(folder, max_epochs=4 + EPOCHS_A_KILL * times, patience=1000)
    alone = start_run(store, actor, dataset_id=data.id, recipe=recipe)
    work(store, folder / "home")
    killed = start_run(store, actor, dataset_id=data.id, recipe=recipe)
    kills = 0
    while get_run(store, actor, killed).run.state in ("queued", "running"):
        worker = start_worker(store, folder / "home", prelude=SLOW_STEPS + QUICK_TO_NOTICE, environment=OFTEN)
        before = steps_done(store, killed)
        while worker.poll() is None and steps_done(store, killed) <= before + 2:
            time.sleep(0.02)
        if kills < times and worker.poll() is None:
            time.sleep(rng.uniform(0, 0.6))
            worker.kill()
            kills += 1
        worker.communicate()
        time.sleep(0.6)  # until the death can be noticed
    with store.read() as session:
        attempts = job_rows.for_runs(session, [killed])[killed].attempts
    outcome = _compared(store, actor, alone, killed)
    outcome.figures = {"kills": kills, "attempts counted": attempts, **outcome.figures}
    outcome.check(kills == times, f"the job ended after {kills} of {times} kills")
    store.close()
    shutil.rmtree(folder / "home")
    return outcome


def _compared(store: Store, actor: object, alone: int, killed: int) -> Outcome:
    first, second = get_run(store, actor, alone), get_run(store, actor, killed)
    outcome = Outcome({"state": second.run.state, "test F1": second.run.test_f1, "alone": first.run.test_f1})
    outcome.check(second.run.state == "done", f"the run ended {second.run.state}: {second.run.error}")
    if first.result is not None and second.result is not None:
        other = [part for part in SAME if first.result[part] != second.result[part]]
        outcome.check(not other, f"differs from an uninterrupted run in {', '.join(other)}")
    measured = [event.epoch for event in second.events if event.dev_f1 is not None]
    outcome.figures["epochs logged twice"] = len(measured) - len(set(measured))
    outcome.check(len(measured) == len(set(measured)), "an epoch stands in the log twice")
    return outcome


DRILL = Drill("the worker is killed until its job is done", run)
