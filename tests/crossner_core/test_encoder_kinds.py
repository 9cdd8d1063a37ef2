"""A kind of encoder that is no transformer: words and endings, hashed; it is trained, kept, read and resumed as all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crossner_core.acquisition.scoring import embed
from crossner_core.adaptation.dapt import run_dapt
from crossner_core.adaptation.texts import PretrainText
from crossner_core.encoders.base import ENCODERS, Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.names import SETTINGS
from crossner_core.errors import EncoderUnavailable, InvalidConfig
from crossner_core.label_review.judging_probe import token_vectors
from crossner_core.models.registry import architecture_ids
from crossner_core.options.dapt import DaptOptions
from crossner_core.schema import sentence_from_words
from crossner_core.training.engine import make_optimizer
from crossner_core.training.loop import train
from crossner_core.training.predictor import build_model, load_tagger
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import TYPES, own_sentences, tiny_data, tiny_recipe

BUCKETS, SIZE = 997, 24
SENTENCES = [item.sentence for item in own_sentences(9, offset=40)]


class Module(nn.Module):
    """Embeddings of both hashes, and two layers that see their neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.endings = nn.Embedding(BUCKETS, SIZE), nn.Embedding(BUCKETS, SIZE)
        self.layers = nn.ModuleList(nn.Conv1d(SIZE, SIZE, 3, padding=1) for _ in range(2))
        self.dropout = nn.Dropout(0.1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        vectors = self.words(input_ids[..., 0]) + self.endings(input_ids[..., 1])  # (B, L, H)
        for layer in self.layers:
            kept = (self.dropout(vectors) * attention_mask.unsqueeze(-1)).transpose(1, 2)
            vectors = vectors + layer(kept).tanh().transpose(1, 2)
        return SimpleNamespace(last_hidden_state=vectors)


@dataclass(slots=True)
class HashedWords(Encoder):
    kind: ClassVar[str] = "hashed"
    from_scratch: ClassVar[bool] = True

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return cls(Module(), None, SIZE, settings.get("max_length", 40), "", "")

    def settings(self) -> dict[str, Any]:
        return {"max_length": self.max_length}

    def pieces(self, sentences: Sequence[Sequence[str]]) -> list[list[list[Any]]]:
        def hashed(text: str) -> int:
            return crc32(text.encode()) % BUCKETS

        return [[[(hashed(word), hashed(word[-2:]))] for word in words] for words in sentences]


@pytest.fixture(autouse=True)
def hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "hashed", HashedWords)


def recipe_of(**changes: object) -> Recipe:
    if changes.get("architecture") == "bartner":  # its decoder has everything to learn
        changes |= {"max_epochs": 40, "patience": 40}
    usual = {"encoder": "hashed", "max_epochs": 12, "head_first_epochs": 0, "learning_rate": 1e-2}
    return tiny_recipe(**{**usual, **changes})


@pytest.mark.parametrize("architecture", architecture_ids())
def test_every_architecture_trains_on_it_and_is_kept_and_read_without_its_library(
    tmp_path: Path, architecture: str
) -> None:
    *_, last = train(recipe_of(architecture=architecture), tiny_data(), checkpoint_dir=tmp_path)
    assert last.result is not None and last.result.checkpoint and last.result.test is not None
    assert last.result.test.f1 > 0.5 and last.result.encoder_hash == HashedWords.new().fingerprint
    folder = Path(last.result.checkpoint)
    assert [path.name for path in (folder / "encoder").iterdir()] == [SETTINGS]
    first, again = load_tagger(folder), load_tagger(folder)
    assert first.predict(SENTENCES) == again.predict(SENTENCES) and any(first.predict(SENTENCES))
    assert (first.encoder.name, first.encoder.max_length) == ("hashed", 40)


def test_a_run_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    whole = list(train(recipe_of(setting="joint"), tiny_data(source=True), checkpoint_dir=tmp_path / "whole"))
    steps = iter(range(1, 1000))
    list(
        train(
            recipe_of(setting="joint"), tiny_data(source=True), checkpoint_dir=tmp_path / "cut",
            should_stop=lambda: next(steps) == 4,
        )
    )  # fmt: skip
    cut = list(train(recipe_of(setting="joint"), tiny_data(source=True), checkpoint_dir=tmp_path / "cut"))
    assert "Resumed" in cut[0].message
    results = [events[-1].result for events in (whole, cut)]
    assert results[0].history == results[1].history and results[0].test == results[1].test


def test_long_sentences_and_words_alone_fill_the_windows() -> None:
    encoder = load_encoder("hashed")
    words = [f"w{number}" for number in range(90)]
    windows = encoder.windows([sentence_from_words(words, id="long")])
    assert len(windows) > 2 and max(len(window.input_ids) for window in windows) == 40
    assert [token for window in windows for token in range(window.start, window.end)] == list(range(90))
    batch = encoder.collate(windows)
    assert batch.input_ids.shape == (len(windows), 40, 2)


def test_rates_fall_by_its_layers() -> None:
    model = build_model(recipe_of(), HashedWords.new(), TYPES)
    optimizer = make_optimizer(model, learning_rate=1.0, head_learning_rate=5.0, weight_decay=0.0, layer_decay=0.5)
    peaks = {id(weights): group["peak"] for group in optimizer.param_groups for weights in group["params"]}
    named = {name: peaks[id(weights)] for name, weights in model.named_parameters()}
    assert named["encoder.words.weight"] == 0.25 and named["encoder.layers.1.bias"] == 1.0
    assert named["encoder.layers.0.weight"] == 0.5 and named["head.weight"] == 5.0


def test_acquisition_and_label_review_have_its_vectors() -> None:
    encoder = HashedWords.new()
    rows = embed(encoder, SENTENCES)
    assert rows.shape == (len(SENTENCES), SIZE) and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    vectors = token_vectors(SENTENCES, encoder, "cpu")
    assert [part.shape for part in vectors] == [(len(sentence.tokens), SIZE + 5) for sentence in SENTENCES]


def test_its_folder_is_an_encoder_by_path_and_by_name_in_a_library(tmp_path: Path) -> None:
    encoder = HashedWords.new()
    with torch.no_grad():
        encoder.model.words.weight.add_(1)
    encoder.save(tmp_path / "mine")
    for found in (load_encoder(str(tmp_path / "mine")), load_encoder("mine", tmp_path)):
        assert isinstance(found, HashedWords) and found.fingerprint == encoder.measure_fingerprint()
        assert found.fingerprint != encoder.fingerprint
    (tmp_path / "mine" / "model.safetensors").unlink()
    with pytest.raises(EncoderUnavailable, match=r"cannot be loaded: .*safetensors"):
        load_encoder("mine", tmp_path)
    (tmp_path / "mine" / SETTINGS).write_text('{"kind": "other"}')
    with pytest.raises(
        EncoderUnavailable, match="Unknown kind of encoder 'other'; choose one of flair, hashed, transformer, words"
    ):
        load_encoder("mine", tmp_path)


def test_what_needs_subwords_says_so(tmp_path: Path) -> None:
    with pytest.raises(EncoderUnavailable, match="has no subwords, which PDALN needs"):
        list(train(recipe_of(setting="pdaln"), tiny_data(source=True), checkpoint_dir=tmp_path / "pdaln"))
    options = DaptOptions(encoder="hashed")
    text = PretrainText(lambda: iter([["Ines toured ."]]))
    with pytest.raises(EncoderUnavailable, match="which pre-training needs"):
        list(run_dapt(options, text, out=tmp_path / "out", work=tmp_path / "work"))
    with pytest.raises(InvalidConfig, match="recompute is on, but encoder 'hashed' cannot"):
        list(train(recipe_of(recompute=True), tiny_data(), checkpoint_dir=tmp_path / "again"))
