"""A tagger as an ONNX graph, as far as one can hold it; the weights of the rest for numpy."""

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
from crossner_core.encoders.flair import Body as FlairBody
from crossner_core.encoders.windows import IGNORED, Batch, Sizes, Window
from crossner_core.encoders.words import Body
from crossner_core.errors import InvalidConfig
from crossner_core.exports import decoder
from crossner_core.exports._graph_parts import GraphCells, GraphFlair, GraphLstm, GraphWords
from crossner_core.exports._writing import (
    check_int8,
    check_scores,
    check_spans,
    check_windows,
    label_predictor,
    probe_sentences,
    reads_tokens,
    settings_of,
    weights_of,
    write_reader,
)
from crossner_core.exports.base import EXPORTS, About
from crossner_core.models.base import TokenTagger
from crossner_core.models.coach import Coach
from crossner_core.models.multi_cell import MultiCell
from crossner_core.training.predictor import Predictor

OPSET = 18


class _Graph(nn.Module):
    """From subwords (B, L) to each one's tag scores (B, L, A), or to its vector (B, L, H) if the decoder does the rest.

    Its inputs are those of `decoder.inputs_of`. What reads tokens one after another gives a row for each: tag scores
    (B, W, A), or, of Coach, the scores of its steps and its states.
    """

    def __init__(self, model: TokenTagger, allowed: int, *, only_vectors: bool) -> None:
        super().__init__()
        self.model, self.allowed, self.only_vectors = model, allowed, only_vectors
        self.body = _body(model.encoder)
        self.readers = nn.ModuleList(_readers(model))

    def forward(
        self,
        attention_mask: Tensor,
        input_ids: Tensor | None = None,
        positions: Tensor | None = None,
        texts: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> Tensor:
        # Without positions each subword is read as if it were a word.
        everywhere = torch.arange(attention_mask.shape[1]).expand_as(attention_mask)
        places = everywhere if positions is None else positions
        mask = attention_mask.bool() if positions is None else positions >= 0  # (B, W)
        ids = attention_mask if input_ids is None else input_ids
        batch = Batch(ids, attention_mask, places.clamp(min=0), mask, torch.full_like(places, IGNORED))
        lengths = mask.sum(1)  # (B,)
        # A graph cannot look for padding.
        batch.with_host(Sizes(lengths, torch.zeros_like(lengths), attention_mask.sum(1), padded=True))
        spelt = isinstance(self.body, GraphFlair)
        hidden = self.body(input_ids, attention_mask, texts, ends) if spelt else vectors(self.body, batch)
        batch.hidden = hidden.float()  # (B, L, H)
        if self.only_vectors:
            return batch.hidden
        if not self.readers:
            return self.model.scores(batch)[..., : self.allowed]
        tokens = self.model.token_vectors(batch)
        states = torch.cat([reader(tokens, lengths) for reader in self.readers], -1)
        scores = self.model.get_submodule("head")(states).float()
        return torch.cat((scores, states), -1) if isinstance(self.model, Coach) else scores[..., : self.allowed]


def _body(encoder: nn.Module) -> nn.Module:
    """Return an encoder's module as a graph can hold it."""
    if isinstance(encoder, FlairBody):
        return GraphFlair(encoder)
    return GraphWords(encoder) if isinstance(encoder, Body) else encoder


def _readers(model: TokenTagger) -> list[nn.Module]:
    """Return what reads a model's tokens one after another; none for what reads each subword alone."""
    if not reads_tokens(model):
        return []
    if isinstance(model, MultiCell):
        return [GraphCells(model.layer)]
    return [GraphLstm(lstm) for lstm in (model.lstm, model.private) if lstm is not None]


def write_model(predictor: Predictor, folder: Path, about: About, *, single: bool = True, both: bool = False) -> None:
    """Write settings, tokenizer or words, and graph: in single precision, in int8, or both; checked against the tagger.

    Raises InvalidConfig if the encoder cannot be exported, or the graph's scores or spans are not the tagger's.
    """
    settings = settings_of(predictor, about)
    (folder / decoder.SETTINGS).write_text(json.dumps(settings, ensure_ascii=False, indent=1), "utf-8")
    write_reader(predictor, folder)
    if weights := weights_of(predictor):
        np.savez(folder / decoder.WEIGHTS, **weights)
    path = folder / decoder.MODEL
    _export(predictor, path, settings)
    tagger = decoder.Tagger.load(folder, threads=1)
    check_windows(predictor, tagger.decoder, tagger.tokenizer)
    check_scores(predictor, lambda windows: _scores(tagger, windows), "ONNX graph")
    check_spans(predictor, tagger)
    if both or not single:
        _quantize(path, folder / decoder.MODEL_INT8)
        check_int8(predictor, folder)
    if not single:
        path.unlink()


def _export(predictor: Predictor, path: Path, settings: dict[str, Any]) -> None:
    only_vectors = label_predictor(predictor) is not None
    model = _Graph(predictor.model, len(settings["tags"]), only_vectors=only_vectors)
    windows = predictor.encoder.windows(probe_sentences(predictor.encoder)[1:])
    given = {name: torch.from_numpy(values) for name, values in decoder.inputs_of(settings, _read(windows[:2])).items()}
    rows = torch.export.Dim("rows", min=1)
    length, tokens, characters = (torch.export.Dim(name, min=2) for name in ("length", "tokens", "characters"))
    sizes = {
        "input_ids": {1: length},
        "attention_mask": {1: length},
        "positions": {1: tokens},
        "texts": {2: characters},
        "ends": {2: length},
    }
    try:
        with predictor.evaluating(), _silent():
            program = torch.onnx.export(
                model.eval(),
                kwargs=given,
                input_names=list(given),
                output_names=["vectors" if only_vectors else "scores"],
                dynamic_shapes={name: {0: rows, **sizes[name]} for name in given},
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
    given = _read(windows)
    pairs = zip(given, tagger.rows(given), strict=True)
    rows = [torch.from_numpy(output[window.positions]) for window, output in pairs]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def _read(windows: list[Window]) -> list[decoder.Window]:
    """Return windows as the decoder has them."""
    return [decoder.Window(0, w.start, w.end, True, list(w.input_ids), list(w.positions)) for w in windows]


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
