"""Predictions over the API: those of the model itself, by a process that stays warm and is replaced when it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossner_core.errors import CheckpointError, WorkbenchError
from crossner_core.schema import sentence_from_words
from crossner_core.training.predictor import load_tagger
from db.engine import Store
from db.migrate import migrate
from tests.support.api import client_of, serving, settings_for
from tests.support.builders import make_people
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, recipe_here, work
from workbench.accounts.actors import Actor
from workbench.client import ApiProblem, Client
from workbench.runs import adaptation, warm_tagger
from workbench.runs.warm_tagger import WarmTagger

WORDS = [list(item.sentence.words) for item in own_sentences(5, offset=30)]


class Trained:
    """A served store with a run on a data set."""

    def __init__(self, url: str, store: Store, people: dict[str, Actor], run: int, folder: Path) -> None:
        self.url, self.store, self.people, self.run, self.folder = url, store, people, run, folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    migrate(store)
    people = make_people(store)
    dataset = own_dataset(store, people["res"])
    recipe = recipe_here(home, max_epochs=3)
    run = adaptation.start_run(store, people["res"], dataset_id=dataset.id, recipe=recipe)
    assert work(store, home) == 1
    settings = settings_for(store, home, worker_threads=1)
    with serving(settings) as url:
        yield Trained(url, store, people, run, settings.checkpoints / f"run-{run}")
    warm_tagger.of(1).close()
    store.close()


@pytest.fixture
def api(trained: Trained) -> Iterator[Client]:
    with client_of(trained.url, trained.store, trained.people["res"], "read") as client:
        yield client


@pytest.mark.slow
def test_predictions_are_those_of_the_model(trained: Trained, api: Client) -> None:
    answer = api.post("/predict", {"run": trained.run, "words": WORDS})
    sentences = [sentence_from_words(words, id=str(n)) for n, words in enumerate(WORDS)]
    expected = load_tagger(trained.folder).predict(sentences)
    assert answer["run"] == trained.run and answer["is_calibrated"] is True
    assert sum(map(len, expected)) > 0
    for sentence, suggestions, predicted in zip(sentences, expected, answer["sentences"], strict=True):
        assert predicted["text"] == sentence.text
        found = [(one["start"], one["end"], one["type"]) for one in predicted["entities"]]
        assert found == [(one.start, one.end, one.type) for one in suggestions]
        for one, suggestion in zip(predicted["entities"], suggestions, strict=True):
            assert one["probability"] == pytest.approx(suggestion.score, abs=1e-5)
            assert predicted["text"][one["char_start"] : one["char_end"]] == one["text"]


@pytest.mark.slow
def test_texts_are_split_as_an_import_splits_them(trained: Trained, api: Client) -> None:
    (text,) = api.predict(["Ines sang with Marble in Oslo."], run=trained.run)
    (words,) = api.predict(words=[["Ines", "sang", "with", "Marble", "in", "Oslo", "."]], run=trained.run)
    assert text["tokens"][-1] == [29, 30] and words["tokens"][-1] == [30, 31]
    assert [one["type"] for one in text["entities"]] == [one["type"] for one in words["entities"]]


@pytest.mark.slow
def test_a_process_that_died_is_replaced(trained: Trained, api: Client) -> None:
    before = api.predict(["Ines sang ."], run=trained.run)
    process = warm_tagger.of(1)._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert api.predict(["Ines sang ."], run=trained.run) == before


@pytest.mark.slow
def test_only_so_many_taggers_are_kept_and_errors_come_through(trained: Trained, tmp_path: Path) -> None:
    warm = WarmTagger(1)
    sentences = [sentence_from_words(["Ines", "sang"], id="x")]
    try:
        with pytest.raises(CheckpointError, match=str(tmp_path)):
            warm.predict(tmp_path, sentences)
        links = [tmp_path / f"run-{number}" for number in range(warm_tagger.KEPT + 2)]
        answers = []
        for link in links:
            link.symlink_to(trained.folder)
            answers.append(warm.predict(link, sentences))
        assert all(answer == answers[0] for answer in answers)
    finally:
        warm.close()


@pytest.mark.slow
def test_a_request_that_takes_too_long_is_given_up(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = WarmTagger(1)
    sentences = [sentence_from_words(["Ines", "sang"], id="x")]
    try:
        with monkeypatch.context() as patched:
            patched.setattr(warm_tagger, "SECONDS", 0.05)
            with pytest.raises(WorkbenchError, match="took longer than"):
                warm.predict(trained.folder, sentences)
        assert warm.predict(trained.folder, sentences).is_calibrated
    finally:
        warm.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "body, status, words",
    [
        ({"texts": ["a"]}, 400, "either a run or a campaign"),
        ({"run": 1, "campaign": 1, "texts": ["a"]}, 400, "either a run or a campaign"),
        ({"run": 1}, 400, "either as texts or as words"),
        ({"run": 1, "texts": []}, 400, "at least 1"),
        ({"run": 1, "texts": ["a"] * 257}, 400, "at most 256"),
        ({"run": 1, "texts": ["a" * 20_001]}, 400, "20001 characters; at most 20000"),
        ({"run": 1, "texts": ["a " * 9_000] * 20}, 400, "up to 200,000 are read"),
        ({"run": 1, "texts": [" "]}, 400, "has no tokens"),
        ({"run": 1, "words": [["a", " "]]}, 400, "nothing but white space"),
        ({"run": 1, "words": [["a", 1]]}, 400, "must be a text"),
        ({"run": 99, "texts": ["a"]}, 404, "no run 99"),
        ({"campaign": 99, "texts": ["a"]}, 404, "no campaign 99"),
    ],
)
def test_what_cannot_be_predicted_is_explained(
    trained: Trained, api: Client, body: dict[str, object], status: int, words: str
) -> None:
    with pytest.raises(ApiProblem) as caught:
        api.post("/predict", body)
    assert caught.value.status == status and words in caught.value.detail
