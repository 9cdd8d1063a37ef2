"""Studies by the use cases, the worker and the command line: started once, trained once, stopped and gone on with."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotAllowed, NotFound
from crossner_core.experiments import running
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.results import read_study
from crossner_core.experiments.training_cells import CellEvent
from db import job_rows
from db.engine import Store
from tests.support.campaigns import campaign_with_gold
from tests.support.corpus_builders import make_corpus
from tests.support.study_builders import data_folder, made_result, small_config
from tests.support.training_builders import save_encoder
from tests.support.training_store import ended, meanwhile, own_dataset, person, settings_for, work
from workbench import cli
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data.datasets import import_dataset
from workbench.jobs import lease, queue
from workbench.jobs.context import Claimed, JobContext
from workbench.jobs.kinds import study
from workbench.runs import studies, study_data


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose data folder has small corpora, and whose library has a tiny encoder called mine."""
    place = tmp_path / "home"
    monkeypatch.setenv("CROSSNER_HOME", str(place))
    monkeypatch.setenv("CROSSNER_DATA", str(data_folder(tmp_path / "data")))
    monkeypatch.setenv("CROSSNER_WORKER_THREADS", "1")
    for name in ("CROSSNER_AS", "CROSSNER_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    save_encoder(place / "encoders" / "mine")
    return place


@pytest.fixture
def actor(store: Store) -> Actor:
    return person(store, "researcher")


def _cells(home: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (home / "experiments" / "cells").glob("*.json")}


def _claimed(store: Store, job_id: int) -> Claimed:
    claimed = lease.claim(store, worker="w", job_ids=[job_id])
    assert claimed is not None
    return claimed


def _work_through(context: JobContext) -> str:
    return study.work_through(context, study.Asked.from_dict(context.job.payload))


class StopsAfterACell(JobContext):
    """A job that is asked to stop as soon as one cell has its result."""

    def should_stop(self) -> bool:
        if _cells(self.settings.home):
            self.cancelled.set()
        return super().should_stop()


def test_study_is_run_by_the_worker_and_its_cells_are_trained_once(store: Store, actor: Actor, home: Path) -> None:
    before = studies.get_study(store, actor, "transfer")
    assert (before.result, before.job, before.total) == (None, None, 0)
    job_id, is_new = studies.start_study(store, actor, "transfer", small_config("mine"))
    assert is_new and studies.start_study(store, actor, "transfer", small_config("mine")) == (job_id, False)
    assert studies.get_study(store, actor, "transfer").is_under_way
    assert work(store, home) == 1
    done = studies.get_study(store, actor, "transfer")
    assert done.job is not None and done.job.state == "done" and done.job.error is None
    assert "All 3 cells" in done.job.message
    assert done.result is not None and done.result.complete and (done.done, done.total) == (3, 3)
    assert [row[0] for row in done.result.tables[0].rows] == ["direct", "pretrain_finetune", "joint"]
    assert done.result.encoders[0]["name"] == "mine"  # by its name in the library
    assert studies.list_studies(store, actor)[0].id == "transfer"
    assert studies.study_file(store, actor, "transfer", "table.md").startswith(b"**")
    trained = _cells(home)
    studies.start_study(store, actor, "transfer", small_config("mine"))
    assert work(store, home) == 1 and _cells(home) == trained


def test_study_runs_on_data_sets_of_the_store_as_they_are(store: Store, actor: Actor, home: Path) -> None:
    own_dataset(store, actor)
    values = small_config("mine", corpora=["own"], settings=["direct"])
    studies.start_study(store, actor, "transfer", values, from_store=True)
    assert work(store, home) == 1
    done = studies.get_study(store, actor, "transfer")
    assert done.result is not None and done.result.complete and done.result.corpora == ("own",)
    trained = _cells(home)
    again = small_config("mine", corpora=["own"], settings=["direct", "joint"])
    with pytest.raises(BadInput, match="read the source corpus conll2003, which is not there; there are: own"):
        studies.start_study(store, actor, "transfer", again, from_store=True)
    source = {split: home.parent / "data" / "conll2003" / f"{split}.jsonl" for split in ("train", "dev", "test")}
    import_dataset(store, actor, name="conll2003", splits=source)  # another folder, in which own is as it was
    studies.start_study(store, actor, "transfer", again, from_store=True)
    assert work(store, home) == 1
    assert len(_cells(home)) == 2 and trained.items() <= _cells(home).items()
    assert len(list((home / "experiments" / "datasets").iterdir())) == 2


def test_study_finds_own_encoders_wherever_they_are_named(store: Store, home: Path) -> None:
    library = home / "encoders"
    save_encoder(library / "dapt-music")
    given = {
        "encoders": ["own=dapt-{corpus}", "mine", "other=elsewhere"],
        "recipe": {"encoder": "mine", "max_epochs": 2},
        "rows": {"direct, own": {"encoder": "dapt-music"}, "words": {"encoder": "flair:mine,words=glove"}},
        "candidates": ["encoder=mine batch_size=4", "max_epochs=3"],
    }
    assert studies.own_places(given, home, ("music", "ai")) == {
        "encoders": [f"own={library}/dapt-{{corpus}}", f"mine={library}/mine", "other=elsewhere"],
        "recipe": {"encoder": f"{library}/mine", "max_epochs": 2},
        "rows": {
            "direct, own": {"encoder": f"{library}/dapt-music"},
            "words": {"encoder": f"flair:{library}/mine,words=glove"},
        },
        "candidates": [f"encoder={library}/mine batch_size=4", "max_epochs=3"],
    }


def test_study_pre_trains_its_encoders_on_a_corpus_made_here(store: Store, actor: Actor, home: Path) -> None:
    make_corpus(home / "corpora", name="wiki-music")
    quick = {"block_size": 16, "batch_size": 4, "max_steps": 1, "head_first_steps": 1, "held_out_share": 0.2}
    own = {"dapt_corpus": "wiki-{corpus}", "dapt_ways": ["span-task"], "dapt": quick, "settings": ["direct"]}
    values = small_config("mine", **own)
    assert studies.count_encoders(store, actor, "transfer", values) == 1
    assert studies.count_cells(store, actor, "transfer", values) == 2
    assert studies.count_encoders(store, actor, "vocabulary", {}) == 0
    with pytest.raises(NotFound, match="wiki-politics"):
        studies.start_study(store, actor, "transfer", {**values, "corpora": ["music", "politics"]})
    studies.start_study(store, actor, "transfer", values)
    assert work(store, home) == 1
    result = studies.get_study(store, actor, "transfer").result
    assert result is not None and not result.missing
    assert [row[0] for row in result.tables[0].rows] == ["direct, none", "direct, span-task"]
    assert (
        "1 steps" in result.encoders[1]["pretrained"] and len(list((home / "experiments" / "encoders").iterdir())) == 2
    )
    assert cli.main(["study", "run", "transfer", "--option", "dapt_corpus=nowhere"]) == 2


def test_study_finds_corpora_made_here(store: Store, home: Path) -> None:
    (home / "tagged" / "merged").mkdir(parents=True)
    (home / "corpora" / "wiki-music").mkdir(parents=True)
    given = {"dapt_corpus": "wiki-{corpus}", "tagged": ["merged", "full=merged", "4-types=/elsewhere"]}
    made = studies.own_places(given, home, ("music", "ai"))
    assert made["dapt_corpus"] == f"{home}/corpora/wiki-{{corpus}}"
    assert made["tagged"] == [f"merged={home}/tagged/merged", f"full={home}/tagged/merged", "4-types=/elsewhere"]
    assert studies.own_places({"dapt_corpus": "other"}, home, ("music",))["dapt_corpus"] == "other"


def test_study_that_is_cancelled_keeps_its_cells_and_goes_on(store: Store, actor: Actor, home: Path) -> None:
    out, config = home / "experiments", small_config("mine")
    job_id, _ = studies.start_study(store, actor, "transfer", config)
    said = _work_through(StopsAfterACell(_claimed(store, job_id), store, settings_for(store, home)))
    assert said == "2 of 3 cells have no result yet."
    first = _cells(home)
    assert len(first) == 1 and len(read_study(out / "studies" / "transfer").missing) == 2
    with store.write() as session:
        job_rows.finish(session, job_id=job_id, worker="w", state="cancelled")
    again, is_new = studies.start_study(store, actor, "transfer", config)
    assert (
        is_new
        and _work_through(JobContext(_claimed(store, again), store, settings_for(store, home)))
        == "All 3 cells have their result."
    )
    assert first.items() <= _cells(home).items()


def test_study_under_a_name_is_kept_beside_the_others(store: Store, actor: Actor, home: Path) -> None:
    plain, _ = studies.start_study(store, actor, "transfer", small_config("mine"))
    named, is_new = studies.start_study(store, actor, "transfer", small_config("mine"), section="dev-2", workers=2)
    assert is_new and named != plain
    again = studies.start_study(store, actor, "transfer", small_config("mine"), section="dev-2", workers=2)
    assert again == (named, False)
    with pytest.raises(Conflict, match=r"is queued with other values of corpora, recipe, seeds, workers \(job 2\)"):
        studies.start_study(store, actor, "transfer", {}, section="dev-2")
    assert work(store, home) == 2
    found = {one.key: one for one in studies.list_studies(store, actor) if one.id == "transfer"}
    assert list(found) == ["transfer", "transfer-dev-2"]
    assert found["transfer-dev-2"].result is not None and found["transfer-dev-2"].result.section == "dev-2"
    assert found["transfer"].result is not None and found["transfer"].result.section == ""
    assert studies.study_file(store, actor, "transfer", "table.md", "dev-2").startswith(b"**")
    with zipfile.ZipFile(io.BytesIO(studies.study_archive(store, actor, "transfer", "dev-2"))) as archive:
        assert archive.namelist() == ["table.csv", "table-2.csv"]
        assert archive.read("table-2.csv").startswith(b",music")
    with pytest.raises(NotFound):
        studies.study_archive(store, actor, "transfer", "other")
    for name in ("../up", "a b", "a/b"):
        with pytest.raises(InvalidConfig, match="section"):
            studies.start_study(store, actor, "transfer", {}, section=name)
        with pytest.raises(InvalidConfig, match="section"):
            studies.study_file(store, actor, "transfer", "table.md", name)


def test_study_trains_so_many_cells_side_by_side_as_it_is_told(
    store: Store, actor: Actor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str]] = []

    def seen(tasks: object, *, workers: int, ray: str, should_stop: object) -> Iterator[CellEvent]:
        asked.append((workers, ray))
        return iter(())

    monkeypatch.setattr(running, "run_cells", seen)
    for told, environment in (({"workers": 3, "ray": "local"}, {}), ({}, {"STUDY_WORKERS": "2", "RAY": "ray://head"})):
        for name, value in environment.items():
            monkeypatch.setenv(f"CROSSNER_{name}", value)
        studies.start_study(store, actor, "transfer", small_config("mine"), **told)
        work(store, home)
    assert asked == [(3, "local"), (2, "ray://head")]
    with pytest.raises(InvalidConfig, match="workers is 0"):
        studies.start_study(store, actor, "transfer", small_config("mine"), workers=0)


@pytest.mark.parametrize("step", [3, 12])
def test_study_gives_way_to_what_people_wait_for_and_trains_each_cell_once(
    store: Store, actor: Actor, home: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    admin = person(store, "admin")
    campaign_id = campaigns.create_campaign(store, admin, name="Waits", domain=load_domain("music"))
    studies.start_study(store, actor, "transfer", small_config("mine"))
    meanwhile(monkeypatch, "study", lambda: queue.start_job(store, admin, "preannotate", campaign_id), step=step)
    assert work(store, home) == 3
    assert ended(store) == [("preannotate", "done", 1), ("study", "done", 1)]
    done = studies.get_study(store, actor, "transfer")
    assert done.job is not None and "All 3 cells" in done.job.message and (done.done, done.total) == (3, 3)


def test_study_stopped_before_its_first_cell_is_no_failure(store: Store, actor: Actor, home: Path) -> None:
    job_id, _ = studies.start_study(store, actor, "transfer", small_config("mine"))
    context = JobContext(_claimed(store, job_id), store, settings_for(store, home))
    context.shutdown.set()
    assert "Stopped" in _work_through(context)


def test_study_that_waits_can_be_cancelled(store: Store, actor: Actor, home: Path) -> None:
    job_id, _ = studies.start_study(store, actor, "transfer", small_config("mine"))
    assert queue.cancel_job(store, actor, job_id) == "cancelled"
    assert work(store, home) == 0 and not studies.get_study(store, actor, "transfer").is_under_way


def test_study_of_which_nothing_can_be_trained_fails_with_the_reason(store: Store, actor: Actor, home: Path) -> None:
    job_id, _ = studies.start_study(store, actor, "transfer", small_config(str(home / "nowhere")))
    assert work(store, home) == 1
    job = queue.get_job(store, actor, job_id)
    assert job.state == "failed" and "nowhere" in (job.error or "")


def test_study_refuses_what_it_cannot_run(
    store: Store, actor: Actor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match=r"'nonsense'.*transfer"):
        studies.start_study(store, actor, "nonsense", {})
    with pytest.raises(BadInput, match=r"no moon in .*music"):
        studies.start_study(store, actor, "transfer", {"corpora": ["moon"]})
    with pytest.raises(InvalidConfig, match="batch_size"):
        studies.start_study(store, actor, "transfer", {"recipe": {"batch_size": 0}})
    with pytest.raises(InvalidConfig, match="recipe sets setting"):
        studies.start_study(store, actor, "transfer", {"recipe": {"setting": "direct"}})
    with pytest.raises(InvalidConfig, match="only would have no effect: this study trains all of its rows"):
        studies.start_study(store, actor, "recipes", {"only": ["default"]})
    with pytest.raises(InvalidConfig, match=r"elsewhere.*CROSSNER_DATA"):
        studies.start_study(store, actor, "transfer", {}, data=home / "elsewhere")
    monkeypatch.delenv("CROSSNER_DATA")
    assert studies.choices(store, actor, "transfer").data is None
    with pytest.raises(InvalidConfig, match="CROSSNER_DATA"):
        studies.start_study(store, actor, "transfer", {})
    with pytest.raises(NotFound, match=r"table\.md"):
        studies.study_file(store, actor, "transfer", "study.json")
    with pytest.raises(NotFound, match="run it first"):
        studies.study_file(store, actor, "transfer", "table.md")


def test_study_counts_its_trainings(store: Store, actor: Actor, home: Path) -> None:
    options = studies.choices(store, actor, "transfer")
    assert set(options.there) == {"conll2003", "music", "politics"} and "science" in options.absent
    assert studies.count_cells(store, actor, "transfer", {"seeds": (1, 2)}) == 12  # 2 corpora × 3 settings × 2 seeds
    assert studies.count_cells(store, actor, "transfer", {"seeds": (1,), "corpora": ("music",)}) == 3


def test_studies_are_for_those_who_oversee(store: Store, home: Path) -> None:
    made_result(home / "experiments")
    ann, eva, gone = (person(store, role, name) for role, name in (("annotator", "a"), ("expert", "e"), ("admin", "g")))
    reading: tuple[Callable[[Actor], object], ...] = (
        lambda who: studies.list_studies(store, who),
        lambda who: studies.get_study(store, who, "transfer"),
        lambda who: studies.study_file(store, who, "transfer", "table.csv"),
        lambda who: studies.study_archive(store, who, "transfer"),
        lambda who: studies.row_labels(store, who, "transfer", {}),
        lambda who: studies.choices(store, who, "transfer"),
        lambda who: studies.count_cells(store, who, "transfer", {}),
    )
    for read in reading:
        assert read(eva)
        with pytest.raises(NotAllowed):
            read(ann)
    for who in (ann, eva):
        with pytest.raises(NotAllowed):
            studies.start_study(store, who, "transfer", small_config("mine"))
    forged = Actor(ann.id, ann.name, ann.display_name, "admin")  # the store knows better than the page
    for forbidden in (*reading, lambda who: studies.start_study(store, who, "transfer", small_config("mine"))):
        with pytest.raises(NotAllowed):
            forbidden(forged)
    assert studies.start_study(store, gone, "transfer", small_config("mine"))[1]


def test_study_whose_result_is_damaged_says_so_and_hides_no_other(store: Store, actor: Actor, home: Path) -> None:
    made_result(home / "experiments")
    (home / "experiments" / "studies" / "transfer" / "study.json").write_text("{")
    found = {one.id: one for one in studies.list_studies(store, actor)}
    assert len(found) > 1 and "damaged" in found["transfer"].problem and found["transfer"].result is None


def test_study_commands_list_run_and_show(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], store_template: Path
) -> None:
    (home / "workbench.sqlite3").write_bytes(store_template.read_bytes())

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.main(list(arguments))
        said = capfd.readouterr()
        return code, said.out, said.err

    assert run("user", "add", "adm", "--role", "admin")[0] == 0
    code, out, _ = run("study", "list")
    assert code == 0 and "transfer" in out and "Transfer settings" in out
    quick: tuple[str, ...] = (
        "--corpora",
        "music",
        "--seeds",
        "1",
        "--encoder",
        "mine",
        "--max-epochs",
        "1",
        "--device",
        "cpu",
    )
    quick += ("--source-epochs", "1", "--head-first-epochs", "0", "--upsample", "1", "--max-length", "64")
    code, out, _ = run("study", "run", "transfer", *quick)
    assert code == 0 and "is queued" in out and "No worker is alive" in out
    for other, what in (("--seeds=2", "seeds"), ("--workers=2", "workers"), ("--max-epochs=2", "recipe")):
        code, _, err = run("study", "run", "transfer", *quick, other)
        assert code == 2 and f"queued with other values of {what} (job 1)" in err and "cancel it first" in err
    for empty in ("--seeds=", "--corpora=", "--corpora=music,"):
        code, _, err = run("study", "run", "transfer", *quick, empty)
        assert code == 2 and empty[2:7] in err and "''" in err
    code, out, err = run("study", "run", "transfer", *quick, "--wait")
    assert code == 0, err
    assert "running already" in out and "done: All 3 cells" in out and "| direct" in out
    assert "3 of 3" in run("study", "list")[1]
    code, _, err = run("study", "cancel", "transfer")
    assert code == 2 and "'transfer' is neither queued nor running; those that are: none." in err
    assert run("study", "run", "transfer", *quick, "--section", "dev")[0] == 0
    code, _, err = run("study", "cancel", "transfer")
    assert code == 2 and "those that are: transfer-dev." in err
    assert run("study", "cancel", "transfer", "--section", "dev")[:2] == (0, "Study transfer: cancelled\n")
    assert run("study", "run", "pdaln_ablation", "--corpora", "music")[0] == 0
    with sqlite3.connect(home / "workbench.sqlite3") as kept:
        newest = kept.execute("select payload from job order by id desc").fetchone()[0]
    assert json.loads(newest)["config"]["seeds"] == [555, 666, 777, 888, 999]  # the study's own
    assert run("study", "show", "transfer", "--to", "latex")[1].count(r"\begin{tabular}") >= 1
    assert run("study", "show", "transfer", "--to", "csv", "-o", str(tmp_path / "t.csv"))[0] == 0
    assert (tmp_path / "t.csv").read_text().startswith(",music")
    for arguments, said in (
        (("study", "show", "few_shot"), "run it first"),
        (("study", "run", "transfer", "--max-epochs", "0"), "max_epochs"),
        (("study", "run", "transfer", "--seeds", "one"), "--seeds"),
        (("study", "run", "transfer", "--option", "sizes"), "NAME=VALUE"),
        (("study", "show", "transfer", "--to", "docx"), "docx"),
    ):
        code, _, err = run(*arguments)
        assert code == 2 and said in err and err.count("\n") == 1, (arguments, err)


def test_study_runs_on_the_gold_of_campaigns_with_their_guidelines(store: Store, actor: Actor, home: Path) -> None:
    campaign_id = campaign_with_gold(store, actor)
    (id,) = studies.choices(store, actor, "transfer", from_store=True).there
    assert id == f"gold-{campaign_id}"
    assert studies.choices(store, person(store, "expert"), "transfer", from_store=True).there == ()
    named = {"corpora": [id]}
    assert not (study_data.write_corpora(store, actor, {"corpora": ["own-gold-1"]}) / id).exists()
    folder = study_data.write_corpora(store, actor, named)
    corpus = read_corpus(id, folder)
    assert corpus.types == load_domain("music").type_names and corpus.texts["band"][0] == "band"
    assert study_data.write_corpora(store, actor, named) == folder
    kind = corpus.types[0]
    campaigns.set_guidelines(store, actor, campaign_id, {kind: "Mark what is played."})
    retold = read_corpus(id, study_data.write_corpora(store, actor, named))
    assert retold.train == corpus.train and retold.texts[kind][-1].endswith("Mark what is played.")
    admin = person(store, "admin")
    campaigns.update_settings(store, admin, campaign_id, archived=True)
    campaigns.delete_campaign(store, admin, campaign_id, home=home)
    assert not folder.joinpath(id).exists() and folder.is_dir()
