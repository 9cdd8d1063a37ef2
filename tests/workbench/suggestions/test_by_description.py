"""A campaign without gold gets suggestions from a type-aware run of elsewhere, by its own guidelines."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, CheckpointError, NotAllowed, NotFound, UnknownType
from db.engine import Store
from db.tables import SuggestionRow
from tests.support.builders import make_campaign, make_people
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, recipe_here, work
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.jobs import queue
from workbench.runs import adaptation
from workbench.suggestions import previewing

TYPES = load_domain("music").type_names


@pytest.fixture
def people(store: Store) -> dict[str, Actor]:
    return make_people(store)


@pytest.fixture
def campaign(store: Store, people: dict[str, Actor]) -> int:
    """A campaign without a label."""
    made = make_campaign(store, people)
    sentences.add_sentences(store, people["adm"], made, [item.sentence for item in own_sentences(8, offset=30)])
    return made


def trained(store: Store, actor: Actor, folder: Path, **changes: object) -> int:
    """Train a run on a data set, and return its number."""
    data = own_dataset(store, actor, test=False)
    recipe = recipe_here(folder, **changes)
    run_id = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe)
    assert work(store, folder / "home") == 1
    return run_id


def suggested(store: Store) -> set[str]:
    with store.read() as session:
        return set(session.scalars(sa.select(SuggestionRow.source)))


@pytest.mark.slow
def test_a_run_of_a_data_set_suggests_in_a_campaign_without_gold(
    store: Store, people: dict[str, Actor], campaign: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    admin = people["adm"]
    run_id = trained(store, admin, tmp_path, architecture="type_aware", max_epochs=12)
    shown = previewing.preview(store, admin, run_id, campaign)
    assert shown.sentences and not shown.lacks and not shown.waits
    other = previewing.preview(store, admin, run_id, campaign, dict.fromkeys(TYPES, "oslo " * 50))
    scores = [[made.score for made in each.suggestions] for each in shown.sentences]
    assert any(scores)
    assert scores != [[made.score for made in each.suggestions] for each in other.sentences]
    with pytest.raises(UnknownType, match="no entity type 'dragon'"):
        previewing.preview(store, admin, run_id, campaign, {"dragon": "Mark dragons."})
    queue.start_job(store, admin, "score_pool", campaign, run_id=run_id)
    assert work(store, tmp_path / "home") == 1
    (job,) = [job for job in queue.list_jobs(store, admin, campaign) if job.kind == "score_pool"]
    assert job.state == "done" and f"Run {run_id} found" in (job.message or "")
    assert suggested(store) == {f"model:run {run_id}"}


@pytest.mark.slow
def test_a_run_that_reads_no_texts_stays_where_it_is(
    store: Store, people: dict[str, Actor], campaign: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    run_id = trained(store, people["adm"], tmp_path)
    with pytest.raises(CheckpointError, match="its architecture knows its own types alone"):
        previewing.preview(store, people["adm"], run_id, campaign)
    queue.start_job(store, people["adm"], "score_pool", campaign, run_id=run_id)
    work(store, tmp_path / "home")
    (job,) = [job for job in queue.list_jobs(store, people["adm"], campaign) if job.kind == "score_pool"]
    assert job.state == "failed" and "not of this campaign" in (job.error or "") and not suggested(store)


def test_nobody_uses_a_run_that_they_may_not_see(store: Store, people: dict[str, Actor], campaign: int) -> None:
    with pytest.raises(NotFound, match="no run 99"):
        queue.start_job(store, people["adm"], "score_pool", campaign, run_id=99)
    with pytest.raises(NotAllowed):
        previewing.preview(store, people["ann1"], 99, campaign)


def test_guidelines_are_changed_by_keepers_alone(store: Store, people: dict[str, Actor], campaign: int) -> None:
    before = campaigns.get_domain(store, people["adm"], campaign)
    kind = before.types[0].name
    view = campaigns.set_guidelines(store, people["adm"], campaign, {kind: "Mark <b>it</b>."})
    assert view.domain.type(kind).guideline == "Mark <b>it</b>." and view.domain.type_names == before.type_names
    assert load_domain("music").type(kind).guideline != "Mark <b>it</b>."
    with pytest.raises(NotAllowed):
        campaigns.set_guidelines(store, people["ann1"], campaign, {kind: "Mark all."})
    for text, why in (("a\0b", "cannot be stored"), ("\ud800", "cannot be stored"), ("x" * 20_001, "20,001 char")):
        with pytest.raises(BadInput, match=why):
            campaigns.set_guidelines(store, people["adm"], campaign, {kind: text})
    with pytest.raises(UnknownType):
        campaigns.set_guidelines(store, people["adm"], campaign, {"dragon": "Mark dragons."})
    assert campaigns.get_domain(store, people["adm"], campaign).type(kind).guideline == "Mark <b>it</b>."
