"""Files that several targets share: settings, tokenizer, decoder, and the checks that these read sentences as we do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

import torch

from crossner_core.encoders import flair, words
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.names import TRANSFORMER
from crossner_core.encoders.transformer import PROBE, quiet
from crossner_core.encoders.windows import Batch
from crossner_core.errors import InvalidConfig
from crossner_core.exports import decoder
from crossner_core.exports.base import About, described
from crossner_core.models._label_predictor import LabelPredictor
from crossner_core.models.base import TokenTagger
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.models.coach import Coach
from crossner_core.models.heads import head_tags
from crossner_core.models.label_aware import LabelAware
from crossner_core.models.multi_cell import MultiCell
from crossner_core.schema import Sentence, sentence_from_words
from crossner_core.tokenize import word_pattern
from crossner_core.training.predictor import Predictor

_OTHERWISE = "Train with another encoder, such as minilm, or another architecture."
DECODER = Path(decoder.__file__)


def subwords_of(predictor: Predictor) -> Any:
    """Return the encoder's tokenizer; raise EncoderUnavailable if the encoder reads no subwords."""
    return predictor.encoder.require_subwords("this export")


def settings_of(predictor: Predictor, about: About) -> dict[str, Any]:
    """Return all that `decoder.Decoder` needs besides weights, as plain values."""
    encoder, recipe, calibration = predictor.encoder, predictor.recipe, predictor.calibration
    tags = head_tags(predictor.types)
    first, last = encoder.ends()
    settings: dict[str, Any] = {
        "format": decoder.FORMAT,
        "about": described(predictor, about),
        "architecture": recipe.architecture,
        "tags": list(tags),
        "constrained": recipe.constrained,
        "words": word_pattern(),
        "max_length": encoder.max_length,
        "first_ids": list(first),
        "last_ids": list(last),
        "padding_id": encoder.pad_id,
        "calibration": {
            "temperature": calibration.temperature,
            "method": calibration.spans.method,
            "numbers": [list(numbers) for numbers in calibration.spans.numbers],
        },
    }
    if isinstance(encoder, flair.Flair):
        settings["characters"] = {
            "known": encoder.chosen.characters,
            "characters_of_an_end": flair.CHARACTERS_OF_AN_END,
            "after_gap": encoder.chosen.after_gap,
        }
    if (beside := _word_vectors(encoder)) is not None:
        settings["word_numbers"] = {
            "case": beside.chosen.case,
            "known": len(beside.rows),
            "hashes": words.BUCKETS,
            "characters_of_an_end": words.CHARACTERS_OF_AN_END,
            "character_hashes": words.CHARACTER_BUCKETS,
        }
    if encoder.kind == TRANSFORMER:
        settings["unknown_id"] = subwords_of(predictor).unk_token_id
    if reads_tokens(predictor.model):
        settings["reads_tokens"] = True
    if (chain := predictor.model.tag_pairs()) is not None:
        parts = chain.first(len(tags))._asdict()
        settings["chain"] = {name: part.detach().cpu().double().tolist() for name, part in parts.items()}
    if isinstance(predictor.model, Coach):
        settings["spans_first"] = True
    if (labels := label_predictor(predictor)) is not None:
        settings["labels"] = {
            "background": labels.background,
            "context": labels.context,
            "bilstm": labels.bilstm,
            "over_subwords": labels.background and recipe.label_background_over == "subwords",
            "background_scale": labels.background_scale,
            "context_scale": labels.context_scale,
        }
    return settings


def label_predictor(predictor: Predictor) -> LabelPredictor | None:
    """Return the part of a model that reads the tags before a token; None if there is none, or it is switched off."""
    return predictor.model.label_reader() if isinstance(predictor.model, LabelAware) else None


def reads_tokens(model: TokenTagger) -> TypeGuard[BilstmCrf | MultiCell]:
    """Return whether a model reads the tagged words of a window one after another, and nothing around them."""
    return isinstance(model, BilstmCrf | MultiCell)


def weights_of(predictor: Predictor) -> dict[str, Any]:
    """Return the arrays, by name, that the decoder computes with; none if the graph gives a tagger's scores."""
    parts: dict[str, torch.Tensor] = {}
    if isinstance(predictor.model, Coach):
        parts = predictor.model.span_weights(len(predictor.types))
    elif (labels := label_predictor(predictor)) is not None:
        parts = dict(labels.weights())
    return {name: value.detach().cpu().numpy() for name, value in parts.items()}


def write_reader(predictor: Predictor, folder: Path) -> None:
    """Write what turns words into the model's numbers: tokenizer.json, or the words of the file of vectors, if any."""
    if predictor.encoder.kind == TRANSFORMER:
        write_tokenizer(predictor, folder / decoder.TOKENIZER)
    elif (own := _word_vectors(predictor.encoder)) is not None:
        own.write_words(folder)


def _word_vectors(encoder: Encoder) -> words.Words | None:
    """Return the word vectors that an encoder is, or has beside character models."""
    return encoder.words if isinstance(encoder, flair.Flair) else encoder if isinstance(encoder, words.Words) else None


def write_tokenizer(predictor: Predictor, path: Path) -> None:
    """Write tokenizer.json, which keeps neither truncation nor padding of earlier calls."""
    with quiet():
        backend = subwords_of(predictor).backend_tokenizer
    copy = type(backend).from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.save(str(path))


def probe_sentences(encoder: Encoder) -> list[Sentence]:
    """Return sentences on which an export is compared with the tagger: words of all kinds, and one of many windows."""
    repeated = 1 + encoder.max_length // (24 if encoder.kind == TRANSFORMER else 6)  # a probe is several subwords
    return [
        sentence_from_words(["Ada", "Brook", "sang", "in", "Leeds", "."], id="probe-0"),
        sentence_from_words(PROBE, id="probe-1"),
        sentence_from_words(["Marble", "(", *PROBE, ")"] * repeated, id="probe-2"),
    ]


def check_windows(predictor: Predictor, read: decoder.Decoder, tokenizer: Any) -> None:
    """Raise InvalidConfig if the tokenizer beside the decoder reads words otherwise than the encoder's."""
    sentences = probe_sentences(predictor.encoder)
    ours = [
        (window.start, window.end, list(window.input_ids), list(window.positions))
        for window in predictor.encoder.windows(sentences)
    ]
    theirs = []
    for sentence in sentences:
        own = tokenizer.encode(list(sentence.words), is_pretokenized=True, add_special_tokens=False)
        pieces = read.pieces(own.ids, own.word_ids, len(sentence.words))
        theirs += [(w.start, w.end, w.input_ids, w.positions) for w in read.windows(pieces)]
    if ours != theirs:
        raise InvalidConfig(
            f"The tokenizer of encoder {predictor.encoder.name!r} reads words otherwise by itself than in this "
            "workbench, so that an export would find other entities. Train with another encoder, such as minilm."
        )


def check_spans(predictor: Predictor, tagger: decoder.Tagger) -> None:
    """Raise InvalidConfig unless an exported tagger finds the spans of the predictor in the probe sentences."""
    sentences = probe_sentences(predictor.encoder)
    ours = [[(span.start, span.end, span.type) for span in spans] for spans in predictor.predict_spans(sentences)]
    theirs = [[span[:3] for span in spans] for spans in tagger.tag([sentence.words for sentence in sentences])]
    if ours != theirs:
        raise InvalidConfig(
            f"The exported tagger on encoder {predictor.encoder.name!r} finds other entities than the tagger; it was "
            f"not written. {_OTHERWISE}"
        )


def check_int8(predictor: Predictor, folder: Path) -> None:
    """Raise InvalidConfig if the weights in int8, which may find other entities, cannot be run."""
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    refusals = tuple(kind for kind in vars(runtime).values() if isinstance(kind, type) and issubclass(kind, Exception))
    try:
        tagger = decoder.Tagger.load(folder, int8=True, threads=1)
        tagger.tag([sentence.words for sentence in probe_sentences(predictor.encoder)])
    except refusals as error:
        reason = str(error).strip().splitlines()[0]
        raise InvalidConfig(
            f"In int8 this tagger does not run: {reason} It was not written. Leave int8 out."
        ) from error


def check_scores(predictor: Predictor, score: Callable[[list[Any]], torch.Tensor], what: str) -> None:
    """Raise InvalidConfig unless `score` gives what the model does (B, W, …) for windows of the probe sentences."""
    windows = predictor.encoder.windows(probe_sentences(predictor.encoder)[:2])
    with predictor.evaluating():
        batch = predictor.encoder.collate(windows)
        ours = _given(predictor, batch)
        theirs = score(windows)
    gap = float(((ours - theirs) * batch.mask.unsqueeze(2)).abs().max())
    if not gap < 1e-3 * max(1.0, float(ours.abs().max())):
        raise InvalidConfig(
            f"The {what} of encoder {predictor.encoder.name!r} gives other scores than the tagger, by up to {gap:.3g}; "
            f"it was not written. {_OTHERWISE}"
        )


def _given(predictor: Predictor, batch: Batch) -> torch.Tensor:
    """Return what the graph of a model should give for tokens: scores (B, W, A), vectors, or Coach's first step."""
    model = predictor.model
    if label_predictor(predictor) is not None:
        return model.token_vectors(batch)
    if isinstance(model, Coach):
        states = model.read(batch)
        return torch.cat((model.head(states), states), -1)
    return model.scores(batch)[..., : len(head_tags(predictor.types))]
