"""Run drills, print a table of each, and end with 1 if an invariant broke.

    python -m benchmarks.drills NAME … [--times 100] [--seconds 600] [--annotators 50] [--seed 1] [--postgres URL]

Without a name it lists them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.drills.drill import Drill, Options, Outcome, drills


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(drills()))
    parser.add_argument("--times", type=int, default=0, help="how often harm is done; 0: the drill's own number")
    parser.add_argument("--seconds", type=float, default=60.0, help="for drills that run for a time")
    parser.add_argument("--annotators", type=int, default=0, help="0: the drill's own number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", default=os.environ.get("CROSSNER_POSTGRES", ""), help="URL of a server")
    given = parser.parse_args()
    known = drills()
    if unknown := sorted(set(given.names) - set(known)):
        parser.error(f"no drill is called {', '.join(unknown)}; there are {', '.join(known)}")
    if not given.names:
        print("\n".join(f"{name:16} {drill.title}" for name, drill in known.items()))
    broken = 0
    for name in given.names:
        with tempfile.TemporaryDirectory(prefix=f"drill-{name}-") as folder:
            options = Options(
                Path(folder), given.times, given.seconds, given.annotators, given.seed, given.postgres
            )  # fmt: skip
            broken += len(_run(name, known[name], options).broken)
    return 1 if broken else 0


def _run(name: str, drill: Drill, options: Options) -> Outcome:
    began = time.monotonic()
    outcome = drill.run(options)
    print(f"\n{name}: {drill.title}")
    for figure, value in outcome.figures.items():
        print(f"  {figure:44} {value:>12,.1f}" if isinstance(value, float) else f"  {figure:44} {value!s:>12}")
    print(f"  {'seconds':44} {time.monotonic() - began:>12.0f}")
    print("\n".join(f"  BROKEN: {words}" for words in outcome.broken) or "  every invariant holds", flush=True)
    return outcome


if __name__ == "__main__":
    raise SystemExit(main())
