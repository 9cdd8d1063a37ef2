"""Training of the two character language models that FLAIR embeddings are made of.

Source: Akbik et al. 2018, sections 2.2 and 3.1. Each row of text is read from zero states, as a sentence is later; the
optimizer is that of the other ways of pre-training (AdamW), not the paper's SGD.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crossner_core.adaptation.prepared import Arrays, ArrayWriter, corpus_head, prepare_documents
from crossner_core.adaptation.pretraining import Events, ShouldStop, not_stopped
from crossner_core.adaptation.pretraining_job import PretrainJob, PretrainTask
from crossner_core.adaptation.texts import PretrainText, Texts
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.flair import EDGE, PADDING, Body, Flair
from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import BadInput, EncoderUnavailable
from crossner_core.options.character_models import NEW, CharacterModelOptions
from crossner_core.tokenize import words_of
from crossner_core.training.engine import Work

KIND = "character_models"
_COUNTED = 20_000  # documents at the beginning of a text, of which the characters are counted
_MEASURED_TOGETHER = 50  # held-out rows


def run_character_models(
    options: CharacterModelOptions,
    text: PretrainText[Sequence[str]],
    *,
    out: Path,
    work: Path,
    resume: bool = True,
    should_stop: ShouldStop = not_stopped,
    encoder: Encoder | None = None,
) -> Events:
    """Yield events until the run ends; the last one has an `outcome`, and the `result` if that is "done".

    `out` becomes an encoder folder for `load_encoder` and recipes; the measure is bits per character of held-out text,
    over both models. `encoder` is what `options` start from, if that is loaded already. Otherwise as in `run_dapt`.
    Raises BadInput, EncoderUnavailable, CheckpointError, StorageError, InvalidConfig.
    """
    job = PretrainJob(KIND, options, out, work, text.provenance)
    body = _start_from(options, text, encoder)

    def add(writer: ArrayWriter, documents: Sequence[Sequence[str]]) -> None:
        rows = [(EDGE, *body.numbers.of(" ".join(words))) for words in documents if words]
        if rows:
            writer.add(ids=np.concatenate([np.asarray(row) for row in rows]))

    def write(folder: Path, meta: dict[str, Any]) -> Iterator[int]:
        share, highest = options.held_out_share, body.chosen.vocabulary
        return prepare_documents(folder, text, highest, add, share=share, seed=options.seed, meta=meta)

    begins = [corpus_head(part()) for part in (text.items, text.held_out) if part is not None]
    yield from job.run(body, {"begins": begins}, write, partial(CharacterTask, options), should_stop, resume=resume)


def split_into_tokens(text: PretrainText[Sequence[str]]) -> PretrainText[Sequence[str]]:
    """Split running text by the workbench's rules: taggers read tokens with spaces between them."""

    def split(part: Texts) -> Texts:
        return lambda: (words_of(" ".join(words)) for words in part())

    provenance = {**text.provenance, "corpus": {"split": text.provenance.get("corpus")}}
    held_out = split(text.held_out) if text.held_out else None
    return replace(text, items=split(text.items), held_out=held_out, provenance=provenance)


def frequent_characters(documents: Iterator[Sequence[str]], most: int) -> str:
    """Return the most frequent characters of the first documents, without spaces; raise BadInput if there are none."""
    counts: Counter[str] = Counter()
    for words in islice(documents, _COUNTED):
        counts.update("".join(words))
    kept = sorted((character for character in counts if not _is_half_a_pair(character)), key=lambda c: (-counts[c], c))
    if not kept:
        raise BadInput("There is no text to train on: use another corpus, or a larger share of it.")
    return "".join(kept[:most])


def _is_half_a_pair(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _start_from(options: CharacterModelOptions, text: PretrainText[Sequence[str]], encoder: Encoder | None) -> Flair:
    if options.encoder == NEW:
        characters = frequent_characters(text.items(), options.characters)
        made = Flair.make({"characters": characters, "hidden_size": options.hidden_size}, options.seed)
        made.name, made.fingerprint = NEW, made.measure_fingerprint()
        return made
    encoder = encoder or load_encoder(options.encoder)
    if not isinstance(encoder, Flair) or encoder.words is not None:
        raise EncoderUnavailable(
            f"Encoder {options.encoder!r} is no folder of character models alone; name one, or {NEW!r}."
        )
    return encoder


class Rows:
    """A prepared text as rows of whole documents, each of at most `size` characters with the edges around them.

    A document that is longer goes on in further rows. Neighbouring rows share a character: each is predicted once from
    the left and once from the right.
    """

    def __init__(self, arrays: Arrays, size: int) -> None:
        self.ids = arrays["ids"]
        edges, starts, end = np.flatnonzero(self.ids == EDGE), [0], len(self.ids)
        while (limit := starts[-1] + size - 1) < end:
            edge = int(edges[np.searchsorted(edges, limit, "right") - 1])
            starts.append(edge if edge > starts[-1] else limit)
        self.bounds = np.asarray([*starts, end])

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def text(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """Return rows (B, T) of characters' numbers, padded at the end."""
        rows = [self.ids[self.bounds[index] : self.bounds[index + 1] + 1] for index in indices]
        text = np.full((len(rows), max(len(row) for row in rows) + 1), PADDING, np.int64)
        for place, (row, index) in enumerate(zip(rows, indices, strict=True)):
            text[place, : len(row)] = row
            if index == len(self) - 1:
                text[place, len(row)] = EDGE
        return torch.from_numpy(text[:, : int((text != PADDING).sum(1).max())])


class _Model(nn.Module):
    """The models as an encoder without a head: each has its own output layer."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.encoder, self.head = body, nn.Identity()
        body.learns = True


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows (B, T) of a step; `total` counts the predictions of the whole step, by both models."""

    text: Tensor
    total: int


class CharacterTask(PretrainTask):
    """Prediction of each character by those before it, and by those after it."""

    kind = KIND
    head_is_new = False
    options: CharacterModelOptions
    model: _Model

    def __init__(self, options: CharacterModelOptions, encoder: Encoder, train: Arrays, held_out: Arrays) -> None:
        super().__init__(options, _Model(encoder.model), keep_best=False)
        self.rows, self.held_out = Rows(train, options.row_length), Rows(held_out, options.row_length)
        self._order: tuple[tuple[int, int], np.ndarray] | None = None

    @property
    def epoch_steps(self) -> int:
        return -(-len(self.rows) // self.options.batch_size)

    def batch(self, phase: int, epoch: int, number: int, parts: int) -> Work:
        if self._order is None or self._order[0] != (phase, epoch):
            rng = np.random.default_rng([self.options.seed, phase, epoch])
            self._order = (phase, epoch), rng.permutation(len(self.rows))
        size = self.options.batch_size
        chosen = self._order[1][number * size : (number + 1) * size]
        texts = [self._text(self.rows, part) for part in np.array_split(chosen, min(parts, len(chosen)))]
        total = sum(map(_predictions, texts))
        return Work([Part(text, total) for text in texts], total // 2)

    def loss(self, part: Part) -> Tensor:
        return self.model.encoder.loss_sum(part.text) / max(part.total, 1)

    def measure(self) -> float:
        """Return the bits per character of held-out rows, the mean of both models; the rows are the same each time."""
        count, loss, total = min(len(self.held_out), self.options.held_out_rows), 0.0, 0
        for start in range(0, count, _MEASURED_TOGETHER):
            text = self._text(self.held_out, range(start, min(start + _MEASURED_TOGETHER, count)))
            loss, total = loss + float(self.model.encoder.loss_sum(text)), total + _predictions(text)
        return loss / (total * math.log(2))

    def about(self) -> dict[str, Any]:
        return {"corpus_characters": len(self.rows.ids), "held_out_characters": len(self.held_out.ids)}

    def _text(self, rows: Rows, indices: Sequence[int] | np.ndarray) -> Tensor:
        return rows.text(indices).to(self.model.encoder.onward.scores.weight.device)


def _predictions(text: Tensor) -> int:
    """Count the characters that both models predict in rows (B, T)."""
    return 2 * int((text[:, 1:] != PADDING).sum())
