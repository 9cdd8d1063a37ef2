"""Data sets of the store and the gold of campaigns as a folder of corpora that studies read, named by what is in it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crossner_core.domains import domain_to_toml
from crossner_core.errors import BadInput, NotFound
from crossner_core.experiments.corpora import OWN_DOMAIN
from crossner_core.folders import replace_folder, write_bytes
from crossner_core.formats import write
from crossner_core.formats.base import Record
from db import campaign_rows, dataset_rows
from db.engine import Session, Store
from db.training_tables import Dataset
from workbench.accounts import audit
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.campaigns import STUDY_DATA, gold_corpus
from workbench.campaigns.domains import domain_of, find_domain
from workbench.data import datasets
from workbench.data.snapshots import content_of, freeze_gold
from workbench.settings import settings_of

_NAMED = re.compile(r"(?<![\w-])" + gold_corpus(r"(\d{1,9})") + r"(?![\w-])")
_SPLITS = {"pool": "train", "dev": "dev", "test": "test"}


def store_corpora(store: Store, actor: Actor) -> tuple[str, ...]:
    """Return what a study can be run on: data sets with sentences to train on, then campaigns with gold, as `gold-3`.

    Of campaigns researchers and admins alone are told.
    """
    names = tuple(view.name for view in datasets.list_datasets(store, actor) if view.count("train"))
    with store.read() as session:
        if fresh(session, actor, *OVERSEERS).role not in KEEPERS:
            return names
        campaigns = map(gold_corpus, sorted(campaign_rows.pool_gold_counts(session)))
        return (*names, *(name for name in campaigns if name not in names))


def write_corpora(store: Store, actor: Actor, config: Mapping[str, Any]) -> Path:
    """Write all data sets, and the gold of the campaigns that a study's config names, with their domains.

    Gold is frozen. Nothing is written where all lies there as it is now. Returns the folder.
    """
    files: dict[tuple[str, str], bytes] = {}
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        rows = [row for row in dataset_rows.listed(session) if any(part.split == "train" for part in row.splits)]
        hashes = {(row.name, f"{part.split}.jsonl"): part.content_hash for row in rows for part in row.splits}
        files |= {(row.name, OWN_DOMAIN): toml for row in rows if (toml := _domain(session, row))}
        for campaign_id in sorted({int(number) for number in _NAMED.findall(json.dumps(config))}):
            name = gold_corpus(campaign_id)
            if not any(row.name == name for row in rows):
                files |= {(name, file): content for file, content in _gold(session, actor, campaign_id)}
                audit.record(session, current, "export_layer", ("layer", "gold"), campaign_id, to="studies")
    hashes |= {place: hashlib.sha256(content).hexdigest() for place, content in files.items()}
    lines = "".join(f"{name} {file} {hash}\n" for (name, file), hash in sorted(hashes.items()))
    whole = hashlib.sha256(lines.encode()).hexdigest()[:16]
    folder = (settings_of(store).experiments / STUDY_DATA / whole).resolve()

    def fill(beside: Path) -> None:
        for name, file in hashes:
            content = files.get((name, file))
            if content is None:
                content = datasets.export_dataset(store, actor, name, file.removesuffix(".jsonl"))
            write_bytes(beside / name / file, content)

    if not folder.is_dir():
        replace_folder(folder, fill)
    return folder


def _gold(session: Session, actor: Actor, campaign_id: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a campaign's gold, frozen now."""
    _, campaign = enter(session, actor, campaign_id, *KEEPERS)
    try:
        frozen = freeze_gold(session, actor, campaign)
    except BadInput as error:
        raise BadInput(f"{gold_corpus(campaign_id)} ({campaign.name}): {error}") from error
    _, parts = content_of(session, frozen.id)
    for split, items in parts.items():
        if items:
            records = [Record(item.sentence, item.spans) for item in items]
            yield f"{_SPLITS[split]}.jsonl", write(records, "jsonl").encode("utf-8")
    yield OWN_DOMAIN, domain_to_toml(domain_of(campaign)).encode("utf-8")


def _domain(session: Session, row: Dataset) -> bytes:
    """Return a data set's domain as a file; nothing for one that is gone, or that has lost types of the data set."""
    try:
        domain = find_domain(session, row.domain_name or "")
    except NotFound:
        return b""
    return domain_to_toml(domain).encode("utf-8") if {*row.types} <= {*domain.type_names} else b""
