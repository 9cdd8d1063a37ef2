"""Files that several targets share: settings, tokenizer, decoder, and the checks that these read sentences as we do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from crossner_core.encoders import words
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.names import TRANSFORMER
from crossner_core.encoders.transformer import PROBE, quiet
from crossner_core.errors import InvalidConfig
from crossner_core.exports import decoder
from crossner_core.exports.base import About, described
from crossner_core.models._label_predictor import LabelPredictor
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.models.heads import head_tags
from crossner_core.models.label_aware import LabelAware
from crossner_core.schema import Sentence, sentence_from_words
from crossner_core.tokenize import word_pattern
from crossner_core.training.predictor import Predictor

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
    if isinstance(encoder, words.Words):
        settings["word_numbers"] = {
            "case": encoder.chosen.case,
            "known": len(encoder.rows),
            "hashes": words.BUCKETS,
            "characters_of_an_end": words.CHARACTERS_OF_AN_END,
            "character_hashes": words.CHARACTER_BUCKETS,
        }
    else:
        settings["unknown_id"] = subwords_of(predictor).unk_token_id
    if isinstance(predictor.model, BilstmCrf):  # which does not see what stands around the tagged words of a window
        settings["tagged_alone"] = True
    if (chain := predictor.model.tag_pairs()) is not None:
        parts = chain.first(len(tags))._asdict()
        settings["chain"] = {name: part.detach().cpu().double().tolist() for name, part in parts.items()}
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


def write_reader(predictor: Predictor, folder: Path) -> None:
    """Write what turns words into the model's numbers: tokenizer.json, or the words of the file of vectors, if any."""
    if isinstance(predictor.encoder, words.Words):
        predictor.encoder.write_words(folder)
    else:
        write_tokenizer(predictor, folder / decoder.TOKENIZER)


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
            "not written. Train with another encoder, such as minilm."
        )


def check_scores(predictor: Predictor, score: Callable[[list[Any]], torch.Tensor], what: str) -> None:
    """Raise InvalidConfig unless `score` gives the model's own scores (B, W, A) for windows of the probe sentences."""
    windows = predictor.encoder.windows(probe_sentences(predictor.encoder)[:2])
    allowed = len(head_tags(predictor.types))
    with predictor.evaluating():
        batch = predictor.encoder.collate(windows)
        ours = predictor.model.scores(batch)[..., :allowed] if label_predictor(predictor) is None else None
        ours = predictor.model.token_vectors(batch) if ours is None else ours
        theirs = score(windows)
    gap = float(((ours - theirs) * batch.mask.unsqueeze(2)).abs().max())
    if not gap < 1e-3 * max(1.0, float(ours.abs().max())):
        raise InvalidConfig(
            f"The {what} of encoder {predictor.encoder.name!r} gives other scores than the tagger, by up to {gap:.3g}; "
            "it was not written. Train with another encoder, such as minilm."
        )
