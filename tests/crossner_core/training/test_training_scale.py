"""Parts of a batch, values computed again, and several processes: the same run in less memory or time."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from crossner_core.adaptation.__main__ import main as pretrain
from crossner_core.adaptation.pretraining import read_result
from crossner_core.calibration.model_scores import TagScores
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.windows import Batch, Window
from crossner_core.errors import InvalidConfig
from crossner_core.experiments.corpora import read_corpus
from crossner_core.formats import write
from crossner_core.formats.base import Record
from crossner_core.models.base import TokenTagger
from crossner_core.models.registry import architecture_ids
from crossner_core.training.__main__ import main, read_data
from crossner_core.training.checkpoint import read_json
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.outcome import spans_of
from crossner_core.training.predictor import Predictor, load_tagger
from crossner_core.training.processes import present, run_together
from crossner_core.training.recipe import Recipe
from tests.support.gazetteers.fakes import compiled
from tests.support.paths import ROOT
from tests.support.training_builders import own_sentences, save_encoder, tiny_data, tiny_encoder, tiny_recipe


def result(recipe: Recipe, folder: Path, encoder: Encoder | None = None) -> RunResult:
    *_, last = train(recipe, tiny_data(), checkpoint_dir=folder, encoder=encoder or tiny_encoder())
    assert last.result is not None
    return last.result


def difference(first: Path, second: Path) -> float:
    one, two = (load_tagger(folder).model.state_dict() for folder in (first, second))
    assert one.keys() == two.keys()
    return max(float((one[name] - two[name]).abs().max()) for name in one)


@pytest.mark.parametrize("architecture", architecture_ids())
def test_scale_parts_of_a_batch_make_the_step_of_the_whole(tmp_path: Path, architecture: str) -> None:
    encoder = tiny_encoder(dropout=0.0)
    options = {"architecture": architecture, "max_epochs": 1, "batch_size": 5}
    options |= {"dropout": 0.0, "type_rows_dropout": 0.0, "type_texts_dropout": 0.0}
    # To the tiny encoder all names are one text; the gradients are then rounding, which AdamW makes as large as others.
    options |= {"type_texts": "random", "lstm_size": 32, "span_size": 16}
    whole = result(tiny_recipe(**options), tmp_path / "whole", encoder)
    parts = result(tiny_recipe(**options, accumulate=3), tmp_path / "parts", encoder)
    assert difference(tmp_path / "whole", tmp_path / "parts") < 1e-4
    assert [record.loss for record in parts.history] == pytest.approx([r.loss for r in whole.history], abs=1e-4)
    assert parts.steps == whole.steps


def test_scale_more_parts_than_sentences_is_one_sentence_each(tmp_path: Path) -> None:
    encoder, options = tiny_encoder(dropout=0.0), {"dropout": 0.0, "max_epochs": 1, "batch_size": 3}
    result(tiny_recipe(**options), tmp_path / "whole", encoder)
    result(tiny_recipe(**options, accumulate=7), tmp_path / "parts", encoder)
    assert difference(tmp_path / "whole", tmp_path / "parts") < 1e-4


def test_scale_large_batches_are_cut_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, options = tiny_encoder(dropout=0.0), {"dropout": 0.0, "max_epochs": 1, "batch_size": 5}
    whole = result(tiny_recipe(**options), tmp_path / "whole", encoder)
    sizes: list[int] = []
    hidden = TokenTagger.hidden

    def sized(model: TokenTagger, batch: Batch) -> torch.Tensor:
        sizes.extend([batch.input_ids.numel()] if model.training else [])
        return hidden(model, batch)

    monkeypatch.setattr(TokenTagger, "hidden", sized)
    result(tiny_recipe(**options), tmp_path / "again", encoder)
    least = max(sizes) // 3
    sizes.clear()
    monkeypatch.setattr("crossner_core.training.tagging.MOST_VALUES", least * encoder.values_a_position)
    parts = result(tiny_recipe(**options), tmp_path / "parts", encoder)
    assert 0 < max(sizes) < 2 * least
    assert parts.history[0].loss == pytest.approx(whole.history[0].loss, abs=1e-5)
    assert difference(tmp_path / "whole", tmp_path / "parts") < 1e-4


def test_scale_dev_is_not_read_again_after_its_best_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    scores = Predictor.window_scores

    def counted(predictor: Predictor, windows: Sequence[Window], count: int, batch_size: int = 32) -> list[TagScores]:
        read.append(count)
        return scores(predictor, windows, count, batch_size)

    monkeypatch.setattr(Predictor, "window_scores", counted)
    recipe = tiny_recipe(max_epochs=2)
    got = result(recipe, tmp_path / "run")
    looks = sum(record.dev_f1 is not None for record in got.history)
    assert len(read) == looks + 1  # and test once
    assert got.calibration is not None and got.dev is not None
    predictor, dev = load_tagger(tmp_path / "run"), tiny_data().dev
    assert got.dev_predictions == spans_of(predictor, predictor.tag_scores([item.sentence for item in dev]))


def test_scale_parts_draw_dropout_of_their_own(tmp_path: Path) -> None:
    options = {"max_epochs": 1, "accumulate": 2}
    first, again = (result(tiny_recipe(**options), tmp_path / name) for name in "ab")
    assert first.history == again.history
    assert first.history != result(tiny_recipe(max_epochs=1), tmp_path / "c").history


def test_scale_parts_resume_to_the_same_end(tmp_path: Path) -> None:
    recipe, steps = tiny_recipe(max_epochs=2, accumulate=2), iter(range(99))
    whole = result(recipe, tmp_path / "whole")
    encoder, folder = tiny_encoder(), tmp_path / "stopped"
    *_, last = train(recipe, tiny_data(), checkpoint_dir=folder, encoder=encoder, should_stop=lambda: next(steps) == 3)
    assert last.result is not None and last.result.outcome == "stopped"
    assert result(recipe, folder).history == whole.history
    assert difference(tmp_path / "whole", folder) == 0.0


def test_scale_recompute_changes_no_number_and_keeps_less(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    kept: dict[bool, int] = {}

    def count(recompute: bool) -> Callable[[torch.Tensor], torch.Tensor]:
        def pack(tensor: torch.Tensor) -> torch.Tensor:
            kept[recompute] = kept.get(recompute, 0) + tensor.numel()
            return tensor

        return pack

    for recompute in (False, True):
        with torch.autograd.graph.saved_tensors_hooks(count(recompute), lambda tensor: tensor):
            result(tiny_recipe(max_epochs=1, recompute=recompute), tmp_path / str(recompute), encoder)
    assert difference(tmp_path / "False", tmp_path / "True") == 0.0
    assert kept[True] < 0.7 * kept[False]


def test_scale_recompute_says_when_the_encoder_cannot(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    type(encoder.model).supports_gradient_checkpointing, before = False, True
    try:
        with pytest.raises(InvalidConfig, match="encoder 'tiny' cannot do it"):
            result(tiny_recipe(recompute=True), tmp_path, encoder)
    finally:
        type(encoder.model).supports_gradient_checkpointing = before


def test_scale_options_count_only_when_used() -> None:
    plain = tiny_recipe()
    assert tiny_recipe(accumulate=1, recompute=False).hash == plain.hash
    assert tiny_recipe(accumulate=2).hash != plain.hash
    with pytest.raises(InvalidConfig, match="accumulate is 0"):
        tiny_recipe(accumulate=0)


@pytest.mark.slow
def test_scale_peak_memory_is_measured_anew_and_stated(tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "from crossner_core.training.machine import PeakMemory\n"
        "first = PeakMemory(torch.device('cpu'))\n"
        "before = first.megabytes()\n"
        "block = torch.ones(200 * 2**18)\n"  # 200 MB
        "full = first.megabytes()\n"
        "del block\n"
        "print(before, full, PeakMemory(torch.device('cpu')).megabytes(), 'since it began' in first.of)\n"
    )  # a process of its own: in that of the tests, what others gave back may come and go meanwhile
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, full, anew, since_it_began = done.stdout.split()
    assert float(full) > float(before) + 150
    assert since_it_began == "True" or float(anew) < float(before) + 100
    got = result(tiny_recipe(max_epochs=1), tmp_path)
    assert got.peak_memory_mb > 50 and any(f"Peak memory {got.peak_memory_mb:.0f} MB" in note for note in got.notes)
    values = got.to_dict()
    assert RunResult.from_dict(values) == got
    del values["peak_memory_mb"]  # as an older version wrote it
    assert RunResult.from_dict(values).peak_memory_mb == 0.0


def write_corpus(folder: Path, train: int = 12) -> Path:
    """Write own sentences as a folder of two-column files."""
    folder.mkdir(parents=True)
    for name, count, offset in (("train", train, 0), ("dev", 6, 30), ("test", 6, 40)):
        records = [Record(item.sentence, item.spans) for item in own_sentences(count, offset=offset)]
        (folder / f"{name}.txt").write_text(write(records, "conll"), encoding="utf-8")
    return folder


def command(tmp_path: Path, out: str, **changes: object) -> list[str]:
    """Return the words of a training command over files in the temporary folder, made where they are not there yet."""
    corpus, source, encoder = tmp_path / "songs", tmp_path / "news", tmp_path / "encoder"
    if not corpus.exists():
        write_corpus(corpus)
        write_corpus(source)
        save_encoder(encoder)
    recipe = tiny_recipe(encoder=str(encoder), max_epochs=2, batch_size=5, **changes).to_dict()
    words = ["--data", str(corpus), "--out", str(tmp_path / out), "--recipe", json.dumps(recipe)]
    return [*words, "--source", str(source)] if changes.get("setting") == "pretrain_finetune" else words


def launcher() -> list[str]:
    """Return the words that start two processes: accelerate's where it is installed, else PyTorch's own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    if importlib.util.find_spec("accelerate") is None:
        return ["torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", port]
    plain = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", port]
    return ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", *plain]


@pytest.mark.slow
def test_scale_two_processes_make_the_run_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"setting": "pretrain_finetune", "source_epochs": 1, "head_first_epochs": 1}
    assert main(command(tmp_path, "one", **options, accumulate=2)) == 0
    printed = capsys.readouterr().out.splitlines()
    words = [*launcher(), "-m", "crossner_core.training", *command(tmp_path, "two", **options)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    one, two = (RunResult.from_dict(read_json(tmp_path / name / "result.json")) for name in ("one", "two"))
    assert difference(tmp_path / "one", tmp_path / "two") < 1e-4
    assert [r.loss for r in two.history] == pytest.approx([r.loss for r in one.history], abs=1e-4)
    assert (two.test, two.predictions, two.steps) == (one.test, one.predictions, one.steps)
    assert "Computed by 2 processes together." in two.notes
    epochs = [line.partition(":")[0] for line in printed if "dev F1" in line]
    assert [line.partition(":")[0] for line in done.stdout.splitlines() if "dev F1" in line] == epochs  # once each


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dapt", "entity-tagging"])
def test_scale_two_processes_pre_train_the_encoder_of_one(tmp_path: Path, kind: str) -> None:
    encoder, corpus = save_encoder(tmp_path / "encoder"), write_corpus(tmp_path / "songs", train=40)
    words = [kind, "--labelled", str(corpus / "train.txt"), "--held-out", str(corpus / "dev.txt")]
    words += ["--encoder", str(encoder), "--epochs", "2", "--batch-size", "5", "--head-first-steps", "3"]
    words += ["--device", "cpu", "--precision", "fp32", "--refit-head"]
    assert pretrain([*words, "--accumulate", "2", "--out", str(tmp_path / "one")]) == 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", *launcher(), "-m", "crossner_core.adaptation", *words, "--out", str(tmp_path / "two")],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    one, two = (read_result(tmp_path / name) for name in ("one", "two"))
    assert (one.steps, one.tokens) == (two.steps, two.tokens)
    assert (two.before, two.after, two.refit) == pytest.approx((one.before, one.after, one.refit), rel=1e-3)
    assert (one.provenance["processes"], two.provenance["processes"]) == (1, 2)
    weights = [load_encoder(str(tmp_path / name)).model.state_dict() for name in ("one", "two")]
    assert max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0]) < 1e-4
    assert not (tmp_path / "two.work" / "state").exists()


def test_scale_processes_that_do_not_know_of_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(InvalidConfig, match=r"process 1 of 2.*run_together"):
        present()


def test_scale_launch_that_starts_one_process_of_many_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_together(lambda: 7) == 7
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")  # as accelerate launch --cpu --num_processes 2 sets them
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert run_together(lambda: 0) == 2
    assert "--multi_gpu" in capsys.readouterr().err


def test_scale_command_trains_and_gives_its_result_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command(tmp_path, "out")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in json.loads(words[-1]).items()), encoding="utf-8")
    assert main(words) == 0
    assert main([*words[:-1], str(recipe)]) == 0
    assert "already finished" in capsys.readouterr().out
    assert load_tagger(tmp_path / "out").types == ("band", "location", "person")


def test_scale_command_reads_bare_text_and_says_first_what_it_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"setting": "self_training", "self_training_epochs": 1}
    assert main(command(tmp_path, "without", **options)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "There are no unlabelled target sentences: no student is trained."
    assert sum("unlabelled target" in line for line in lines) == 1

    songs = [item.sentence.text for item in own_sentences(5, offset=60)]
    (tmp_path / "plain.txt").write_text("\n".join(songs) + "\n", encoding="utf-8")
    held = [Record(item.sentence, item.spans) for item in (*own_sentences(2, offset=62), *own_sentences(1, offset=40))]
    (tmp_path / "tagged.conll").write_text(write(held, "conll"), encoding="utf-8")  # two read before, one of test
    files = [str(tmp_path / name) for name in ("plain.txt", "tagged.conll")]
    assert main([*command(tmp_path, "with", **options), "--unlabelled", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    labelled = (*own_sentences(12), *own_sentences(6, offset=30), *own_sentences(6, offset=40))
    new = len(set(songs) - {item.sentence.text for item in labelled})
    assert lines[1:3] == [
        f"Unlabelled text: {new} of the 8 sentences in the files are new.",
        f"Students learn from {new} of {new} unlabelled sentences too.",
    ]
    assert any(line.startswith("student 1 epoch") for line in lines) and new > 0
    assert main([*command(tmp_path, "direct"), "--unlabelled", files[0]]) == 0
    assert "Setting direct uses no unlabelled text" in capsys.readouterr().out


def test_scale_command_tells_students_what_a_gazetteer_proposes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {item.sentence.surface(span.start, span.end) for item in own_sentences(12) for span in item.spans}
    compiled(tmp_path / "names", dict.fromkeys(sorted(names), ("Band",)))
    options = {"setting": "self_training", "self_training_epochs": 1, "self_training_gazetteer": True}
    words = [*command(tmp_path, "told", **options), "--size", "4", "--gazetteer", str(tmp_path / "names")]
    assert main(words) == 2
    assert "name one with --domain" in capsys.readouterr().err
    assert main([*words, "--domain", "music"]) == 0
    said = re.search(r"in which gazetteer and links propose (\d+) spans", capsys.readouterr().out)
    assert said is not None and int(said[1]) > 0
    plain = [*command(tmp_path, "plain", cell_size=9), "--gazetteer", str(tmp_path / "names"), "--size", "999"]
    assert main(plain) == 0
    said = capsys.readouterr().out
    assert "--gazetteer has no effect" in said and "cell_size has no effect with architecture tagger." in said
    assert re.search(r"--size is 999, but there are \d+ training sentences; all are used", said)


def test_scale_command_takes_the_first_sentences_where_asked(tmp_path: Path) -> None:
    command(tmp_path, "out")
    corpus = read_corpus("songs", tmp_path)
    drawn, first = (read_data(tmp_path / "songs", size=4, order=order)[0] for order in ("random", "file"))
    assert first.train == corpus.train[:4] != drawn.train == corpus.data(size=4).train
    filled = read_data(tmp_path / "songs", size=4, order="entities")[0]
    assert filled.train == corpus.data(size=4, order="entities").train
    assert first.unlabelled == tuple(item.sentence for item in corpus.train[4:])


@pytest.mark.parametrize(
    ("setting", "words", "order"),
    [("pdaln", (), "entities"), ("pdaln", ("--order", "random"), "random"), ("joint", (), "random")],
)
def test_scale_command_draws_from_sentences_with_entities_for_pdaln(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    setting: str,
    words: Sequence[str],
    order: str,
) -> None:
    def refused(*_: object, order: str, **__: object) -> None:
        raise InvalidConfig(f"drawn by {order}")

    monkeypatch.setattr("crossner_core.training.__main__.read_data", refused)
    assert main([*command(tmp_path, "out", setting=setting), "--size", "4", *words]) == 2
    assert f"drawn by {order}" in capsys.readouterr().err


def test_scale_command_says_what_was_carved_out_of_train(tmp_path: Path) -> None:
    command(tmp_path, "out")
    assert read_data(tmp_path / "songs")[1] == ()
    (dev,) = (tmp_path / "songs").glob("dev.*")
    dev.unlink()
    (note,) = read_data(tmp_path / "songs")[1]
    assert note.startswith("songs: dev: ") and "carved out of train" in note


def test_scale_command_refuses_the_target_as_its_own_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command(tmp_path, "out", setting="joint")
    assert main([*words, "--source", str(tmp_path / "news" / ".." / "songs")]) == 2
    assert "the same folder as --data; choose another corpus's folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--recipe", '{"colour": 1}'], "Unknown recipe field colour"),
        (["--recipe", "{"], "is not JSON"),
        (["--order", "sideways"], "'--order'.*'random', 'entities', 'file'"),
        (["--recipe", "nowhere.toml"], r"nowhere\.toml cannot be read"),
        (["--domain", "ai"], "has entity type band; the domain defines"),
        (["--domain", "nothing"], "No built-in domain 'nothing'"),
        (["--data", "/nowhere/songs"], "songs"),
        (["--data", "/nowhere/songs", "--threads", "-1"], r"threads is -1; give 1 to 1024, or 0 to let PyTorch choose"),
        (["--threads", "100000000000"], "threads is 100000000000; give 1 to 1024"),
        (["--recipe", '{"setting": "self_training"}', "--unlabelled", "nowhere.txt"], r"nowhere\.txt cannot be read"),
    ],
)
def test_scale_command_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: list[str], message: str
) -> None:
    assert main([*command(tmp_path, "out"), *changed]) == 2
    said = capsys.readouterr()
    assert re.search(message, said.err) and said.err.count("\n") <= 2
    assert not (tmp_path / "out").exists()
