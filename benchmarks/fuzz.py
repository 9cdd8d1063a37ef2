"""Feed mutated inputs to every way into the workbench; print a table and each input that did harm.

    python -m benchmarks.fuzz --cases 50000 --seed 1 [--only archives] [--keep FOLDER]

Good are an import and a refusal in words that leaves the store as it was. Everything else is listed and makes the exit
code 1: a traceback, in the log too, half an import, more than 20 s or 1 GB, a process that died.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.fuzz.mutating import mutate
from tests.support.fuzz.running import GOOD, Result, plan, run
from tests.support.fuzz.ways import WAYS, Scene


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="ways whose names contain this")
    parser.add_argument("--keep", type=Path, help="folder for the inputs that did harm")
    options = parser.parse_args()
    ways = [name for name in WAYS if options.only in name]
    began = time.perf_counter()
    results = run(plan(options.cases, ways), seed=options.seed, processes=options.processes)
    print_table(results)
    print(f"{len(results):,} cases with seed {options.seed} in {time.perf_counter() - began:.0f} s")
    harmful = [result for result in results if result.verdict not in GOOD]
    for result in harmful:
        print(f"\n{result.way} {result.number}: {result.verdict}\n{result.words}")
    if options.keep and harmful:
        keep(harmful, options.keep, options.seed)
    return 1 if harmful else 0


def print_table(results: Sequence[Result]) -> None:
    print(f"{'way in':26} {'cases':>7} {'accepted':>9} {'refused':>8} {'harm':>5} {'slowest':>9} {'memory':>8}")
    for name in dict.fromkeys(result.way for result in results):
        mine = [result for result in results if result.way == name]
        accepted, refused = (sum(result.verdict == verdict for result in mine) for verdict in GOOD)
        slowest, most = max(result.seconds for result in mine), max(result.bytes for result in mine)
        print(
            f"{name:26} {len(mine):7,} {accepted:9,} {refused:8,} {len(mine) - accepted - refused:5} "
            f"{slowest:7.2f} s {most / 1e6:5.0f} MB"
        )


def keep(harmful: Sequence[Result], folder: Path, seed: int) -> None:
    """Write the inputs, a folder each."""
    with tempfile.TemporaryDirectory() as scratch:
        scene = Scene(Path(scratch))
        seeds = {name: WAYS[name].seeds(scene) for name in {result.way for result in harmful}}
        for result in harmful:
            files = mutate(seeds[result.way], random.Random(f"{seed} {result.way} {result.number}"))
            for name, data in files.items():
                path = folder / f"{result.way} {result.number}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


if __name__ == "__main__":
    raise SystemExit(main())
