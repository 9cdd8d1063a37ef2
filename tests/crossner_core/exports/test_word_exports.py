"""A tagger on word vectors leaves like the others: as a graph with true sizes, beside a decoder that reads words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_core.encoders.flair import Flair
from crossner_core.encoders.words import VOCABULARY, Words
from crossner_core.errors import InvalidConfig
from crossner_core.exports import _graph, decoder
from crossner_core.exports.base import EXPORTS, export_tagger
from crossner_core.models.registry import architecture_ids
from crossner_core.schema import Sentence, sentence_from_words
from crossner_core.training.loop import train
from crossner_core.training.predictor import Predictor, load_tagger
from crossner_core.training.recipe import Recipe
from tests.support.exporting import ABOUT, READ_ONNX, assert_same, elsewhere, found, predictor, sentences, word_encoder
from tests.support.training_builders import own_sentences, tiny_data, tiny_flair, tiny_recipe

STRANGE = ("", " ", "Zürich", "OSLO", "THE", "İstanbul", "x" * 25, "x" * 90, "東京", "\ud800", "\U0001f600", "a\u00adb")
WITHOUT = ("torch", "transformers", "tokenizers")


def trained(place: Path, encoder: str) -> Predictor:
    """Return a BiLSTM-CRF that has learnt the own sentences, read from its checkpoint; its windows hold 24 words."""
    recipe = tiny_recipe(
        encoder=encoder, architecture="bilstm_crf", lstm_size=16, learning_rate=1e-2, max_epochs=12,
        head_first_epochs=0, max_length=24,
    )  # fmt: skip
    *_, last = train(recipe, tiny_data(), checkpoint_dir=place / "run")
    assert last.result is not None and last.result.test is not None and last.result.test.f1 > 0.5
    return load_tagger(last.result.checkpoint, device="cpu", precision="fp32")


def read_by_words() -> list[Sentence]:
    """Return sentences with words in capitals and unknown ones, of one word, of none, and of several windows."""
    capitals = [sentence_from_words([word.upper() for word in s.words], id=f"c-{s.id}") for s in sentences()[:6]]
    strange = [sentence_from_words(["In", word or "-", ",", "Ada", "Brook"], id="s") for word in STRANGE[2:9]]
    small = [sentence_from_words(["Leeds"], id="one"), sentence_from_words([], id="none")]
    return [*sentences(), *capitals, *strange, *small]


@pytest.mark.slow
@pytest.mark.parametrize("parts", [("chars=cnn",), ("chars=cnn", "case=exact"), ("chars=lstm",)], ids=",".join)
def test_trained_bilstm_crf_finds_the_same_without_pytorch_and_tokenizers(
    parts: tuple[str, ...], tmp_path: Path
) -> None:
    tagger = trained(tmp_path, word_encoder(tmp_path, *parts).name)
    assert tagger.encoder.max_length == 24
    export_tagger(tagger, tmp_path / "out", "onnx", ABOUT)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"model.onnx", "config.json", "words.json", "decoder.py", "README.md"}
    assert "pip install onnxruntime numpy\n" in (tmp_path / "out" / "README.md").read_text()
    given = read_by_words()
    words = [sentence.words for sentence in given]
    assert max(map(len, words)) > 3 * 24
    for answers in elsewhere(tmp_path, READ_ONNX, without=WITHOUT, folder=str(tmp_path / "out"), words=words):
        assert_same(answers, found(tagger, given))
    read = decoder.Tagger.load(tmp_path / "out", threads=1)
    text = "Ada Brook sang  with Marble in Leeds ."
    assert "Ada Brook" in [text[span.start : span.end] for span in read.read(text)]
    assert read.read("") == [] and read.tag([[]]) == [[]]


DRAWN: list[tuple[str, str, dict[str, Any]]] = [
    ("tagger", "size=8", {}),
    ("tagger", "chars=lstm", {"constrained": False}),
    ("bilstm_crf", "size=8", {"lstm_layers": 1}),
    ("bilstm_crf", "chars=lstm", {"lstm_private": True}),
    ("multi_cell", "size=8", {}),
    ("coach", "chars=cnn", {}),
    ("coach", "size=8", {"type_rows": False, "constrained": False}),
    ("label_aware", "chars=cnn", {"label_background_over": "subwords"}),
    ("label_aware", "size=8", {"label_background": False, "label_context": False}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "parts", "options"), DRAWN, ids=lambda value: str(value))
def test_taggers_on_random_vectors_find_the_same(
    architecture: str, parts: str, options: dict[str, Any], tmp_path: Path
) -> None:
    tagger = predictor(architecture, encoder=Words.new(parts), **options)
    export_tagger(tagger, tmp_path / "out", "onnx", ABOUT)
    assert not (tmp_path / "out" / VOCABULARY).exists()
    read = decoder.Tagger.load(tmp_path / "out", threads=1)
    for batch_size in (1, 32):
        assert_same(read.tag([s.words for s in read_by_words()], batch_size), found(tagger, read_by_words()))


@pytest.mark.slow
def test_int8_is_smaller_and_nearly_the_same(tmp_path: Path) -> None:
    tagger = trained(tmp_path, word_encoder(tmp_path, "chars=cnn").name)
    export_tagger(tagger, tmp_path / "out", "onnx", ABOUT, int8=True)
    sizes = [(tmp_path / "out" / name).stat().st_size for name in ("model_int8.onnx", "model.onnx")]
    assert 2 * sizes[0] < sizes[1]
    read = decoder.Tagger.load(tmp_path / "out", int8=True, threads=1)
    ours = {(row, *span[:3]) for row, spans in enumerate(found(tagger)) for span in spans}
    theirs = {(row, *span[:3]) for row, spans in enumerate(read.tag([s.words for s in sentences()])) for span in spans}
    assert len(ours & theirs) > 0.9 * max(len(ours), len(theirs))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["coach", "multi_cell"])
def test_int8_of_what_reads_words_one_after_another_runs(architecture: str, tmp_path: Path) -> None:
    tagger = predictor(architecture, encoder=Words.new("size=8"))
    export_tagger(tagger, tmp_path / "out", "onnx", ABOUT, int8=True)
    read = decoder.Tagger.load(tmp_path / "out", int8=True, threads=1)
    ours = {(row, *span[:3]) for row, spans in enumerate(found(tagger)) for span in spans}
    theirs = {(row, *span[:3]) for row, spans in enumerate(read.tag([s.words for s in sentences()])) for span in spans}
    assert len(ours & theirs) > 0.8 * max(len(ours), len(theirs)) > 10


def test_int8_that_does_not_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_graph, "_quantize", lambda path, to: to.write_bytes(b"no graph"))
    with pytest.raises(InvalidConfig, match=r"In int8 this tagger does not run: .*Leave int8 out"):
        export_tagger(predictor(encoder=Words.new("size=4")), tmp_path / "out", "onnx", ABOUT, int8=True)
    assert not (tmp_path / "out").exists()


def test_decoder_wants_the_weights_that_its_settings_need(tmp_path: Path) -> None:
    settings = _graph.settings_of(predictor("coach", encoder=Words.new("size=4")), ABOUT)
    with pytest.raises(ValueError, match=r"need the weights of weights\.npz"):
        decoder.Decoder(settings)


@pytest.mark.parametrize("parts", [(), ("case=exact",), ("chars=lstm",)], ids=",".join)
def test_decoder_reads_words_as_the_encoder_does(parts: tuple[str, ...], tmp_path: Path) -> None:
    encoder = word_encoder(tmp_path, *parts)
    tagger = predictor("crf", encoder=encoder)
    settings = json.loads(json.dumps(_graph.settings_of(tagger, ABOUT)))
    read = decoder.WordNumbers(settings["word_numbers"], list(encoder.rows))
    words = [*STRANGE, *encoder.rows, *(word for item in own_sentences(9) for word in item.sentence.words)]
    (ours,) = encoder.pieces([words])
    theirs = decoder.Decoder(settings).pieces(*read.encode(words), len(words))
    assert theirs == ours and len({row for ((row, *_),) in ours}) == 9


@pytest.mark.parametrize("max_length", [8, 11, 24])
def test_decoder_cuts_windows_of_words_as_the_encoder_does(max_length: int) -> None:
    tagger = predictor("bilstm_crf", encoder=Words.new("size=4"))
    tagger.encoder = replace(tagger.encoder, max_length=max_length)
    settings = _graph.settings_of(tagger, ABOUT)
    _graph.check_windows(tagger, decoder.Decoder(settings), decoder.WordNumbers(settings["word_numbers"], ()))
    assert settings["reads_tokens"] and settings["max_length"] == max_length


READS = ("subwords", "words")
# What a target takes, by architecture and by what the encoder reads.
TAKEN = {
    ("huggingface", "subwords"): {"tagger"},
    ("huggingface", "words"): set[str](),
}
TAKEN |= {(target, reads): set(architecture_ids()) - {"bartner"} for target in ("onnx", "spacy") for reads in READS}


@pytest.mark.parametrize(("target", "reads"), TAKEN, ids=lambda value: str(value))
def test_refusal_names_what_is_refused_and_what_takes_it(target: str, reads: str) -> None:
    encoder = "minilm" if reads == "subwords" else "words:glove,chars=cnn"
    for name in architecture_ids():
        why = EXPORTS.one(target).refusal(recipe := Recipe(architecture=name, encoder=encoder))
        assert (not why) == (name in TAKEN[target, reads]), (name, why)
        takers = [id for id in EXPORTS.ids() if name in TAKEN[id, reads]]
        if why:
            assert f"to {target}: " in why and f"What {target} takes: {EXPORTS.one(target).takes}." in why
            assert why.endswith(f"Export to {', '.join(takers)} instead." if takers else "train such a tagger.")
            assert (recipe.encoder if target == "huggingface" and reads == "words" else name) in why


@pytest.mark.slow
@pytest.mark.parametrize("reads", ["subwords", "words"])
@pytest.mark.parametrize("architecture", architecture_ids())
def test_refusal_is_true_of_a_tagger_that_is_tried(architecture: str, reads: str, tmp_path: Path) -> None:
    """The package for spaCy holds the graph of `onnx`, and takes longest to write."""
    encoder = word_encoder(tmp_path, "chars=cnn") if reads == "words" else None
    tagger = predictor(architecture, encoder=encoder, lstm_size=14)  # of which Coach finds spans enough to compare
    for target in EXPORTS.ids():
        why = EXPORTS.one(target).refusal(tagger.recipe)
        if why:
            with pytest.raises(InvalidConfig) as raised:
                export_tagger(tagger, tmp_path / "out", target, ABOUT)
            assert str(raised.value) == why and not (tmp_path / "out").exists()
        elif target == "onnx" and reads == "words":
            export_tagger(tagger, tmp_path / "graph", target, ABOUT)
            read = decoder.Tagger.load(tmp_path / "graph", threads=1)
            assert_same(read.tag([s.words for s in sentences()]), found(tagger))


def flair(beside: Words | None, *, after_gap: bool = False) -> Flair:
    """Return untrained character models, alone or beside word vectors."""
    encoder = Flair.make({**tiny_flair(10).settings(), "after_gap": after_gap})
    if beside is not None:
        encoder._read_beside(beside)
    encoder.name = "flair:models"
    return encoder


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "after_gap"), [("bilstm_crf", True), ("tagger", False)])
@pytest.mark.parametrize("beside", ["", "size=8,chars=lstm"], ids=["alone", "beside words"])
def test_taggers_on_flair_find_the_same_without_pytorch_and_tokenizers(
    architecture: str, after_gap: bool, beside: str, tmp_path: Path
) -> None:
    tagger = predictor(architecture, encoder=flair(Words.new(beside) if beside else None, after_gap=after_gap))
    export_tagger(tagger, tmp_path / "out", "onnx", ABOUT)
    assert "pip install onnxruntime numpy\n" in (tmp_path / "out" / "README.md").read_text()
    given = read_by_words()
    words = [sentence.words for sentence in given]
    for answers in elsewhere(tmp_path, READ_ONNX, without=WITHOUT, folder=str(tmp_path / "out"), words=words):
        assert_same(answers, found(tagger, given))


@pytest.mark.parametrize("beside", [False, True])
def test_decoder_reads_characters_as_the_encoder_does(beside: bool, tmp_path: Path) -> None:
    own = word_encoder(tmp_path, "chars=cnn") if beside else None
    encoder = flair(own)
    settings = json.loads(json.dumps(_graph.settings_of(predictor("crf", encoder=encoder), ABOUT)))
    known = decoder.WordNumbers(settings["word_numbers"], list(own.rows)) if own is not None else None
    read = decoder.CharacterNumbers(settings["characters"], known)
    words = [*STRANGE, *(word for item in own_sentences(9) for word in item.sentence.words)]
    (ours,) = encoder.pieces([words])
    assert decoder.Decoder(settings).pieces(*read.encode(words), len(words)) == ours


@pytest.mark.parametrize("target", EXPORTS.ids())
def test_kinds_are_refused_by_name_and_by_kind(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = EXPORTS.one(target).refusal(Recipe(encoder="flair:models", architecture="crf"))
    assert not why or ("flair:models" in why and why.endswith("Export to onnx, spacy instead."))
    assert bool(why) == (target == "huggingface") == ("character by character" in why)
    tagger = predictor()
    monkeypatch.setattr(type(tagger.encoder), "kind", "hashed")  # which its name does not tell
    assert not EXPORTS.one(target).refusal(tagger.recipe)
    with pytest.raises(InvalidConfig, match="only this workbench can read"):
        export_tagger(tagger, tmp_path / "out", target, ABOUT)
    assert not (tmp_path / "out").exists()


def test_other_spans_than_the_taggers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = predictor(encoder=Words.new("size=4"))
    monkeypatch.setattr(tagger, "predict_spans", lambda sentences: [()] * len(sentences))
    with pytest.raises(InvalidConfig, match="finds other entities than the tagger; it was not written"):
        export_tagger(tagger, tmp_path / "out", "onnx", ABOUT)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layers", [1, 2])
def test_lstm_of_the_graph_holds_the_gates_in_the_operators_order(layers: int) -> None:
    lstm = torch.nn.LSTM(3, 2, layers, batch_first=True, bidirectional=True)
    made = _graph.GraphLstm(lstm)
    last = layers - 1
    inputs, bias = made.get_buffer(f"inputs_{last}"), made.get_buffer(f"bias_{last}")
    assert torch.equal(inputs[0, 2:4], getattr(lstm, f"weight_ih_l{last}")[6:8])  # the output gate comes second
    assert torch.equal(inputs[1, 6:8], getattr(lstm, f"weight_ih_l{last}_reverse")[4:6])  # the cell last
    assert torch.equal(bias[1, 8:10], getattr(lstm, f"bias_hh_l{last}_reverse")[:2])
