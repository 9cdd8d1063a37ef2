"""Entity-tagging pre-training: token tagging on a large silver corpus, with a head over all of its types.

Source: Liu et al. 2021 (NER-BERT), sections 3.1 and 4.4. The head is kept beside the encoder but belongs to no recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from crossner_core.adaptation.prepared import Arrays, Buckets, TaggedWindows, corpus_head, prepare_windows
from crossner_core.adaptation.pretraining import Events, ShouldStop, not_stopped
from crossner_core.adaptation.pretraining_job import PretrainJob, PretrainTask
from crossner_core.adaptation.texts import PretrainText
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.windows import Batch
from crossner_core.errors import BadInput
from crossner_core.evaluation.scores import score_tags
from crossner_core.models.heads import head_tags
from crossner_core.models.tagger import Tagger
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.options.tagger import TaggerOptions
from crossner_core.schema import LabelledSentence
from crossner_core.training.engine import Work
from crossner_core.training.predictor import Predictor

KIND = "entity_tagging"


def run_entity_tagging(
    options: TaggingPretrainOptions,
    text: PretrainText[LabelledSentence],
    *,
    out: Path,
    work: Path,
    resume: bool = True,
    should_stop: ShouldStop = not_stopped,
    encoder: Encoder | None = None,
) -> Events:
    """Yield events until the run ends; the last one has an `outcome`, and the `result` if that is "done".

    The text's `types` must list all its types. Otherwise as in `run_dapt`. Raises BadInput, UnknownType,
    EncoderUnavailable, CheckpointError, StorageError, InvalidConfig.
    """
    types = text.types
    if not types or len(set(types)) != len(types):
        raise BadInput(f"Entity types are {list(types)}; there must be at least one, without duplicates.")
    job = PretrainJob(KIND, options, out, work, text.provenance)
    body = encoder or load_encoder(options.encoder)
    body.require_subwords("pre-training")
    length = min(options.max_length, body.max_length)

    def write(folder: Path, meta: dict[str, Any]) -> Iterator[int]:
        share, seed = options.held_out_share, options.seed
        return prepare_windows(folder, text, body, length, share=share, seed=seed, meta=meta)

    begins = [corpus_head(_plain(part())) for part in (text.items, text.held_out) if part is not None]
    corpus = {"begins": begins, "types": list(types)}
    yield from job.run(body, corpus, write, partial(EntityTaggingTask, options, types), should_stop, resume=resume)


@dataclass(frozen=True, slots=True)
class Part:
    """Some windows of a step; `weight` is their fraction of the step's scored tokens."""

    batch: Batch
    weight: float


class EntityTaggingTask(PretrainTask):
    """Token tagging over prepared sentences with the plain tagger."""

    kind = KIND
    options: TaggingPretrainOptions
    model: Tagger

    def __init__(
        self,
        options: TaggingPretrainOptions,
        types: Sequence[str],
        encoder: Encoder,
        train: Arrays,
        held_out: Arrays,
    ) -> None:
        # With hundreds of types, Viterbi over pairs of tags costs more than the encoder, and scoring tolerates a stray
        # I-.
        model = Tagger(encoder, head_tags(types), TaggerOptions(dropout=options.dropout, constrained=False))
        super().__init__(options, model, keep_best=options.keep_best)
        self.types = tuple(types)
        self.train, self.held_out = TaggedWindows(train), TaggedWindows(held_out)
        self.buckets = Buckets(self.train.lengths, options.batch_size)
        self.predictor = Predictor(
            self.model, encoder, types, max_length=min(options.max_length, encoder.max_length), meta={}
        )

    @property
    def epoch_steps(self) -> int:
        return len(self.buckets)

    def batch(self, phase: int, epoch: int, number: int, parts: int) -> Work:
        chosen = self.buckets.batch((self.options.seed, phase, epoch), number)
        made_of = []
        for rows in np.array_split(chosen, min(parts, len(chosen))):
            windows, tags = self.train.read(rows.tolist())
            made = self.predictor.encoder.collate(windows, tags).to(self.model.head.weight.device)
            made_of.append((made, int(made.sizes.known.sum())))
        total = sum(scored for _, scored in made_of)
        subwords = int(self.train.lengths[chosen].sum())
        return Work([Part(made, scored / total) for made, scored in made_of], subwords)

    def loss(self, part: Part) -> Tensor:
        return self.model.loss(part.batch) * part.weight

    def measure(self) -> float:
        """Return the micro F1 as conlleval counts it; each window of a long sentence counts as a sentence."""
        count = min(len(self.held_out), self.options.held_out_sentences)
        chosen = np.linspace(0, len(self.held_out) - 1, count).astype(np.int64)  # evenly from the whole
        windows, known = self.held_out.read(chosen.tolist())
        gold = [[self.model.tags[tag] for tag in tags] for tags in known]
        answers = self.predictor.predict_windows(windows, len(windows))
        return score_tags(gold, [tags for tags, _ in answers], self.types).f1

    def about(self) -> dict[str, Any]:
        return {
            "types": list(self.types),
            "corpus_windows": len(self.train),
            "held_out_windows": len(self.held_out),
        }


def _plain(sentences: Iterable[LabelledSentence]) -> Iterator[Sequence[str]]:
    """Yield sentences with their spans as words, to tell corpora apart."""
    for item in sentences:
        yield (*item.sentence.words, *(f"{span.start}-{span.end}-{span.type}" for span in item.spans))
