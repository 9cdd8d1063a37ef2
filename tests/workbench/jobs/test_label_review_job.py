"""The worker's part of a second look: all checks over a campaign's gold, with a tiny encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossner_core.options.label_review import LabelReviewOptions
from db.engine import Store
from tests.support import builders
from tests.support.label_review import said
from tests.support.training_builders import save_encoder
from tests.support.training_store import work
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.jobs import queue
from workbench.labelling import label_review


def options(tmp_path: Path, **changes: object) -> LabelReviewOptions:
    place = tmp_path / "encoder"
    if not place.is_dir():
        save_encoder(place)
    return LabelReviewOptions(**{"encoder": str(place), "folds": 3, "repeats": 1, "epochs": 1, **changes})  # type: ignore[arg-type]


@pytest.fixture
def golden(store: Store, people: dict[str, Actor], campaign: int) -> int:
    builders.make_gold(store, people, campaign)
    rows = [said("Mara Vell was praised in Norway .", (0, 2, "band"), (5, 6, "country"), id="in-1")]
    sentences.add_sentences(store, people["res"], campaign, rows)
    return campaign


def test_job_fills_the_queues(store: Store, people: dict[str, Actor], golden: int, tmp_path: Path) -> None:
    label_review.look_again(store, people["eva"], golden, options(tmp_path))
    assert work(store, tmp_path) == 1
    job = queue.newest_job(store, people["eva"], "second_look", golden)
    assert job is not None and (job.state, job.progress) == ("done", 1.0), job
    open_ = {one.id: one.open for one in label_review.queues(store, people["eva"], golden)}
    assert f"Likely label errors: {open_['label_errors']}" in job.message and open_["inconsistent_surfaces"] == 2


@pytest.mark.slow
def test_job_lists_a_planted_error_with_what_models_give_both_sides(
    store: Store, people: dict[str, Actor], campaign: int, tmp_path: Path
) -> None:
    """Among two hundred sentences alike, one gives a name another type than all others."""
    rows = [
        said(f"Mara Vell sang in Oslo with {word} .", (0, 2, "band" if number == 7 else "musicalartist"), id=word)
        for number, word in enumerate(f"word{number}" for number in range(200))
    ]
    sentences.add_sentences(store, people["res"], campaign, rows)
    label_review.look_again(store, people["eva"], campaign, options(tmp_path), ["label_errors"])
    assert work(store, tmp_path) == 1
    (finding,) = label_review.findings(store, people["eva"], campaign, "label_errors")
    assert finding.sentence.text == "Mara Vell sang in Oslo with word7 ."
    assert [span.type for span in (*finding.there, *finding.proposed)] == ["band", "musicalartist"]
    assert finding.proposed_probability is not None and finding.proposed_probability >= 0.8
    assert finding.present_probability is not None and finding.present_probability <= 0.2
    job = queue.newest_job(store, people["eva"], "second_look", campaign)
    assert job is not None and job.message == "Likely label errors: 1"


def test_job_with_too_few_sentences_says_so_and_does_the_rest(
    store: Store, people: dict[str, Actor], golden: int, tmp_path: Path
) -> None:
    label_review.look_again(store, people["eva"], golden, options(tmp_path, folds=20))
    work(store, tmp_path)
    job = queue.newest_job(store, people["eva"], "second_look", golden)
    assert job is not None and job.state == "done"
    assert "7 gold sentences, fewer than the 20 folds" in job.message and "Inconsistent types: 2" in job.message


def test_job_without_its_encoder_fails_and_keeps_old_findings(
    store: Store, people: dict[str, Actor], golden: int, tmp_path: Path
) -> None:
    label_review.look_again(store, people["eva"], golden, checks=["inconsistent_surfaces"])
    work(store, tmp_path)
    label_review.look_again(
        store, people["eva"], golden, LabelReviewOptions(encoder=str(tmp_path / "gone")), ["label_errors"]
    )
    work(store, tmp_path)
    job = queue.newest_job(store, people["eva"], "second_look", golden)
    assert job is not None and job.state == "failed" and "gone" in (job.error or "")
    assert len(label_review.findings(store, people["eva"], golden, "inconsistent_surfaces")) == 2


def test_job_cancelled_before_it_began_changes_nothing(
    store: Store, people: dict[str, Actor], golden: int, tmp_path: Path
) -> None:
    job_id = label_review.look_again(store, people["eva"], golden, options(tmp_path))
    assert queue.cancel_job(store, people["adm"], job_id) == "cancelled"
    assert work(store, tmp_path) == 0
    label_review.look_again(store, people["eva"], golden, options(tmp_path))


def test_findings_put_off_come_last(store: Store, people: dict[str, Actor], golden: int, tmp_path: Path) -> None:
    label_review.look_again(store, people["eva"], golden, checks=["inconsistent_surfaces"])
    work(store, tmp_path)
    first, second = label_review.findings(store, people["eva"], golden, "inconsistent_surfaces")
    again = label_review.findings(store, people["eva"], golden, "inconsistent_surfaces", later=[first.id], limit=1)
    assert [one.id for one in again] == [second.id]
