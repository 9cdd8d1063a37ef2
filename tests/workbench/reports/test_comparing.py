"""Two runs against each other on the sentences both answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossner_core.errors import BadInput, NotAllowed, NotFound
from db import run_rows
from db.engine import Store
from db.training_tables import Run
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench import cli
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.data import snapshots
from workbench.reports import comparing
from workbench.runs import adaptation

Pair = tuple[Actor, int, int]


@pytest.fixture
def pair(store: Store, tmp_path: Path) -> Pair:
    """A weak and a better run on the same data set."""
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    recipes = (recipe_here(tmp_path, max_epochs=1), recipe_here(tmp_path, max_epochs=8))
    runs = [adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe) for recipe in recipes]
    work(store, tmp_path / "home")
    return actor, runs[0], runs[1]


def change_result(store: Store, run_id: int, **values: Any) -> None:
    with store.write() as session:
        run = session.get(Run, run_id)
        assert run is not None and run.result is not None
        run_rows.update(session, run_id, result={**run.result, **values})


def result_of(store: Store, run_id: int) -> Mapping[str, Any]:
    with store.read() as session:
        run = session.get(Run, run_id)
        assert run is not None and run.result is not None
        return run.result


def test_compare_tests_the_difference_of_two_runs(store: Store, pair: Pair) -> None:
    actor, weak, good = pair
    found = comparing.compare(store, actor, weak, good)
    scores = [adaptation.get_run(store, actor, run_id).run.test_f1 for run_id in (weak, good)]
    assert [found.test.first, found.test.second] == scores
    assert found.split == "test" and (found.left_out, found.regraded) == (0, 0)
    assert found.test.difference > 0 and found.test.low <= found.test.difference <= found.test.high
    assert 0 < found.test.permutation_p <= 1 and found.test.sentences == 6
    assert found.recipe_changes["max_epochs"] == (1, 8)
    assert sum(row.support for row in found.types) == sum(
        (found.outcomes.both, found.outcomes.only_first, found.outcomes.only_second, found.outcomes.neither)
    )
    assert all(row.low <= row.change <= row.high for row in found.types)
    assert found.differing == found.test.changed == len(found.disagreements)
    assert abs(found.disagreements[0].gain) >= abs(found.disagreements[-1].gain)
    assert found == comparing.compare(store, actor, weak, good)


def test_compare_turned_round_is_the_same_the_other_way(store: Store, pair: Pair) -> None:
    actor, weak, good = pair
    there, back = comparing.compare(store, actor, weak, good), comparing.compare(store, actor, good, weak)
    assert back.test.difference == -there.test.difference
    assert (back.outcomes.only_first, back.outcomes.only_second) == (
        there.outcomes.only_second,
        there.outcomes.only_first,
    )


def test_compare_on_dev_needs_answers_that_older_runs_lack(store: Store, pair: Pair) -> None:
    actor, weak, good = pair
    assert comparing.compare(store, actor, weak, good, split="dev").split == "dev"
    change_result(store, weak, dev_predictions=[])
    with pytest.raises(BadInput, match=f"Run {weak} was trained by an older version"):
        comparing.compare(store, actor, weak, good, split="dev")
    with pytest.raises(BadInput, match="'train'; choose one of test, dev"):
        comparing.compare(store, actor, weak, good, split="train")


def test_compare_refuses_answers_that_do_not_fit_their_sentences(store: Store, pair: Pair) -> None:
    actor, weak, good = pair
    change_result(store, good, predictions=list(reversed(result_of(store, good)["predictions"])))
    with pytest.raises(BadInput, match=f"stored predictions of run {good} do not fit"):
        comparing.compare(store, actor, weak, good)


def test_compare_says_why_runs_cannot_be_compared(store: Store, pair: Pair, tmp_path: Path) -> None:
    actor, weak, good = pair
    with pytest.raises(BadInput, match="with itself"):
        comparing.compare(store, actor, weak, weak)
    with pytest.raises(NotFound, match="no run 999"):
        comparing.compare(store, actor, weak, 999)
    with pytest.raises(NotAllowed):
        comparing.compare(store, person(store, "annotator"), weak, good)
    queued = adaptation.start_run(
        store, actor, dataset_id=own_dataset(store, actor, name="bare", test=False).id, recipe=recipe_here(tmp_path)
    )
    with pytest.raises(BadInput, match="is queued"):
        comparing.compare(store, actor, weak, queued)
    work(store, tmp_path / "home")
    # Without test gold only dev is left, on which both were measured.
    assert comparing.compare(store, actor, weak, queued).split == "dev"
    with pytest.raises(BadInput, match=f"Run {queued} was not measured on test"):
        comparing.compare(store, actor, weak, queued, split="test")


def test_compare_takes_what_two_snapshots_have_in_common_and_the_newer_gold(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    runs = []
    for round_number in range(2):
        if round_number:
            more = in_music(own_sentences(4, offset=60))
            sentences.add_sentences(store, admin, campaign_id, more, split="test")
        snapshot = snapshots.freeze(store, admin, campaign_id)
        recipe = recipe_here(tmp_path, max_epochs=2 + round_number)
        runs.append(adaptation.start_run(store, admin, campaign_id=campaign_id, snapshot_id=snapshot.id, recipe=recipe))
    other = own_dataset(store, admin, name="elsewhere")
    foreign = adaptation.start_run(store, admin, dataset_id=other.id, recipe=recipe_here(tmp_path, max_epochs=1))
    work(store, tmp_path / "home")
    found = comparing.compare(store, admin, runs[1], runs[0])
    assert (found.test.sentences, found.regraded) == (8, 0) and found.left_out >= 1
    sizes = [result_of(store, run_id)["test"]["sentences"] for run_id in runs]
    assert sum(sizes) - 2 * found.test.sentences == found.left_out
    with pytest.raises(BadInput, match="are the same; compare runs on the same campaign"):
        comparing.compare(store, admin, runs[0], foreign)


def test_compare_of_a_cell_whose_weights_were_not_kept(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    curve = adaptation.start_few_shot(
        store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, max_epochs=3), sizes=(4, 20), seeds=(1,)
    )
    work(store, tmp_path / "home")
    small, large = curve.runs[4, 1], curve.runs[20, 1]
    assert not adaptation.get_run(store, actor, small).run.has_checkpoint
    for split in ("test", "dev"):
        assert comparing.compare(store, actor, small, large, split=split).test.sentences == 6


def test_command_compares_two_runs(
    store: Store,
    pair: Pair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    actor, weak, good = pair
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CROSSNER_DATABASE_URL", str(store.url))
    person(store, "admin")
    monkeypatch.setenv("CROSSNER_AS", actor.name)
    assert cli.main(["compare", str(weak), str(good)]) == 0
    out, _ = capfd.readouterr()
    found = comparing.compare(store, actor, weak, good)
    assert f"F1 on 6 test sentences: {100 * found.test.first:.2f} -> {100 * found.test.second:.2f}" in out
    assert f"p = {found.test.permutation_p:.4f} by permutation" in out and "band" in out
    assert cli.main(["compare", str(weak), "999"]) != 0
    assert "There is no run 999" in capfd.readouterr().err


def test_regraded_sentences_are_counted_and_scored_with_the_newer_gold() -> None:
    from workbench.runs.kept_predictions import Answers

    items = own_sentences(4)
    older = Answers(1, "test", ("band",), items, tuple(item.spans for item in items))
    changed = replace(items[0], spans=items[0].spans[1:])
    newer = replace(older, run_id=2, items=(changed, *items[1:]))
    for first, second in ((older, newer), (newer, older)):
        common = comparing._Common(first, second)
        assert (common.regraded, common.left_out) == (1, 0) and common.items[0] == changed
