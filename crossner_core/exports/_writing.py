"""Files that several targets share: settings, tokenizer, decoder, and the checks that these read sentences as we do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from crossner_core.encoders.base import TRANSFORMER, Encoder
from crossner_core.encoders.transformer import PROBE, quiet
from crossner_core.errors import InvalidConfig
from crossner_core.exports import decoder
from crossner_core.exports.base import About, described
from crossner_core.models._label_predictor import LabelPredictor
from crossner_core.models.heads import head_tags
from crossner_core.models.label_aware import LabelAware
from crossner_core.schema import Sentence, sentence_from_words
from crossner_core.tokenize import word_pattern
from crossner_core.training.predictor import Predictor

DECODER = Path(decoder.__file__)


def subwords_of(predictor: Predictor) -> Any:
    """Return the encoder's tokenizer; raise InvalidConfig if the encoder is none that other software knows."""
    encoder = predictor.encoder
    if encoder.kind != TRANSFORMER:
        raise InvalidConfig(
            f"Encoder {encoder.name!r} is of the kind {encoder.kind}, which only this workbench can read; a run can be "
            "exported if its encoder is a transformer with subwords, such as minilm. Train one with such an encoder."
        )
    return encoder.tokenizer


def settings_of(predictor: Predictor, about: About) -> dict[str, Any]:
    """Return all that `decoder.Decoder` needs besides weights, as plain values."""
    tokenizer, recipe, calibration = subwords_of(predictor), predictor.recipe, predictor.calibration
    tags = head_tags(predictor.types)
    first, last = predictor.encoder.ends()
    settings: dict[str, Any] = {
        "format": decoder.FORMAT,
        "about": described(predictor, about),
        "architecture": recipe.architecture,
        "tags": list(tags),
        "constrained": recipe.constrained,
        "words": word_pattern(),
        "max_length": predictor.encoder.max_length,
        "first_ids": list(first),
        "last_ids": list(last),
        "padding_id": predictor.encoder.pad_id,
        "unknown_id": tokenizer.unk_token_id,
        "calibration": {
            "temperature": calibration.temperature,
            "method": calibration.spans.method,
            "numbers": [list(numbers) for numbers in calibration.spans.numbers],
        },
    }
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
    return [
        sentence_from_words(["Ada", "Brook", "sang", "in", "Leeds", "."], id="probe-0"),
        sentence_from_words(PROBE, id="probe-1"),
        sentence_from_words(["Marble", "(", *PROBE, ")"] * (1 + encoder.max_length // 24), id="probe-2"),
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
