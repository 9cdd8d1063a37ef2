"""The pages of results: each benchmark writes a section of its own and keeps the others.

`python -m benchmarks.report SECTION TITLE -- MODULE ARGUMENT …` runs a benchmark and puts its output on the page that
has the section, with its command, its exit code if a bar was missed, and the load of the machine when it began.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from crossner_core.experiments.report import put_section

PAGES = Path(__file__).parents[1] / "docs" / "results"


def main(arguments: list[str]) -> int:
    """Run a benchmark, show and keep what it prints; return its exit code."""
    if len(arguments) < 4 or arguments[2] != "--":
        raise SystemExit(__doc__)
    section, title, command = arguments[0], arguments[1], arguments[3:]
    load = os.getloadavg()[0]
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    shown = " ".join(Path(word).name if Path(word).is_absolute() else word for word in command)
    ended = "every bar was met" if process.returncode == 0 else f"it ended with exit code {process.returncode}"
    printed = "\n".join(lines)
    text = (
        f"## {title}\n\nPrinted by `python -m {shown}` on {os.cpu_count()} cores, load average {load:.1f} when it "
        f"began; {ended}.\n\n```text\n{printed}\n```"
    )
    put_section(PAGES, section, text)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
