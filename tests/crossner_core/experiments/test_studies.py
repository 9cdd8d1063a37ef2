from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import signal
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_core.adaptation.pretraining import PretrainResult
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.experiments import __main__ as command
from crossner_core.experiments import training_cells
from crossner_core.experiments.cells import Binder, Cell, CellResult, CellStore, run_folder
from crossner_core.experiments.executor import Line, run_cells
from crossner_core.experiments.records import pack
from crossner_core.experiments.report import how_measured
from crossner_core.experiments.results import list_studies, read_study
from crossner_core.experiments.running import NothingMeasured, run_study
from crossner_core.experiments.studies.transfer import TransferConfig
from crossner_core.experiments.study import StudyEvent, study, study_ids
from crossner_core.experiments.tables import Measured
from crossner_core.experiments.training_cells import CellEvent, CellTask, cell_events
from crossner_core.parallel import run_pool, threads_for
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans
from crossner_core.training import processes
from crossner_core.training.events import TrainEvent
from crossner_core.training.recipe import Recipe
from tests.support.on_ray import needs_ray, run_study_on_ray
from tests.support.training_builders import own_sentences, save_encoder, tiny_recipe


def _write(path: Path, items: Iterable[LabelledSentence]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = []
    for item in items:
        words = item.sentence.words
        tags = tags_from_spans(item.spans, len(words))
        blocks.append("\n".join(f"{word}\t{tag}" for word, tag in zip(words, tags, strict=True)))
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two target corpora, north and south, and the source corpus press."""
    root = tmp_path_factory.mktemp("corpora")
    for at, (name, size) in enumerate((("north", 12), ("south", 10), ("press", 16))):
        for split, count, offset in (("train", size, 0), ("dev", 6, 30), ("test", 8, 40)):
            _write(root / name / f"{split}.txt", own_sentences(count, offset=offset + 3 * at))
    return root


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tiny encoder in a folder."""
    return str(save_encoder(tmp_path_factory.mktemp("encoders") / "tiny"))


def _small(encoder: str) -> TransferConfig:
    made = tiny_recipe(encoder=encoder, source="press", max_epochs=2, head_first_epochs=1, source_epochs=1)
    plain = Recipe().to_dict()
    recipe = {name: value for name, value in made.to_dict().items() if value != plain[name]}
    return TransferConfig(corpora=("north", "south"), seeds=(1, 2), recipe=recipe)


@pytest.fixture
def config(encoder: str) -> TransferConfig:
    """Two corpora, two seeds, a moment's training."""
    return _small(encoder)


def _run(config: TransferConfig, data: Path, out: Path, id: str = "transfer", **options: Any) -> list[StudyEvent]:
    return list(run_study(id, config, data=data, out=out, **options))


@pytest.fixture(scope="module")
def whole(
    data: Path, encoder: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, TransferConfig, StudyEvent]:
    """A study that ran without interruption: its folder of results, its config and its last event."""
    out, config = tmp_path_factory.mktemp("whole"), _small(encoder)
    return out, config, _run(config, data, out)[-1]


def test_study_says_what_an_encoders_pretraining_came_to(data: Path, encoder: str, tmp_path: Path) -> None:
    own = Path(shutil.copytree(encoder, tmp_path / "own"))
    made = PretrainResult(
        kind="dapt", encoder=str(own), before=719.25, after=256.5, measure="perplexity", steps=150, epochs=1,
        tokens=300_000, seconds=1.0, peak_memory_mb=1.0, refit=260.0,
        provenance={"corpus": {"files": [{"name": "wiki.txt", "bytes": 5, "sha256": "0"}], "percent": 25}},
    )  # fmt: skip
    level = {"manifest": [{"name": "manifest.json", "bytes": 5}], "domain": "music", "level": "entity"}
    assert replace(made, provenance={"corpus": level}).text == "Wikipedia (music, entity)"
    assert replace(made, provenance={"corpus": "own sentences"}).text == ""
    (own / "pretraining.json").write_text(json.dumps(made.to_dict()), encoding="utf-8")
    small = _small(encoder)
    recipe = {name: value for name, value in small.recipe.items() if name != "encoder"}
    config = replace(small, corpora=("north",), seeds=(1,), recipe=recipe, encoders=(f"none={encoder}", f"dapt={own}"))
    result = _run(config, data, tmp_path)[-1].result
    assert result is not None
    said = (
        "held-out perplexity 719.25 → 256.50 (260.00 through a fresh head) by 300,000 subwords of wiki.txt in 150 steps"
    )
    assert [one["pretrained"] for one in result.encoders] == ["", said] and said in how_measured(result)
    (own / "pretraining.json").write_text("{", encoding="utf-8")
    again = _run(config, data, tmp_path)[-1].result
    assert again is not None and "cannot be read" in again.encoders[1]["pretrained"]
    assert again.tables == result.tables


def _trained(events: list[StudyEvent]) -> set[str]:
    return {event.cell for event in events if event.cell}


def _tasks(config: TransferConfig, data: Path, out: Path) -> list[CellTask]:
    binder = Binder(data)
    return [CellTask(binder.bind(cell), data, out) for cell in study("transfer").cells(config)]


def test_studies_are_listed_and_explain_themselves() -> None:
    assert "transfer" in study_ids()
    for id in study_ids():
        found = study(id)
        assert found.id == id and found.question.endswith("?") and found.reference and found.title
    with pytest.raises(InvalidConfig, match=r"'sideways'.*transfer"):
        study("sideways")


def test_study_trains_every_cell_once_and_writes_its_folder(
    whole: tuple[Path, TransferConfig, StudyEvent], data: Path, tmp_path: Path
) -> None:
    out, config, last = whole
    result = last.result
    assert result is not None and result.complete and last.done == last.total == 12
    folder = out / "studies" / "transfer"
    assert {path.name for path in folder.iterdir()} == {
        "table.md", "table.csv", "table-2.csv", "table.tex", "figure.json", "study.json",
    }  # fmt: skip
    assert read_study(folder) == result == list_studies(out)[0]
    assert len(list((out / "cells").glob("*.json"))) == len(result.cells) == 12
    assert not [path for path in (out / "runs").iterdir() if path.is_dir()]  # finished: no checkpoints stay
    assert len(list((out / "source").iterdir())) == 1  # one source stage for all corpora and seeds
    values = json.loads((folder / "study.json").read_text())
    assert (
        values["seeds"] == [1, 2]
        and values["machines"][0].endswith(("fp32", "bf16"))
        and values["encoders"][0]["name"] == "tiny"
    )

    again = _run(config, data, out)
    assert not _trained(again) and again[-1].result is not None
    assert again[-1].result.tables == result.tables
    packed = tmp_path / "packed"
    shutil.copytree(out / "cells", packed / "cells")
    pack(packed)
    again = _run(config, data, packed, should_stop=lambda: True)
    assert again[-1].result is not None and again[-1].result.tables == result.tables


def test_study_numbers_are_those_of_the_cells(whole: tuple[Path, TransferConfig, StudyEvent]) -> None:
    out, _, last = whole
    result = last.result
    assert result is not None
    cells = [CellResult.from_dict(json.loads(path.read_text())) for path in (out / "cells").iterdir()]
    f1 = {(one.recipe["setting"], one.corpus, one.recipe["seed"]): 100 * one.test.f1 for one in cells}
    table, gains = result.tables
    assert table.columns == ("", "north", "south", "average", "n")
    row = {line[0]: line for line in table.rows}["joint"]
    here = [f1["joint", "north", 1], f1["joint", "north", 2]]
    assert row[1] == Measured(pytest.approx(statistics.mean(here)), pytest.approx(statistics.stdev(here)), 2)
    whole = [(f1["joint", "north", seed] + f1["joint", "south", seed]) / 2 for seed in (1, 2)]
    assert row[3] == Measured(pytest.approx(statistics.mean(whole)), pytest.approx(statistics.stdev(whole)), 2)
    gain = {line[0]: line for line in gains.rows}["joint − direct"]
    apart = [f1["joint", "south", seed] - f1["direct", "south", seed] for seed in (1, 2)]
    assert isinstance(gain[2], Measured) and gain[2].signed
    assert (gain[2].mean, gain[2].sd) == (pytest.approx(statistics.mean(apart)), pytest.approx(statistics.stdev(apart)))


@pytest.mark.slow
def test_study_stopped_in_a_cell_goes_on_from_there(
    whole: tuple[Path, TransferConfig, StudyEvent], config: TransferConfig, data: Path, tmp_path: Path
) -> None:
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps > 14

    events = _run(config, data, tmp_path / "cut", should_stop=stop)
    partial = events[-1].result
    assert partial is not None and not partial.complete and len(partial.missing) == 12 - len(partial.cells)
    assert 0 < len(partial.cells) < 12
    begun = [path for path in (tmp_path / "cut" / "runs").iterdir() if path.is_dir()]
    assert len(begun) == 1 and (begun[0] / "state").is_dir()

    rest = _run(config, data, tmp_path / "cut")
    assert _trained(rest).isdisjoint(partial.cells) and len(_trained(rest)) == 12 - len(partial.cells)
    assert any("Resumed at" in event.message for event in rest)
    assert rest[-1].result is not None and whole[2].result is not None
    assert rest[-1].result.tables == whole[2].result.tables


def test_study_with_a_failing_cell_trains_the_others(
    config: TransferConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crossner_core.training import loop

    real = loop.train

    def failing(recipe: Recipe, *args: Any, **options: Any) -> Iterator[TrainEvent]:
        if (recipe.setting, recipe.seed) == ("joint", 2):
            raise RuntimeError("out of luck")
        for event in real(recipe, *args, **options):
            if event.result is not None and (recipe.setting, recipe.seed) == ("direct", 2):
                yield replace(event, result=replace(event.result, outcome="not_finite", notes=("The loss is nan.",)))
            else:
                yield event

    alone = replace(config, corpora=("north",))
    with monkeypatch.context() as patch:
        patch.setattr(loop, "train", failing)
        last = _run(alone, data, tmp_path)[-1]
    assert last.result is not None and (last.done, last.failed, last.total) == (4, 2, 6)
    assert any("The loss is nan." in text for text in last.result.missing)
    crashed = next(text for text in last.result.missing if "RuntimeError: out of luck" in text)
    assert "Traceback" in Path(re.findall(r"see (.*)\)", crashed)[0]).read_text()
    rows = {row[0]: row[1] for row in last.result.tables[0].rows}
    assert isinstance(rows["joint"], Measured) and (rows["joint"].n, rows["joint"].sd) == (1, None)
    (gain,) = [row[1] for row in last.result.tables[1].rows if row[0] == "joint − direct"]
    assert isinstance(gain, Measured) and gain.n == 1
    whole = _run(alone, data, tmp_path)
    assert len(_trained(whole)) == 2 and whole[-1].result is not None and whole[-1].result.complete


def test_study_of_which_nothing_is_measured_says_why(config: TransferConfig, data: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="stopped before"):
        _run(config, data, tmp_path, should_stop=lambda: True)
    assert not (tmp_path / "studies").exists()


@pytest.mark.slow
def test_pool_goes_on_when_a_worker_dies(config: TransferConfig, data: Path, tmp_path: Path) -> None:
    tasks = _tasks(replace(config, seeds=(1,), corpora=("north",)), data, tmp_path)[:2]
    events: list[CellEvent] = []
    for event in run_pool(cell_events, Line(tasks), 1):  # one worker: starting a process is what takes its time
        if not events:
            victim = multiprocessing.active_children()[0].pid
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
        events.append(event)
    assert [event.key for event in events if event.result] == [task.cell.key for task in reversed(tasks)]
    assert not any(event.error for event in events)


@pytest.mark.slow
def test_pool_shares_the_cores_out_among_its_workers(config: TransferConfig, data: Path, tmp_path: Path) -> None:
    here = torch.get_num_threads()
    tasks = _tasks(replace(config, seeds=(1,)), data, tmp_path)
    direct = [task for task in tasks if task.cell.recipe.setting == "direct"]

    def threads(tasks: Sequence[CellTask]) -> list[int]:
        return [event.result.machine["threads"] for event in run_cells(tasks, workers=2) if event.result]

    assert threads(direct) == [max(1, here // 2)] * 2
    # One that is left of an interrupted study is trained as it would have been, in this process.
    assert threads([replace(direct[0], out=tmp_path / "alone")]) == [max(1, here // 2)]
    assert torch.get_num_threads() == here
    assert threads_for(1) == 0 and threads_for(10 * here) == 1


def test_line_lets_one_cell_train_the_source_for_the_others(config: TransferConfig, data: Path, tmp_path: Path) -> None:
    tasks = _tasks(config, data, tmp_path)
    line = Line(tasks)
    first = line.take()
    assert first is not None and first.cell.recipe.setting == "pretrain_finetune"
    taken = []
    while (task := line.take()) is not None:
        taken.append(task.cell.recipe.setting)
    assert sorted(taken) == ["direct"] * 4 + ["joint"] * 4 and len(line.waiting) == 3
    line.note(CellEvent(first.cell.key, error="The loss is nan."))
    second = line.take()
    assert second is not None and line.take() is None  # the next one trains the source in its place
    line.note(CellEvent(second.cell.key, past_source=True))
    assert line.take() is not None and line.take() is not None and not line.waiting


def test_cell_in_full_tells_it_from_the_others_of_a_study() -> None:
    plain = Recipe(architecture="label_aware", setting="pretrain_finetune", seed=666)
    cells = [
        Cell("north", plain),
        Cell("north", replace(plain, constrained=False)),
        Cell("north", replace(plain, constrained=False, label_context=False, source="south")),
        # Neither architecture nor setting reads this one.
        Cell("north", replace(plain, pdaln_rounds=0)),
    ]
    name = "north pretrain_finetune label_aware minilm seed 666"
    assert [str(cell) for cell in cells] == 4 * [name]
    assert cells[0].in_full == cells[3].in_full == name
    assert cells[1].in_full == f"{name} (constrained False)"
    told = cells[2].in_full.removeprefix(f"{name} (").removesuffix(")").split(", ")
    assert sorted(told) == ["constrained False", "label_context False", "source south"]


def test_cell_key_counts_what_decides_the_numbers(data: Path, encoder: str, tmp_path: Path) -> None:
    binder, recipe = Binder(data), tiny_recipe(encoder=encoder, source="press")
    key = binder.bind(Cell("north", recipe)).key
    # A direct run does not care for the source, and a size as large as the corpus is no size.
    assert binder.bind(Cell("north", replace(recipe, source="south"), size=12, order="random")).key == key
    moved = save_encoder(tmp_path / "elsewhere")
    assert binder.bind(Cell("north", replace(recipe, encoder=str(moved)))).key == key
    others = [
        Cell("south", recipe),
        Cell("north", recipe, size=5),
        Cell("north", replace(recipe, seed=9)),
        Cell("north", replace(recipe, setting="joint")),
    ]
    assert len({key, *(binder.bind(cell).key for cell in others)}) == 5
    with pytest.raises(ValueError, match="bound"):
        _ = Cell("north", recipe).key


def test_cell_of_an_older_recipe_is_found_again(config: TransferConfig, data: Path, tmp_path: Path) -> None:
    (task, *_) = _tasks(config, data, tmp_path)
    *_, last = run_cells([task])
    assert last.result is not None
    (path,) = (tmp_path / "cells").iterdir()
    values = json.loads(path.read_text())
    del values["recipe"]["weight_decay"]  # as if the field had come later; its default says the same
    path.with_name("0123456789.json").write_text(json.dumps(values))
    path.unlink()
    assert CellStore(tmp_path).get(task.cell.key) == replace(last.result, key="0123456789", recipe=values["recipe"])
    path.write_text("{")
    with pytest.raises(BadInput, match=r"damaged.*Delete it"):
        CellStore(tmp_path)


def test_cell_kept_on_request_is_trained_again_if_its_tagger_is_gone(
    config: TransferConfig, data: Path, tmp_path: Path
) -> None:
    alone = replace(config, corpora=("north",), seeds=(1,))
    _run(alone, data, tmp_path)
    kept = _run(alone, data, tmp_path, keep=True)
    assert kept[-1].result is not None and _trained(kept) == set(kept[-1].result.cells)
    assert all((run_folder(tmp_path, key) / "tagger").is_dir() for key in kept[-1].result.cells)
    assert not _trained(_run(alone, data, tmp_path, keep=True))


def test_cell_waits_for_another_process_that_trains_it(
    config: TransferConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(training_cells, "_SECONDS_BETWEEN_LOOKS", 0.01)
    task, looks = _tasks(config, data, tmp_path)[0], 0
    lock = run_folder(tmp_path, f"{task.cell.key}.lock")
    lock.parent.mkdir(parents=True)

    def stop() -> bool:
        nonlocal looks
        looks += 1
        return looks > 3

    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert [event.stopped for event in run_cells([task], should_stop=stop)] == [True]
    assert not (tmp_path / "cells").exists()


def test_command_runs_a_study_and_writes_its_section(
    config: TransferConfig, data: Path, encoder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, out = tmp_path / "page.md", tmp_path / "out"
    page.write_text("# Results\n\nBy hand.\n")
    recipe = json.dumps({name: value for name, value in config.recipe.items() if name != "encoder"})
    words = [
        "transfer",
        "--data",
        str(data),
        "--out",
        str(out),
        "--corpora",
        "north",
        "--seeds",
        "1",
        "--encoder",
        encoder,
    ]
    assert command.main([*words, "--recipe", recipe, "--report", str(page), "--html"]) == 0
    text = page.read_text()
    assert text.startswith("# Results\n\nBy hand.") and "<!-- begin study-transfer -->" in text
    assert "`python -m crossner_core.experiments transfer --data FOLDER --out FOLDER --corpora north" in text
    assert str(tmp_path) not in text and encoder not in text
    assert "Seeds 1" in text and "tiny (" in text and "| pretrain_finetune |" in text
    assert "Plotly" in (out / "studies" / "transfer" / "figure.html").read_text()
    assert "[3/3]" in capsys.readouterr().out
    assert command.main([*words, "--recipe", recipe, "--report", str(page), "--tables", "--section", "again"]) == 0
    assert page.read_text().startswith(text.rstrip()) and "<!-- begin study-transfer-again -->" in page.read_text()
    assert command.main([*words, "--section", "a b"]) == 2
    assert "not a valid section name" in capsys.readouterr().err

    for wrong, said in (
        ([*words[:5], "--corpora", "west"], f"no corpus west in {data}; those there are north, press, south"),
        (words[:5], "no corpus politics, science"),
        ([*words, "--recipe", "{"], "not JSON"),
        ([*words, "--recipe", "[1]"], "not a JSON object"),
        ([*words, "--recipe", recipe, "--workers", "0"], "workers is 0"),
        ([*words[:9], "--encoder", "./nowhere"], "No encoder folder"),
    ):
        assert command.main(wrong) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ") and said in error and error.count("\n") == 1


@needs_ray
@pytest.mark.slow
def test_study_as_ray_tasks_gives_the_same_tables(config: TransferConfig, data: Path, tmp_path: Path) -> None:
    alone = replace(config, corpora=("north",), seeds=(1,))
    here = _run(alone, data, tmp_path / "here")[-1].result
    recipe = json.dumps(dict(config.recipe))
    words = ["transfer", "--data", str(data), "--out", str(tmp_path / "ray"), "--corpora", "north", "--seeds", "1"]
    run_study_on_ray([*words, "--recipe", recipe])
    assert here is not None and read_study(tmp_path / "ray" / "studies" / "transfer").tables == here.tables


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_study_without_ray_says_how_to_get_it(config: TransferConfig, data: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"requirements-ray\.txt"):
        _run(config, data, tmp_path, ray="local")


def test_cells_of_launched_processes_are_trained_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_present", processes.Processes(0, 2))
    with pytest.raises(InvalidConfig, match="workers at 1"):
        run_cells([], workers=2)
