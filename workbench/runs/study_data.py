"""Data sets of the store as a folder of corpora that studies read, named by what is in it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from crossner_core.errors import BadInput
from crossner_core.folders import replace_folder, write_bytes
from db import dataset_rows
from db.engine import Store
from workbench.accounts.actors import Actor, fresh
from workbench.accounts.roles import KEEPERS
from workbench.data import datasets
from workbench.settings import settings_of

FOLDER = "datasets"
"""In the folder of experiments; a study that goes on finds in it what it began with."""


def dataset_corpora(store: Store, actor: Actor) -> tuple[str, ...]:
    """Return the data sets that a study can be run on: those with sentences to train on."""
    return tuple(view.name for view in datasets.list_datasets(store, actor) if view.count("train"))


def write_datasets(store: Store, actor: Actor) -> Path:
    """Write the data sets as corpora, unless they are there as they are now; return their folder.

    Raises BadInput where there is none. For researchers and admins.
    """
    names = dataset_corpora(store, actor)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        rows = [row for row in dataset_rows.listed(session) if row.name in names]
        hashes = {(row.name, part.split): part.content_hash for row in rows for part in row.splits}
    if not hashes:
        raise BadInput("There is no data set with sentences to train on: add one under Sentences, Data sets.")
    lines = "".join(f"{name} {split} {hash}\n" for (name, split), hash in sorted(hashes.items()))
    whole = hashlib.sha256(lines.encode()).hexdigest()[:16]
    folder = (settings_of(store).experiments / FOLDER / whole).resolve()

    def fill(beside: Path) -> None:
        for name, split in hashes:
            write_bytes(beside / name / f"{split}.jsonl", datasets.export_dataset(store, actor, name, split))

    if not folder.is_dir():
        replace_folder(folder, fill)
    return folder
