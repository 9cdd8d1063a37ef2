"""The studies screen: what it says of a result, starting and cancelling a study, and who may do what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossner_core.experiments.plots import bars
from crossner_core.experiments.published import LIU, PUBLISHED
from crossner_core.experiments.results import read_study
from crossner_core.experiments.stored import stored_of
from crossner_core.experiments.tables import Measured, Table
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.wikipedia.tagged_corpus import TaggingManifest
from db import job_rows
from db.engine import Store
from pages.components.saved_figure import safe_csv
from pages.parts.model.study_results import study_figure, study_table
from tests.support import screens
from tests.support.corpus_builders import make_corpus
from tests.support.screens import open_screen
from tests.support.study_builders import data_folder, made_result
from tests.support.training_store import own_dataset, person
from workbench.jobs import lease
from workbench.runs import studies

HOSTILE = '<img src=q onerror="pwned=1"> **b** $x$'


@pytest.fixture
def experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of experiments of a home that has a data folder."""
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CROSSNER_DATA", str(data_folder(tmp_path / "data")))
    return tmp_path / "home" / "experiments"


def _said(test: Any) -> str:
    kinds = ("markdown", "caption", "info", "warning", "error", "success", "text")
    return "\n".join(element.value for kind in kinds for element in getattr(test, kind))


def _open(monkeypatch: pytest.MonkeyPatch, store: Store, role: str) -> Any:
    test = open_screen(monkeypatch, store, "studies", person(store, role))
    assert not test.exception, test.exception
    return test


def _press(test: Any, label: str) -> None:
    next(button for button in test.button if button.label == label).click().run()
    assert not test.exception, test.exception


def test_studies_screen_counts_no_cells_where_nothing_is_trained(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments, id="vocabulary", cells=(), missing=())
    listed = _open(monkeypatch, store, "expert").dataframe[0].value
    (row,) = listed[listed["state"] == "complete"].to_dict("records")
    assert row["study"] == "Vocabulary overlap of the corpora" and not isinstance(row["cells"], str)


def test_studies_screen_says_what_every_number_was_trained_on(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments)
    test = _open(monkeypatch, store, "expert")
    listed = test.dataframe[0].value
    assert next(iter(listed["study"])) == "Transfer settings and encoders" and len(listed) > 5
    assert list(listed["state"])[:2] == ["incomplete", "not run"] and listed["cells"][0] == "3 of 4"
    html = screens.html(test)
    for words in ("own (tiny), weights 01234567", "1, 2, 3", "learning rate 0.0003", "A small machine", "10:30 UTC"):
        assert words in html
    assert "<b>70.50</b> ± 1.25" in html and "[66.59] · +3.91" in html
    assert "<b>−2.00</b>" in html and "1 of 3 seeds" in html
    said = _said(test)
    assert "1 of 4 trainings have no result" in said and "science is not there" in said
    assert "Memory ran out" in test.code[0].value
    assert len(test.get("plotly_chart")) == 1
    assert [one.proto.label for one in test.get("download_button")] == [
        *("Markdown", "CSV", "LaTeX", "HTML"),
        "This page as one HTML file",
    ]
    assert [one.label for one in test.button] == []


def test_studies_screen_without_results_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    assert "Start it under Run" in _said(_open(monkeypatch, store, "researcher"))
    expert = _open(monkeypatch, store, "expert")
    assert "no results here yet" in _said(expert) and "Start it" not in _said(expert)
    assert "study:view" not in {group.key for group in expert.button_group}


def test_studies_screen_starts_and_cancels_a_study(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments)  # the one with a result is shown first
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    corpora = test.multiselect(key="study-transfer-corpora")
    assert (sorted(corpora.options), corpora.value) == (["conll2003", "music", "politics"], ["politics", "music"])
    test.text_input(key="study-transfer-seeds").set_value("1, 2")
    test.multiselect(key="study-transfer:fields").set_value(["batch_size"]).run()
    test.number_input(key="study-transfer-recipe-batch_size").set_value(4).run()
    assert any("12 trainings" in one.value for one in test.caption)
    _press(test, "Start this study")
    assert "is queued" in _said(test) and "No worker is alive" in _said(test)
    with store.read() as session:
        (job,) = job_rows.recent(session, kinds=("study",))
        assert job.payload["study"] == "transfer" and job.payload["config"]["seeds"] == [1, 2]
        assert job.payload["config"]["recipe"] == {"batch_size": 4}
    assert next(one for one in test.button if one.label == "Start this study").disabled
    _press(test, "Cancel this study")
    with store.read() as session:
        assert [one.state for one in job_rows.recent(session)] == ["cancelled"]


def test_studies_screen_keeps_its_form_below_a_number_that_is_wrong_and_while_results_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments)
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    test.text_input(key="study-transfer:section:").set_value("short")
    test.number_input(key="study-transfer:workers").set_value(2)
    for wrong, said in (("1, two", "write whole numbers"), ("1, -2", "seed is "), ("", "seeds")):
        test.text_input(key="study-transfer-seeds").set_value(wrong).run()
        assert not test.exception
        assert [one.value for one in test.error if said in one.value], [one.value for one in test.error]
        assert len(test.error) == 1
        assert test.multiselect(key="study-transfer:fields") and test.text_input(key="study-transfer:section:")
        assert next(one for one in test.button if one.label == "Start this study").disabled
    test.button_group(key="study:view").set_value("Results").run()
    test.button_group(key="study:view").set_value("Run").run()
    assert test.text_input(key="study-transfer:section:").value == "short"
    assert test.number_input(key="study-transfer:workers").value == 2
    test.text_input(key="study-transfer-seeds").set_value("1").run()
    assert not test.error
    assert not next(one for one in test.button if one.label == "Start this study").disabled


def test_studies_screen_asks_for_encoders_to_pre_train(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments)
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    assert "There is no Wikipedia corpus here yet" in _said(test)
    make_corpus(experiments.parent / "corpora", name="wiki")
    test.run()
    test.selectbox(key="study-transfer:dapt-corpus").set_value("wiki").run()
    assert any("144 trainings, and before them 13 encoders to pre-train." in one.value for one in test.caption)
    test.multiselect(key="study-transfer:dapt-ways").set_value(["span-task"]).run()
    test.multiselect(key="study-transfer:dapt:fields").set_value(["max_steps"]).run()
    test.number_input(key="study-transfer:dapt-recipe-max_steps").set_value(150).run()
    assert any("36 trainings, and before them 2 encoders to pre-train." in one.value for one in test.caption)
    _press(test, "Start this study")
    with store.read() as session:
        (job,) = job_rows.recent(session, kinds=("study",))
        config = job.payload["config"]
    assert (config["dapt_corpus"], config["dapt_ways"], config["dapt"]) == ("wiki", ["span-task"], {"max_steps": 150})


def test_studies_screen_asks_for_corpora_to_tag_entities_on(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments, id="ner_bert", title="Pre-training by entity tagging")
    silver = experiments.parent / "tagged" / "merged"
    silver.mkdir(parents=True)
    (silver / "manifest.json").write_text("{}", encoding="utf-8")
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    test.multiselect(key="study-ner_bert:tagged").set_value(["merged"]).run()
    assert not test.exception
    assert any("24 trainings, and before them 1 encoder to pre-train." in one.value for one in test.caption)
    _press(test, "Start this study")
    assert any("is not the manifest of an" in one.value for one in test.error)
    manifest = TaggingManifest("0" * 64, "invented", {}, (), (), ())
    (silver / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    _press(test, "Start this study")
    with store.read() as session:
        (job,) = job_rows.recent(session, kinds=("study",))
        assert (job.payload["config"]["tagged"], job.payload["config"]["tagging"]) == (["merged"], {})


def test_studies_screen_changes_single_rows_and_names_results(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments)
    made_result(experiments, section="dev")
    test = _open(monkeypatch, store, "researcher")
    listed = test.dataframe[0].value
    assert list(listed["study"])[:2] == ["Transfer settings and encoders"] * 2
    assert listed["name"][1] == "dev" and not isinstance(listed["name"][0], str)
    test.button_group(key="study:view").set_value("Run").run()
    rows = test.multiselect(key="study-transfer:rows")
    assert rows.options == ["direct", "pretrain_finetune", "joint"]
    rows.set_value(["joint"]).run()
    test.multiselect(key="study-transfer-row-joint:fields").set_value(["max_epochs"]).run()
    test.number_input(key="study-transfer-row-joint-recipe-max_epochs").set_value(3).run()
    assert "18 trainings" in _said(test)
    test.multiselect(key="study-transfer:only").set_value(["joint"]).run()
    assert "\n6 trainings" in _said(test)
    test.text_input(key="study-transfer:section:").set_value("short").run()
    test.number_input(key="study-transfer:workers").set_value(2).run()
    _press(test, "Start this study")
    with store.read() as session:
        (job,) = job_rows.recent(session, kinds=("study",))
    assert job.payload["config"]["rows"] == {"joint": {"max_epochs": 3}}
    assert job.payload["config"]["only"] == ["joint"]
    assert (job.payload["section"], job.payload["workers"]) == ("short", 2)
    test.text_input(key="study-transfer:section:short").set_value("a/b").run()
    assert "not a valid section name" in test.error[0].value


def test_studies_screen_asks_for_candidates_line_by_line(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments, id="recipes", cells=(), missing=())
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    candidates = test.text_area(key="study-recipes-candidates")
    assert candidates.value.splitlines()[0] == "learning_rate=1e-4"
    candidates.set_value("schedule=constant batch_size=4\n\n learning_rate=fast\n").run()
    assert "must be of type float" in test.error[0].value
    candidates = test.text_area(key="study-recipes-candidates")
    candidates.set_value("schedule=constant batch_size=4\n\n max_epochs=3\n").run()
    assert test.multiselect(key="study-recipes:rows").options == [
        "as it is", "schedule=constant batch_size=4", "max_epochs=3",
    ]  # fmt: skip
    _press(test, "Start this study")
    with store.read() as session:
        (job,) = job_rows.recent(session, kinds=("study",))
    assert job.payload["config"]["candidates"] == ["schedule=constant batch_size=4", "max_epochs=3"]


def test_studies_screen_asks_what_the_annotators_of_strategies_are_like(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    made_result(experiments, id="strategies", cells=(), missing=())
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    key = "study-strategies-annotator"
    usual = hash(AnnotatorOptions())
    test.number_input(key=f"{key}:1:{usual}-led").set_value(0.25).run()
    _press(test, "Start this study")
    test.number_input(key=f"{key}:count").set_value(2).run()
    _press(test, "Cancel this study")
    _press(test, "Start this study")
    with store.read() as session:
        second, first = (job.payload["config"]["annotator"] for job in job_rows.recent(session, kinds=("study",)))
    assert first == {"led": 0.25}
    assert second == {"annotator 1": {"led": 0.25}, "annotator 2": {}}


def test_studies_screen_without_anything_to_train_on_says_where_to_add_it(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    monkeypatch.delenv("CROSSNER_DATA")
    test = _open(monkeypatch, store, "admin")
    test.button_group(key="study:view").set_value("Run").run()
    assert "Add a data set under Sentences, Data sets, or adjudicate gold" in _said(test) and "CROSSNER" in _said(test)
    assert not [one for one in test.button if one.label.startswith("Start")]


def test_studies_screen_runs_a_study_on_data_sets_of_the_store(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    monkeypatch.delenv("CROSSNER_DATA")
    own_dataset(store, person(store, "researcher", "rosa"))
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    assert "the data sets under Sentences" in _said(test)
    assert test.multiselect(key="study-transfer-corpora").value == ["own"]
    _press(test, "Start this study")
    assert "read the source corpus conll2003, which is not there" in test.error[0].value
    test.multiselect(key="study-transfer-settings").set_value(["direct"]).run()
    _press(test, "Start this study")
    assert "is queued" in _said(test)
    with store.read() as session:
        (job,) = job_rows.recent(session, kinds=("study",))
    data = Path(job.payload["data"])
    assert data.parent == experiments.resolve() / "datasets"
    assert sorted(path.name for path in (data / "own").iterdir()) == ["dev.jsonl", "test.jsonl", "train.jsonl"]


def test_studies_screen_asks_which_corpora_where_there_are_both(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    own_dataset(store, person(store, "researcher", "rosa"))
    test = _open(monkeypatch, store, "researcher")
    test.button_group(key="study:view").set_value("Run").run()
    assert test.multiselect(key="study-transfer-corpora").value == ["politics", "music"]
    test.button_group(key="study-transfer:place").set_value("Data sets").run()
    assert not test.exception and test.multiselect(key="study-transfer-corpora").value == ["own"]


def test_studies_screen_shows_papers_and_stored_results_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    test = _open(monkeypatch, store, "expert")
    said, html = _said(test), screens.html(test)
    assert "Transfer settings and encoders" in said and "Results of this project" in said
    assert "What the papers print" in said and "2021 (CrossNER), table 2" in said.replace("\\", "")
    stored = stored_of("transfer")[0].tables[0].rows[0][1]
    assert isinstance(stored, Measured) and f"<b>{stored.mean:.2f}</b>" in html
    assert "Pre-train, then fine-tune − Direct" in html and "pretrain_finetune" not in html
    assert "[66.59]" in html and "75.71" in html  # beside ours, and of a row that is not among ours
    listed = test.dataframe[0].value
    assert listed["published"][0] == sum(row.source == LIU for row in PUBLISHED) > 100
    assert list(listed["state"].unique()) == ["not run"]


def test_studies_screen_shows_why_a_study_failed(
    monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path
) -> None:
    admin = person(store, "admin", "boss")
    job_id, _ = studies.start_study(store, admin, "transfer", {})
    claimed = lease.claim(store, worker="w")
    assert claimed is not None
    with store.write() as session:
        job_rows.finish(session, job_id=job_id, worker="w", state="failed", error="Line 1 is bad.\nLine 2 too.")
    test = _open(monkeypatch, store, "researcher")
    assert "Line 1 is bad" in test.error[0].value and test.code[0].value == "Line 2 too."


def test_studies_screen_shows_text_as_text(monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path) -> None:
    made_result(
        experiments,
        tables=(Table(HOSTILE, ("", HOSTILE), ((HOSTILE, Measured(1.0, None, 1)),), HOSTILE),),
        encoders=({"label": HOSTILE, "name": HOSTILE, "fingerprint": "ab"},),
        corpora=(HOSTILE,),
        notes=(HOSTILE,),
        missing=(HOSTILE,),
    )
    test = _open(monkeypatch, store, "researcher")
    assert "<img" not in screens.html(test) and "&lt;img src=q onerror=" in screens.html(test)
    assert "**b**" not in _said(test) and "$x$" not in _said(test)


def test_studies_screen_is_not_for_annotators(monkeypatch: pytest.MonkeyPatch, store: Store, experiments: Path) -> None:
    test = _open(monkeypatch, store, "annotator")
    assert not test.dataframe and not test.get("html")


def test_study_table_marks_published_figures_and_fewer_seeds(tmp_path: Path) -> None:
    made_result(tmp_path)
    (table,) = read_study(tmp_path / "studies" / "transfer").tables
    html = study_table(table, 1)
    assert "1 of" not in html and html.count("<tr>") == 4
    plain = replace(table, rows=(("direct", 0.5, None),))
    assert "0.50" in study_table(plain, 3) and "–" in study_table(plain, 3)
    texts = replace(table, rows=(("direct", "+0.98 to +4.68", "music +2.34 ± 0.36; of another encoder"),))
    html = study_table(texts, 3)
    assert '<span class="figure">+0.98 to +4.68</span>' in html
    assert '<span class="figure">music +2.34 ± 0.36</span>; of another encoder' in html


def test_study_shows_settings_architectures_and_types_by_their_titles() -> None:
    names = {
        "pretrain_finetune, dapt − direct, dapt": "Pre-train, then fine-tune · dapt − Direct · dapt",
        "tagger, joint: recall": "BERT tagger · Joint: recall",
        "label_aware − tagger": "LANER (label-aware tagger) − BERT tagger",
        "1:3 − 1:1": "1:3 − 1:1",
        "token_entropy + bert_km, suggestions": "token_entropy + bert_km, suggestions",
        "musicalartist": "musical artist",
    }
    html = study_table(Table("", ("tagger, direct", "joint"), tuple((name, None) for name in names), ""), 1)
    assert all(title in html for title in names.values()) and "BERT tagger · Direct" in html
    measured = Table("", ("", "joint"), (("direct", Measured(1.0, None, 1)), ("crf", Measured(2.0, None, 1))), "")
    first, second = study_figure(bars("", measured)).data
    assert (first.name, second.name, *first.x) == ("Direct", "BERT + CRF", "Joint")


def test_csv_for_a_spreadsheet_keeps_numbers_and_disarms_formulas() -> None:
    made = safe_csv(b'name,mean\n=1+1,-2.5000\n"a,b",+3\n')
    assert made == b'name,mean\n\'=1+1,-2.5000\n"a,b",+3\n'
