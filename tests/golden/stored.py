"""What lies in stores and archives: read now as it was when it was written.

`old_store.sql.gz` and `old_archive.zip` are of the version that wrote them and stay; `write_old` makes others.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import hashlib
import io
import json
import socket
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crossner_core.options.base import value_before
from crossner_core.options.cross_domain_lm import CrossDomainLmOptions
from crossner_core.options.datnet import DatnetOptions
from crossner_core.options.la_dtl import LaDtlOptions
from crossner_core.options.pdaln import PdalnOptions
from crossner_core.options.type_aware import TypeAwareOptions
from crossner_core.schema import Sentence
from crossner_core.simulation.config import Simulation
from crossner_core.training.events import RunResult
from db.engine import Store
from db.migrate import migrate
from tests.golden import campaign, kept
from workbench.accounts import accounts
from workbench.campaigns import campaigns, domains  # fmt: skip
from workbench.data import archive, browsing, datasets, snapshots
from workbench.jobs import queue
from workbench.labelling import adjudication, label_review
from workbench.runs import adaptation, encoders, rounds, simulations, studies
from workbench.settings import Settings, open_store

# Fields the golden version had not, with what they are where nothing is set.
_LATER: dict[tuple[type, str], Any] = {(Sentence, name): None for name in ("document", "offset", "layout")}
_LATER[adjudication.QuestionView, "asks"] = "both"
_LATER |= {(browsing.LayerView, "left_open"): (), (browsing.LayerView, "opened"): ""}
_LATER_SETTINGS = {
    "open_at_submit": "ask",
    "accept_from": 0.8,
    "confirm": "doubted",
    "confirm_share": 0.1,
    "rare_below": 2,
    "doubt_below": 0.5,
    "model_floor": 0.3,
    "model_gain": 0.0,
    "model_error": 0.15,
    "linking": False,
}  # settings the golden version had not
_LATER_OF_RECIPES = (
    {
        "lstm_size": 256,
        "lstm_layers": 2,
        "span_size": 200,
        "template_weight": 0.0,
        "decoder_layers": 2,
        "pointer_share": 0.5,
        "cell_size": 100,
        "cell_type_weight": 1.0,
        "cell_attention_weight": 1.0,
        "source_unmarked": "outside",
        "source_map": "name",
        "source_types": "",
        "source_temperature": 1.0,
        "source_head": "source",
        "deterministic": False,
    }
    | {"lstm_private": False}
    | {
        field.name: field.default
        for options in (LaDtlOptions, DatnetOptions, CrossDomainLmOptions)
        for field in dataclasses.fields(options)
    }
    | {field.name: value_before(field) for field in dataclasses.fields(PdalnOptions) if field.metadata["later"]}
    | {field.name: field.default for field in dataclasses.fields(TypeAwareOptions) if field.name.startswith("type_")}
)
_LATER_OF_WORK = {"example": False}
_LATER_OF_SPANS = {"elsewhere": False, "entity": None}
_LATER_OF_FINDINGS = {"proposed_probability": None, "present_probability": None, "history": []}
OLD_STORE, OLD_ARCHIVE = kept.FOLDER / "old_store.sql.gz", kept.FOLDER / "old_archive.zip"
CAMPAIGN = (
    "id", "name", "domain_name", "domain_toml", "blind_share", "control_share", "lease_minutes", "seed", "endpoint",
    "gazetteer", "suggestions_on", "hint_below", "archived", "created_at", "sentences", "splits", "stages", "members",
    "left_out",
)  # fmt: skip
"""What a golden view of a campaign lists, in this order."""


def write_old(folder: Path) -> None:
    """Write a store and an archive as this version makes them; they are the golden ones from now on."""
    store = campaign.make_store(folder / "home")
    campaign.queue_jobs(store, folder / "home")
    campaign.do_jobs(store, folder / "home")
    people = campaign.people_of(store)
    OLD_ARCHIVE.write_bytes(archive.export_campaign(store, people["adm"], campaign.id_of(store, campaign.SMALL)))
    store.close()
    with sqlite3.connect(folder / "home" / "workbench.sqlite3") as connection:
        connection.execute("UPDATE task SET lease_expires = '2026-01-01' WHERE lease_expires IS NOT NULL")
        text = "\n".join(connection.iterdump()).replace(str(folder), "/made").replace(socket.gethostname(), "here")
    OLD_STORE.write_bytes(gzip.compress(text.encode(), mtime=0))


def restore(home: Path) -> Store:
    """Return the old store, restored and migrated in a home folder."""
    home.mkdir(parents=True)
    connection = sqlite3.connect(home / "workbench.sqlite3")
    connection.executescript(gzip.decompress(OLD_STORE.read_bytes()).decode())
    connection.close()
    store = open_store(Settings(home=home, data=home))
    migrate(store)
    return store


def rows(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables as the database has them."""
    with store.engine.connect() as connection:
        names = connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).scalars()
        return {
            name: [dict(row) for row in connection.exec_driver_sql(f'SELECT * FROM "{name}"').mappings()]
            for name in names
            if name != "alembic_version" and not name.startswith("sqlite_")
        }


def old_rows() -> dict[str, list[dict[str, Any]]]:
    """Return all rows of the old store before it is migrated."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    connection.executescript(gzip.decompress(OLD_STORE.read_bytes()).decode())
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')] for name in names}


def views(store: Store) -> dict[str, Any]:
    """Return what use cases show of the old store, as plain values without the names of their fields."""
    people = campaign.people_of(store)
    adm, eva = people["adm"], people["eva"]
    small, played = (campaign.id_of(store, name) for name in (campaign.SMALL, campaign.PLAYED))
    runs = adaptation.list_runs(store, adm)
    found: dict[str, Any] = {
        "people": accounts.list_people(store, adm),
        "campaigns": [[getattr(view, name) for name in CAMPAIGN] for view in campaigns.list_campaigns(store, adm)],
        "domain": domains.get_toml(store, adm, "folk")[:60],
        "jobs": queue.list_jobs(store, adm),
        "snapshots": snapshots.list_snapshots(store, adm, small),
        "data sets": datasets.list_datasets(store, adm),
        "runs": runs,
        "run": [adaptation.get_run(store, adm, run.id) for run in runs],
        "turns": rounds.list_rounds(store, adm, played),
        "turn settings": rounds.round_settings(store, adm, played),
        "queue": [rounds.queue_state(store, adm, played), rounds.upcoming(store, adm, played)],
        "second look": label_review.queues(store, eva, small),
        "findings": [label_review.findings(store, eva, small, check) for check in campaign.CHECKS],
        "decided": label_review.decided(store, eva, small),
        "questions": [
            adjudication.my_questions(store, people["ann2"], small), adjudication.open_questions(store, eva, small),
            adjudication.parked(store, eva, small),
        ],
        "layers": browsing.layer_counts(store, adm, small),
        "simulations": simulations.newest_simulations(store, adm, played),
        "pre-trainings": encoders.list_pretrainings(store, adm),
        "studies": [one.job for one in studies.list_studies(store, adm) if one.job],
        "recommended": simulations.usual_strategy(store, adm, played),
    }  # fmt: skip
    return {name: _plain(value) for name, value in found.items()}


def read_back(rows_: Mapping[str, list[dict[str, Any]]]) -> Iterator[tuple[Any, Any]]:
    """Yield what runs and simulated campaigns keep, and the same once it was read and written."""
    for run in rows_["run"]:
        result = json.loads(run["result"])
        again = kept.plain(RunResult.from_dict(result).to_dict())
        if again["calibration"] and again["calibration"]["dev_error"] is None:
            del again["calibration"]["dev_error"]  # which the golden version did not measure
        yield result, again
    for played in rows_["simulation"]:
        settings = json.loads(played["settings"])
        again = kept.plain(Simulation.from_dict(settings).to_dict())
        del again["options"]["zero_shot"], again["below"]  # which the golden version had not
        later = _LATER_OF_RECIPES.items()
        again["recipe"] = {key: value for key, value in again["recipe"].items() if (key, value) not in later}
        yield settings, again


def payloads(folder: Path) -> list[dict[str, Any]]:
    """Return the kind, priority and payload of each job as they are queued now; what differs each time is left out."""
    store = campaign.make_store(folder / "home")
    campaign.queue_jobs(store, folder / "home")
    found = []
    for row in rows(store)["job"]:
        payload = json.loads(row["payload"].replace(str(folder), "/made"))
        found.append(
            {"kind": row["kind"], "priority": row["priority"], "attempts": row["max_attempts"], "payload": payload}
        )
        if "key" in payload:
            payload["key"] = "KEY"
    store.close()
    return found


def exported(store: Store) -> dict[str, Any]:
    """Return what is exported of the old store's campaign."""
    people = campaign.people_of(store)
    return contents(archive.export_campaign(store, people["adm"], campaign.id_of(store, campaign.SMALL)))


def exported_anew(folder: Path) -> dict[str, Any]:
    """Return what the old archive holds once it was imported into an empty store and exported again."""
    store = open_store(Settings(home=folder))
    migrate(store)
    admin = accounts.create_user(
        store, None, name="root", display_name="Root", password="of a made-up store", role="admin"
    )
    campaign_id = archive.import_campaign(store, admin, OLD_ARCHIVE.read_bytes())
    data = archive.export_campaign(store, admin, campaign_id)
    store.close()
    return contents(data)


def old_archive(*, imported: bool) -> dict[str, Any]:
    """Return the old archive's content; of an imported one there are no runs, and nobody has a role that they had."""
    found = contents(OLD_ARCHIVE.read_bytes())
    for name in ("layers/gold.jsonl", "layers/suggestions.jsonl"):
        # Of these two sentences of one id the later one has a number since: lines of one id cannot be read again.
        (_, later) = [line for line in found[name] if line["id"] == "in-Mara Vell"]
        later["id"] = "in-Mara Vell-2"
    if imported:
        found["runs.json"] = []
        found["people.json"] = [
            {**one, "role": "expert" if one["role"] == "expert" else "annotator"} for one in found["people.json"]
        ]
    return found


def without_times(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an archive's content without the moments of its export and of what an import makes."""
    files = dict(found)
    for name in ("manifest.json", "campaign.json"):
        files[name] = {key: value for key, value in files[name].items() if key not in ("exported_at", "created_at")}
    later = _LATER_SETTINGS.items()  # at their defaults; any other value is a difference
    files["campaign.json"] = {key: value for key, value in files["campaign.json"].items() if (key, value) not in later}
    for line in files["sentences.jsonl"]:
        for question in (asked for task in line["tasks"] for asked in task["questions"]):
            if question.get("asks") == "both":  # what the golden version had no word for
                del question["asks"]
        for work in (work for task in line["tasks"] for work in task["annotations"]):
            for part in (work, *(version["work"] for version in work["versions"])):
                for name, default in _LATER_OF_WORK.items():
                    if part.get(name, ...) == default:
                        del part[name]
        line["second_look"] = [
            {key: value for key, value in finding.items() if _LATER_OF_FINDINGS.get(key, ...) != value}
            for finding in line["second_look"]
        ]
        for span in _marked(line):
            for name, default in _LATER_OF_SPANS.items():
                if span.get(name, ...) == default:
                    del span[name]
    files["snapshots.json"] = [{**one, "created_at": ""} for one in files["snapshots.json"]]
    return files


def _marked(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every span of a line of an archive's sentences."""
    for task in line["tasks"]:
        for annotation in task["annotations"]:
            yield from annotation["spans"]


def contents(data: bytes) -> dict[str, Any]:
    """Return the files of an archive by name, JSON as values."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        texts = {name: opened.read(name).decode() for name in opened.namelist()}
    found: dict[str, Any] = {name: text for name, text in texts.items() if name.endswith(".toml")}
    found |= {name: json.loads(text) for name, text in texts.items() if name.endswith(".json")}
    lines = {name: text.splitlines() for name, text in texts.items() if name.endswith(".jsonl")}
    return found | {name: [json.loads(line) for line in part] for name, part in lines.items()}


def _plain(value: Any) -> Any:
    """Return a view as plain values: a dataclass as the list of its fields' values, without `_LATER` ones not set."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {(type(value), spec.name): getattr(value, spec.name) for spec in dataclasses.fields(value)}
        return [_plain(part) for name, part in parts.items() if name not in _LATER or part != _LATER[name]]
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, str) and len(value) > 500:
        return hashlib.sha256(value.encode()).hexdigest()
    return value.isoformat() if isinstance(value, dt.datetime) else value
