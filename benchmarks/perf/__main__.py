"""Measure all that somebody waits for, with the best peer of each in the same run, and write docs/performance.md.

    make perf
    python -m benchmarks.perf --data ../shared/data/ner [--only PART …] [--page FILE]

`--data` is the folder of the corpora; the sample of Wikipedia is looked for beside it. Each part runs in a process of
its own, one after the other, on a machine that has nothing else to do: about a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.perf.row import Row
from benchmarks.train_bars import machine

PARTS = ("training", "labels", "lstm", "pool", "memory", "texts", "web")
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def main() -> int:
    """Measure, print and write the page; 1 if a part ended with an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave the other parts out")
    parser.add_argument("--page", type=Path, default=PAGE, help="file to write; without all parts none is written")
    parser.add_argument("--here", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        for row in importlib.import_module(f"benchmarks.perf.{options.here}").rows(options.data):
            print("ROW", json.dumps(asdict(row)), flush=True)
        return 0
    load, began, measured, broken = os.getloadavg()[0], time.monotonic(), list[Row](), list[str]()
    for part in options.only:
        started = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.perf", "--data", str(options.data), "--here", part]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        lines = [line.removeprefix("ROW ") for line in done.stdout.splitlines() if line.startswith("ROW ")]
        rows = [Row(**json.loads(line)) for line in lines]
        broken += [part] if done.returncode else []
        print(f"{part}: {time.monotonic() - started:.0f} s{', with an error' if done.returncode else ''}", flush=True)
        print("\n".join(f"{_line(row)} {row.spent}".rstrip() for row in rows), flush=True)
        measured += rows
    minutes = (time.monotonic() - began) / 60
    if not broken and set(options.only) == set(PARTS):
        options.page.write_text(page(measured, load, minutes), encoding="utf-8")
    return 1 if broken else 0


def page(rows: list[Row], load: float, minutes: float) -> str:
    """Return the page: where and when it was measured, the table, and where the time of missed bars goes."""
    here = machine()
    bars = [row.met for row in rows if row.met is not None]
    return (
        "# Performance\n\n"
        f"Written by `make perf` on {dt.date.today()}, in {minutes:.0f} minutes: {here['cpu'] or 'CPU'}, "
        f"{here['cores']} cores, PyTorch {here['torch']}, load average {load:.1f} when it began. "
        f"{sum(bars)} of {len(bars)} bars are met. Times compare within this run: elsewhere all of them differ.\n\n"
        "| what | here | best peer | limit | bar |\n|---|---|---|---|---|\n"
        + "".join(f"{_line(row)}\n" for row in rows)
        + "\n## Where the time of missed bars goes\n\nShares by kind of operation are those of one thread.\n\n"
        + "".join(f"- **{row.what}**: {row.spent}\n" for row in rows if row.met is False)
    )


def _line(row: Row) -> str:
    return f"| {' | '.join(row.cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
