"""Every use case of the workbench, found in the code, and arguments with which each kind of person can call it."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import pkgutil
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

import workbench
from crossner_core.domains import load_domain
from crossner_core.errors import NotAllowed, NotFound, WorkbenchError
from crossner_core.schema import sentence_from_words
from crossner_core.training.recipe import Recipe
from db.accounts.identity_tables import Identity
from db.engine import Store
from db.label_review_tables import FindingRow
from db.migrate import migrate
from db.programs.webhook_tables import Delivery, Webhook
from db.tables import Task, User
from db.training_tables import Job
from tests.golden import stored
from tests.support.builders import Tab, first_choices, make_campaign, make_people, make_person
from tests.support.campaigns import in_music
from tests.support.paths import ROOT
from tests.support.training_builders import own_sentences
from tests.support.training_store import as_jsonl, own_dataset
from workbench.accounts import passwords
from workbench.accounts.actors import SYSTEM, Actor
from workbench.accounts.oidc.arrivals import Arrival
from workbench.campaigns import domains, sentences
from workbench.data import archive_reading, snapshots
from workbench.data.sampling import SamplingPlan
from workbench.data.searching import Search
from workbench.labelling import adjudication
from workbench.reports.curves import Series
from workbench.reports.errors_browsing import Speaker
from workbench.reports.overlaps import TextSource
from workbench.runs import adaptation, rounds, simulations
from workbench.runs.encoders import EncoderView
from workbench.settings import Settings

PASSWORD = "correct horse battery"
OWN_DOMAIN = (ROOT / "crossner_core" / "domains" / "music.toml").read_text(encoding="utf-8").replace("music", "folk", 1)
PERSONS = (
    "unknown", "closed", "demoted", "outsider", "outside expert", "annotator", "checker", "expert", "researcher",
    "admin", "system",
)  # fmt: skip
"""`closed`: an admin whose account was closed since; `demoted`: an admin who is an annotator since; `outsider` and
`outside expert` are no members of the campaign."""
ALLOWED, REFUSED = "allowed", "refused"


def use_cases() -> dict[str, Callable[..., Any]]:
    """Return every public function of `workbench` that takes `(store, actor, …)`, by its dotted name."""
    cases = {}
    for module in pkgutil.walk_packages(workbench.__path__, "workbench."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            own = inspect.isfunction(value) and value.__module__ == module.name and not name.startswith("_")
            if own and list(inspect.signature(value).parameters)[:2] == ["store", "actor"]:
                cases[f"{module.name.removeprefix('workbench.')}.{name}"] = value
    return cases


@dataclass(frozen=True)
class Scene:
    """A store in a file with work at all stages, its people as they were signed in, and the ids that calls need."""

    file: Path
    people: Mapping[str, Actor]
    ids: Mapping[str, Any]

    @contextmanager
    def copied(self, folder: Path) -> Iterator[Store]:
        """Yield a copy of the store."""
        file = folder / f"{uuid.uuid4().hex}.sqlite3"
        shutil.copyfile(self.file, file)
        store = Store(f"sqlite:///{file}")
        try:
            yield store
        finally:
            store.close()
            file.unlink()


@contextmanager
def scene_in(folder: Path) -> Iterator[Scene]:
    """Make a scene in a new store in a folder, which is the home meanwhile; passwords are hashed quickly."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
        patched.setenv("CROSSNER_HOME", str(folder))
        store = Store(f"sqlite:///{folder / 'store.sqlite3'}")
        migrate(store)
        made = make_scene(store)
        store.close()
        yield made


def make_scene(store: Store) -> Scene:
    """Fill a store: gold, a check and an annotation under way, a question, a parked sentence, a finding, runs, jobs."""
    people = make_people(store)
    insiders = dict(people)
    campaign_id = make_campaign(store, insiders)
    outside = {name: make_person(store, name, role) for name, role in (("out", "annotator"), ("odd", "expert"))}
    was_admin = {name: make_person(store, name, "admin") for name in ("gone", "less")}
    first, second, expert = (
        Tab(store, people[name], campaign_id, stage)
        for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate"))
    )
    for tab, count in ((first, 4), (second, 3)):
        for item in tab.items(count):
            tab.do("submit", item, [], parts={"no_entities": True})
    asked, *rest = expert.items(3)
    question_id = adjudication.ask(store, people["eva"], asked["task"], "Sure?")
    for item in rest[:1]:
        spans, decisions = first_choices(item)
        expert.do("submit", item, spans, parts={"decisions": decisions, "no_entities": True})
    for name in ("ann1", "ann3"):
        tab = Tab(store, people[name], campaign_id, "annotate")
        tab.do("skip", tab.items(1)[0], reason="hard")
    own_dataset(store, people["res"])
    domains.save_domain(store, people["adm"], OWN_DOMAIN)
    for split, count, offset in (("pool", 26, 0), ("dev", 4, 100), ("test", 4, 200)):
        items = in_music(own_sentences(count, offset=offset))
        sentences.add_sentences(store, people["res"], campaign_id, items, split=split)
    snapshot = snapshots.freeze(store, people["res"], campaign_id)
    run_id = adaptation.start_run(store, people["res"], snapshot_id=snapshot.id, recipe=Recipe(max_epochs=1))
    other_id = adaptation.start_run(store, people["res"], snapshot_id=snapshot.id, recipe=Recipe(max_epochs=1, seed=2))
    rounds.change_round_settings(store, people["res"], campaign_id, strategy="longest")
    rounds.order_now(store, people["res"], campaign_id)
    play_id = simulations.start_simulations(store, people["res"], campaign_id, ["longest"], seeds=(1,))
    with store.write() as session:
        hashed = passwords.hash_password(PASSWORD)
        for user in session.scalars(sa.select(User)):
            user.password_hash = hashed
        session.get_one(User, was_admin["gone"].id).active = False
        session.get_one(User, was_admin["less"].id).role = "annotator"
        parked = session.scalar(sa.select(Task.id).where(Task.state == "parked"))
        gold = session.execute(
            sa.select(Task.id, Task.sentence_id).where(Task.stage == "adjudicate", Task.done_by == people["eva"].id)
        ).one()
        finding = FindingRow(
            campaign_id=campaign_id, sentence_id=gold[1], found_by="near_duplicates", kind="missing", start=0, end=1,
            there=[], proposed=[], score=0.5, why="perhaps",
        )  # fmt: skip
        hook = Webhook(
            campaign_id=campaign_id, url="https://192.0.2.1/hooks", events=["gold.made"], secret="whsec_YWRh"
        )
        session.add_all([finding, hook])
        session.flush()
        delivery = Delivery(
            webhook_id=hook.id, message_id="msg_1", type="gold.made", payload={"type": "gold.made"}, state="given up"
        )
        session.add(delivery)
        identity = Identity(user_id=people["ann1"].id, issuer="https://login.example", subject="ann1")
        session.add(identity)
        session.flush()
        ids = {
            "campaign": campaign_id, "run": run_id, "other run": other_id, "snapshot": snapshot,
            "question": question_id, "parked": parked,
            "gold": gold[0], "finding": finding.id, "play": play_id, "asked": asked["task"],
            "webhook": hook.id, "delivery": delivery.id,
            "job": session.scalar(sa.select(Job.id).where(Job.run_id == run_id)),
            "users": [a.id for a in insiders.values()], "identity": identity.id,
        }  # fmt: skip
    persons = {
        "unknown": Actor(9999, "nobody", "Nobody", "admin"), "closed": was_admin["gone"], "demoted": was_admin["less"],
        "outsider": outside["out"], "outside expert": outside["odd"], "annotator": people["ann1"],
        "checker": people["ann2"], "expert": people["eva"], "researcher": people["res"], "admin": people["adm"],
        "system": SYSTEM,
    }  # fmt: skip
    file = store.url.database
    assert file is not None
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Scene(Path(file), persons, ids)


def arguments(name: str, function: Callable[..., Any], scene: Scene, actor: Actor, folder: Path) -> dict[str, Any]:
    """Return a value for each parameter that needs one, by its name, or by the use case's where that decides."""
    ids = scene.ids
    music = load_domain("music")
    is_archive = name.endswith("insert_campaign")
    archive = archive_reading.read_archive(stored.OLD_ARCHIVE.read_bytes()) if is_archive else None
    values: dict[str, Any] = {
        "active": True, "address": "https://model.example", "archive": archive,
        "arrival": Arrival("https://login.example", "somebody", "", ""), "identity_id": ids["identity"],
        "issuer": "https://login.example", "subject": "somebody",
        "before": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "campaign_id": ids["campaign"], "check_id": "near_duplicates", "checkpoints": folder / "checkpoints",
        "document_id": 1, "format": "conll", "is_complete": True, "user_name": "ann1",
        "corpus": "none", "data": stored.OLD_ARCHIVE.read_bytes(), "decision": "keep", "display_name": "Zoe",
        "domain": music, "encoder": EncoderView(name="none", how=""),
        "endpoint": "https://endpoint.example", "files": [("x.txt", b"Ada sang .\n")],
        "folder": folder / uuid.uuid4().hex, "to": "onnx",
        "finding_id": ids["finding"], "first": ids["run"],
        "gazetteer": None, "guidelines": {},
        "home": folder, "id": "transfer", "job_id": ids["job"], "job_ids": [], "kind": "preannotate",
        "labelled": own_sentences(1)[0:0], "line": Series("", "", None, None, {}, (), 0), "name": "own",
        "new": "another password", "options": {}, "message": {"client": str(uuid.uuid4()), "events": []},
        "outbox": {"client": str(uuid.uuid4()), "events": []},
        "password": PASSWORD, "plan": SamplingPlan(), "prefix": ids["snapshot"].hash[:8],
        "present": PASSWORD, "question_id": ids["question"], "recipe": Recipe(max_epochs=1), "role": "annotator",
        "sentences": [],
        "requests": 1,
        "round_id": 1, "run_id": ids["run"], "run_ids": [], "second": ids["other run"], "sentence": sentence_from_words(
            ["Ada", "sang"], id="x"), "sentence_id": 1, "series": [], "settings": Settings(home=folder),
        "source": TextSource("data set", "own", 1, ""), "speaker": Speaker(source="gazetteer"), "split": "train",
        "start": 0, "end": 1,
        "splits": {"train": ("t.jsonl", as_jsonl(own_sentences(2)))}, "stage": "annotate", "strategies": ["longest"],
        "strategy": "longest", "suggestions": {}, "surface": "Ada", "task_ids": [ids["gold"]],
        "target": folder / uuid.uuid4().hex,
        "webhook_id": ids["webhook"], "delivery_id": ids["delivery"], "events": ["run.ended"],
        "url": "https://192.0.2.1/other",
        "task_id": ids["gold"], "text": "Ada", "token": "none", "token_id": 1,
        "user_id": actor.id, "user_ids": ids["users"],
        "search": Search(text="sang"), "type": "band", "hashes": (),
        "values": {}, "config": {}, "which": "gold", "names": ("gold",), "toml_text": OWN_DOMAIN,
    }  # fmt: skip
    own = SPECIAL.get(name, {})
    parameters = list(inspect.signature(function).parameters.values())[2:]
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in variadic]
    made = {key: values[key] for key in needed}
    return made | {key: value(scene) if callable(value) else value for key, value in own.items()}


def _upload(path: Path) -> list[tuple[str, Path]]:
    path.write_text("Ada sang .\n", "utf-8")
    return [(path.name, path)]


SPECIAL: dict[str, dict[str, Any]] = {
    "accounts.accounts.create_user": {"name": "zoe"},
    "accounts.accounts.set_role": {"user_id": lambda scene: scene.people["outsider"].id},
    "accounts.accounts.set_active": {"user_id": lambda scene: scene.people["outsider"].id},
    "accounts.accounts.set_password": {"user_id": lambda scene: scene.people["outsider"].id},
    "campaigns.campaigns.create_campaign": {"name": "Another"},
    "campaigns.domains.get_toml": {"name": "folk"},
    "campaigns.domains.delete_domain": {"name": "folk"},
    "data.new_campaign.first_look": {"domain": "music"},
    "data.new_campaign.make_campaign": {"name": "Guided", "domain": "music"},
    "data.new_campaign.start_campaign": {"name": "Guided", "domain": "music"},
    "data.archive.import_campaign": {"name": "Imported"},
    "data.archive_writing.insert_campaign": {"name": "Imported"},
    "data.datasets.import_dataset": {"name": "new"},
    "data.documents.add_document": {"files": lambda scene: _upload(scene.file.with_name("x.txt"))},
    "data.staging.import_apart": {"files": lambda scene: _upload(scene.file.with_name("x.txt"))},
    "labelling.adjudication.ask": {"task_id": lambda scene: scene.ids["asked"]},
    "labelling.screen.ask": {"message": lambda scene: {"task": scene.ids["asked"], "text": "Sure?"}},
    "labelling.adjudication.unpark": {"task_id": lambda scene: scene.ids["parked"]},
    "jobs.queue.start_job": {"campaign_id": lambda scene: scene.ids["campaign"]},
    "reports.coverage.dataset_coverage": {"domain": "music"},
    "runs.adaptation.start_run": {"snapshot_id": lambda scene: scene.ids["snapshot"].id},
    "runs.adaptation.start_few_shot": {"snapshot_id": lambda scene: scene.ids["snapshot"].id},
    "runs.encoders.start_on_text": {"kind": "dapt", "name": "adapted", "dataset": "own"},
    "runs.encoders.start_entity_tagging": {"name": "adapted", "dataset": "own"},
    "runs.predicting.predict": {"run_id": lambda scene: scene.ids["run"]},
    "runs.studies.start_study": {"data": lambda scene: scene.file.parent},
    "runs.studies.study_file": {"name": "table.md"},
    "runs.simulations.get_play": {"job_id": lambda scene: scene.ids["play"]},
    "suggestions.gazetteers.look_up": {"name": None},
    "suggestions.gazetteers.explain_sentence": {"name": None},
    "suggestions.from_search.withdraw": {"source": "search:res, today"},
    "doctor.examining.repair": {"check_id": "leases"},
}
EXTRA: dict[str, tuple[Any, ...]] = {
    "accounts.actors.admit": ("admin",),
    "jobs.queue.cancel_in_campaign": ("preannotate",),
}


def outcome(store: Store, name: str, function: Callable[..., Any], scene: Scene, person: str, folder: Path) -> str:
    """Call a use case as a person; a campaign that does not exist for them is a refusal, any other error is none."""
    actor = scene.people[person]
    made = arguments(name, function, scene, actor, folder)
    try:
        if extra := EXTRA.get(name):
            function(store, actor, *made.values(), *extra)
        else:
            function(store, actor, **made)
    except NotAllowed:
        return REFUSED
    except NotFound as error:
        return REFUSED if str(error).startswith(f"There is no campaign {scene.ids['campaign']} for") else ALLOWED
    except WorkbenchError:
        return ALLOWED
    return ALLOWED


def dump(store: Store) -> list[str]:
    """Return the whole content of a SQLite store as SQL."""
    file = store.url.database
    assert file is not None
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())
