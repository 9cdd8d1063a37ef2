"""A served campaign with a small trained model, and one without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from crossner_core.schema import LabelledSentence
from crossner_core.training.predictor import load_tagger
from db.engine import Store
from db.migrate import migrate
from tests.support.api import serving, settings_for
from tests.support.builders import make_campaign, make_people
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.training_builders import own_sentences
from tests.support.training_store import recipe_here, work
from workbench.accounts.actors import Actor
from workbench.data import snapshots
from workbench.runs import adaptation, warm_tagger


@dataclass(frozen=True)
class Trained:
    """A served store: `campaign` has a model, that of `run` in `folder`, and `bare` has none."""

    url: str
    store: Store
    people: dict[str, Actor]
    campaign: int
    bare: int
    run: int
    folder: Path

    def spans(self, sentences: list[LabelledSentence]) -> list[list[tuple[int, int, str]]]:
        """Return what the model itself predicts, in tokens."""
        made = load_tagger(self.folder).predict([item.sentence for item in sentences])
        return [[(span.start, span.end, span.type) for span in spans] for spans in made]


@pytest.fixture(scope="package")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    migrate(store)
    people = make_people(store)
    campaign = campaign_with_gold(store, people["adm"])
    bare = make_campaign(store, people, name="Bare")
    snapshot = snapshots.freeze(store, people["res"], campaign)
    recipe = recipe_here(home, max_epochs=8)
    run = adaptation.start_run(store, people["res"], snapshot_id=snapshot.id, recipe=recipe)
    work(store, home)
    settings = settings_for(store, home, worker_threads=1)
    with serving(settings) as url:
        yield Trained(url, store, people, campaign, bare, run, settings.checkpoints / f"run-{run}")
    warm_tagger.of(1).close()
    store.close()


@pytest.fixture(scope="package")
def unseen() -> list[LabelledSentence]:
    """Sentences that the model was not trained on."""
    return in_music(own_sentences(5, offset=40))
