"""What the worker does for a campaign: pre-annotate, and score the pool with a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from crossner_core.folders import write_json
from crossner_core.schema import LabelledSentence, Sentence, Suggestion, sentence_from_words
from crossner_core.training.checkpoint import read_json
from db.engine import Store
from db.tables import SentenceRow, SuggestionRow
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.training_builders import own_sentences
from tests.support.training_store import person, recipe_here, work
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.campaigns import sentences as campaign_sentences
from workbench.data import layers, snapshots
from workbench.jobs import queue
from workbench.jobs.kinds import score_pool
from workbench.labelling import handout
from workbench.runs import adaptation
from workbench.suggestions import preannotating


def pool(count: int) -> list[LabelledSentence]:
    return in_music(own_sentences(count, offset=60))


def trained(store: Store, admin: Actor, home: Path, folder: Path) -> tuple[int, int]:
    """Return a campaign with gold and an unlabelled pool, and a finished run on that gold."""
    campaign_id = campaign_with_gold(store, admin)
    campaigns.update_settings(store, admin, campaign_id, suggestions_on=True)
    campaign_sentences.add_sentences(store, admin, campaign_id, [item.sentence for item in pool(6)])
    snapshot = snapshots.freeze(store, admin, campaign_id)
    recipe = recipe_here(folder, max_epochs=15, patience=15)
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe)
    assert work(store, home) == 2  # the training, and what the new model suggests
    return campaign_id, run_id


def test_worker_pool_is_scored_by_the_best_checkpoint(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, run_id = trained(store, admin, tmp_path / "home", tmp_path)
    job_id = queue.start_job(store, admin, "score_pool", campaign_id)
    assert queue.start_job(store, admin, "score_pool", campaign_id) == job_id
    gold = layers.layer(store, admin, campaign_id, "gold")
    assert work(store, tmp_path / "home") == 1
    done = queue.list_jobs(store, admin, campaign_id)[0]
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
    queue.start_job(store, admin, "score_pool", campaign_id, run_id=run_id)
    assert work(store, tmp_path / "home") == 1
    done = queue.list_jobs(store, admin, campaign_id)[0]
    assert done.state == "failed" and "is gone" in (done.error or "")
    assert layers.layer(store, admin, campaign_id, "gold") == gold


def test_worker_pool_without_a_run_says_so(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    queue.start_job(store, admin, "score_pool", campaign_id)
    assert work(store, tmp_path / "home") == 1
    assert "train one" in (queue.list_jobs(store, admin, campaign_id)[0].error or "")


def test_worker_preannotates_new_sentences(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaigns.create_campaign(store, admin, name="New", domain=load_domain("music"), control_share=0.0)
    sentence = sentence_from_words(["Nobody", "knows", "these", "words"], id="n")
    campaign_sentences.add_sentences(store, admin, campaign_id, [sentence])
    queue.start_job(store, admin, "preannotate", campaign_id)
    assert work(store, tmp_path / "home") == 1
    done = queue.list_jobs(store, admin, campaign_id)[0]
    assert (done.state, done.error) == ("done", None) and done.message
    assert len(layers.layer(store, admin, campaign_id, "suggestions")) == 1


def _scores_of(store: Store, campaign_id: int) -> dict[str, set[str]]:
    """Return who suggests something in each sentence of the pool, by text."""
    with store.read() as session:
        rows = session.execute(
            sa.select(SentenceRow.text, SuggestionRow.source)
            .join(SuggestionRow, SuggestionRow.sentence_id == SentenceRow.id)
            .where(SentenceRow.campaign_id == campaign_id)
        )
        found: dict[str, set[str]] = {}
        for text, source in rows:
            found.setdefault(text, set()).add(source)
        return found


def test_worker_suggests_by_itself_when_a_model_is_trained(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, run_id = trained(store, admin, tmp_path / "home", tmp_path)
    (job,) = [job for job in queue.list_jobs(store, admin, campaign_id) if job.kind == "score_pool"]
    assert job.state == "done" and f"Run {run_id} found" in job.message
    assert any(f"model:run {run_id}" in sources for sources in _scores_of(store, campaign_id).values())


def test_worker_suggests_for_the_head_of_the_queue_first(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id, run_id = trained(store, admin, tmp_path / "home", tmp_path)
    with store.write() as session:
        ids = list(session.scalars(sa.select(SentenceRow.id).where(SentenceRow.split == "pool")))
        rows = [row for row in session.scalars(sa.select(SentenceRow)) if row.id in ids[-6:]]
        for at, row in enumerate(reversed(rows)):
            row.position = -10.0 + at
        wanted = [row.id for row in reversed(rows)]
    asked: list[list[int]] = []
    write = score_pool.add_model_suggestions

    def watched(*args: object, suggestions: dict[int, object], **more: object) -> int:
        asked.append(list(suggestions))
        return write(*args, suggestions=suggestions, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(score_pool, "add_model_suggestions", watched)
    queue.start_job(store, admin, "score_pool", campaign_id, run_id=run_id)
    assert work(store, tmp_path / "home") == 1
    assert asked == [wanted[: score_pool.FIRST], wanted[score_pool.FIRST :]]


def test_worker_stops_clearly_when_the_checkpoint_goes_while_it_is_at_work(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    home = tmp_path / "home"
    campaign_id, run_id = trained(store, admin, home, tmp_path)
    with store.read() as session:
        waiting = [id_ for id_, _ in preannotating.unlabelled_pool(session, campaign_id)]
    old = {"run_id": 99, "suggestions": {id_: [Suggestion(0, 1, "misc", "model:run 99", 0.9)] for id_ in waiting}}
    preannotating.add_model_suggestions(store, admin, campaign_id, **old)
    write = score_pool.add_model_suggestions

    def then_delete(*args: object, **more: object) -> int:
        done = write(*args, **more)  # type: ignore[arg-type]
        shutil.rmtree(home / "checkpoints" / f"run-{run_id}")
        return done

    monkeypatch.setattr(score_pool, "add_model_suggestions", then_delete)
    queue.start_job(store, admin, "score_pool", campaign_id, run_id=run_id)
    assert work(store, home) == 1
    failed = queue.list_jobs(store, admin, campaign_id)[0]
    assert failed.state == "failed" and f"after {score_pool.FIRST} of 6 sentences" in (failed.error or "")
    kept = [sources for sources in _scores_of(store, campaign_id).values() if "model:run 99" in sources]
    assert len(kept) == 6 - score_pool.FIRST


def test_worker_refuses_a_model_of_other_types_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, run_id = trained(store, admin, tmp_path / "home", tmp_path)
    before = _scores_of(store, campaign_id)
    meta = tmp_path / "home" / "checkpoints" / f"run-{run_id}" / "tagger" / "meta.json"
    values = read_json(meta)
    values["types"] = ["starship", *values["types"][1:]]
    write_json(meta, values)
    queue.start_job(store, admin, "score_pool", campaign_id, run_id=run_id)
    assert work(store, tmp_path / "home") == 1
    failed = queue.list_jobs(store, admin, campaign_id)[0]
    assert failed.state == "failed" and "predicts the entity types starship" in (failed.error or "")
    assert _scores_of(store, campaign_id) == before


def test_worker_keeps_nobody_waiting_while_its_model_reads(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crossner_core.training.predictor import Predictor

    admin, annotator = person(store, "admin"), person(store, "annotator")
    campaign_id, run_id = trained(store, admin, tmp_path / "home", tmp_path)
    campaigns.add_members(store, admin, campaign_id, [annotator.id])
    handed: list[int] = []
    predict = Predictor.predict

    def and_meanwhile(self: Predictor, sentences: list[Sentence]) -> list[tuple[Suggestion, ...]]:
        handed.extend(item["sentence"] for item in handout.items(store, annotator, campaign_id, "annotate", count=1))
        return predict(self, sentences)

    monkeypatch.setattr(Predictor, "predict", and_meanwhile)
    queue.start_job(store, admin, "score_pool", campaign_id, run_id=run_id)
    assert work(store, tmp_path / "home") == 1
    done = queue.list_jobs(store, admin, campaign_id)[0]
    assert len(set(handed)) == 1 and done.state == "done"
    assert "1 that people have begun meanwhile keep theirs" in done.message
