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
from crossner_core.encoders.windows import IGNORED, Batch, Sizes, Window
from crossner_core.encoders.words import Body
from crossner_core.errors import InvalidConfig
from crossner_core.exports import decoder
from crossner_core.exports._word_graph import GraphLstm, GraphWords
from crossner_core.exports._writing import (
    check_scores,
    check_spans,
    check_windows,
    label_predictor,
    settings_of,
    write_reader,
)
from crossner_core.exports.base import EXPORTS, About
from crossner_core.models.base import TokenTagger
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.training.predictor import Predictor

OPSET = 18


class _Graph(nn.Module):
    """From subwords (B, L) to each one's tag scores (B, L, A), or to its vector (B, L, H) if the head reads tags.

    Words of an encoder `words` are (B, L, 2 + C); a BiLSTM reads all that are given.
    """

    def __init__(self, model: TokenTagger, allowed: int, *, only_vectors: bool) -> None:
        super().__init__()
        self.model, self.allowed, self.only_vectors = model, allowed, only_vectors
        self.body = GraphWords(model.encoder) if isinstance(model.encoder, Body) else model.encoder
        lstms = (model.lstm, model.private) if isinstance(model, BilstmCrf) else ()
        self.lstms = nn.ModuleList(GraphLstm(lstm) for lstm in lstms if lstm is not None)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # (B, L): each subword as if it were a word
        positions = torch.arange(input_ids.shape[1]).expand_as(attention_mask)
        unknown = torch.full_like(attention_mask, IGNORED)
        batch = Batch(input_ids, attention_mask, positions, attention_mask.bool(), unknown)
        sizes = attention_mask.sum(1)  # (B,)
        batch.with_host(Sizes(sizes, torch.zeros_like(sizes), sizes, True))  # a graph cannot look whether any is padded
        hidden = vectors(self.body, batch).float()  # (B, L, H)
        if self.lstms:
            states = torch.cat([lstm(hidden, sizes)[0] for lstm in self.lstms], -1)
            return self.model.get_submodule("head")(states).float()[..., : self.allowed]
        batch.hidden = hidden
        return hidden if self.only_vectors else self.model.scores(batch)[..., : self.allowed]


def write_model(predictor: Predictor, folder: Path, about: About, *, single: bool = True, both: bool = False) -> None:
    """Write settings, tokenizer or words, and graph: in single precision, in int8, or both; checked against the tagger.

    Raises InvalidConfig if the encoder cannot be exported, or the graph's scores or spans are not the tagger's.
    """
    settings = settings_of(predictor, about)
    (folder / decoder.SETTINGS).write_text(json.dumps(settings, ensure_ascii=False, indent=1), "utf-8")
    write_reader(predictor, folder)
    labels = label_predictor(predictor)
    if labels is not None:
        weights: dict[str, Any] = {name: value.detach().cpu().numpy() for name, value in labels.weights().items()}
        np.savez(folder / decoder.WEIGHTS, **weights)
    path = folder / decoder.MODEL
    _export(predictor, path, len(settings["tags"]), only_vectors=labels is not None)
    tagger = decoder.Tagger.load(folder, threads=1)
    check_windows(predictor, tagger.decoder, tagger.tokenizer)
    check_scores(predictor, lambda windows: _scores(tagger, windows), "ONNX graph")
    check_spans(predictor, tagger)
    if both or not single:
        _quantize(path, folder / decoder.MODEL_INT8)
    if not single:
        path.unlink()


def _export(predictor: Predictor, path: Path, allowed: int, *, only_vectors: bool) -> None:
    model = _Graph(predictor.model, allowed, only_vectors=only_vectors)
    piece = np.shape(predictor.encoder.pieces([["Ada"]])[0][0][0])  # a subword is one number, a word several
    ids = torch.full((2, 8, *piece), predictor.encoder.pad_id, dtype=torch.int64)
    mask = torch.ones((2, 8), dtype=torch.int64)
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
        refused = EXPORTS.one("huggingface").refusal(predictor.recipe, predictor.encoder.kind)
        or_huggingface = "" if refused else ", or export to huggingface"
        raise InvalidConfig(
            f"Encoder {predictor.encoder.name!r} cannot be written as an ONNX graph: {reason} Train with another "
            f"encoder, such as minilm{or_huggingface}."
        ) from error


def _quantize(path: Path, to: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _silent():
        # Seven bits: on processors without VNNI, sums of eight-bit products overflow.
        quantize_dynamic(path, to, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def _scores(tagger: decoder.Tagger, windows: list[Window]) -> Tensor:
    """Return what the graph gives for the windows' tokens, padded: (B, W, A or H)."""
    given = [decoder.Window(0, w.start, w.end, True, list(w.input_ids), list(w.positions)) for w in windows]
    pairs = zip(given, tagger.rows(given), strict=True)
    rows = [torch.from_numpy(output[window.positions]) for window, output in pairs]
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
