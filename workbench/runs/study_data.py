"""Data sets of the store and the gold of campaigns as a folder of corpora that studies read, named by what is in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from crossner_core.domains import domain_to_toml
from crossner_core.errors import BadInput, NotFound
from crossner_core.experiments.corpora import OWN_DOMAIN
from crossner_core.folders import replace_folder, write_bytes
from crossner_core.formats import write
from crossner_core.formats.base import Record
from db import campaign_rows, dataset_rows
from db.engine import Session, Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.domains import domain_of, find_domain
from workbench.data import datasets
from workbench.data.snapshots import content_of, freeze_gold
from workbench.settings import settings_of

FOLDER = "datasets"
"""In the folder of experiments; a study that goes on finds in it what it began with."""
_GOLD = "-gold"
_OTHER = re.compile(r"[^\w.-]+")
_SPLITS = {"pool": "train", "dev": "dev", "test": "test"}


def store_corpora(store: Store, actor: Actor) -> tuple[str, ...]:
    """Return what a study can be run on: data sets with sentences to train on, campaigns with gold as NAME-gold."""
    names = tuple(view.name for view in datasets.list_datasets(store, actor) if view.count("train"))
    with store.read() as session:
        may = fresh(session, actor, *OVERSEERS).role in KEEPERS  # an expert sees no campaign but their own
        return (*names, *(name for name in _campaigns(session) if name not in names)) if may else names


def write_corpora(store: Store, actor: Actor) -> Path:
    """Write them as corpora with their domains, unless they are there as they are now; return their folder.

    The gold is frozen. Raises BadInput where there is nothing. For researchers and admins.
    """
    names = store_corpora(store, actor)
    files: dict[tuple[str, str], bytes] = {}
    with store.write() as session:
        fresh(session, actor, *KEEPERS)
        rows = [row for row in dataset_rows.listed(session) if row.name in names]
        hashes = {(row.name, f"{part.split}.jsonl"): part.content_hash for row in rows for part in row.splits}
        domains = {row.name: _toml(session, row.domain_name) for row in rows if row.domain_name}
        files |= {(name, OWN_DOMAIN): toml for name, toml in domains.items() if toml}
        for name, campaign_id in _campaigns(session).items():
            if name in names and not any(row.name == name for row in rows):
                files |= {(name, file): content for file, content in _gold(session, actor, campaign_id)}
    if not hashes and not files:
        raise BadInput("There is nothing to train on: add a data set under Sentences, Data sets, or adjudicate gold.")
    hashes |= {place: hashlib.sha256(content).hexdigest() for place, content in files.items()}
    lines = "".join(f"{name} {file} {hash}\n" for (name, file), hash in sorted(hashes.items()))
    whole = hashlib.sha256(lines.encode()).hexdigest()[:16]
    folder = (settings_of(store).experiments / FOLDER / whole).resolve()

    def fill(beside: Path) -> None:
        for name, file in hashes:
            content = files.get((name, file))
            if content is None:
                content = datasets.export_dataset(store, actor, name, file.removesuffix(".jsonl"))
            write_bytes(beside / name / file, content)

    if not folder.is_dir():
        replace_folder(folder, fill)
    return folder


def _campaigns(session: Session) -> dict[str, int]:
    """Return the campaigns with gold by the names of their corpora; of several with one name the first keeps it."""
    rows = campaign_rows.everything(session)
    counts, names = campaign_rows.task_counts(session, [row.id for row in rows]), dict[str, int]()
    for row in rows:
        if counts.get((row.id, "adjudicate", "done")):
            plain = _OTHER.sub("-", row.name).strip("-.") or "campaign"
            names[f"{plain}{_GOLD}" if f"{plain}{_GOLD}" not in names else f"{plain}-{row.id}{_GOLD}"] = row.id
    return names


def _gold(session: Session, actor: Actor, campaign_id: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a campaign's gold, frozen now; none where nothing of it is to be trained on."""
    _, campaign = enter(session, actor, campaign_id, *KEEPERS)
    try:
        frozen = freeze_gold(session, actor, campaign)
    except BadInput:  # dev and test alone
        return
    _, parts = content_of(session, frozen.id)
    for split, items in parts.items():
        if items:
            records = [Record(item.sentence, item.spans) for item in items]
            yield f"{_SPLITS[split]}.jsonl", write(records, "jsonl").encode("utf-8")
    yield OWN_DOMAIN, domain_to_toml(domain_of(campaign)).encode("utf-8")


def _toml(session: Session, domain: str) -> bytes:
    """Return a domain as a file; nothing for one that is gone."""
    try:
        return domain_to_toml(find_domain(session, domain)).encode("utf-8")
    except NotFound:
        return b""
