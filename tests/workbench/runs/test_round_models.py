"""Turns whose model cannot be used: of other types, or deleted meanwhile; the queue goes on and the notes say why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crossner_core.folders import write_json
from crossner_core.training.checkpoint import read_json
from db.engine import Store
from tests.support.rounds import bare, campaign, newest, places
from tests.support.training_store import beat, person, recipe_here, when_asked, work
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.jobs.context import JobContext
from workbench.labelling import handout
from workbench.runs import adaptation, rounds
from workbench.runs.rounds import RoundView


def with_model(store: Store, admin: Actor, folder: Path) -> tuple[int, int, Path]:
    """Return a campaign with a pool of 12 and a finished run of its own, and the folder of its checkpoint."""
    campaign_id = campaign(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe_here(folder, max_epochs=2))
    work(store, folder / "home")
    rounds.change_round_settings(store, admin, campaign_id, strategy="token_entropy", random_share=0.0)
    return campaign_id, run_id, folder / "home" / "checkpoints" / f"run-{run_id}" / "tagger"


def after_its_turn(store: Store, admin: Actor, campaign_id: int, home: Path) -> tuple[RoundView, list[str]]:
    """Return a turn that somebody asked for, and the kinds of the jobs that were done in it, the last first.

    Whatever was wrong, the queue is as long as before, the next sentence is handed out and another turn can begin.
    """
    before = {job.id for job in queue.list_jobs(store, admin, campaign_id)}
    round_id = rounds.order_now(store, admin, campaign_id)
    work(store, home)
    found = [job for job in queue.list_jobs(store, admin, campaign_id) if job.id not in before]
    assert [job.error for job in found] == [None] * len(found)
    round_ = newest(store, admin, campaign_id)
    assert (round_.id, round_.state, round_.ordered) == (round_id, "done", 12) and len(places(store, campaign_id)) == 12
    assert rounds.order_now(store, admin, campaign_id) > round_id
    assert rounds.cancel_round(store, admin, campaign_id) == "cancelled"
    annotator = person(store, "annotator")
    campaigns.add_members(store, admin, campaign_id, [annotator.id])
    (item,) = handout.items(store, annotator, campaign_id, "annotate", count=1)
    assert item["sentence"]
    return round_, [job.kind for job in found]


@pytest.mark.parametrize("foreign", [1, 17], ids=["one", "all"])
def test_turn_with_a_model_of_other_types_orders_and_suggests_without_it(
    store: Store, tmp_path: Path, foreign: int
) -> None:
    admin = person(store, "admin")
    campaign_id, run_id, folder = with_model(store, admin, tmp_path)
    values = read_json(folder / "meta.json")
    count = min(foreign, len(values["types"]))
    values["types"] = [*(f"starship{at}" for at in range(count)), *values["types"][count:]]
    write_json(folder / "meta.json", values)
    round_, kinds = after_its_turn(store, admin, campaign_id, tmp_path / "home")
    assert kinds == ["turn"] and round_.scored == 0
    (said,) = [note for note in round_.notes if "starship0" in note]
    assert (
        said.startswith(f"Run {run_id} predicts the entity types starship0") and "the campaign's domain lacks" in said
    )
    assert "train a run on the domain as it is now. The queue was ordered without a model; suggestions stay" in said
    assert "Until there is a model: bert_km." in round_.notes


def test_turn_with_a_model_that_lacks_a_type_uses_it_and_says_so(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, run_id, folder = with_model(store, admin, tmp_path)
    values = read_json(folder / "meta.json")
    *values["types"], last = values["types"]
    write_json(folder / "meta.json", values)
    round_, kinds = after_its_turn(store, admin, campaign_id, tmp_path / "home")
    assert kinds == ["score_pool", "turn"] and round_.scored == 12
    assert round_.notes == (
        f"Run {run_id} cannot predict {last}: it orders and suggests without them. "
        "Train a run on the domain as it is now.",
    )


def test_turn_whose_checkpoint_is_deleted_while_it_scores_keeps_the_order_and_suggests_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id, run_id, folder = with_model(store, admin, tmp_path)
    when_asked(monkeypatch, "turn", lambda _lease: shutil.rmtree(folder.parent))
    round_, kinds = after_its_turn(store, admin, campaign_id, tmp_path / "home")
    assert not folder.exists() and kinds == ["turn"] and round_.scored == 12
    assert round_.notes == (
        f"The checkpoint of run {run_id} was deleted during the round. The queue is in its order; "
        "suggestions stay as they were. Train again, or choose another run.",
    )
    assert {why for *_, why in places(store, campaign_id)[:11]} == {"token_entropy"}


def test_turn_that_scores_one_new_sentence_speaks_of_that_one(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, _, _ = with_model(store, admin, tmp_path)
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    sentences.add_sentences(store, admin, campaign_id, [item.sentence for item in bare(1, 200)])
    round_id, said = rounds.order_now(store, admin, campaign_id), []

    def look(context: JobContext) -> None:
        beat(store, context)
        said.append(rounds.queue_state(store, admin, campaign_id).under_way)

    with pytest.MonkeyPatch.context() as patched:
        when_asked(patched, "turn", look, step=2)  # the encoder's chunk comes first
        work(store, tmp_path / "home")
    assert said == [f"Round {round_id} is being made: the model has read 0 of 1 sentences new to it."]
    assert newest(store, admin, campaign_id).scored == 1
