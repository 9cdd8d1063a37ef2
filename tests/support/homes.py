"""A whole home: a store with gold, a data set, a trained tagger, and files in the other folders."""

from __future__ import annotations

import datetime as dt
import gzip
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from db import account_rows
from db.engine import Store
from db.types import now
from tests.golden.stored import OLD_STORE
from tests.support.builders import make_campaign, make_gold, make_people
from tests.support.training_store import own_dataset, recipe_here, work
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.backups.manifest import STORE
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.runs.adaptation import start_run

SENTENCES_OF_GOLD = 6


def make_home(home: Path, store_template: Path) -> None:
    """Fill a new folder; the run's tagger is tiny and takes a second to train."""
    home.mkdir()
    shutil.copyfile(store_template, home / STORE)
    store = open_home(home)
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    make_gold(store, people, campaign_id)
    snapshots.freeze(store, people["res"], campaign_id)
    data = own_dataset(store, people["res"])
    start_run(store, people["res"], dataset_id=data.id, recipe=recipe_here(home.parent, max_epochs=2))
    assert work(store, home) == 1
    with store.write() as session:
        moment = now() + dt.timedelta(hours=12)
        account_rows.open_session(session, user_id=people["adm"].id, token_hash="0" * 64, expires_at=moment)
    assert not queue.worker_status(store).alive
    store.close()
    for name in ("encoders/music/model.safetensors", "experiments/cells/one.json", "corpora/small/manifest.json"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(f"what is in {name}\n" * 100)


def open_home(home: Path) -> Store:
    """Open the store of a home."""
    return Store(f"sqlite:///{home / STORE}")


def admin_of(store: Store) -> Actor:
    return accounts.operator(store)


def spoil(path: Path, change: Callable[[bytes], bytes] = lambda data: data[:-1] + bytes([data[-1] ^ 1])) -> None:
    """Change a file in place, as a bad disk does; by default its last byte."""
    data = change(path.read_bytes())
    path.unlink()  # it may be a link to another backup's
    path.write_bytes(data)


def unpack_old_store(path: Path) -> None:
    """Write the golden store of an earlier version to a file, at the migration it was made with."""
    connection = sqlite3.connect(path)
    connection.executescript(gzip.decompress(OLD_STORE.read_bytes()).decode())
    connection.close()
