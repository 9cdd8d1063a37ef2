"""Keys and content addresses: of recipes, cells, simulations, pre-trainings, corpora, gazetteers, domains and gold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crossner_core.domains import load_domain
from crossner_core.errors import InvalidConfig
from crossner_core.experiments.cells import Cell, CellStore, training_data
from crossner_core.experiments.study import study, study_ids
from crossner_core.models.registry import architecture_ids
from crossner_core.options.character_models import CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.schema import Link, sentence_from_words
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import Simulation, SimulationOptions
from crossner_core.training.recipe import Recipe, source_key
from crossner_core.training.settings.registry import setting_ids
from crossner_core.wikipedia.annotating import AnnotatorSpec
from crossner_core.wikipedia.dump import SiteInfo
from crossner_core.wikipedia.manifest import Counts, Gazetteer, Manifest, Shard, Source
from crossner_core.wikipedia.shards import BuildConfig, SentenceRules, ShardSettings
from db.engine import Store
from db.migrate import migrate
from tests.support import builders
from tests.support.gazetteers.fakes import compiled
from tests.support.study_builders import data_folder
from tests.support.training_builders import own_sentences, tiny_data
from workbench.data import snapshots

KEPT_CELLS = Path(__file__).resolve().parents[2] / "docs" / "studies"
ENCODER: Any = SimpleNamespace(fingerprint="e" * 64)
_RUNS = [(architecture, setting) for setting in setting_ids() for architecture in architecture_ids()]
# What a form or a flag would change, fields that came later among them; they count only where they have an effect.
_CHANGES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "usual": {"learning_rate": 1e-4, "dropout": 0, "seed": 7, "source_epochs": 3, "encoder": "/encoders/own"},
    "later": {
        "schedule": "constant",
        "label_smoothing": 0.1,
        "accumulate": 2,
        "recompute": True,
        "label_bilstm": False,
        "label_background_scaled": True,
        "self_training_gazetteer": True,
    },
    "off": {"constrained": False, "inherit": False, "pdaln_rounds": 0, "head_first_epochs": 0, "label_context": False},
}


def made(folder: Path) -> dict[str, Any]:
    """Return every key by what it is of."""
    return {
        "recipes": _recipes(),
        "recipe fields, each changed alone in every architecture and setting": _by_field(Recipe(), _run_hashes),
        "source stages": _source_stages(),
        "DAPT": {"defaults": DaptOptions().hash} | _by_field(DaptOptions(), lambda one: [one.hash]),
        "entity tagging": {"defaults": TaggingPretrainOptions().hash}
        | _by_field(TaggingPretrainOptions(), lambda one: [one.hash]),
        "character models": {"defaults": CharacterModelOptions().hash}
        | _by_field(CharacterModelOptions(), lambda one: [one.hash]),
        "simulations": _simulations(),
        "cells": _cells(folder),
        "studies": {id: _study(id) for id in study_ids()},
        "kept cells": _kept_cells(),
        "corpora": _corpora(),
        "gazetteer": _gazetteer(folder / "names"),
        "domains": {name: load_domain(name).hash for name in ("ai", "literature", "music", "politics", "science")},
        "sentences": _sentences(),
        "snapshot": _snapshot(folder / "store.sqlite3"),
    }


def _recipes() -> dict[str, dict[str, str]]:
    return {
        f"{setting} {architecture}": {
            what: Recipe.from_dict({**changes, "architecture": architecture, "setting": setting}).hash
            for what, changes in _CHANGES.items()
        }
        for architecture, setting in _RUNS
    }


def _run_hashes(recipe: Recipe) -> list[str]:
    return [replace(recipe, architecture=one, setting=other).hash for one, other in _RUNS]


def _by_field(options: Any, hashes: Callable[[Any], Iterable[str]]) -> dict[str, str]:
    """Return a hash of the hashes that options have when one field is changed, by field."""
    found = {}
    for spec in fields(options):
        if spec.name not in ("architecture", "setting"):
            try:
                changed = replace(options, **{spec.name: _another(getattr(options, spec.name), spec.metadata)})
            except InvalidConfig:
                continue
            found[spec.name] = _joined(hashes(changed))
    return found


def _another(value: Any, metadata: Mapping[str, Any]) -> Any:
    """Return another valid value than this of a field."""
    if isinstance(value, bool):
        return not value
    if metadata["choices"]:
        return next(one for one in reversed(metadata["choices"]) if one != value)
    if isinstance(value, tuple):
        return value[:-1]
    if isinstance(value, str):
        return f"{value},2"
    high = metadata["max"]
    if isinstance(value, int):
        return value + 1
    return value / 2 if value else 0.25 if high is None else min(0.25, high)


def _source_stages() -> dict[str, str]:
    data, found = tiny_data(source=True), {}
    for architecture in architecture_ids():
        for what, changes in _CHANGES.items():
            recipe = Recipe.from_dict({**changes, "architecture": architecture, "setting": "pretrain_finetune"})
            found[f"{architecture} {what}"] = source_key(recipe, data, ENCODER.fingerprint)
    return found


def _simulations() -> dict[str, Any]:
    options, annotator = SimulationOptions(strategy="token_entropy"), AnnotatorOptions()
    plain = Simulation("music", options, Recipe(), annotator)
    named = {
        "plain": plain,
        "told by a gazetteer": replace(
            plain, options=replace(options, self_training=True, gazetteer_teaches=True, random_share=0.2)
        ),
        "warm, two annotators": replace(plain, options=replace(options, warm_epochs=3), others=(annotator,)),
    }

    def key(changed: SimulationOptions) -> str:
        recipe = Recipe(setting="pretrain_finetune") if changed.zero_shot else plain.recipe
        return replace(plain, options=changed, recipe=recipe).key("data", "encoder", "names")

    return {
        "keys": {what: one.key("data", "encoder", "names") for what, one in named.items()},
        "options": _by_field(options, lambda one: [key(one)]),
        "annotator": _by_field(annotator, lambda one: [replace(plain, annotator=one).key("data", "encoder")]),
        "stored": plain.to_dict(),
    }


def _cells(folder: Path) -> dict[str, Any]:
    data, found = data_folder(folder / "data"), {}
    for setting in setting_ids():
        for size, order in ((None, "file"), (8, "random")):
            cell = Cell("music", Recipe(setting=setting, seed=666), size, order)
            bound = replace(cell, data_hash=training_data(cell, data).fingerprint, encoder_hash=ENCODER.fingerprint)
            found[bound.in_full] = {"data": bound.data_hash, "key": bound.key}
    return found


def _study(id: str) -> dict[str, Any]:
    """Return a study's default options, and how many cells it has over two corpora with a hash of their keys."""
    chosen = study(id)
    encoders = ("0=minilm", "span-25=/encoders/a", "span-100=/encoders/b") if id == "corpus_size" else ()
    config = chosen.config(corpora=("music", "politics"), encoders=encoders)
    cells = chosen.cells(config)
    keys = [replace(cell, data_hash="data", encoder_hash="encoder").key for cell in cells]
    found: dict[str, Any] = {"cells": len(keys), "keys": _joined(keys), "names": _joined(map(str, cells))}
    if "dapt_corpus" in chosen.config.__dataclass_fields__:
        whole = chosen.config(corpora=("music",), dapt_corpus="/corpora/{corpus}")
        found["encoders"] = {label: whole.folder_name(label) for label in whole.own_labels}
    return found | {"options": chosen.config().to_dict()}


def _kept_cells() -> dict[str, Any]:
    keys = {name: sorted(CellStore(folder).known) for name, folder in (("", KEPT_CELLS), ("anew", KEPT_CELLS / "anew"))}
    return {name: {"count": len(found), "keys": _joined(found)} for name, found in keys.items()}


def _corpora() -> dict[str, str]:
    site = SiteInfo("velmarkwiki", "by hand", namespaces={"Category": 14})
    settings = {
        "plain": ShardSettings(BuildConfig(), site),
        "rules": ShardSettings(BuildConfig(SentenceRules(4, 50), shard_mb=8), site),
        "annotated": ShardSettings(BuildConfig(), site, AnnotatorSpec("/names", "0" * 64, domain_name="music")),
    }
    counts = Counts(pages=3, kept=2, redirects=1, sentences=5, dropped={"too short": 1})
    source, shard = Source("velmark.xml", 10, "velmarkwiki", "by hand"), Shard(0, 5, 3, "1" * 64, "2" * 64)
    manifest = Manifest(source, {"rules": {"min_tokens": 3}}, counts, (shard,), Gazetteer("names", "0" * 64), "music")
    return {what: one.hash for what, one in settings.items()} | {"manifest": manifest.hash}


def _gazetteer(folder: Path) -> dict[str, Any]:
    pages = {"Mara Vell": ("Singer", "Person"), "The Tin Gulls": ("Band",), "Oslo": ("City", "Place")}
    manifest = compiled(folder, pages, redirects={"Tin Gulls": "The Tin Gulls"}, counts={"Oslo": 7}).manifest
    return {"hash": manifest.hash, "files": {one.name: one.sha256 for one in manifest.files}}


def _sentences() -> dict[str, str]:
    linked = sentence_from_words(
        ["Ада", "sang", "in", "Zürich", "👩‍🚀"], id="x", links=[Link(0, 1, "Ada")], meta={"n": 1}
    )
    data = tiny_data(source=True)
    more = replace(data, parents={"band": "group"}, unlabelled=(linked,))
    return {
        "words": own_sentences(1)[0].sentence.content_hash,
        "characters": linked.content_hash,
        "data": data.fingerprint,
        "data with bare text": more.fingerprint,
    }


def _snapshot(path: Path) -> dict[str, str]:
    """Return the content address of a small campaign's gold, and a hash of what is kept of it."""
    store = Store(f"sqlite:///{path}")
    migrate(store)
    people = builders.make_people(store)
    campaign_id = builders.make_campaign(store, people)
    builders.make_gold(store, people, campaign_id)
    found = snapshots.freeze(store, people["res"], campaign_id)
    with store.engine.connect() as connection:
        content = connection.exec_driver_sql("SELECT content FROM snapshot").scalar_one()
    store.close()
    return {"hash": found.hash, "content": hashlib.sha256(content.encode()).hexdigest()}


def _joined(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
