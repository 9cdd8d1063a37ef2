"""A tagger's encoder and linear head as an ONNX graph; what cannot be part of the graph as weights for numpy."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crossner_core.encoders.base import vectors
from crossner_core.encoders.windows import IGNORED, Batch, Window
from crossner_core.errors import InvalidConfig
from crossner_core.exports import decoder
from crossner_core.exports._writing import (
    check_scores,
    check_windows,
    label_predictor,
    settings_of,
    write_tokenizer,
)
from crossner_core.exports.base import About
from crossner_core.models.base import TokenTagger
from crossner_core.training.predictor import Predictor

OPSET = 18


class _Graph(nn.Module):
    """From subwords (B, L) to each one's tag scores (B, L, A), or to its vector (B, L, H) if the head reads tags."""

    def __init__(self, model: TokenTagger, allowed: int, *, only_vectors: bool) -> None:
        super().__init__()
        self.model, self.allowed, self.only_vectors = model, allowed, only_vectors

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1]).expand_as(input_ids)  # (B, L): each subword as if it were a word
        unknown = torch.full_like(input_ids, IGNORED)
        batch = Batch(input_ids, attention_mask, positions, attention_mask.bool(), unknown)
        batch.hidden = vectors(self.model.encoder, batch).float()  # (B, L, H)
        return batch.hidden if self.only_vectors else self.model.scores(batch)[..., : self.allowed]


def write_model(predictor: Predictor, folder: Path, about: About, *, single: bool = True, both: bool = False) -> None:
    """Write settings, tokenizer and graph: in single precision, in int8, or both; checked against the tagger.

    Raises InvalidConfig if the encoder cannot be exported, or the graph's scores are not the tagger's.
    """
    settings = settings_of(predictor, about)
    (folder / decoder.SETTINGS).write_text(json.dumps(settings, ensure_ascii=False, indent=1), "utf-8")
    write_tokenizer(predictor, folder / decoder.TOKENIZER)
    labels = label_predictor(predictor)
    if labels is not None:
        weights: dict[str, Any] = {name: value.detach().cpu().numpy() for name, value in labels.weights().items()}
        np.savez(folder / decoder.WEIGHTS, **weights)
    path = folder / decoder.MODEL
    _export(predictor, path, len(settings["tags"]), only_vectors=labels is not None)
    tagger = decoder.Tagger.load(folder, threads=1)
    check_windows(predictor, tagger.decoder, tagger.tokenizer)
    check_scores(predictor, lambda windows: _scores(tagger, windows), "ONNX graph")
    if both or not single:
        _quantize(path, folder / decoder.MODEL_INT8)
    if not single:
        path.unlink()


def _export(predictor: Predictor, path: Path, allowed: int, *, only_vectors: bool) -> None:
    model = _Graph(predictor.model, allowed, only_vectors=only_vectors)
    ids = torch.full((2, 8), predictor.encoder.pad_id, dtype=torch.int64)
    mask = torch.ones_like(ids)
    rows, length = torch.export.Dim("rows", min=1), torch.export.Dim("length", min=2)
    try:
        with predictor.evaluating(), _silent():
            program = torch.onnx.export(
                model.eval(),
                (ids, mask),
                input_names=["input_ids", "attention_mask"],
                output_names=["vectors" if only_vectors else "scores"],
                dynamic_shapes=({0: rows, 1: length}, {0: rows, 1: length}),
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
            assert program is not None
            program.save(str(path), external_data=False)
    except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidConfig(
            f"Encoder {predictor.encoder.name!r} cannot be written as an ONNX graph: {reason} Train with another "
            "encoder, such as minilm, or export to huggingface."
        ) from error


def _quantize(path: Path, to: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _silent():
        # Seven bits: on processors without VNNI, sums of eight-bit products overflow.
        quantize_dynamic(path, to, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def _scores(tagger: decoder.Tagger, windows: list[Window]) -> Tensor:
    """Return what the graph gives for the windows' tokens, padded: (B, W, A or H)."""
    rows = []
    for window in windows:
        ids = np.asarray([window.input_ids], dtype=np.int64)
        rows.append(torch.from_numpy(tagger.run(ids, np.ones_like(ids))[0][list(window.positions)]))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep the exporters' reports of progress, which say nothing of this model, from the log."""
    loggers = [logging.getLogger(name) for name in ("", "torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
