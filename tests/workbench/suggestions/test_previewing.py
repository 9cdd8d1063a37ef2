"""What a model would suggest, on ten sentences: read by keepers, written nowhere, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.errors import CheckpointError, NotAllowed
from db.engine import Store
from db.tables import SuggestionRow
from tests.support.builders import make_sentences
from tests.support.campaigns import campaign_with_gold
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import snapshots
from workbench.runs import adaptation
from workbench.suggestions import previewing


@pytest.fixture
def admin(store: Store) -> Actor:
    return person(store, "admin", "adm")


@pytest.fixture
def run(store: Store, admin: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A finished run of a campaign that has open sentences."""
    campaign = campaign_with_gold(store, admin)
    sentences.add_sentences(store, admin, campaign, make_sentences())
    snapshot = snapshots.freeze(store, admin, campaign)
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe_here(tmp_path))
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    assert work(store, tmp_path / "home") == 1
    return run_id


def stored(store: Store) -> int:
    with store.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(SuggestionRow)) or 0


@pytest.mark.slow
def test_preview_shows_what_would_be_suggested_and_writes_nothing(
    store: Store, admin: Actor, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, campaign = stored(store), campaigns.list_campaigns(store, admin)[0].id
    shown = previewing.preview(store, admin, run)
    assert 0 < len(shown.sentences) <= previewing.SENTENCES and shown.open >= len(shown.sentences)
    every = [made for each in shown.sentences for made in each.suggestions]
    assert all(0 <= made.score <= 1 and made.type in campaigns.get_domain(store, admin, campaign).type_names
               for made in every)  # fmt: skip
    assert stored(store) == before and not shown.waits
    campaigns.update_settings(store, admin, campaign, model_floor=1.0)
    assert out_of_process.apart(previewing.preview, store, admin, run).sentences == shown.sentences
    assert "suggest by themselves from 100.0" in previewing.preview(store, admin, run).waits
    monkeypatch.setattr(previewing, "SENTENCES", 2)
    assert len(previewing.preview(store, admin, run).sentences) == 2


@pytest.mark.slow
def test_preview_says_why_there_is_none(store: Store, admin: Actor, run: int, tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="expert"):
        previewing.preview(store, person(store, "expert"), run)
    (tmp_path / "home" / "checkpoints").rename(tmp_path / "gone")
    with pytest.raises(CheckpointError, match="is gone from"):
        previewing.preview(store, admin, run)
    data = own_dataset(store, admin)
    other = adaptation.start_run(store, admin, dataset_id=data.id, recipe=recipe_here(tmp_path))
    with pytest.raises(NotAllowed, match="belongs to no campaign"):
        previewing.preview(store, admin, other)
