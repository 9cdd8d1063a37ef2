"""FLAIR's encoder: states at the edges of words, beside word vectors, in checkpoints, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from crossner_core.encoders.base import WEIGHTS, vectors
from crossner_core.encoders.flair import CHARACTERS, EDGE, GAP, UNKNOWN, CharacterModel, Flair
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.names import SETTINGS
from crossner_core.encoders.words import VOCABULARY
from crossner_core.errors import CheckpointError, EncoderUnavailable
from crossner_core.schema import sentence_from_words
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import own_sentences, tiny_data, tiny_recipe

SENTENCES = [item.sentence for item in own_sentences(9, offset=40)]
LETTERS = "".join(sorted({character for sentence in SENTENCES for word in sentence.words for character in word})) + "𝕏"


def made(hidden_size: int = 8, **changes: Any) -> Flair:
    encoder = Flair.make({"characters": LETTERS, "hidden_size": hidden_size, **changes})
    encoder.name, encoder.fingerprint = "flair", encoder.measure_fingerprint()
    return encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made(24).save(tmp_path / "lm")
    return tmp_path / "lm"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.txt"
    path.write_text("oslo 1 2 3\nOslo 4 5 6\n", encoding="utf-8")
    return path


def recipe_of(**changes: object) -> Recipe:
    values: dict[str, object] = {
        "architecture": "bilstm_crf", "lstm_size": 16, "lstm_layers": 1, "learning_rate": 1e-2, "max_epochs": 12,
        "head_first_epochs": 0, "label_size": 8,
    }  # fmt: skip
    return tiny_recipe(**{**values, **changes})


def read(encoder: Flair, *sentences: list[str]) -> Tensor:
    """Return the vectors (B, L, H) of sentences of words."""
    windows = encoder.windows([sentence_from_words(words, id=str(number)) for number, words in enumerate(sentences)])
    with torch.no_grad():
        return vectors(encoder.model, encoder.collate(windows))


def after(model: CharacterModel, numbers: list[int]) -> Tensor:
    """Return the state after the last of some characters, read one at a time."""
    state = None
    with torch.no_grad():
        for number in numbers:
            output, state = model.lstm(model.characters(torch.tensor([[number]])), state)
    return output[0, 0]


def test_a_word_has_the_state_after_its_end_and_that_before_its_beginning_read_from_the_right() -> None:
    encoder = made()
    words = ["In", "𝕏", "Öslo", ",", "left"]
    of = {letter: 4 + number for number, letter in enumerate(LETTERS)}
    spelt = [[of.get(letter, UNKNOWN) for letter in word] for word in words]
    assert spelt[1] == [of["𝕏"]] and spelt[2][0] == UNKNOWN and spelt[2][1] == of["s"]
    rows = read(encoder, words)[0]
    assert rows.shape == (5, 16)
    for at, row in enumerate(rows):
        onward = [number for word in spelt[: at + 1] for number in (GAP, *word)]
        backward = [number for word in reversed(spelt[at:]) for number in (GAP, *reversed(word))]
        wanted = (
            after(encoder.model.onward, [EDGE, *onward[1:]]),
            after(encoder.model.backward, [EDGE, *backward[1:]]),
        )
        assert torch.allclose(row, torch.cat(wanted), atol=1e-6)


def test_a_sentence_has_the_same_vectors_alone_and_among_others() -> None:
    encoder = made()
    sentences = [list(sentence.words) for sentence in SENTENCES]
    together = read(encoder, *sentences)
    for words, rows in zip(sentences, together, strict=True):
        assert torch.allclose(rows[: len(words)], read(encoder, words)[0], atol=1e-6)
        assert not rows[len(words) :].any()


def test_a_long_word_keeps_both_ends_and_an_empty_one_is_unknown() -> None:
    encoder, half = made(), CHARACTERS // 2
    long, same, other = "a" * half + "n" * 9 + "i" * half, "a" * half + "i" * half, "a" * half + "i" * (half - 1) + "n"
    rows = read(encoder, [long], [same], [other])
    assert torch.equal(rows[0], rows[1]) and not torch.allclose(rows[0], rows[2])
    (((numbers,),),) = encoder.pieces([[""]])
    assert numbers == (UNKNOWN, *[0] * (CHARACTERS - 1))


def test_word_vectors_stand_behind_the_states(folder: Path, file: Path) -> None:
    bare, both = load_encoder(f"flair:{folder}"), load_encoder(f"flair:{folder},words={file}")
    assert isinstance(bare, Flair) and isinstance(both, Flair)
    assert (bare.hidden_size, both.hidden_size) == (48, 51) and bare.fingerprint != both.fingerprint
    rows = read(both, ["Oslo", "OSLO", "left"])[0]
    assert rows[:, 48:].tolist() == [[4, 5, 6], [1, 2, 3], [0, 0, 0]]
    assert torch.equal(rows[:, :48], read(bare, ["Oslo", "OSLO", "left"])[0])


def test_its_folder_is_an_encoder_by_path_and_by_name_in_a_library(folder: Path, file: Path, tmp_path: Path) -> None:
    for name in (str(folder), "lm", f"flair:{folder}"):
        assert load_encoder(name, tmp_path).fingerprint == made(24).fingerprint
    both = load_encoder(f"flair:{folder},words={file}")
    by_name = load_encoder(f"flair:lm,words={file}", tmp_path)
    assert (by_name.fingerprint, by_name.name) == (both.fingerprint, f"flair:lm,words={file}")
    both.save(tmp_path / "both")
    again = load_encoder("both", tmp_path)
    assert isinstance(again, Flair) and again.fingerprint == both.fingerprint
    assert torch.equal(read(again, ["Oslo", "left"]), read(both, ["Oslo", "left"]))  # type: ignore[arg-type]
    with pytest.raises(EncoderUnavailable, match="has word vectors of its own"):
        load_encoder(f"flair:{tmp_path / 'both'},words={file}")


def test_a_tagger_on_it_learns_beside_frozen_models_and_its_checkpoint_is_whole(folder: Path, file: Path) -> None:
    name = f"flair:{folder},words={file}"
    *_, last = train(recipe_of(encoder=name), tiny_data(), checkpoint_dir=folder.parent / "run")
    assert last.result is not None and last.result.checkpoint and last.result.test is not None
    assert last.result.test.f1 > 0.5
    kept = Path(last.result.checkpoint)
    assert sorted(path.name for path in (kept / "encoder").iterdir()) == [SETTINGS, VOCABULARY]
    before = load_encoder(name).model.state_dict()
    file.unlink()
    (folder / WEIGHTS).unlink()
    tagger, again = load_tagger(kept), load_tagger(kept)
    assert any(tagger.predict(SENTENCES)) and tagger.predict(SENTENCES) == again.predict(SENTENCES)
    after_it = tagger.model.encoder.state_dict()
    assert [name for name in before if not torch.equal(before[name], after_it[name])] == ["words.learned.weight"]


def test_a_run_without_weights_to_train_in_the_encoder_is_resumed_to_the_same_end(folder: Path) -> None:
    data, recipe = tiny_data(source=True), recipe_of(encoder=f"flair:{folder}", setting="joint", max_epochs=2)
    (*_, whole) = train(recipe, data, checkpoint_dir=folder.parent / "whole")
    steps = iter(range(1, 1000))
    list(train(recipe, data, checkpoint_dir=folder.parent / "cut", should_stop=lambda: next(steps) == 4))
    first, *_, end = train(recipe, data, checkpoint_dir=folder.parent / "cut")
    assert "Resumed" in first.message and whole.result is not None and end.result is not None
    assert (end.result.history, end.result.test) == (whole.result.history, whole.result.test)


def test_its_models_stay_frozen_whatever_is_thawed_unless_they_learn() -> None:
    body = made(words={"size": 4}).model
    body.requires_grad_(True)
    assert {name.partition(".")[0] for name, weights in body.named_parameters() if weights.requires_grad} == {"words"}
    body.learns = True
    assert all(weights.requires_grad for weights in body.requires_grad_(True).parameters())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("flair", "stands the name or folder of character models"),
        ("flair:{},chars=lstm", "stands the name or folder of character models"),
        ("flair:{},words=", "stands the name or folder of character models"),
        ("flair:{},words=/no/such.txt", "no file of word vectors"),
        ("flair:/no/such", "no character models in '/no/such'"),
        ("flair:news-forward.pt", r"flair's own files \(.pt\), which are pickles and are not read"),
        ("flair:{}/released", r"flair's own files \(.pt\), which are pickles and are not read"),
    ],
)
def test_a_name_without_models_is_refused(folder: Path, name: str, reason: str) -> None:
    (folder / "released").mkdir()
    (folder / "released" / "news-forward.pt").write_bytes(b"\x80\x04")
    with pytest.raises(EncoderUnavailable, match=f"cannot be loaded: .*{reason}"):
        load_encoder(name.format(folder))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"characters": LETTERS, "hidden_size": 4000}, "describes [0-9,]+ weights; there are"),
        ({"characters": LETTERS, "hidden_size": "x"}, "hidden_size"),
        ({"characters": LETTERS + "ß", "hidden_size": 24}, "size mismatch"),
    ],
)
def test_a_damaged_checkpoint_is_refused(folder: Path, settings: dict[str, Any], reason: str) -> None:
    recipe = recipe_of(encoder=f"flair:{folder}", max_epochs=1)
    *_, last = train(recipe, tiny_data(), checkpoint_dir=folder.parent / "run")
    assert last.result is not None and last.result.checkpoint
    stated = Path(last.result.checkpoint) / "encoder" / SETTINGS
    stated.write_text(json.dumps({"kind": "flair", "settings": settings}))
    with pytest.raises(CheckpointError, match=reason):
        load_tagger(last.result.checkpoint)
