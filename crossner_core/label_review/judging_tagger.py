"""Judge by the workbench's own tagger, trained from scratch for each fold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from crossner_core.errors import CheckpointError
from crossner_core.label_review.base import Desk
from crossner_core.label_review.evidence import Floats
from crossner_core.models.heads import head_tags
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Sentence
from crossner_core.training.batches import ordered_batches
from crossner_core.training.data import TrainingData
from crossner_core.training.loop import train
from crossner_core.training.predictor import Predictor, load_tagger
from crossner_core.training.recipe import Recipe


class TaggerJudge:
    """Fine-tunes encoder and head for the given epochs, without dev."""

    def __init__(
        self, items: Sequence[LabelledSentence], types: Sequence[str], options: LabelReviewOptions, desk: Desk
    ) -> None:
        self.items, self.types, self.options, self.desk = items, tuple(types), options, desk

    def judge(self, learnt: Sequence[int], held: Sequence[int], number: int) -> list[Floats] | None:
        """Train on the learnt items; return the tagger's probabilities for the held-out ones, None when stopped."""
        recipe = Recipe(
            encoder=self.options.encoder,
            max_epochs=self.options.epochs,
            learning_rate=self.options.learning_rate,
            seed=(self.options.seed + number) % 2**31,
            min_epoch_steps=1,
            device=self.options.device,
        )
        data = TrainingData(train=tuple(self.items[index] for index in learnt), types=self.types)
        with TemporaryDirectory(prefix="second-look-") as folder:
            result = None
            steps = train(
                recipe, data, checkpoint_dir=Path(folder), encoder=self.desk.encoder, should_stop=self.desk.should_stop
            )
            for event in steps:
                result = event.result
            if result is None or result.outcome == "stopped":
                return None
            if result.checkpoint is None:
                raise CheckpointError(f"The tagger of fold {number + 1} could not be trained: {' '.join(result.notes)}")
            predictor = load_tagger(result.checkpoint, device=self.options.device)
        return tag_probabilities(predictor, [self.items[index].sentence for index in held])


def tag_probabilities(predictor: Predictor, sentences: Sequence[Sentence], batch_size: int = 32) -> list[Floats]:
    """Return each sentence's probabilities of the tags of the predictor's types (tokens, tags)."""
    allowed = len(head_tags(predictor.types))
    results: list[Floats] = [np.zeros((len(sentence.tokens), allowed)) for sentence in sentences]
    windows = predictor.encoder.windows(sentences)
    device = next(predictor.model.parameters()).device
    predictor.model.eval()
    with torch.inference_mode():
        for indices in ordered_batches([len(window.input_ids) for window in windows], batch_size):
            batch = predictor.encoder.collate([windows[index] for index in indices]).to(device)
            probabilities = predictor.model.tag_log_probabilities(batch)[..., :allowed].softmax(-1)  # (B, W, allowed)
            for index, row in zip(indices, probabilities.double().cpu().numpy(), strict=True):
                window = windows[index]
                results[window.sentence][window.start : window.end] = row[: window.end - window.start]
    return results
