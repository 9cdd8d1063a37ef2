"""Judge by a linear classifier on the frozen encoder: each sentence is encoded once, so a review takes seconds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.label_review.base import Desk
from crossner_core.label_review.evidence import Floats
from crossner_core.models.heads import head_tags
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Sentence
from crossner_core.tags import tags_from_spans
from crossner_core.training.batches import ordered_batches
from crossner_core.training.machine import pick_device

_LAYERS = 4  # the last ones: the topmost alone retains little of the single word
_WINDOW = 256
_DIMENSIONS = 256
_STRENGTH = 0.003  # scikit-learn's C; small, for a few thousand tokens in hundreds of dimensions
_CASE_WEIGHT = 3.0  # makes up for an uncased encoder, which does not see capitals
_ROUNDS = 60


class ProbeJudge:
    """Logistic regression on frozen token vectors of all the sentences, which are computed once."""

    def __init__(
        self, items: Sequence[LabelledSentence], types: Sequence[str], options: LabelReviewOptions, desk: Desk
    ) -> None:
        tags = head_tags(types)
        index = {tag: number for number, tag in enumerate(tags)}
        self.count, self.seed = len(tags), options.seed
        encoder = desk.encoder or load_encoder(options.encoder)
        self.vectors = token_vectors([item.sentence for item in items], encoder, options.device)
        self.tags = [
            np.array([index[tag] for tag in tags_from_spans(item.spans, len(item.sentence.tokens))], dtype=np.int64)
            for item in items
        ]

    def judge(self, learnt: Sequence[int], held: Sequence[int], number: int) -> list[Floats]:
        """Learn from the learnt items; return the classifier's probabilities for the held-out ones."""
        vectors, tags = (
            np.vstack([self.vectors[index] for index in learnt]),
            np.concatenate([self.tags[index] for index in learnt]),
        )
        known = np.unique(tags)
        probe = self._learn(vectors, tags) if len(known) > 1 else None
        results: list[Floats] = []
        for index in held:
            probabilities = np.zeros((len(self.vectors[index]), self.count))
            probabilities[:, known] = probe.predict_proba(self.vectors[index]) if probe is not None else 1.0
            results.append(probabilities)
        return results

    def _learn(self, vectors: np.ndarray, tags: np.ndarray) -> Pipeline:
        dimensions = min(_DIMENSIONS, *vectors.shape)
        probe = make_pipeline(
            StandardScaler(),
            PCA(dimensions, svd_solver="randomized" if dimensions == _DIMENSIONS else "full", random_state=self.seed),
            LogisticRegression(C=_STRENGTH, max_iter=_ROUNDS),
        )
        with warnings.catch_warnings():
            # Stopping early is good enough for ranking, and bounds the cost.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return probe.fit(vectors, tags)


def token_vectors(sentences: Sequence[Sentence], encoder: Encoder, device: str) -> list[np.ndarray]:
    """Return each sentence's vectors (tokens, layers · hidden + 5): first subwords, and the word's shape."""
    where = pick_device(device)
    encoder.model.to(where).eval()
    windows = encoder.windows(sentences, min(_WINDOW, encoder.max_length))
    parts: list[dict[int, np.ndarray]] = [{} for _ in sentences]
    with torch.inference_mode():
        for indices in ordered_batches([len(window.input_ids) for window in windows], 16):
            batch = encoder.collate([windows[index] for index in indices]).to(where)
            hidden = encoder.last_layers(batch, _LAYERS).float().cpu().numpy()  # (B, L, layers · H)
            for row, index in enumerate(indices):
                window = windows[index]
                parts[window.sentence][window.start] = hidden[row, list(window.positions)]
    return [
        np.hstack([np.concatenate([own[start] for start in sorted(own)]), _written(sentence.words)])
        for own, sentence in zip(parts, sentences, strict=True)
    ]


def _written(words: Sequence[str]) -> np.ndarray:
    """Return each word's shape features, (tokens, 5)."""
    marks = [_writing(word, position) for position, word in enumerate(words)]
    return _CASE_WEIGHT * np.array(marks, dtype=np.float32)


def _writing(word: str, position: int) -> tuple[float, ...]:
    marks = (word[0].isupper(), word.isupper(), word.isdigit(), not word.isalnum(), position == 0)
    return tuple(float(mark) for mark in marks)
