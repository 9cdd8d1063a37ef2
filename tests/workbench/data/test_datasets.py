"""Data sets beside campaigns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotAllowed, NotFound
from db.engine import Store
from tests.support.training_store import own_dataset, person, recipe_here
from workbench.campaigns import campaigns
from workbench.data import datasets
from workbench.runs import rounds, training_data
from workbench.runs.adaptation import start_run

TRAIN = b"Oslo\tB-location\n\nMilo\tB-person\nFenn\tI-person\n\n"


def test_datasets_import_reads_all_splits(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    path = tmp_path / "train.conll"
    path.write_bytes(TRAIN)
    made = datasets.import_dataset(
        store, actor, name="small", splits={"train": path, "test": ("t.conll", b"Porto\tB-location\n")}
    )
    assert made.types == ("location", "person") and made.count("train") == 2 and made.count("dev") == 0
    assert [part.entities for part in made.splits] == [2, 1]
    assert datasets.get_dataset(store, actor, "small") == made
    assert datasets.export_dataset(store, actor, "small", "train", format="conll").strip() == TRAIN.strip()
    with pytest.raises(NotFound, match=r"it has (train, test|test, train)"):
        datasets.export_dataset(store, actor, "small", "dev")


def test_datasets_import_is_all_or_nothing(store: Store) -> None:
    actor = person(store, "researcher")
    bad = {"train": ("a.conll", TRAIN), "dev": ("b.conll", b"Oslo\tB-location\nx\tB-\n")}
    with pytest.raises(BadInput, match=r"b\.conll:2"):
        datasets.import_dataset(store, actor, name="small", splits=bad)
    assert datasets.list_datasets(store, actor) == ()
    two = {"train": ("a.conll", b"x\tB-\n\n" + TRAIN), "dev": ("b.conll", b"\xff\tO\n\n" + TRAIN)}
    with pytest.raises(BadInput) as caught:
        datasets.import_dataset(store, actor, name="small", splits=two)
    assert "a.conll:1" in str(caught.value) and "b.conll:1" in str(caught.value)
    made = datasets.import_dataset(store, actor, name="small", splits=two, skip_bad=True)
    assert made.count("train") == 2 and len(made.problems) == 2


def test_datasets_with_a_domain_allow_only_its_types(store: Store) -> None:
    actor = person(store, "researcher")
    with pytest.raises(BadInput, match=r"a\.conll:1.*gang.*musicalartist"):
        splits = {"train": ("a.conll", b"Foxes\tB-gang\n")}
        datasets.import_dataset(store, actor, name="m", splits=splits, domain="music")
    splits = {"train": ("a.conll", b"Foxes\tB-band\n")}
    made = datasets.import_dataset(store, actor, name="m", splits=splits, domain="music")
    assert "musicalartist" in made.types


def test_datasets_without_annotation_are_refused(store: Store) -> None:
    actor = person(store, "researcher")
    with pytest.raises(BadInput, match="no annotation"):
        datasets.import_dataset(store, actor, name="m", splits={"train": ("a.txt", b"Just a sentence.\n")})
    with pytest.raises(BadInput, match="no entity"):
        datasets.import_dataset(store, actor, name="m", splits={"train": ("a.conll", b"Just\tO\n")})


def test_datasets_names_and_splits_are_checked(store: Store) -> None:
    actor = person(store, "researcher")
    with pytest.raises(InvalidConfig, match="name"):
        datasets.import_dataset(store, actor, name="../x", splits={"train": ("a.conll", TRAIN)})
    with pytest.raises(InvalidConfig, match="train, dev, test"):
        datasets.import_dataset(store, actor, name="x", splits={"pool": ("a.conll", TRAIN)})
    datasets.import_dataset(store, actor, name="x", splits={"train": ("a.conll", TRAIN)})
    with pytest.raises(Conflict, match="already"):
        datasets.import_dataset(store, actor, name="x", splits={"train": ("a.conll", TRAIN)})
    with pytest.raises(NotAllowed):
        datasets.import_dataset(store, person(store, "expert"), name="y", splits={"train": ("a.conll", TRAIN)})


def test_datasets_that_runs_were_trained_on_stay(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    own_dataset(store, actor, name="unused")
    start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    with pytest.raises(Conflict, match="1 run used it"):
        datasets.delete_dataset(store, actor, "own")
    datasets.delete_dataset(store, actor, "unused")
    assert [one.name for one in datasets.list_datasets(store, actor)] == ["own"]


def test_datasets_that_are_a_source_of_runs_or_rules_stay(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    target = own_dataset(store, admin)
    for name in ("source", "rules", "unread"):
        own_dataset(store, admin, name=name)
    start_run(store, admin, dataset_id=target.id, recipe=recipe_here(tmp_path, setting="joint", source="source"))
    start_run(store, admin, dataset_id=target.id, recipe=recipe_here(tmp_path, source="unread"))  # direct: reads none
    campaign_id = campaigns.create_campaign(store, admin, name="c", domain=load_domain("music"))
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="longest", retrain_every=10,
        recipe={"setting": "pretrain_finetune", "source": "rules"},
    )  # fmt: skip
    for name in ("source", "rules"):
        with pytest.raises(Conflict, match=f"'{name}' cannot be deleted: it is the source .*1 in all"):
            datasets.delete_dataset(store, admin, name)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    for name in ("rules", "unread"):
        datasets.delete_dataset(store, admin, name)
    assert [one.name for one in datasets.list_datasets(store, admin)] == ["own", "source"]


def test_datasets_that_are_one_of_several_sources_are_read_and_stay(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    target = own_dataset(store, admin)
    for name, count in (("news", 5), ("press", 7)):
        own_dataset(store, admin, name=name, train=count)
    recipe = recipe_here(tmp_path, setting="joint", source="news, press")
    run_id = start_run(store, admin, dataset_id=target.id, recipe=recipe)
    with store.read() as session:
        sources = training_data.for_run(session, run_id)[1].sources
    assert [len(source.train) for source in sources] == [5, 7]
    with pytest.raises(Conflict, match=r"'press' cannot be deleted: it is the source .*1 in all"):
        datasets.delete_dataset(store, admin, "press")
    with pytest.raises(NotFound, match="needs a data set 'radio' with a train split"):
        start_run(store, admin, dataset_id=target.id, recipe=replace(recipe, source="news, radio"))


def test_datasets_of_the_release_are_read(store: Store, shared: Path) -> None:
    actor = person(store, "researcher")
    folder = shared / "data" / "ner" / "music"
    splits: dict[str, Path | tuple[str, bytes]] = {split: folder / f"{split}.txt" for split in datasets.SPLITS}
    made = datasets.import_dataset(store, actor, name="music", splits=splits, domain="music")
    assert [(part.sentences, part.entities) for part in made.splits] == [(100, 648), (380, 2679), (465, 3336)]
    original = (folder / "test.txt").read_text().strip()
    assert datasets.export_dataset(store, actor, "music", "test", format="conll").decode().strip() == original
