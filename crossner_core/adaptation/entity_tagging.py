"""Entity-tagging pre-training: token tagging on a large silver corpus, with a head over all of its types.

Source: Liu et al. 2021 (NER-BERT), sections 3.1 and 4.4. The head is kept beside the encoder but belongs to no recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from crossner_core.adaptation.prepared import Arrays, Buckets, TaggedWindows, corpus_head, prepare_windows
from crossner_core.adaptation.pretraining import Events, ShouldStop, not_stopped
from crossner_core.adaptation.pretraining_job import PretrainJob
from crossner_core.adaptation.pretraining_task import PretrainTask
from crossner_core.adaptation.texts import Sentences
from crossner_core.encoders import Encoder, load_encoder
from crossner_core.errors import BadInput
from crossner_core.evaluation.scores import score_tags
from crossner_core.models.base import IGNORED, Batch
from crossner_core.models.heads import head_tags
from crossner_core.models.tagger import Tagger, TaggerConfig
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.schema import LabelledSentence
from crossner_core.training.engine import Work
from crossner_core.training.predictor import Predictor

KIND = "entity_tagging"


def run_entity_tagging(
    options: TaggingPretrainOptions,
    sentences: Sentences,
    held_out: Sentences | Sequence[LabelledSentence] | None,
    types: Sequence[str],
    *,
    out: Path,
    work: Path,
    resume: bool = True,
    should_stop: ShouldStop = not_stopped,
    provenance: Mapping[str, Any] | None = None,
    encoder: Encoder | None = None,
) -> Events:
    """Yield events until the run ends; the last one has an `outcome`, and the `result` where that is "done".

    `sentences()` gives the corpus, which is read once, in a stream, into `work`; `types` are all types it has. The rest
    is as in `run_dapt`. Raises BadInput, UnknownType, EncoderUnavailable, CheckpointError, StorageError, InvalidConfig.
    """
    if not types or len(set(types)) != len(types):
        raise BadInput(f"Entity types are {list(types)}; there must be at least one, each once.")
    job = PretrainJob(KIND, options, out, work, provenance or {})
    encoder = encoder or load_encoder(options.encoder)
    if not resume:
        job.forget()
    aside = held_out if callable(held_out) or held_out is None else lambda: iter(held_out)
    begins = [corpus_head(_plain(source())) for source in (sentences, aside) if source is not None]
    job.identify(encoder, begins=begins, types=list(types))
    if resume and (done := job.finished()) is not None:
        yield done
        return
    body, length = encoder, min(options.max_length, encoder.max_length)

    def write(folder: Path, meta: dict[str, Any]) -> Iterator[int]:
        return prepare_windows(
            folder,
            sentences(),
            aside and aside(),
            body.tokenizer,
            types,
            length,
            share=options.held_out_share,
            seed=options.seed,
            meta=meta,
        )

    for event in job.prepare(write, should_stop):
        yield event
        if event.outcome:
            return
    yield from job.go(encoder, partial(EntityTaggingTask, options, tuple(types)), should_stop)


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
        # With hundreds of types a search over pairs of tags is dearer than the encoder, and scores allow a stray I-.
        model = Tagger(encoder, head_tags(types), TaggerConfig(dropout=options.dropout, constrained=False))
        super().__init__(options, model, encoder.tokenizer, keep_best=options.keep_best)
        self.types = tuple(types)
        self.train, self.held_out = TaggedWindows(train), TaggedWindows(held_out)
        self.buckets = Buckets(self.train.lengths, options.batch_size)
        self.predictor = Predictor(
            self.model, self.tokenizer, types, max_length=min(options.max_length, encoder.max_length), meta={}
        )

    @property
    def epoch_steps(self) -> int:
        return len(self.buckets)

    def batch(self, phase: int, epoch: int, number: int, parts: int) -> Work:
        chosen = self.buckets.batch((self.options.seed, phase, epoch), number)
        made_of = []
        for rows in np.array_split(chosen, min(parts, len(chosen))):
            windows, tags = self.train.read(rows.tolist())
            made = self.predictor.batcher.collate(windows, tags).to(self.model.head.weight.device)
            made_of.append((made, int((made.tags != IGNORED).sum())))
        total = sum(scored for _, scored in made_of)
        subwords = int(self.train.lengths[chosen].sum())
        return Work([Part(made, scored / total) for made, scored in made_of], subwords)

    def loss(self, part: Part) -> Tensor:
        return self.model.loss(part.batch) * part.weight

    def measure(self) -> float:
        """Return the micro F1 as conlleval counts it; a sentence of several windows counts as so many sentences."""
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
    """Give sentences with their spans as words, for telling corpora apart."""
    for item in sentences:
        yield (*item.sentence.words, *(f"{span.start}-{span.end}-{span.type}" for span in item.spans))
