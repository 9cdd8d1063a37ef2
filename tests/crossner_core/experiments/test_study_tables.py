from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crossner_core.errors import BadInput, InvalidConfig, NotFound, StorageError
from crossner_core.experiments import __main__ as command
from crossner_core.experiments import results
from crossner_core.experiments.cells import Cell
from crossner_core.experiments.published import published_f1
from crossner_core.experiments.report import shown_command
from crossner_core.experiments.results import list_studies, read_study, sections_of, study_folder
from crossner_core.experiments.running import versions_of
from crossner_core.experiments.studies._grid import Row, decodings, f1_table, gain_table, ran_apart, repeated
from crossner_core.experiments.studies.transfer import TransferConfig
from crossner_core.experiments.study import Inputs, StudyConfig, study, study_ids
from crossner_core.experiments.tables import Measured, Table, interval_words, summary
from tests.support.paths import ROOT
from tests.support.study_builders import made_result


def test_table_as_markdown_csv_and_latex() -> None:
    rows = (
        ("plain & simple_1", Measured(50.0, 1.5, 3, 61.25), "3"),
        ("[other]", summary([1.0, 2.0], published=-3.0, signed=True), "2"),
        ("none", summary([]), "0"),
    )
    table = Table("F1 of 50 %", ("", "music|ai", "n"), rows, "A note.")
    assert table.to_markdown().splitlines()[2:] == [
        "| plain & simple_1 | 50.00 ± 1.50 [61.25] | 3 |",
        "| [other] | +1.50 ± 0.71 [-3.00] | 2 |",
        "| none | – | 0 |",
    ]
    header, first, second, third = csv.reader(io.StringIO(table.to_csv()))
    assert header == ["", "music|ai", "music|ai sd", "music|ai n", "music|ai published", "n"]
    assert first == ["plain & simple_1", "50.0000", "1.5000", "3", "61.25", "3"]
    assert [float(second[1]), float(second[2])] == [1.5, pytest.approx(0.7071, abs=1e-4)]
    assert third == ["none", "", "", "0", "", "0"]
    latex = table.to_latex()
    assert latex.count(r"\begin{") == latex.count(r"\end{") == 1 and r"plain \& simple\_1" in latex
    body = [line for line in latex.splitlines() if line.endswith(r"\\")]
    # Every line has the columns of the head, and none begins with what LaTeX takes for the break's length.
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {2} and not any(
        re.match(r"\[", line) for line in body
    )
    assert r"1.50 $\pm$ 0.71" in latex
    assert Table.from_dict(json.loads(json.dumps(table.to_dict()))) == table
    with pytest.raises(InvalidConfig, match="2 columns"):
        Table("t", ("a", "b"), (("x",),))


def test_published_figures_stand_beside_ours() -> None:
    gains = study("laner_ablation").cells(study("laner_ablation").config(corpora=("ai",), seeds=(1,)))
    assert len(gains) == 7
    assert published_f1("LANER", "pretrain_finetune")["ai"] == 61.72
    assert published_f1("BERT + CRF", "semi-supervised")["wikigold"] == 48.45
    assert published_f1("NER-BERT", "direct")["bionlp13pc"] == 85.35
    # The papers' averages, as printed.
    for system, setting, printed in (
        ("LANER", "pretrain_finetune", 68.74),
        ("LANER w/o label background", "pretrain_finetune", 67.21),
        ("BERT + CRF", "pretrain_finetune", 66.55),
        ("BERT + CRF + DAPT", "pretrain_finetune", 70.21),
        ("BERT-base + DAPT (token, domain)", "direct", 63.72),
        ("BERT-base + DAPT (token, integrated)", "pretrain_finetune", 68.29),
        ("BERT-base + DAPT (span, task)", "joint", 66.86),
    ):
        found = published_f1(system, setting)
        mean = sum(found[name] for name in ("politics", "science", "music", "literature", "ai")) / 5
        assert mean == pytest.approx(printed, abs=0.011), system


def test_figures_are_plotlys() -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    from crossner_core.experiments.plots import bars, curves, to_html

    values = [(10.0, Measured(30.0, 2.0, 3)), (20.0, Measured(40.0, 1.0, 3, 55.0)), (30.0, Measured(None))]
    lines = curves("Curve", "sentences", {"direct": values, "joint": values[:1]})
    drawn = graph_objects.Figure(lines)
    assert [trace.name for trace in drawn.data if trace.name] == ["direct", "direct, published", "joint"]
    assert list(drawn.data[0].y) == [32.0, 41.0, 39.0, 28.0]  # the band, there and back
    many = Table("t", ("", "ai"), tuple((f"row {at}", Measured(at, 1.0, 3, 50.0)) for at in range(9)))
    assert graph_objects.Figure(bars("Many", many)).data[0].orientation == "h"
    whole = bars("All of them", many, fold=False)
    assert sum(trace["type"] == "bar" for trace in whole["data"]) == 9
    few = graph_objects.Figure(bars("Few", replace(many, rows=many.rows[:3])))
    assert len({trace.marker.color for trace in few.data if trace.type == "bar"}) == 3
    assert "Plotly.newPlot" in to_html(lines) and "</script><" in to_html(lines)


def test_config_refuses_what_makes_no_study() -> None:
    for wrong, said in (
        ({"seeds": ()}, "seeds is empty"),
        ({"seeds": (1, 1)}, "twice"),
        ({"corpora": ("ai", "ai")}, "twice"),
        ({"corpora": ("ai", "")}, "give each by its name"),
        ({"encoders": ("a=x", "a=y")}, "labels must differ"),
        ({"encoders": ("=x",)}, "LABEL=NAME"),
        ({"recipe": {"learning_rat": 1}}, "learning_rat"),
        ({"rows": {"direct": {"batch_size": 0}}}, "batch_size"),
        ({"seeds": ("one",)}, "type int"),
    ):
        with pytest.raises(InvalidConfig, match=said):
            StudyConfig(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match=r"option sizes; valid are corpora"):
        StudyConfig.from_dict({"sizes": [1]})
    with pytest.raises(InvalidConfig, match=r"the rows are: direct; pretrain_finetune; joint"):
        study("transfer").cells(TransferConfig(corpora=("ai",), rows={"sideways": {"batch_size": 4}}))
    few = study("few_shot").config.from_dict({"sizes": [10, 25], "settings": ["direct"]})
    assert type(few).from_dict(json.loads(json.dumps(few.to_dict()))) == few


def test_rows_and_encoders_change_single_cells() -> None:
    config = TransferConfig(
        corpora=("ai", "music"), seeds=(5,), encoders=("none=minilm", "span-task=/x/{corpus}"),
        rows={"joint, none": {"batch_size": 4}},
    )  # fmt: skip
    cells = study("transfer").cells(config)
    assert {(cell.corpus, cell.recipe.encoder) for cell in cells} == {
        ("ai", "minilm"), ("music", "minilm"), ("ai", "/x/ai"), ("music", "/x/music"),
    }  # fmt: skip
    changed = [cell for cell in cells if cell.recipe.batch_size == 4]
    assert {(cell.recipe.setting, cell.recipe.encoder) for cell in changed} == {("joint", "minilm")} and len(
        cells
    ) == 12


def test_command_lists_all_studies(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert command.main(["--help"]) == 0
    helped = capsys.readouterr().out
    assert all(id in listed and id in helped for id in study_ids())
    shown = shown_command(["transfer", "--data", "../x", "--encoders", "a=/y/z", "--recipe", '{"a": 1}'])
    assert shown.endswith("""transfer --data FOLDER --encoders a=FOLDER/z --recipe '{"a": 1}'""")


def test_results_are_read_without_torch_and_damage_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Run the study first"):
        read_study(tmp_path)
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(BadInput, match="damaged"):
        read_study(tmp_path)
    code = "import sys; from crossner_core.experiments.study import study, study_ids; [study(id) for id in study_ids()]"
    check = f"{code}; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_missing_stands_in_one_line_for_all_seeds(tmp_path: Path) -> None:
    absent = (
        "music direct seed 1: not trained yet",
        "music joint seed 1 (upsample 2): not trained yet",
        "music direct seed 22: not trained yet",
        "music joint seed 22 (upsample 2): The loss is nan.",
        "3 campaigns: not played yet",
        "3 campaigns: not played yet",
    )
    assert made_result(tmp_path, missing=absent).missing_rows == (
        "music direct seeds 1, 22: not trained yet",
        "music joint seed 1 (upsample 2): not trained yet",
        "music joint seed 22 (upsample 2): The loss is nan.",
        "3 campaigns: not played yet",
    )


def test_differences_average_over_corpora_and_say_what_is_reached() -> None:
    chosen = study("differences")
    config = chosen.config(
        corpora=("ai", "music"), seeds=(1, 2), claims=("crf", "pdaln", "entity-tagging"), scarce_seeds=(7,)
    )
    cells = chosen.cells(config)
    # The claim about another encoder waits for one; tagger and CRF on two corpora with two seeds, PDALN twice.
    assert len(cells) == 8 + 2
    scarce = [cell for cell in cells if cell.corpus == "wikigold"]
    assert {(cell.size, cell.order, cell.recipe.seed, cell.recipe.pdaln_rounds) for cell in scarce} == {
        (100, "entities", 7, 0),
        (100, "entities", 7, scarce[1].recipe.pdaln_rounds),
    }
    f1 = {cell: 50.0 + (2.0 if cell.recipe.architecture == "crf" else 0.0) for cell in cells if cell not in scarce}
    music = next(cell for cell in f1 if (cell.corpus, cell.recipe.seed) == ("music", 2) and f1[cell] == 52.0)
    f1[music] = 53.0
    results = {cell: SimpleNamespace(machine={}, f1=value) for cell, value in f1.items()}
    made = chosen.build(config, Inputs(results, Path(), Path()))  # type: ignore[arg-type]
    crf, pdaln = made.tables[0].rows
    known = pytest.approx((58.03 - 58.88 + 70.34 - 68.30) / 2)  # of the same corpora
    assert crf[2] == Measured(2.25, pytest.approx(0.3536, abs=1e-4), 2, known, True)  # type: ignore[arg-type]
    assert (pdaln[1], crf[1]) == ("IOB2", "IOB2") and crf[3:6] == ("-0.93 to +5.43", *["undecided"] * 2)
    assert crf[6] == "ai +2.00 ± 0.00; music +2.50 ± 0.71"
    assert pdaln[3:6] == ("–", *["not tested"] * 2) and not made.notes
    with pytest.raises(InvalidConfig, match="Unknown claim magic"):
        chosen.config(claims=("magic",))


def test_two_ways_to_measure_one_published_row_have_no_published_difference() -> None:
    printed = published_f1("BiLSTM-CRF word", "joint")
    rows = (
        Row("folded", published=printed),
        Row("as written", published=printed, against=("folded",)),
        Row("with characters", published=published_f1("BiLSTM-CRF word+char", "joint"), against=("folded",)),
    )

    def beside(seeds: int) -> list[tuple[float | None, float | None]]:
        scores = {row.label: {"music": dict.fromkeys(range(seeds), 50.0 + number)} for number, row in enumerate(rows)}
        lines = gain_table("ours", StudyConfig(corpora=("music",)), rows, scores).rows
        return [(gain.mean, gain.published) for _, gain, *_ in lines if isinstance(gain, Measured)]

    assert beside(3) == [(1.0, None), (2.0, pytest.approx(44.79 - 40.77))]
    assert beside(2) == [(1.0, None), (2.0, None)], "fewer than three seeds are no claim"


def test_rows_say_how_they_are_decoded_and_how_often_target_sentences_are_repeated() -> None:
    rows = (
        Row("tagger", {"constrained": False}),
        Row("joint", {"constrained": False, "setting": "joint"}),
        Row("once", {"constrained": False, "setting": "joint", "upsample": 1}),
        Row("path", {"constrained": False, "architecture": "crf"}),
        Row("held", {"architecture": "label_aware"}),
        Row("written", {"architecture": "bartner"}),
    )
    config = StudyConfig(corpora=("music",))
    scores = {row.label: {"music": {1: 50.0}} for row in rows}
    assert f1_table("ours", config, rows, scores).note.endswith(
        " Decoding: argmax; best path in path; IOB2 from left to right in held; token by token in written."
    )
    assert decodings(config, [Row("tagger"), Row("crf", {"architecture": "crf"})]) == "Decoding: IOB2."
    times = "Beside the source, each labelled target sentence is read {} an epoch (upsample) in: {}."
    assert repeated(config, rows) == (times.format("50 times", "joint"), times.format("once", "once"))


def test_differences_between_machines_are_named() -> None:
    old, new = (SimpleNamespace(machine={"cpu": name, "threads": 1}) for name in ("AMD EPYC", "Intel Xeon"))
    older = SimpleNamespace(machine={"cpu": "AMD EPYC"})  # does not say how many threads
    runs = [("A − B", new, old), ("A − B", old, older), ("A − B", None, old), ("C − B", old, old)]
    assert ran_apart(runs[1:]) == ()  # type: ignore[arg-type]
    (note,) = ran_apart(runs)  # type: ignore[arg-type]
    assert note.endswith(", which alone can change F1: A − B (1 of 2 pairs).")


@pytest.mark.parametrize(
    ("id", "given", "label"),
    [
        ("transfer", {"settings": ["direct", "joint"]}, "joint − direct"),
        ("recipes", {"candidates": ["max_epochs=3"]}, "max_epochs=3 − as it is"),
        ("differences", {"claims": ["crf"]}, "CRF − tagger"),
    ],
)
def test_studies_name_differences_between_machines(id: str, given: dict[str, Any], label: str) -> None:
    config = study(id).config.from_dict({"corpora": ["music"], "seeds": [1], **given})
    cells = study(id).cells(config)
    assert len(cells) == 2

    def notes(*machines: str) -> str:
        results = {
            cell: SimpleNamespace(
                machine={"cpu": name}, f1=50.0, dev=SimpleNamespace(f1=0.5), best_epoch=1, epochs=1, train_sentences=9
            )
            for cell, name in zip(cells, machines, strict=True)
        }
        return " ".join(study(id).build(config, Inputs(results, Path(), Path())).notes)  # type: ignore[arg-type]

    assert f"which alone can change F1: {label} (1 of 1 pairs)." in notes("AMD EPYC", "Intel Xeon")
    assert "alone can change" not in notes("AMD EPYC", "AMD EPYC")
    assert ("(upsample) in: joint" in notes("AMD EPYC", "AMD EPYC")) == (id == "transfer")


def test_differences_over_corpora_are_of_the_seeds_that_have_all_of_them() -> None:
    rows = (Row("plain"), Row("more", against=("plain",)))
    scores = {
        "plain": {"music": {1: 50.0, 2: 50.0}, "ai": {1: 40.0}},
        "more": {"music": {1: 51.0, 2: 59.0}, "ai": {1: 43.0}},
    }
    (line,) = gain_table("ours", StudyConfig(corpora=("music", "ai")), rows, scores).rows
    average, over = line[3:5]
    assert isinstance(average, Measured) and isinstance(over, Measured)
    assert average.mean == over.mean == 2.0 and average.n == 1


def test_differences_of_several_seeds_have_an_interval_of_their_average() -> None:
    rows = (Row("plain"), Row("more", against=("plain",)))
    scores = {
        "plain": {"music": {1: 50.0, 2: 51.0, 3: 52.0}, "ai": {1: 40.0, 2: 40.0, 3: 40.0}},
        "more": {"music": {1: 51.0, 2: 53.0, 3: 55.0}, "ai": {1: 41.0, 2: 40.0, 3: 41.0}},
    }
    both = gain_table("ours", StudyConfig(corpora=("music", "ai")), rows, scores)
    assert both.columns == ("", "music", "ai", "average", "over corpora", "95 % interval")
    gains = summary([1.0, 1.0, 2.0], signed=True)
    assert (both.rows[0][3], both.rows[0][5]) == (gains, interval_words(gains))
    (line,) = gain_table("ours", StudyConfig(corpora=("music",)), rows, scores).rows
    assert line[1:] == (summary([1.0, 2.0, 3.0], signed=True), "-0.48 to +4.48")  # 2 ± 4.303 · 1 / √3
    assert "one checkpoint" not in both.note
    staged = StudyConfig(corpora=("music", "ai"), recipe={"setting": "pretrain_finetune"})
    assert gain_table("ours", staged, rows, scores).note.endswith("the interval leaves it out.")
    assert "one checkpoint" not in gain_table("ours", replace(staged, own_source=True), rows, scores).note
    lacking = {"plain": scores["plain"], "more": {"music": scores["more"]["music"], "ai": {}}}
    assert gain_table("ours", StudyConfig(corpora=("music", "ai")), rows, lacking).columns[-1] == "over corpora"
    first = {label: {"music": {1: by["music"][1]}} for label, by in scores.items()}
    assert gain_table("ours", StudyConfig(corpora=("music",)), rows, first).columns == ("", "music")


def test_claims_carry_the_papers_differences_over_our_domains_and_what_is_not_tested() -> None:
    chosen = study("differences")
    config = chosen.config(corpora=("music", "ai", "politics"), encoders=("entity-tagging=/x", "dapt=/y"))
    made = chosen.build(config, Inputs({}, Path(), Path()))
    rows = {str(row[0]): row for row in made.tables[0].rows}
    printed = {label: row[2].published for label, row in rows.items()}  # type: ignore[union-attr]
    for label, known in (("pretrain_finetune − direct", 4.12), ("LANER − tagger", 3.52), ("CRF − tagger", 0.98),
                         ("entity tagging (4 types), direct", 5.10), ("DAPT, pretrain_finetune", 4.81)):  # fmt: skip
        assert printed[label] == pytest.approx(known, abs=0.01), label
    assert rows["tagger held to IOB2 − by argmax"][1] == "IOB2 − argmax"
    assert rows["LANER − tagger"][1] == "IOB2 from left to right − IOB2"
    assert any("DAPT, pretrain_finetune is not tested: one encoder for all corpora" in note for note in made.notes)
    own = chosen.config(corpora=("ai",), encoders=("dapt=/y/{corpus}",), claims=("dapt",))
    assert not any("is not tested" in note for note in chosen.build(own, Inputs({}, Path(), Path())).notes)


def test_differences_give_both_sides_the_same_passes_over_the_target() -> None:
    chosen = study("differences")
    direct, tuned = (
        cell.recipe for cell in chosen.cells(chosen.config(corpora=("ai",), seeds=(1,), claims=("transfer",)))
    )
    assert (direct.setting, tuned.setting) == ("direct", "pretrain_finetune")
    assert direct.max_epochs == tuned.max_epochs + tuned.head_first_epochs


def test_differences_tune_both_sides_alike_on_dev() -> None:
    chosen = study("differences")
    config = chosen.config(corpora=("music",), seeds=(1, 2), claims=("crf",), candidates=("learning_rate=1e-4",))
    cells = chosen.cells(config)
    assert len(cells) == 8
    # By architecture and rate: F1 on dev, then on test. Each side takes what is better on dev.
    scores = {("crf", 1e-4): (0.6, 40.0), ("tagger", 1e-4): (0.2, 60.0)}
    usual = {"crf": (0.5, 50.0), "tagger": (0.7, 45.0)}
    results = {}
    for cell in cells:
        architecture = cell.recipe.architecture
        dev, test = scores.get((architecture, cell.recipe.learning_rate), usual[architecture])
        results[cell] = SimpleNamespace(machine={}, f1=test, dev=SimpleNamespace(f1=dev))
    made = chosen.build(config, Inputs(results, Path(), Path()))  # type: ignore[arg-type]
    assert made.tables[0].rows[0][2] == Measured(-5.0, 0.0, 2, pytest.approx(2.04), True)  # type: ignore[arg-type]
    chose = "CRF − tagger: dev (seeds 1, 2) chose learning_rate=1e-4 for the first, no change for the second."
    assert chose in made.notes
    assert chosen.follow is not None and set(chosen.follow(config, Inputs(results, Path(), Path()))) <= set(cells)  # type: ignore[arg-type]
    scarcer = replace(config, choice_seeds=(1,))
    first = {cell: result for cell, result in results.items() if cell.recipe.seed == 1}
    assert set(chosen.cells(scarcer)) == set(first)
    following = chosen.follow(scarcer, Inputs(first, Path(), Path()))  # type: ignore[arg-type]
    rates = {(cell.recipe.architecture, cell.recipe.seed): cell.recipe.learning_rate for cell in following}
    assert rates == {("crf", 1): 1e-4, ("crf", 2): 1e-4, ("tagger", 1): 2e-4, ("tagger", 2): 2e-4}
    results.pop(cells[-1])  # one of the CRF's with the candidate
    (row,) = chosen.build(config, Inputs(results, Path(), Path())).tables[0].rows  # type: ignore[arg-type]
    assert row[2].mean == 5.0  # type: ignore[union-attr]
    with pytest.raises(InvalidConfig, match="choice_seeds"):
        chosen.config(choice_seeds=(1,))
    with pytest.raises(InvalidConfig, match="sets architecture, of which each claim has its own"):
        chosen.config(candidates=("architecture=crf",))


def test_transfer_as_released_differs_in_the_setting_alone_and_says_how_it_trains() -> None:
    chosen = study("differences")
    config = chosen.config(corpora=("ai",), seeds=(1,), claims=("transfer-released",))
    direct, staged = (cell.recipe for cell in chosen.cells(config))
    assert (direct.setting, staged.setting) == ("direct", "pretrain_finetune")
    assert replace(staged, setting="direct").hash == direct.hash
    assert staged.schedule == "constant" and not staged.constrained and not staged.head_first_epochs
    # The release pre-trains in the target's head, inherits nothing and does not clip.
    assert (
        staged.source_head == "target" and not staged.clip_norm and replace(staged, inherit=False).hash == staged.hash
    )
    made = chosen.build(config, Inputs({}, Path(), Path()))
    assert any(note.startswith("As released") for note in made.notes)
    assert "Recipes were chosen on dev" not in made.tables[0].note


def test_pdaln_ablation_says_what_all_target_labels_would_give() -> None:
    chosen = study("pdaln_ablation")
    config = chosen.config(corpora=("wikigold",), seeds=(1,))
    whole = [cell for cell in chosen.cells(config) if cell.size is None]
    assert len(whole) == 1 and whole[0].recipe.setting == "pdaln" and whole[0].recipe.pdaln_rounds == 0
    assert {cell.size for cell in chosen.cells(config)} == {100, None}


@pytest.mark.parametrize("id", ["pdaln_ablation", "augmentation"])
def test_pdaln_studies_train_on_the_encoders_they_are_given(id: str) -> None:
    chosen = study(id)
    config = chosen.config(corpora=("wikigold",), seeds=(1,), encoders=("none=minilm", "dapt=/x/{corpus}"))
    alone = chosen.cells(chosen.config(corpora=("wikigold",), seeds=(1,)))
    cells = chosen.cells(config)
    assert len(cells) == 2 * len(alone)
    assert {cell.recipe.encoder for cell in cells} == {"minilm", "/x/wikigold"}
    results = {
        cell: SimpleNamespace(machine={}, f1=50.0, best_epoch=1, epochs=1, train_sentences=100, stages=())
        for cell in cells
    }
    made = chosen.build(config, Inputs(results, Path(), Path()))  # type: ignore[arg-type]
    both = [str(row[0]).split(" − ") for row in made.tables[1].rows]
    assert both and all(one.rpartition(", ")[2] == other.rpartition(", ")[2] for one, other in both)


@pytest.mark.parametrize("id", ["pdaln_ablation", "augmentation", "pdaln_baselines", "pdaln_grid"])
def test_pdalns_published_figures_stand_beside_its_own_set_up_alone(id: str) -> None:
    chosen = study(id)
    stage = SimpleNamespace(phase="base", dev=0.5, test=0.5, last_test=0.5)

    def printed(**given: Any) -> set[float]:
        recipe = {"encoder": "words"} if id == "pdaln_baselines" else {}
        config = chosen.config(**{"corpora": ("wikigold",), "seeds": (1, 2), "recipe": recipe, **given})
        known = SimpleNamespace(
            machine={}, f1=50.0, dev=SimpleNamespace(f1=50.0), best_epoch=1, epochs=1, train_sentences=1000,
            stages=(stage,),
        )  # fmt: skip
        results: dict[Cell, Any] = dict.fromkeys(chosen.cells(config), known)
        if chosen.follow is not None:
            results |= dict.fromkeys(chosen.follow(config, Inputs(results, Path(), Path())), known)
        made = chosen.build(config, Inputs(results, Path(), Path()))
        values = (value for table in made.tables for row in table.rows for value in row if isinstance(value, Measured))
        return {value.published for value in values if value.published is not None}

    bare = printed(target_sentences=200)  # what the paper has without labels
    assert printed() > bare and (53.06 in printed()) == (id in ("augmentation", "pdaln_grid"))
    others = printed(corpora=("webpage",))
    assert others == printed(corpora=("webpage",), target_sentences=200) and bool(others) == bool(bare)
    assert id == "augmentation" or printed(corpora=("webpage",), target_sentences=10) > others


def test_differences_are_compared_over_the_same_corpora() -> None:
    chosen = study("differences")

    def published(**given: Any) -> set[float | None]:
        config = chosen.config(corpora=("music",), claims=("pdaln", "pdaln-unsupervised"), **given)
        made = chosen.build(config, Inputs({}, Path(), Path()))
        assert "of means over the same corpora" in made.tables[0].note
        return {row[2].published and round(row[2].published, 2) for row in made.tables[0].rows}  # type: ignore[union-attr]

    assert published() == {4.03, 1.56}
    assert published(scarce_corpora=("scitech",)) == {2.02, 1.3}
    assert published(scarce_corpora=("conll2003",)) == {None}
    assert published(target_sentences=50) == {None, 1.56}  # without labels their number is nothing to it
    # On Webpage the paper has 10 labelled sentences.
    assert published(scarce_corpora=("webpage",)) == {None, 1.31}
    assert published(scarce_corpora=("webpage",), target_sentences=10) == {1.47, 1.31}
    with pytest.raises(InvalidConfig, match="encoders names mine, of which no claim is; the labels can be dapt"):
        chosen.config(encoders=("mine=/x",))


def test_rows_of_more_sentences_than_there_are_say_so_and_are_no_points() -> None:
    chosen = study("few_shot")
    config = chosen.config(corpora=("music",), seeds=(1,), sizes=(50, 100, 400), settings=("direct",))
    cells = chosen.cells(config)
    results = {
        cell: SimpleNamespace(machine={}, f1=50.0, best_epoch=1, epochs=1, train_sentences=min(cell.size or 0, 100))
        for cell in cells
    }
    made = chosen.build(config, Inputs(results, Path(), Path()))  # type: ignore[arg-type]
    assert "music has only 100 training sentences, and so have these rows: direct, 400." in made.notes
    assert made.figure is not None and list(made.figure["data"][0]["x"]) == [50, 100]
    assert [row[0] for row in made.tables[0].rows] == ["direct, 50", "direct, 100", "direct, 400"]


@pytest.mark.parametrize(
    ("id", "given", "says"),
    [
        ("few_shot", {"settings": ()}, "settings is empty; give at least one"),
        ("few_shot", {"sizes": ()}, "sizes is empty"),
        ("augmentation", {"ratios": ()}, "ratios is empty"),
        ("per_category", {"architectures": ()}, "architectures is empty"),
        ("vocabulary", {"encoders": ("a=minilm",)}, "encoders would have no effect: words are counted"),
        ("vocabulary", {"recipe": {"max_epochs": 3}}, "recipe would have no effect"),
        ("representations", {"rows": {"x": {"max_epochs": 3}}}, "rows would have no effect"),
        ("representations", {"recipe": {"max_epochs": 3}}, "recipe sets max_epochs, but nothing is trained"),
    ],
)
def test_studies_refuse_what_would_have_no_effect(id: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        study(id).config(**given)


def test_study_says_where_dev_kept_what_the_last_stage_began_with() -> None:
    chosen = study("pdaln_ablation")
    config = chosen.config(corpora=("wikigold",), seeds=(1, 2))
    cells = [cell for cell in chosen.cells(config) if cell.recipe.pdaln_rounds and cell.recipe.setting == "pdaln"]
    without = [cell for cell in cells if not cell.recipe.pdaln_use_word_mmd]
    best = {cell: 0 if cell.recipe.seed == 1 and cell in without else 3 for cell in cells}
    results = {
        cell: SimpleNamespace(machine={}, f1=50.0, best_epoch=epoch, epochs=1, train_sentences=100, stages=())
        for cell, epoch in best.items()
    }
    made = chosen.build(config, Inputs(results, Path(), Path()))  # type: ignore[arg-type]
    assert made.notes[-1].endswith("what it began with, which was kept: PDALN w/o word MMD (1 of 2).")
    assert not any("†" in str(row[0]) for table in made.tables for row in table.rows)
    never = {
        cell: SimpleNamespace(**{**vars(result), "best_epoch": 0}) if cell in without else result
        for cell, result in results.items()
    }
    marked = chosen.build(config, Inputs(never, Path(), Path()))  # type: ignore[arg-type]
    assert marked.notes[-2].endswith("(2 of 2).") and marked.notes[-1].startswith("† marks rows")
    labels = [str(row[0]) for table in marked.tables for row in table.rows if "†" in str(row[0])]
    assert labels == ["PDALN w/o word MMD †", "PDALN w/o word MMD † − PDALN"]
    later = {
        cell: SimpleNamespace(machine={}, f1=50.0, best_epoch=None, epochs=1, train_sentences=100, stages=())
        for cell in cells
    }
    assert len(chosen.build(config, Inputs(later, Path(), Path())).notes) == len(made.notes) - 1  # type: ignore[arg-type]


def test_recipes_are_chosen_on_dev_and_test_is_read_for_the_choice_alone() -> None:
    chosen = study("recipes")
    config = chosen.config(
        corpora=("ai", "music"), seeds=(1, 2), recipe={"setting": "direct"}, encoders=("a=/a", "b=/b"),
        candidates=("learning_rate=1e-4", "schedule=constant label_smoothing=0.1"),
    )  # fmt: skip
    cells = chosen.cells(config)
    assert len(cells) == 3 * 2 * 2 * 2
    assert {(cell.recipe.schedule, cell.recipe.label_smoothing, cell.recipe.learning_rate) for cell in cells} == {
        ("linear", 0.0, 2e-4), ("linear", 0.0, 1e-4), ("constant", 0.1, 2e-4),
    }  # fmt: skip

    def result(cell: Cell) -> SimpleNamespace:
        """On a the rate is better on dev and worse on test; on b nothing is better than the recipe as it is."""
        changed = cell.recipe.learning_rate == 1e-4
        dev = 0.6 if changed and cell.recipe.encoder == "/a" else 0.5 if cell.recipe.schedule == "linear" else 0.4
        return SimpleNamespace(
            machine={}, dev=SimpleNamespace(f1=dev), f1=30.0 if changed else 70.0, best_epoch=1, epochs=1
        )

    results = {cell: result(cell) for cell in cells}
    made = chosen.build(config, Inputs(results, Path(), Path()))  # type: ignore[arg-type]
    assert made.notes == ("Best on dev: learning_rate=1e-4, a.", "Best on dev: as it is, b.")
    on_dev, gains, first, first_gains, second = made.tables
    assert on_dev.note.split(":")[0].endswith("on dev") and gains.note.startswith("Differences of dev F1")
    values = [row[-2] for row in on_dev.rows]
    assert [round(one.mean or 0.0) for one in values if isinstance(one, Measured)] == [50, 60, 40, 50, 50, 40]
    assert [row[0] for row in first.rows] == ["as it is, a", "learning_rate=1e-4, a"]
    assert "-40.00" in first_gains.to_markdown() and "test" in first.note
    assert [row[0] for row in second.rows] == ["as it is, b"]
    # While a candidate lacks a seed, nothing is chosen for its encoder.
    missing = next(cell for cell in cells if cell.recipe.encoder == "/a")
    part = chosen.build(
        config,
        Inputs(
            {**results, missing: SimpleNamespace(machine={}, dev=None, f1=1.0, best_epoch=1, epochs=1)}, Path(), Path()
        ),
    )  # type: ignore[dict-item]
    assert len(part.tables) == 3 and part.notes[0].startswith("Nothing is chosen")


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        ("learning_rate", "is not FIELD=VALUE"),
        ("learning_rate=", "is not FIELD=VALUE"),
        ("schedule=linear schedule=constant", "each field once"),
        (" ", "is empty"),
        ("seed=3", "sets seed"),
        ("learning_rat=1", "learning_rat"),
        ("batch_size=0", "batch_size"),
        ("schedule=linear", "trains the same as 'as it is'"),
        ("label_size=20", "trains the same as 'as it is'"),
    ],
)
def test_recipe_candidate_that_makes_none_is_refused(candidate: str, says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        study("recipes").config(candidates=(candidate,))


def test_recipe_that_every_row_overrides_is_refused_and_the_rest_is_noted() -> None:
    def cells(id: str, **changes: Any) -> list[Cell]:
        config = study(id).config(**{"corpora": ("ai",), "seeds": (1,), **changes})
        return list(study(id).cells(config))

    for id, recipe in (
        ("transfer", {"setting": "joint"}),
        ("few_shot", {"architecture": "crf"}),
        ("laner_ablation", {"setting": "direct"}),
        ("label_size", {"label_size": 20}),
        ("differences", {"setting": "direct"}),
        ("differences", {"architecture": "crf"}),
    ):
        with pytest.raises(InvalidConfig, match=f"recipe sets {next(iter(recipe))}"):
            cells(id, recipe=recipe)
    with pytest.raises(InvalidConfig, match="recipe sets encoder"):
        cells("transfer", recipe={"encoder": "minilm"}, encoders=("one=/x", "two=/y"))
    with pytest.raises(InvalidConfig, match="recipe sets max_epochs"):
        cells("differences", recipe={"max_epochs": 5}, claims=("transfer", "laner"))
    for wrong in ({"recipe": {"seed": 3}}, {"rows": {"direct": {"seed": 3}}}):
        with pytest.raises(InvalidConfig, match="its own seeds"):
            cells("transfer", **wrong)
    # What every row has as it was asked for is no contradiction, and what is no row's own reaches all.
    assert len(cells("label_size", recipe={"setting": "pretrain_finetune"}, sizes=(10, 20))) == 2
    assert {cell.recipe.batch_size for cell in cells("transfer", recipe={"batch_size": 5})} == {5}


def test_differences_name_the_claims_with_values_of_their_own() -> None:
    chosen = study("differences")
    asked = {"corpora": ("ai",), "seeds": (1,), "claims": ("transfer", "laner", "pdaln"), "scarce_seeds": (1,)}
    config = chosen.config(**asked, recipe={"batch_size": 4, "label_embedding_dropout": 0.0, "dropout": 0.2})
    with pytest.raises(InvalidConfig, match="recipe sets label_embedding_dropout"):
        chosen.cells(config)
    config = chosen.config(**asked, recipe={"batch_size": 4, "dropout": 0.2})
    assert {cell.recipe.batch_size for cell in chosen.cells(config)} == {4, 16}
    first, *_ = chosen.build(config, Inputs({}, Path(), Path())).notes
    assert first == (
        "batch_size is not as asked for, but the study's own, in: pretrain_finetune − direct; LANER − tagger."
    )
    with pytest.raises(InvalidConfig, match=r"rows names typo, but the rows are: .*LANER − tagger"):
        chosen.cells(chosen.config(**asked, rows={"typo": {"max_epochs": 1}}))
    changed = chosen.cells(chosen.config(**asked, rows={"LANER − tagger": {"max_epochs": 1}}))
    assert [cell.recipe.architecture for cell in changed if cell.recipe.max_epochs == 1] == ["label_aware"]


def test_study_folder_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made_result(tmp_path, tables=(Table("a", ("x",), ((1,),)), Table("b", ("x",), ((2,),))))
    folder = study_folder(tmp_path, "transfer")
    assert {path.name for path in folder.iterdir()} >= {"table.csv", "table-2.csv", "figure.json", "study.json"}

    def full(*_: object) -> None:
        raise StorageError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(results, "write_json", full)
        with pytest.raises(StorageError, match="No space"):
            made_result(tmp_path, title="Another", tables=(Table("c", ("x",), ((3,),)),))
    assert read_study(folder) == first and (folder / "table-2.csv").read_text() == "x\n2\n"
    assert [path.name for path in folder.parent.iterdir()] == ["transfer"]
    shutil.copytree(folder, folder.with_name(".transfer.old"))
    assert list_studies(tmp_path) == [first] and sections_of(tmp_path, "transfer") == ("",)
    made_result(tmp_path, tables=(Table("c", ("x",), ((3,),)),), figure=None)
    assert sorted(path.name for path in folder.iterdir()) == ["study.json", "table.csv", "table.md", "table.tex"]


def test_versions_are_those_of_all_results() -> None:
    results = [SimpleNamespace(versions=values) for values in ({"torch": "2", "numpy": "1"}, {"torch": "3"})]
    assert versions_of(results) == {"torch": "2 / 3", "numpy": "1 / none"}  # type: ignore[arg-type]
    assert set(versions_of([])) == {"python", "numpy"}
