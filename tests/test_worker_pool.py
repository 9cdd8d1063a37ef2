"""What the worker does for a campaign: pre-annotate, and score the pool with a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

from crossner_core.domains import load_domain
from crossner_core.schema import LabelledSentence, sentence_from_words
from db.engine import Store
from tests.test_adaptation import campaign_with_gold, in_music
from tests.training_builders import own_sentences
from tests.training_store import person, recipe_here, work
from workbench import adaptation, campaigns, jobs, layers
from workbench.actors import Actor


def pool(count: int) -> list[LabelledSentence]:
    return in_music(own_sentences(count, offset=60))


def trained(store: Store, admin: Actor, home: Path, folder: Path) -> tuple[int, int]:
    """Return a campaign with gold and an unlabelled pool, and a finished run on that gold."""
    campaign_id = campaign_with_gold(store, admin)
    campaigns.add_sentences(store, admin, campaign_id, [item.sentence for item in pool(6)])
    snapshot = adaptation.freeze(store, admin, campaign_id)
    recipe = recipe_here(folder, max_epochs=15, patience=15)
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe)
    assert work(store, home) == 1
    return campaign_id, run_id


def test_worker_pool_is_scored_by_the_best_checkpoint(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, run_id = trained(store, admin, tmp_path / "home", tmp_path)
    job_id = jobs.queue_pool_scoring(store, admin, campaign_id)
    assert jobs.queue_pool_scoring(store, admin, campaign_id) == job_id
    gold = layers.layer(store, admin, campaign_id, "gold")
    assert work(store, tmp_path / "home") == 1
    done = jobs.list_jobs(store, admin, campaign_id)[0]
    assert done.state == "done" and f"Run {run_id}" in done.message and "6 sentences" in done.message
    found = layers.layer(store, admin, campaign_id, "suggestions")
    assert any(item.spans for item, _ in found)
    assert {item.sentence.text for item, _ in found} <= {item.sentence.text for item in pool(6)}
    assert layers.layer(store, admin, campaign_id, "gold") == gold


def test_worker_pool_without_its_checkpoint_says_so(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, run_id = trained(store, admin, tmp_path / "home", tmp_path)
    gold = layers.layer(store, admin, campaign_id, "gold")
    shutil.rmtree(tmp_path / "home" / "checkpoints" / f"run-{run_id}")
    jobs.queue_pool_scoring(store, admin, campaign_id, run_id=run_id)
    assert work(store, tmp_path / "home") == 1
    done = jobs.list_jobs(store, admin, campaign_id)[0]
    assert done.state == "failed" and "is gone" in (done.error or "")
    assert layers.layer(store, admin, campaign_id, "gold") == gold


def test_worker_pool_without_a_run_says_so(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    jobs.queue_pool_scoring(store, admin, campaign_id)
    assert work(store, tmp_path / "home") == 1
    assert "train one" in (jobs.list_jobs(store, admin, campaign_id)[0].error or "")


def test_worker_preannotates_new_sentences(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaigns.create_campaign(store, admin, name="New", domain=load_domain("music"), control_share=0.0)
    sentence = sentence_from_words(["Nobody", "knows", "these", "words"], id="n")
    campaigns.add_sentences(store, admin, campaign_id, [sentence])
    jobs.queue_preannotation(store, admin, campaign_id)
    assert work(store, tmp_path / "home") == 1
    done = jobs.list_jobs(store, admin, campaign_id)[0]
    assert (done.state, done.error) == ("done", None) and done.message
    assert len(layers.layer(store, admin, campaign_id, "suggestions")) == 1
