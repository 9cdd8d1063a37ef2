"""Gold → snapshot → runs → curve, comparison, confusion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, InvalidConfig, NotAllowed, NotFound
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.self_training.plan import with_students
from db import layer_rows, run_rows, snapshot_rows, suggestion_rows
from db.engine import Store
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench.campaigns import campaigns, sentences
from workbench.data import frozen, snapshots
from workbench.reports import curves
from workbench.runs import adaptation, training_data


def test_adaptation_same_gold_gives_the_same_snapshot(store: Store) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    first = snapshots.freeze(store, admin, campaign_id)
    again = snapshots.freeze(store, admin, campaign_id)
    assert first.is_new and not again.is_new and first.hash == again.hash and first.id == again.id
    assert dict(first.counts) | {"entities": 0} == {"pool": 20, "dev": 8, "test": 8, "entities": 0}
    more = in_music(own_sentences(3, offset=36))
    sentences.add_sentences(store, admin, campaign_id, more)
    newer = snapshots.freeze(store, admin, campaign_id)
    assert newer.hash != first.hash and newer.counts["pool"] == 23
    assert [view.hash for view in snapshots.list_snapshots(store, admin, campaign_id)] == [newer.hash, first.hash]
    assert snapshots.find_snapshot(store, admin, campaign_id, first.hash[:8]).id == first.id
    with pytest.raises(NotFound, match=newer.name):
        snapshots.find_snapshot(store, admin, campaign_id, "zzz")


def test_adaptation_snapshot_holds_what_was_gold(store: Store) -> None:
    admin = person(store, "admin")
    view = snapshots.freeze(store, admin, campaign_with_gold(store, admin))
    with store.read() as session:
        row = snapshot_rows.get(session, view.id, content=True)
        assert row is not None
        lines = frozen.read_lines(row.content)
    assert len(lines) == 36
    pool = [(item.sentence.text, item.spans) for item, values in lines if values["split"] == "pool"]
    assert sorted(pool) == sorted((item.sentence.text, item.spans) for item in in_music(own_sentences(20)))
    assert frozen.content_hash(view.types, [(values["split"], item) for item, values in reversed(lines)]) == view.hash


def test_adaptation_no_gold_is_refused(store: Store) -> None:
    admin = person(store, "admin")
    campaign_id = campaigns.create_campaign(store, admin, name="Empty", domain=load_domain("music"))
    with pytest.raises(BadInput, match="no gold yet"):
        snapshots.freeze(store, admin, campaign_id)
    sentences.add_sentences(store, admin, campaign_id, in_music(own_sentences(2)), split="test")
    with pytest.raises(BadInput, match="not trained on"):
        snapshots.freeze(store, admin, campaign_id)


def test_adaptation_without_dev_and_test_says_so(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin, dev=False, test=False)
    view = snapshots.freeze(store, admin, campaign_id)
    assert len(view.notes) == 2
    run_id = adaptation.start_run(store, admin, snapshot_id=view.id, recipe=recipe_here(tmp_path, max_epochs=2))
    assert work(store, tmp_path / "home") == 1
    detail = adaptation.get_run(store, admin, run_id)
    assert detail.run.state == "done" and detail.run.test_f1 is None and detail.run.dev_f1 is None
    assert any("No test score" in reason for reason in detail.reasons)
    assert any("fixed" in reason for reason in detail.reasons)


def test_cell_that_hears_a_gazetteer_is_another_once_more_was_suggested(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    plain = with_students(recipe_here(tmp_path, max_epochs=1, self_training_epochs=1))
    hears = replace(plain, self_training_gazetteer=True)

    def start(recipe: Recipe) -> tuple[int, int]:
        found = adaptation.start_few_shot(store, admin, snapshot_id=snapshot.id, recipe=recipe, sizes=(10,), seeds=(1,))
        return found.started, found.reused

    assert [start(hears), start(plain), start(hears)] == [(1, 0), (1, 0), (0, 1)]  # one that waits will hear it all
    work(store, tmp_path / "home")
    assert [start(hears), start(plain)] == [(0, 1), (0, 1)]
    with store.write() as session:
        suggestion_rows.mark_preannotated(session, [row.id for row in layer_rows.sentences(session, campaign_id)])
    assert [start(plain), start(hears), start(hears)] == [(0, 1), (1, 0), (0, 1)]
    work(store, tmp_path / "home")
    (series,) = [one for one in curves.curve(store, admin, campaign_id) if one.recipe["self_training_gazetteer"]]
    assert [(point.size, point.n) for point in series.points] == [(10, 1)]  # the newest counts


def test_cell_that_reads_guidelines_is_trained_again_unless_it_waits(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    snapshot = snapshots.freeze(store, admin, campaign_with_gold(store, admin))
    recipe = recipe_here(tmp_path, max_epochs=1, architecture="type_aware")

    def start() -> int:
        return adaptation.start_few_shot(
            store, admin, snapshot_id=snapshot.id, recipe=recipe, sizes=(10,), seeds=(1,)
        ).started

    assert [start(), start()] == [1, 0]
    work(store, tmp_path / "home")
    assert [start(), start()] == [1, 0]


def test_adaptation_few_shot_reuses_cells_and_draws_a_curve(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    view = snapshots.freeze(store, admin, campaign_id)
    recipe = recipe_here(tmp_path, max_epochs=6)
    started = adaptation.start_few_shot(
        store, admin, snapshot_id=view.id, recipe=recipe, sizes=(5, 10, 85, 100), seeds=(1, 2)
    )
    assert sorted(started.runs) == [(5, 1), (5, 2), (10, 1), (10, 2), (20, 1), (20, 2)]
    assert (started.started, started.reused, started.note) == (6, 0, "85, 100 became 20, all there is.")
    assert work(store, tmp_path / "home") == 6
    again = adaptation.start_few_shot(store, admin, snapshot_id=view.id, recipe=recipe, sizes=(5, 10, 15), seeds=(1, 2))
    assert (again.started, again.reused, again.note) == (2, 4, "")
    assert {key: again.runs[key] for key in [(5, 1), (10, 2)]} == {key: started.runs[key] for key in [(5, 1), (10, 2)]}

    (series,) = curves.curve(store, admin, campaign_id)
    assert [(point.size, point.n) for point in series.points] == [(5, 2), (10, 2), (20, 2)]
    assert series.pending == 2
    for point in series.points:
        assert point.mean == pytest.approx(sum(point.values) / 2) and point.sd is not None
    whole = [run for run in adaptation.list_runs(store, admin, campaign_id) if run.is_whole and run.state == "done"]
    parts = [run for run in adaptation.list_runs(store, admin, campaign_id) if not run.is_whole]
    assert all(run.has_checkpoint for run in whole) and not any(run.has_checkpoint for run in parts)
    assert adaptation.cancel(store, admin, again.runs[15, 1]) == "cancelled"
    assert adaptation.get_run(store, admin, again.runs[15, 1]).run.state == "cancelled"


def test_adaptation_subsets_are_nested(store: Store) -> None:
    from workbench.runs.training_data import subset

    items = own_sentences(30)
    sets = [{item.sentence.id for item in subset(items, size, 7)} for size in (5, 10, 25)]
    assert sets[0] < sets[1] < sets[2]
    assert sets[1] != {item.sentence.id for item in subset(items, 10, 8)}


def test_adaptation_scores_and_confusion(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    one = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, seed=1))
    work(store, tmp_path / "home")
    rows = curves.per_type(store, actor, one)
    assert [row.type for row in rows] == ["band", "location", "person"] and all(row.support for row in rows)
    found = curves.confusion_of(store, actor, one)
    assert found is not None and set(found.types) == {"band", "location", "person"}
    queued = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, seed=2))
    with pytest.raises(BadInput, match="queued"):
        curves.per_type(store, actor, queued)


def test_adaptation_requests_out_of_range_are_refused(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    recipe = recipe_here(tmp_path)
    start = adaptation.start_run
    with pytest.raises(InvalidConfig, match="batch_size"):
        start(store, actor, dataset_id=data.id, recipe={"batchsize": 3})
    with pytest.raises(InvalidConfig, match="choose 1 to 24, the number"):
        start(store, actor, dataset_id=data.id, recipe=recipe, size=25)
    with pytest.raises(InvalidConfig, match="either a snapshot or a data set"):
        start(store, actor, recipe=recipe)
    with pytest.raises(NotFound, match="data set 99"):
        start(store, actor, dataset_id=99, recipe=recipe)
    with pytest.raises(NotFound, match=r"conll2003.*own"):
        start(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, setting="joint"))
    itself = recipe_here(tmp_path, setting="joint", source="own")
    with pytest.raises(InvalidConfig, match="source is 'own', the same data as is to be trained on"):
        start(store, actor, dataset_id=data.id, recipe=itself)
    with pytest.raises(InvalidConfig, match="'la_dtl' cannot train; choose crf or bilstm_crf"):
        start(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, setting="la_dtl"))
    with pytest.raises(InvalidConfig, match=r"lstm_layers is 2.* Set it to 1"):
        two = recipe_here(tmp_path, setting="cross_domain_lm", architecture="bilstm_crf", lstm_layers=2)
        start(store, actor, dataset_id=data.id, recipe=two)
    with pytest.raises(InvalidConfig, match=r"'words', which reads no subwords, .* 'pdaln' needs them"):
        start(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, setting="pdaln", encoder="words"))
    for unreadable in ("~nobody-of-this-name/encoder", "x" * 300):  # the worker tells
        assert adaptation.trainable(recipe_here(tmp_path, setting="pdaln", encoder=unreadable)).encoder == unreadable
    with pytest.raises(InvalidConfig, match="recompute is on, but encoder 'words:chars=cnn' cannot do it"):
        words = recipe_here(tmp_path, encoder="words:chars=cnn", recompute=True)
        start(store, actor, dataset_id=data.id, recipe=words)
    with pytest.raises(InvalidConfig, match="the setting 'joint' needs other data"):
        adaptation.start_few_shot(store, actor, dataset_id=data.id, recipe=itself)
    with pytest.raises(InvalidConfig, match="sizes"):
        adaptation.start_few_shot(store, actor, dataset_id=data.id, recipe=recipe, sizes=(0,))
    with pytest.raises(InvalidConfig, match="seeds"):
        adaptation.start_few_shot(store, actor, dataset_id=data.id, recipe=recipe, seeds=range(101))
    with store.read() as session:
        assert run_rows.listed(session) == []


def test_adaptation_roles(store: Store, tmp_path: Path) -> None:
    admin, expert, annotator = (person(store, role) for role in ("admin", "expert", "annotator"))
    campaign_id = campaign_with_gold(store, admin)
    campaigns.set_members(store, admin, campaign_id, [expert.id, annotator.id])
    snapshot = snapshots.freeze(store, admin, campaign_id)
    for actor in (expert, annotator):
        with pytest.raises(NotAllowed):
            snapshots.freeze(store, actor, campaign_id)
        with pytest.raises(NotAllowed):
            adaptation.start_run(store, actor, snapshot_id=snapshot.id, recipe=recipe_here(tmp_path))
    assert snapshots.list_snapshots(store, expert, campaign_id)
    assert adaptation.list_runs(store, expert, campaign_id) == ()
    with pytest.raises(NotAllowed):
        adaptation.list_runs(store, annotator, campaign_id)
    with pytest.raises(NotAllowed):
        curves.curve(store, annotator, campaign_id)


def test_adaptation_tells_a_transfer_run_which_type_is_a_kind_of_which(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    own_dataset(store, admin, name="news")
    snapshot = snapshots.freeze(store, admin, campaign_id)
    found = {}
    for setting in ("direct", "pretrain_finetune"):
        recipe = recipe_here(tmp_path, setting=setting, source="news")
        run_id = adaptation.start_run(store, admin, campaign_id=campaign_id, snapshot_id=snapshot.id, recipe=recipe)
        with store.read() as session:
            found[setting] = training_data.for_run(session, run_id)[1].parents
    assert found["direct"] == {}
    assert found["pretrain_finetune"]["musicalartist"] == "person"
