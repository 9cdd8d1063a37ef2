"""Run the job by command line and write what it printed into docs/transcript.md, between the two transcript marks.

    python -m docs.take_transcript [--print]

Every command runs for real, in an empty folder with a store of its own; passwords are not written down.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).resolve().parent / "transcript.md"
BEGIN, END = "<!-- transcript begins -->", "<!-- transcript ends -->"
_LONGEST = 10
_PASSWORD = re.compile(r"(Password: )\S+")
_DEMO_PASSWORD = re.compile(r"^(  \w+ +)\S+(?=   \w)", re.MULTILINE)

SENTENCES = """\
Mira Kostova left the Tin Gulls in Bristol to study the cello in Vienna.
Miles Davis recorded for Columbia Records in New York City until 1985.
"""

PARTS = (
    (
        "A store with the demo in it, and two more people",
        (
            "workbench demo",
            "workbench user add zoe --role annotator",
            "workbench user add max --role researcher",
            "workbench user list",
        ),
    ),
    (
        "A domain: the built-in ones, or one of your own",
        (
            "workbench domain list",
            "workbench domain show music | sed '1s/music/jazz/' > jazz.toml",
            "workbench domain check jazz.toml",
            "workbench domain add jazz.toml",
        ),
    ),
    (
        "A campaign: sentences in, suggestions from links and gazetteer, and out again",
        (
            "workbench campaign create Jazz --domain jazz --member ann --member zoe --member eva --control 0",
            "cat sentences.txt",
            "workbench import sentences.txt --campaign Jazz",
            "workbench campaign preannotate Jazz",
            "workbench worker --once 2>/dev/null",
            "workbench campaign show Jazz",
            "workbench export --campaign Jazz --layer suggestions --format conll",
            'workbench export --campaign "Music (demo)" --layer all -o music.zip',
            'workbench campaign import music.zip --name "Music, again"',
            "workbench campaign list",
        ),
    ),
    (
        "A data set: CoNLL files with train, dev and test",
        (
            "mkdir gold",
            'workbench export -c "Music (demo)" --format conll --split pool -o gold/train.conll',
            'workbench export -c "Music (demo)" --format conll --split dev -o gold/dev.conll',
            'workbench export -c "Music (demo)" --format conll --split test -o gold/test.conll',
            "workbench import gold --dataset music-small --domain music",
            "workbench dataset list",
        ),
    ),
    (
        "Retraining: freeze the gold, train, read the curve",
        (
            'workbench --as max snapshot -c "Music (demo)"',
            'workbench run -c "Music (demo)" --max-epochs 4 --wait',
            'workbench few-shot -c "Music (demo)" --max-epochs 4 --sizes 8,16 --seeds 555,666 --wait',
            'workbench runs -c "Music (demo)" --limit 4',
            'workbench curve -c "Music (demo)"',
            "workbench predict sentences.txt --run 3",
        ),
    ),
    (
        "Safe keeping",
        (
            "workbench backup kept",
            "workbench backup --verify kept",
            "workbench restore kept --home again",
            "workbench doctor",
        ),
    ),
)


def transcript() -> Iterator[str]:
    """Run all commands in a temporary folder; yield the lines of the transcript in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sentences.txt").write_text(SENTENCES, encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CROSSNER_")}
        environment |= {"CROSSNER_HOME": f"{folder}/home", "PYTHONPATH": str(FILE.parents[1])}
        # Stands for .venv/bin/workbench, which is there only after `make install`.
        environment["BASH_FUNC_workbench%%"] = f'() {{ {sys.executable} -m workbench "$@"; }}'
        for title, commands in PARTS:
            yield f"**{title}**\n\n```console"
            for command in commands:
                yield f"$ {command}"
                yield from _lines(command, folder, environment)
            yield "```\n"


def _lines(command: str, folder: str, environment: dict[str, str]) -> Iterator[str]:
    """Run one command; raise RuntimeError where it fails. Long outputs lose their middle."""
    shell = ["bash", "-c", command]
    done = subprocess.run(
        shell, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stdout}")
    shown = _DEMO_PASSWORD.sub(r"\1…", _PASSWORD.sub(r"\1…", done.stdout.replace(folder, "."))).rstrip().splitlines()
    if len(shown) > _LONGEST and not command.startswith(("workbench demo", "workbench predict", "workbench export")):
        shown = [*shown[:4], f"… ({len(shown) - 8} lines more)", *shown[-4:]]
    yield from shown


def main() -> None:
    """Take the transcript and put it into its file, or print it."""
    parser = argparse.ArgumentParser(description="Take the transcript of docs/transcript.md.")
    parser.add_argument("--print", action="store_true", help="print it and leave the file alone")
    options = parser.parse_args()
    lines = []
    for line in transcript():
        print(line, flush=True)
        lines.append(line)
    if not options.print:
        before, rest = FILE.read_text(encoding="utf-8").split(BEGIN)
        _, after = rest.split(END)
        FILE.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n" + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
