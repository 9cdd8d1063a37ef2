"""PostgreSQL stops hard in the middle of saves and comes back, again and again."""

from __future__ import annotations

import asyncio
import random
import tempfile
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError

from benchmarks.drills.annotators import crowd, drill, judge, until_acknowledged
from benchmarks.drills.drill import Drill, Options, Outcome
from benchmarks.latency_store import make_scene
from benchmarks.saves import database, store_at
from tests.support.postgres_cluster import Cluster
from tests.support.serving import Server


def run(options: Options) -> Outcome:
    """Stop a server of the drill's own `times` times; the web app is left alone."""
    times, annotators = options.times or 10, options.annotators or 4
    with tempfile.TemporaryDirectory(prefix="drill-cluster-") as folder:
        # Another account than this one runs PostgreSQL.
        Path(folder).chmod(0o755)
        cluster = Cluster(Path(folder) / "cluster")
        cluster.start()
        try:
            return _drilled(options, cluster, times, annotators)
        finally:
            with suppress(CalledProcessError):
                cluster.stop_hard()


def _drilled(options: Options, cluster: Cluster, times: int, annotators: int) -> Outcome:
    rng = random.Random(options.seed)
    with database(cluster.url) as url:
        sentences = 60 * annotators + 60 * times
        scene = make_scene(options.folder, annotators=annotators, sentences=sentences, seed=options.seed, url=url)
        server = Server(options.folder, environment=store_at(url))
        people = crowd(scene, [server], options.seed)

        async def harm() -> None:
            for _ in range(times):
                await until_acknowledged(people)
                await asyncio.sleep(rng.uniform(0, 0.5))
                await asyncio.to_thread(cluster.stop_hard)
                await asyncio.sleep(rng.uniform(0, 2))
                await asyncio.to_thread(cluster.start)

        drill(people, [server], harm)
        outcome = judge(people, options.folder, url)
    outcome.figures = {"hard stops": times, **outcome.figures}
    return outcome


DRILL = Drill("PostgreSQL stops hard in the middle of saves", run)
