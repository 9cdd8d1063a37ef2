from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import CheckpointError, EncoderUnavailable, StorageError
from crossner_core.folders import SECONDS_LEFT_ALONE, beside_of
from crossner_core.training import checkpoint
from crossner_core.training.checkpoint import read_folder, write_folder
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger
from tests.support.training_builders import labelled, own_sentences, tiny_data, tiny_encoder, tiny_recipe


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    list(train(tiny_recipe(max_epochs=8), tiny_data(), checkpoint_dir=folder, encoder=tiny_encoder(), name="run 3"))
    return folder


def copy_of(folder: Path, to: Path) -> Path:
    import shutil

    return Path(shutil.copytree(folder, to))


def test_checkpoint_round_trip(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1], dtype=torch.uint8)}
    write_folder(tmp_path / "c", {"x": 1}, tensors)
    write_folder(tmp_path / "c", {"x": 2}, tensors)
    meta, read = read_folder(tmp_path / "c")
    assert meta["x"] == 2 and all(torch.equal(read[name], tensors[name]) for name in tensors)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_checkpoint_full_disk_keeps_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "c", {"x": 1}, {"a": torch.zeros(2)})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(StorageError, match="No space left"):
        write_folder(tmp_path / "c", {"x": 2}, {"a": torch.ones(2)})
    assert read_folder(tmp_path / "c")[0]["x"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_checkpoint_crash_between_renames_is_mended(tmp_path: Path) -> None:
    write_folder(tmp_path / "c", {"x": 1}, {"a": torch.zeros(2)})
    (tmp_path / "c").rename(tmp_path / ".c.old")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left = beside_of(tmp_path / "c").name.replace(f"-{os.getpid()}-", f"-{ended.pid}-")
    (tmp_path / left).mkdir()
    assert read_folder(tmp_path / "c")[0]["x"] == 1
    assert not (tmp_path / ".c.old").exists()
    write_folder(tmp_path / "c", {"x": 2}, {"a": torch.zeros(2)})
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_checkpoint_readers_and_other_writers_leave_alone_what_is_being_written(tmp_path: Path) -> None:
    folder = tmp_path / "c"

    def others(beside: Path) -> None:
        with pytest.raises(CheckpointError, match="no checkpoint"):
            read_folder(folder)
        write_folder(folder, {"x": 1}, {"a": torch.zeros(2)})
        assert beside.is_dir() and read_folder(folder)[0]["x"] == 1

    write_folder(folder, {"x": 2}, {"a": torch.ones(2)}, others)
    assert read_folder(folder)[0]["x"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [(Exception("No space left on device (os error 28)"), StorageError), (KeyError("bug"), KeyError)],
)
def test_checkpoint_whose_other_files_cannot_be_written_leaves_nothing(
    tmp_path: Path, error: Exception, expected: type[Exception]
) -> None:
    def full(beside: Path) -> None:  # tokenizers raises an Exception of no class of its own
        (beside / "tokenizer.json").write_text("half")
        raise error

    write_folder(tmp_path / "c", {"x": 1}, {"a": torch.zeros(2)})
    with pytest.raises(expected, match="No space left.*Free some disk" if expected is StorageError else "bug"):
        write_folder(tmp_path / "c", {"x": 2}, {"a": torch.ones(2)}, full)
    assert read_folder(tmp_path / "c")[0]["x"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_checkpoint_writer_sweeps_only_what_nobody_writes_any_more(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    own, other = beside_of(folder), tmp_path / f".c.{'a' * 32}-1-elsewhere.new"
    old_style, of_another = tmp_path / f".c.{'b' * 32}.new", beside_of(tmp_path / "c.d")
    for path in (own, other, old_style, of_another):
        (path / "encoder").mkdir(parents=True)
        (path / "encoder" / "config.json").write_text("{}")
    write_folder(folder, {}, {})
    assert {path.name for path in tmp_path.iterdir()} == {"c", own.name, other.name, old_style.name, of_another.name}
    long_ago = time.time() - SECONDS_LEFT_ALONE - 60
    for path in (own, other, old_style, of_another):
        os.utime(path, (long_ago, long_ago))
        os.utime(path / "encoder", (long_ago, long_ago))
    for path in (own, old_style, of_another):  # the other machine still writes
        os.utime(path / "encoder" / "config.json", (long_ago, long_ago))
    write_folder(folder, {}, {})
    assert {path.name for path in tmp_path.iterdir()} == {"c", other.name, of_another.name}


def test_checkpoint_missing_and_damaged_are_said(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load_tagger(tmp_path / "nowhere")
    for name, content in (("tensors.safetensors", b"\x00" * 40), ("meta.json", b"{"), ("encoder/config.json", b"{}")):
        folder = copy_of(trained, tmp_path / name.replace("/", "-"))
        (folder / "tagger" / name).write_bytes(content)
        with pytest.raises(CheckpointError, match="damaged"):
            load_tagger(folder)
    folder = copy_of(trained, tmp_path / "lost")
    (folder / "tagger" / "tensors.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"tensors\.safetensors"):
        load_tagger(folder)


def test_checkpoint_other_version_is_said(trained: Path, tmp_path: Path) -> None:
    folder = copy_of(trained, tmp_path / "copy")
    path = folder / "tagger" / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        load_tagger(folder)


def test_checkpoint_holds_no_pickle(trained: Path) -> None:
    names = {path.suffix for path in trained.rglob("*") if path.is_file()}
    assert names <= {".json", ".safetensors", ".txt"}


def test_predictor_knows_where_it_comes_from(trained: Path) -> None:
    tagger = load_tagger(trained)
    assert tagger.recipe == tiny_recipe(max_epochs=8) and tagger.types == tiny_data().types
    assert tagger.meta["data_hash"] == tiny_data().fingerprint
    found = [s for spans in tagger.predict([item.sentence for item in own_sentences(8)]) for s in spans]
    assert found and {s.source for s in found} == {"model:run 3"}


def test_predictor_does_not_depend_on_batching_or_order(trained: Path) -> None:
    tagger = load_tagger(trained)
    sentences = [item.sentence for item in own_sentences(11)]
    alone = [tagger.predict_spans([sentence])[0] for sentence in sentences]
    assert tagger.predict_spans(sentences, batch_size=4) == alone
    assert tagger.predict_spans(sentences[::-1], batch_size=3) == alone[::-1]


def test_predictor_long_sentence_is_never_cut(trained: Path) -> None:
    tagger = load_tagger(trained)
    items = own_sentences(30)
    words = [word for item in items for word in item.sentence.words]
    assert len(words) > 3 * tagger.encoder.max_length
    ((tags, probabilities),) = tagger.predict_tags([labelled(words, []).sentence])
    assert len(tags) == len(probabilities) == len(words)
    assert sum(tag != "O" for tag in tags[-40:]) > 0 and sum(tag != "O" for tag in tags[:40]) > 0


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("config.json", "null"),
        ("config.json", '{"model_type": {"a": 1}}'),
        ("config.json", '{"model_type": "bert", "dtype": 5}'),
        ("config.json", '{"model_type": "bert", "hidden_size": "x"}'),
        ("tokenizer.json", "null"),
        ("tokenizer.json", '{"model": 5}'),
        ("tokenizer_config.json", "[]"),
    ],
)
def test_load_of_a_damaged_encoder_is_refused_in_words(trained: Path, tmp_path: Path, file: str, damage: str) -> None:
    shutil.copytree(trained / "tagger" if (trained / "tagger").is_dir() else trained, tmp_path / "tagger")
    (tmp_path / "tagger" / "encoder" / file).write_text(damage)
    with pytest.raises(CheckpointError, match=r"(?s)is damaged: .*Delete it and train again"):
        load_tagger(tmp_path)
    with pytest.raises(EncoderUnavailable, match=r"cannot be loaded|has no \*\.safetensors"):
        load_encoder(str(tmp_path / "tagger" / "encoder"))


def test_optimizer_state_goes_to_its_parameter() -> None:
    there = torch.nn.Parameter(torch.zeros(2, device="meta"))
    optimizer = torch.optim.AdamW([there])
    saved = {"weight|step": torch.tensor(3.0), "weight|exp_avg": torch.zeros(2)}
    checkpoint.restore_optimizer(optimizer, {there: "weight"}, saved)
    assert {value.device.type for value in optimizer.state[there].values()} == {"meta"}
