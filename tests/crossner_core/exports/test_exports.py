"""An exported tagger finds what the tagger finds: in ONNX Runtime, transformers and spaCy, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_core.calibration.span_maps import SpanMap
from crossner_core.errors import InvalidConfig, StorageError
from crossner_core.exports import decoder
from crossner_core.exports.base import EXPORTS, export_tagger
from crossner_core.models._linear_chain import Chain, marginals
from crossner_core.models.registry import architecture_ids
from crossner_core.models.viterbi import iob2_transitions, viterbi
from crossner_core.schema import Sentence, sentence_from_words
from crossner_core.tags import spans_from_tags
from crossner_core.training.recipe import Recipe
from tests.support.exporting import ABOUT, READ_ONNX, assert_same, elsewhere, found, predictor, sentences, word_encoder
from tests.support.training_builders import tiny_encoder

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in architecture_ids() if not EXPORTS.one("onnx").refusal(Recipe(architecture=name))),
    ("tagger", {"constrained": False}),
    ("label_aware", {"label_background": False}),
    ("label_aware", {"label_context": False}),
    ("label_aware", {"label_bilstm": False, "label_background_over": "subwords", "label_context_scaled": True}),
    ("label_aware", {"label_background": False, "label_context": False}),
    ("type_aware", {"type_interaction": True}),
    ("type_label_aware", {"label_background": False, "label_context": False}),
    ("type_label_aware", {"type_rows": False, "label_bilstm": False}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "options"), VARIANTS, ids=lambda value: str(value))
def test_onnx_finds_the_same_without_pytorch(architecture: str, options: dict[str, Any], tmp_path: Path) -> None:
    tagger = predictor(architecture, **options)
    export_tagger(tagger, tmp_path / "out", "onnx", ABOUT)
    words = [sentence.words for sentence in sentences()]
    without = ("torch", "transformers")
    for answers in elsewhere(tmp_path, READ_ONNX, without=without, folder=str(tmp_path / "out"), words=words):
        assert_same(answers, found(tagger))


@pytest.mark.slow
def test_onnx_int8_is_smaller_and_reads_texts(tmp_path: Path) -> None:
    export_tagger(predictor(), tmp_path / "out", "onnx", ABOUT, int8=True)
    assert (tmp_path / "out" / "model_int8.onnx").stat().st_size < (tmp_path / "out" / "model.onnx").stat().st_size
    tagger = decoder.Tagger.load(tmp_path / "out", int8=True, threads=1)
    text = "Ada Brook sang  with Marble in Leeds ."
    for span in tagger.read(text):
        assert text[span.start : span.end].strip() == text[span.start : span.end] and 0 <= span.score <= 1
    assert tagger.read("") == [] and tagger.tag([[]]) == [[]]
    with pytest.raises(FileNotFoundError, match=r"model\.onnx"):
        decoder.Tagger.load(tmp_path)


READ_HUGGINGFACE = """
import warnings
from transformers import pipeline
tagger = pipeline("token-classification", values["folder"], trust_remote_code=True, aggregation_strategy="first")
words = tagger(values["words"], is_split_into_words=True, batch_size=values["batch_size"])
texts = tagger(values["texts"])
try:
    pipeline("token-classification", values["folder"])
    refused = ""
except ValueError as error:
    refused = str(error)
plain = pipeline("ner", values["folder"], aggregation_strategy="first")(values["texts"][0])
print(json.dumps({
    "words": [[(e["word_start"], e["word_end"], e["entity_group"], e["score"]) for e in one] for one in words],
    "texts": [[(e["start"], e["end"], e["entity_group"], e["score"]) for e in one] for one in texts],
    "refused": refused, "plain": len(plain),
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 4])
def test_huggingface_pipeline_finds_the_same_in_words_and_texts(batch_size: int, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    tagger = predictor()
    export_tagger(tagger, tmp_path / "out", "huggingface", ABOUT)
    own = sentences()[:-1]  # joined by blanks, the last one's words are others
    values = {"words": [s.words for s in own], "texts": [s.text for s in own], "batch_size": batch_size}
    answer = elsewhere(tmp_path, READ_HUGGINGFACE, folder=str(tmp_path / "out"), **values)
    assert_same(answer["words"], found(tagger)[:-1])
    assert_same(answer["texts"], in_characters(found(tagger)[:-1]))
    assert "trust_remote_code" in answer["refused"] and answer["plain"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"]["1"] == "B-person" and len(config["id2label"]) == 7
    assert ModelCard.load(tmp_path / "out" / "README.md").data.license == "unknown"


def in_characters(spans: list[list[tuple[int, int, str, float]]]) -> list[list[tuple[int, int, str, float]]]:
    """Return spans of the sentences' words as spans of their texts."""
    return [
        [(s.tokens[start].start, s.tokens[end - 1].end, type, score) for start, end, type, score in own]
        for s, own in zip(sentences(), spans, strict=False)
    ]


READ_SPACY = """
sys.path.insert(0, values["site"])
import spacy
nlp = spacy.load("en_tiny_run_3")
docs = list(nlp.pipe(values["texts"]))
other = spacy.blank("en")
other.add_pipe("sentencizer")
other.add_pipe("en_tiny_run_3_tagger")
nlp.to_disk("saved")
print(json.dumps({
    "spans": [[(e.start_char, e.end_char, e.label_, score) for e, score in
               zip(doc.ents, doc.spans["crossner"].attrs["scores"])] for doc in docs],
    "other": [[(e.start_char, e.end_char, e.label_) for e in doc.ents] for doc in other.pipe(values["texts"][:8])],
    "saved": len(spacy.load("saved")(values["texts"][0]).ents),
    "odd": nlp("Ada  Brook\\n in Leeds .").text,
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("reads", ["subwords", "words"])
def test_spacy_package_is_installed_and_finds_the_same_without_pytorch(reads: str, tmp_path: Path) -> None:
    in_words = reads == "words"
    tagger = predictor("bilstm_crf", encoder=word_encoder(tmp_path)) if in_words else predictor("crf")
    without = ("torch", "tokenizers") if in_words else ("torch",)
    export_tagger(tagger, tmp_path / "out", "spacy", ABOUT)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    subprocess.run([*command, "--target", str(tmp_path / "site"), str(tmp_path / "out")], check=True, timeout=240)
    texts = [sentence.text for sentence in sentences()[:-1]]
    assert ('"tokenizers>=' in (tmp_path / "out" / "pyproject.toml").read_text()) is not in_words
    answer = elsewhere(tmp_path, READ_SPACY, without=without, site=str(tmp_path / "site"), texts=texts)
    ours = in_characters(found(tagger)[:-1])
    assert_same(answer["spans"], ours)
    assert [list(map(tuple, spans)) for spans in answer["other"]] == [[s[:3] for s in spans] for spans in ours[:8]]
    assert answer["saved"] == len(ours[0]) and answer["odd"] == "Ada  Brook\n in Leeds ."


def test_targets_are_listed_without_loading_a_library() -> None:
    code = "import sys\nfrom crossner_core.exports.base import EXPORTS\n[EXPORTS.one(id) for id in EXPORTS.ids()]"
    code += "\nassert not {'torch', 'transformers', 'spacy', 'onnx', 'onnxruntime'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)
    assert EXPORTS.ids() == ("huggingface", "onnx", "spacy")


@pytest.mark.parametrize("architecture", ["crf", "label_aware", "type_aware", "type_label_aware"])
def test_huggingface_refuses_what_is_no_linear_layer(architecture: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=f"{architecture}.*Export to onnx, spacy instead"):
        export_tagger(predictor(architecture), tmp_path / "out", "huggingface", ABOUT)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported_is_refused_with_what_can(tmp_path: Path) -> None:
    tagger = predictor()
    with pytest.raises(InvalidConfig, match="choose one of huggingface, onnx, spacy"):
        export_tagger(tagger, tmp_path / "out", "flair", ABOUT)
    with pytest.raises(InvalidConfig, match="no int8 weights for huggingface, only for onnx, spacy"):
        export_tagger(tagger, tmp_path / "out", "huggingface", ABOUT, int8=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("Dear Ada")
    with pytest.raises(StorageError, match="is no export: nothing was written"):
        export_tagger(tagger, tmp_path / "mine", "huggingface", ABOUT)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "Dear Ada"
    tagger.model.use_bf16 = True
    with pytest.raises(InvalidConfig, match=r"computes in bf16, .*; load it with device='cpu' and precision='fp32'"):
        export_tagger(tagger, tmp_path / "out", "onnx", ABOUT)


@pytest.mark.parametrize("max_length", [8, 11, 24, 64])
def test_decoder_cuts_windows_as_the_encoder_does(max_length: int) -> None:
    encoder = replace(tiny_encoder(), max_length=max_length)
    read = plain_decoder(max_length=max_length, first_ids=[2], last_ids=[3], unknown_id=1)
    generator = torch.Generator().manual_seed(max_length)
    for _ in range(40):
        words = [["leeds", "unable", "un" + "able" * 5][int(at)] for at in torch.randint(3, (30,), generator=generator)]
        (pieces,) = encoder.pieces([words])
        ours = [(w.start, w.end, list(w.input_ids), list(w.positions)) for w in encoder.windows([sentence_of(words)])]
        theirs = [(w.start, w.end, w.input_ids, w.positions) for w in read.windows(pieces)]
        assert theirs == ours


def test_decoder_finds_the_best_path_and_its_marginals() -> None:
    generator = torch.Generator().manual_seed(1)
    tags = ("O", "B-a", "I-a", "B-b", "I-b")
    start, transitions = iob2_transitions(tags)
    for size in (1, 2, 9):
        scores = torch.randn(1, size, 5, generator=generator)
        drawn = (torch.randn(5, generator=generator), torch.randn(5, 5, generator=generator))
        chain = Chain(start + drawn[0], transitions + drawn[1], torch.randn(5, generator=generator))
        mask = torch.ones(1, size, dtype=torch.bool)
        numbers = [part.double().numpy() for part in chain]
        path = decoder._viterbi(scores[0].numpy(), *numbers)
        assert path.tolist() == viterbi(scores, mask, *chain)[0].tolist()
        shares = decoder._marginals(scores[0].double().numpy(), *numbers)
        assert shares == pytest.approx(marginals(scores, mask, chain)[0].numpy(), abs=1e-3)


@pytest.mark.parametrize(
    "tags", ["O I-a I-a B-a I-b I-b O", "B-a B-a I-a", "I-b", "O O", "", "B-a I-b I-a O B-b", "I-a B-b I-b"]
)
def test_decoder_reads_tags_as_the_tagger_does(tags: str) -> None:
    read, names = plain_decoder(tags=["O", "B-a", "I-a", "B-b", "I-b"]), tags.split()
    spans = read.spans([read.tags.index(tag) for tag in names], [0.5] * len(names))
    assert [span[:3] for span in spans] == [(s.start, s.end, s.type) for s in spans_from_tags(names, strict=False)]


@pytest.mark.parametrize(
    "span_map",
    [
        SpanMap(),
        SpanMap("platt", ((0.7,), (0.1,))),
        SpanMap("beta", ((0.7, 1.2), (0.1,))),
        SpanMap("isotonic", ((0.2, 0.5, 0.9), (0.1, 0.4, 0.95))),
    ],
    ids=lambda given: given.method,
)
def test_decoder_maps_scores_as_the_tagger_does(span_map: SpanMap) -> None:
    raw = torch.linspace(0, 1, 23).double().numpy()
    settings = {"method": span_map.method, "numbers": [list(numbers) for numbers in span_map.numbers]}
    assert decoder.calibrated_scores(settings, raw) == pytest.approx(span_map(raw), abs=1e-12)


def plain_decoder(**settings: object) -> decoder.Decoder:
    calibration = {"temperature": 1.0, "method": "identity", "numbers": []}
    given = {"format": 1, "tags": ["O"], "constrained": True, "words": r"\w+", "calibration": calibration, **settings}
    return decoder.Decoder(given)


def sentence_of(words: list[str]) -> Sentence:
    return sentence_from_words(words, id="s")
