"""Pre-training of encoders as use cases: started, made by the worker, named by recipes, removed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crossner_core.adaptation.pretraining import read_result
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotAllowed, NotFound
from db import job_rows
from db.engine import Store
from tests.support import corpus_builders
from tests.support.campaigns import campaign_with_gold
from tests.support.encoders import CHARACTERS, QUICK, options, own_text
from tests.support.training_builders import save_encoder
from tests.support.training_store import (
    ended,
    meanwhile,
    own_dataset,
    person,
    recipe_here,
    settings_for,
    start_worker,
    work,
)
from tests.support.workers import QUICK_TO_NOTICE, finish, wait_for
from workbench.accounts.actors import Actor
from workbench.jobs import lease, queue
from workbench.jobs.following import train_here
from workbench.runs import adaptation, encoders, exporting
from workbench.runs.encoder_library import work_folder
from workbench.settings import Settings

# Saves after every step, and takes its time over one, so that a test can catch it half-way.
SLOW_STEPS = (
    "import time, crossner_core.adaptation.pretraining_job as made, crossner_core.training.engine as engine\n"
    "made.SECONDS_BETWEEN_SAVES, made.SAVING_SHARE = 0.0, 1e9\n"
    "learn = engine.TaskRun.learn\n"
    "engine.TaskRun.learn = lambda self, *given: (time.sleep(0.1), learn(self, *given))[1]\n"
)
start_dapt = partial(encoders.start_on_text, kind="dapt")
start_characters = partial(encoders.start_on_text, kind="character_models")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    save_encoder(tmp_path / "tiny")
    return tmp_path


@pytest.fixture
def actor(store: Store) -> Actor:
    return person(store, "researcher")


def job(store: Store, actor: Actor, job_id: int) -> queue.JobView:
    return next(one for one in queue.list_jobs(store, actor) if one.id == job_id)


def test_encoders_dapt_makes_an_encoder_that_a_run_can_name(store: Store, actor: Actor, home: Path) -> None:
    job_id = start_dapt(store, actor, name="dapt-own", options=options(home), text=own_text(home))
    (waiting,) = encoders.list_pretrainings(store, actor)
    assert (waiting.name, waiting.job.state, waiting.how) == (
        "dapt-own",
        "queued",
        "DAPT with span masking on the text own.txt",
    )
    assert work(store, home) == 1
    assert job(store, actor, job_id).state == "done", job(store, actor, job_id).error
    bundled, made = encoders.list_encoders(store, actor)
    assert bundled.name == "minilm" and made.name == "dapt-own" and not made.problem
    assert made.before is not None and made.after is not None and made.after < made.before
    assert made.measure == "perplexity" and made.tokens > 0 and made.made_by == "Researcher" and made.made_at
    assert made.base == str(home / "tiny")
    assert encoders.list_pretrainings(store, actor) == ()
    assert any("Before: held-out perplexity" in line.message for line in encoders.encoder_log(store, actor, "dapt-own"))
    assert not list(work_folder(home / "encoders", "").glob("*"))

    data = own_dataset(store, actor)
    run_id = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(home, encoder="dapt-own"))
    before_id = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(home, encoder=made.base))
    assert work(store, home) == 2
    run, before = (adaptation.get_run(store, actor, one).run for one in (run_id, before_id))
    assert run.state == "done" and run.recipe["encoder"] == "dapt-own", run.error
    made = encoders.list_encoders(store, actor)[1]
    assert made.runs == 1
    (gain,) = encoders.encoder_gains(store, actor, made)
    assert (gain.pairs, gain.measure, gain.on) == (1, "test", "data set own")
    assert run.test_f1 is not None and before.test_f1 is not None
    assert gain.change == pytest.approx(run.test_f1 - before.test_f1)


def test_encoders_character_models_make_an_encoder_that_a_run_can_name(store: Store, actor: Actor, home: Path) -> None:
    """Also with word vectors beside them, and while they are still being made."""
    job_id = start_characters(store, actor, name="chars", options=CHARACTERS, text=own_text(home))
    (waiting,) = encoders.list_pretrainings(store, actor)
    assert (waiting.how, waiting.base) == ("character models on the text own.txt", None)
    data = own_dataset(store, actor)
    (home / "vectors.txt").write_text("Oslo 1 2 3\n", encoding="utf-8")
    names = ("chars", f"flair:chars,words={home / 'vectors.txt'}")
    run_ids = [
        adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(home, encoder=name)) for name in names
    ]
    assert lease.claim(store, worker="second", run_ids=run_ids) is None
    adaptation.cancel(store, actor, run_ids[0])
    assert _one_job(store, home) == job_id
    with pytest.raises(Conflict, match=f"needed by runs that wait or train: {run_ids[1]}"):
        encoders.remove(store, actor, "chars")
    adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(home, encoder="chars"))
    assert work(store, home) == 2
    runs = adaptation.list_runs(store, actor)
    assert [(run.state, run.error) for run in runs if run.id != run_ids[0]] == [("done", None)] * 2
    made = encoders.list_encoders(store, actor)[1]
    assert (made.kind, made.measure, made.unit, made.base) == (
        "character_models",
        "bits per character",
        "characters",
        None,
    )
    assert made.before is not None and made.after is not None and made.after < made.before
    assert made.held_out.endswith(" held-out characters") and made.runs == 3 and made.tokens > 0
    assert encoders.encoder_names(store, actor) == ("minilm", "chars")
    assert encoders.encoder_names(store, actor, body="flair") == ("chars",)
    assert encoders.encoder_gains(store, actor, made) == ()
    assert read_result(home / "encoders" / "chars").provenance["corpus"].keys() == {"split"}


def test_encoders_character_models_go_on_from_others_on_tokens_as_they_are(
    store: Store, actor: Actor, home: Path
) -> None:
    own_dataset(store, actor)
    start_characters(store, actor, name="first", options=CHARACTERS, dataset="own")
    assert work(store, home) == 1
    start_characters(store, actor, name="second", options={**CHARACTERS, "encoder": "first"}, dataset="own")
    with pytest.raises(Conflict, match="needed by job 2"):
        encoders.remove(store, actor, "first")
    with pytest.raises(Conflict, match="'second' is not ready yet"):
        start_characters(store, actor, name="third", options={**CHARACTERS, "encoder": "second"}, dataset="own")
    assert work(store, home) == 1
    _, first, second = encoders.list_encoders(store, actor)
    assert (first.base, second.base) == (None, "first") and second.before == pytest.approx(first.after)
    assert isinstance(read_result(home / "encoders" / "first").provenance["corpus"], str)


def test_encoders_of_another_kind_are_not_trained(store: Store, actor: Actor, home: Path) -> None:
    characters = home / "encoders" / "chars"
    characters.mkdir(parents=True)
    (characters / "encoder.json").write_text('{"kind": "flair"}', encoding="utf-8")
    refused: dict[str, tuple[Callable[..., int], dict[str, Any]]] = {
        "chars": (start_dapt, options(home, encoder="chars")),
        "words:size=9": (start_dapt, options(home, encoder="words:size=9")),
        "minilm": (start_characters, {**CHARACTERS, "encoder": "minilm"}),
        str(home / "tiny"): (start_characters, {**CHARACTERS, "encoder": str(home / "tiny")}),
    }
    for name, (start, given) in refused.items():
        wanted = "a BERT-like encoder" if start is start_dapt else "new, or other character models"
        with pytest.raises(InvalidConfig, match=f"encoder is '{name}', which this cannot train; give {wanted}"):
            start(store, actor, name="made", options=given, text=own_text(home))
    with pytest.raises(InvalidConfig, match="kind is 'entity_tagging', which does not pre-train on text; choose one"):
        encoders.start_on_text(store, actor, kind="entity_tagging", name="made", options={}, text=own_text(home))
    assert encoders.encoder_names(store, actor, body="transformer") == ("minilm",)
    (characters / "encoder.json").write_text("{", encoding="utf-8")
    assert "names no kind of encoder" in encoders.list_encoders(store, actor)[1].problem


def test_encoders_decide_by_their_folder_whether_a_model_can_be_exported(store: Store, home: Path) -> None:
    save_encoder(home / "encoders" / "mine")
    (home / "encoders" / "chars").mkdir()
    (home / "encoders" / "chars" / "encoder.json").write_text('{"kind": "flair"}', encoding="utf-8")
    settings = settings_for(store, home)
    mine, chars = (recipe_here(home, encoder=name) for name in ("mine", "chars"))
    assert not exporting.refusal(settings, mine, "huggingface") and not exporting.refusal(settings, chars, "onnx")
    assert "encoder of this run is chars" in exporting.refusal(settings, chars, "huggingface")


def test_encoders_entity_tagging_on_a_data_set(store: Store, actor: Actor, home: Path) -> None:
    own_dataset(store, actor, name="silver", train=40)
    encoders.start_entity_tagging(store, actor, name="et-silver", options=options(home, QUICK), dataset="silver")
    assert work(store, home) == 1
    made = encoders.list_encoders(store, actor)[1]
    assert (made.kind, made.measure, made.how) == ("entity_tagging", "f1", "entity tagging on the data set silver")
    assert made.before is not None and made.after is not None and 0 <= made.before <= made.after <= 1


def test_encoders_entity_tagging_on_a_tagged_corpus(store: Store, actor: Actor, home: Path) -> None:
    from crossner_core.wikipedia.entity_tagging import TaggingConfig, build_tagging_corpus

    corpus = corpus_builders.make_corpus(home / "corpora")
    build_tagging_corpus(corpus, home / "tagged" / "wiki", TaggingConfig(min_entities=1, version="4types"))
    assert encoders.tagged_corpora(store, actor) == ("wiki",)
    encoders.start_entity_tagging(store, actor, name="et-wiki", options=options(home, QUICK), tagged="wiki")
    assert work(store, home) == 1
    made = encoders.list_encoders(store, actor)[1]
    assert made.how == "entity tagging on the entity-tagging corpus wiki, version 4types"


@pytest.mark.parametrize(("level", "percent"), [("domain", 100.0), ("integrated", 50.0)])
def test_encoders_dapt_on_a_level_of_a_corpus(
    store: Store, actor: Actor, home: Path, level: str, percent: float
) -> None:
    corpus_builders.make_corpus(home / "corpora")
    start_dapt(
        store,
        actor,
        name="dapt-music",
        options=options(home, max_steps=2),
        corpus="invented",
        level=level,
        percent=percent,
        domain="music",
    )
    assert work(store, home) == 1
    made = encoders.list_encoders(store, actor)[1]
    told = {"domain": "100 % of the corpus invented, domain level", "integrated": "50 % of the corpus invented"}
    assert told[level] in made.how and made.steps == 2


def test_encoders_dapt_on_a_data_set_measures_on_its_dev_split(store: Store, actor: Actor, home: Path) -> None:
    own_dataset(store, actor)
    start_dapt(store, actor, name="dapt-set", options=options(home, held_out_share=0.0001), dataset="own")
    assert work(store, home) == 1
    assert encoders.list_encoders(store, actor)[1].after is not None


def test_encoders_dapt_on_a_campaign_leaves_out_what_tests_its_models(store: Store, actor: Actor, home: Path) -> None:
    from workbench.campaigns.campaigns import list_campaigns

    campaign_id = campaign_with_gold(store, person(store, "admin"))
    view = next(one for one in list_campaigns(store, actor) if one.id == campaign_id)
    start_dapt(store, actor, name="dapt-camp", options=options(home, max_steps=1), campaign_id=campaign_id)
    (text,) = (home / "encoders" / ".jobs").glob("*/text.txt")
    assert len(text.read_text().splitlines()) == view.splits["pool"] < view.sentences
    assert work(store, home) == 1
    assert [one.name for one in encoders.list_encoders(store, actor)] == ["minilm", "dapt-camp"]


def test_encoders_dapt_on_a_share_of_a_text(store: Store, actor: Actor, home: Path) -> None:
    for name, percent in (("half", 50.0), ("whole", 100.0)):
        given = options(home, epochs=1, held_out_share=0.2)
        start_dapt(store, actor, name=name, options=given, text=own_text(home), percent=percent)
    assert work(store, home) == 2
    _, half, whole = encoders.list_encoders(store, actor)
    assert half.how == "DAPT with span masking on 50 % of the text own.txt"
    assert whole.how == "DAPT with span masking on the text own.txt"
    assert 0 < half.tokens < whole.tokens and half.after is not None


def test_encoders_dapt_on_a_share_of_a_data_set_is_measured_on_all_of_its_dev(
    store: Store, actor: Actor, home: Path
) -> None:
    own_dataset(store, actor, train=60)
    given = options(home, max_steps=1, held_out_share=0.0001)
    start_dapt(store, actor, name="half", options=given, dataset="own", percent=50.0)
    assert work(store, home) == 1
    made = encoders.list_encoders(store, actor)[1]
    assert made.how == "DAPT with span masking on 50 % of the data set own" and made.after is not None


def test_encoders_cancelled_pretraining_leaves_nothing(store: Store, actor: Actor, home: Path) -> None:
    job_id = start_dapt(store, actor, name="dapt-own", options=options(home), text=own_text(home))
    assert queue.cancel_job(store, actor, job_id) == "cancelled"
    assert encoders.list_pretrainings(store, actor) == () and not list((home / "encoders" / ".jobs").glob("*"))
    assert work(store, home) == 0
    start_dapt(store, actor, name="dapt-own", options=options(home), text=own_text(home))


def test_encoders_pretraining_stopped_half_way_goes_on_and_ends_the_same(
    store: Store, actor: Actor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crossner_core.adaptation import pretraining_job
    from workbench.jobs.context import JobContext

    monkeypatch.setattr(pretraining_job, "STEPS_BETWEEN_EVENTS", 1)
    text = own_text(home)
    start_dapt(store, actor, name="whole", options=options(home), text=text)
    assert work(store, home) == 1
    stopped = start_dapt(store, actor, name="stopped", options=options(home), text=text)
    asked = iter(range(1000))

    def stops_after_nine(context: JobContext) -> bool:
        if next(asked) >= 9:
            context.shutdown.set()
        return context.shutdown.is_set()

    with monkeypatch.context() as patch:
        patch.setattr(JobContext, "should_stop", stops_after_nine)
        _one_job(store, home)
    assert job(store, actor, stopped).state == "queued" and job(store, actor, stopped).attempts == 0
    assert work(store, home) == 1
    _, one, two = encoders.list_encoders(store, actor)
    assert (one.name, two.name) == ("stopped", "whole")
    assert one.after == two.after and one.steps == two.steps and one.history == two.history
    assert any("Resumed after step" in line.message for line in encoders.encoder_log(store, actor, "stopped"))


def test_encoders_pretraining_gives_way_to_what_people_wait_for(
    store: Store, actor: Actor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crossner_core.adaptation import pretraining_job

    monkeypatch.setattr(pretraining_job, "STEPS_BETWEEN_EVENTS", 1)
    data = own_dataset(store, actor)
    start_dapt(store, actor, name="patient", options=options(home), text=own_text(home))
    meanwhile(
        monkeypatch,
        "pretrain",
        lambda: adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(home)),
    )
    assert work(store, home) == 3
    assert ended(store) == [("run", "done", 1), ("pretrain", "done", 1)]
    assert any("Resumed after step" in line.message for line in encoders.encoder_log(store, actor, "patient"))


def test_encoders_run_waits_for_its_encoder_whoever_asks_for_it(
    store: Store, actor: Actor, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second worker, or the command that follows a run, does not begin it before its encoder is there."""
    data = own_dataset(store, actor)
    job_id = start_dapt(store, actor, name="soon", options=options(home), text=own_text(home))
    recipe = recipe_here(home, encoder="soon")
    run_id = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe)
    assert lease.claim(store, worker="second", run_ids=[run_id]) is None
    words = f"begins when job {job_id} has made its encoder"
    assert adaptation.get_run(store, actor, run_id).run.message == f"It {words}."
    assert [one.message for one in adaptation.list_runs(store, actor) if one.id == run_id] == [f"It {words}."]
    worker = threading.Timer(1.0, lambda: work(store, home))
    worker.start()
    assert train_here(store, actor, settings_for(store, home), [run_id]) == 0
    worker.join()
    said = capsys.readouterr().out
    assert said.count(f"run {run_id} · {words}") == 1
    assert sorted(ended(store)) == [("pretrain", "done", 1), ("run", "done", 1)]


@pytest.mark.slow
def test_encoders_pretraining_of_a_killed_worker_goes_on_in_another(store: Store, actor: Actor, home: Path) -> None:
    start_dapt(store, actor, name="whole", options=options(home), text=own_text(home))
    assert work(store, home) == 1
    job_id = start_dapt(store, actor, name="killed", options=options(home), text=own_text(home))
    first = start_worker(store, home, prelude=SLOW_STEPS)
    wait_for(lambda: bool(list((home / "encoders" / ".jobs").glob("*/state"))), first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert job(store, actor, job_id).state == "running"
    time.sleep(1.0)
    finish(start_worker(store, home, prelude=QUICK_TO_NOTICE))
    _, killed, whole = encoders.list_encoders(store, actor)
    assert (killed.name, killed.after, killed.history) == ("killed", whole.after, whole.history)
    said = [line.message for line in encoders.encoder_log(store, actor, "killed")]
    assert any(message.startswith("Attempt 2 of 3") for message in said)
    assert any(message.startswith("Resumed after step") for message in said)


def _one_job(store: Store, home: Path) -> int:
    """Take one job as a worker does, and no other: one that gives its job back would take it again at once."""
    from workbench.jobs.context import JobContext
    from workbench.jobs.running import run_job

    claimed = lease.claim(store, worker="w")
    assert claimed is not None
    run_job(JobContext(claimed, store, settings_for(store, home), worker="w"))
    return claimed.id


def test_encoders_failed_pretraining_says_why_and_goes_on(store: Store, actor: Actor, home: Path) -> None:
    (home / "tiny").rename(home / "elsewhere")
    failed = start_dapt(store, actor, name="dapt-own", options=options(home), text=own_text(home))
    assert work(store, home) == 1
    assert "No encoder folder" in (job(store, actor, failed).error or "")
    (shown,) = encoders.list_pretrainings(store, actor)
    assert shown.job.state == "failed"
    assert "No encoder folder" in queue.job_log(store, actor, failed)[-1].text
    with pytest.raises(Conflict, match=rf"job {failed}\) failed; resume it, or remove it"):
        start_dapt(store, actor, name="dapt-own", options=options(home), text=own_text(home))
    (home / "elsewhere").rename(home / "tiny")
    again = queue.resume_job(store, actor, failed)
    with pytest.raises(Conflict, match="resumed or removed already"):
        queue.resume_job(store, actor, failed)
    assert work(store, home) == 1 and job(store, actor, again).state == "done"


def test_encoders_failed_pretraining_can_be_removed(store: Store, actor: Actor, home: Path) -> None:
    start_dapt(store, actor, name="dapt-own", options=options(home, encoder=str(home / "none")), text=own_text(home))
    assert work(store, home) == 1
    encoders.remove(store, actor, "dapt-own")
    assert encoders.list_pretrainings(store, actor) == ()
    start_dapt(store, actor, name="dapt-own", options=options(home), text=own_text(home))


def test_encoders_text_that_changed_meanwhile_is_refused(store: Store, actor: Actor, home: Path) -> None:
    text = own_text(home)
    job_id = start_dapt(store, actor, name="dapt-own", options=options(home), text=text)
    text.write_text(text.read_text() + "One line more .\n")
    assert work(store, home) == 1
    assert "has changed since this was queued" in (job(store, actor, job_id).error or "")


def test_encoders_that_something_needs_stay(store: Store, actor: Actor, home: Path) -> None:
    save_encoder(home / "encoders" / "by-hand")
    assert encoders.list_encoders(store, actor)[1].how == "put here by hand"
    data = own_dataset(store, actor)
    run_id = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(home, encoder="by-hand"))
    with pytest.raises(Conflict, match=f"needed by runs that wait or train: {run_id}"):
        encoders.remove(store, actor, "by-hand")
    adaptation.cancel(store, actor, run_id)
    job_id = start_dapt(store, actor, name="next", options=options(home, encoder="by-hand"), text=own_text(home))
    with pytest.raises(Conflict, match=f"needed by job {job_id}"):
        encoders.remove(store, actor, "by-hand")
    queue.cancel_job(store, actor, job_id)
    encoders.remove(store, actor, "by-hand")
    assert [one.name for one in encoders.list_encoders(store, actor)] == ["minilm"]
    with pytest.raises(Conflict, match="1 run used an earlier encoder named 'by-hand'"):
        start_dapt(store, actor, name="by-hand", options=options(home), text=own_text(home))


def test_encoders_run_with_an_encoder_that_is_gone_names_those_there_are(
    store: Store, actor: Actor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    save_encoder(home / "encoders" / "here")
    data = own_dataset(store, actor)
    run_id = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(home, encoder="gone"))
    assert work(store, home) == 1
    error = adaptation.get_run(store, actor, run_id).run.error or ""
    assert "'gone'" in error and "here (pre-trained here)" in error


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"name": "../out"}, InvalidConfig, "'../out' cannot be given"),
        ({"name": "minilm"}, InvalidConfig, "bundled"),
        ({"name": "new"}, InvalidConfig, "'new' cannot be given to an encoder: it stands for models trained anew"),
        ({"options": {"epochs": 0}}, InvalidConfig, "epochs is 0"),
        ({"options": {"steps": 1}}, InvalidConfig, "Unknown option steps"),
        (
            {"text": None},
            InvalidConfig,
            "Nothing given to pre-train on; name exactly one of corpus, dataset, campaign, text",
        ),
        ({"corpus": "none"}, InvalidConfig, "corpus and text"),
        ({"level": "domain"}, InvalidConfig, "level is 'domain', but only a corpus has one"),
        ({"domain": "music"}, InvalidConfig, "domain is 'music', but only a corpus has one"),
        ({"text": None, "corpus": "none"}, NotFound, "There is no corpus 'none'"),
        ({"text": None, "dataset": "none"}, NotFound, "There is no data set 'none'"),
        ({"text": None, "campaign_id": 99}, NotFound, "There is no campaign 99"),
        ({"text": ("few.txt", b"One line .\n")}, BadInput, "has 1 lines with text; at least 20"),
        ({"percent": 0.0}, InvalidConfig, "percent is 0; give more than 0"),
        ({"percent": 20.0}, BadInput, "The source, 20 % of the text own.txt, has 12 sentences; at least 20"),
        ({"text": ("cut.txt", b"One line .\nAnother")}, BadInput, "ends in the middle of a line"),
        ({"text": ("odd.txt", b"One \xff line .\n")}, BadInput, "not UTF-8"),
    ],
)
def test_encoders_bad_orders_are_refused_and_leave_nothing(
    store: Store, actor: Actor, home: Path, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    values: dict[str, Any] = {"name": "dapt-own", "options": options(home), "text": own_text(home), **changes}
    with pytest.raises(error, match=says.replace("(", r"\(")):
        start_dapt(store, actor, **values)
    assert queue.list_jobs(store, actor) == () and not list((home / "encoders").glob(".jobs/*"))


def test_encoders_level_needs_a_preannotated_corpus_and_a_domain(store: Store, actor: Actor, home: Path) -> None:
    corpus_builders.make_corpus(home / "corpora", classes=None, name="bare")
    corpus_builders.make_corpus(home / "corpora", name="full")
    start: Callable[..., int] = start_dapt
    shared = {"name": "d", "options": options(home), "level": "task"}
    with pytest.raises(BadInput, match="not pre-annotated"):
        start(store, actor, corpus="bare", domain="music", **shared)
    with pytest.raises(InvalidConfig, match="needs a domain"):
        start(store, actor, corpus="full", **shared)
    for level in ("task", "domain"):
        with pytest.raises(NotFound, match="domain 'nonsense'"):
            start(store, actor, corpus="full", domain="nonsense", **{**shared, "level": level})


def test_encoders_are_made_by_keepers_and_read_by_overseers(store: Store, home: Path) -> None:
    expert, annotator = person(store, "expert"), person(store, "annotator")
    assert len(encoders.list_encoders(store, expert)) == 1
    text = own_text(home)
    assert start_dapt(store, person(store, "researcher"), name="own", options=options(home), text=text) == 1
    for call in (
        lambda: encoders.list_encoders(store, annotator),
        lambda: encoders.list_pretrainings(store, annotator),
        lambda: start_dapt(store, expert, name="x", options=options(home), text=own_text(home)),
        lambda: encoders.remove(store, expert, "x"),
        lambda: queue.resume_job(store, expert, 1),
        lambda: queue.cancel_job(store, expert, 1),
    ):
        with pytest.raises(NotAllowed):
            call()


def test_encoders_library_lies_beside_the_checkpoints(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert settings.encoders.parent == settings.checkpoints.parent


def test_encoders_job_kind_is_allowed_by_the_store(store: Store) -> None:
    with store.write() as session:
        assert job_rows.add(session, kind="pretrain", payload={})
