"""A power cut, tried: a store's files as they were at their last sync, at each moment when something was acknowledged.

As a program it saves an annotator's work, event by event, in the folder it is given.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from db.engine import Store
from db.migrate import migrate
from tests.support.builders import GOLD, Tab, make_campaign, make_people
from tests.support.paths import ROOT

STORE = "store.sqlite3"
_SOURCE = Path(__file__).with_name("disk.c")


def states_when_acknowledged(folder: Path, events: int) -> list[Path]:
    """Save so many events in another process; return what was on the disk at each acknowledgement, a folder each."""
    library, synced = folder / "disk.so", folder / "synced"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True, timeout=60)
    synced.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(library), "SYNCED_TO": str(synced)}
    command = [sys.executable, "-m", __name__, str(folder), str(events)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=120)
    return sorted((folder / "states").iterdir())


def _save(folder: Path, events: int) -> None:
    store = Store(f"sqlite:///{folder / STORE}")
    migrate(store)
    people = make_people(store)
    tab = Tab(store, people["ann1"], make_campaign(store, people), "annotate")
    item, spans = tab.items(1)[0], GOLD[0]
    for number in range(events):
        answer = tab.do("draft", item, spans[: number % 4], base=number, revision=number + 1)
        assert answer.acks[tab.client] == number + 1, answer
        shutil.copytree(folder / "synced", folder / "states" / f"{number:05d}")


if __name__ == "__main__":
    _save(Path(sys.argv[1]), int(sys.argv[2]))
