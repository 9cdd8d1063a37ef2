"""One vector a text: the mean of the encoder's vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder, vectors
from crossner_core.schema import Sentence


def sentences_at_once(device: torch.device) -> int:
    """Return how many sentences to read in a batch: on a CPU more than 16 no longer fit its cache and take longer."""
    return 64 if device.type == "cuda" else 16


def mean_vectors(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """Return (B, H) means of length 1 of the vectors (B, L, H) that the mask (B, L) keeps."""
    kept = attention_mask.unsqueeze(-1)  # (B, L, 1)
    return nn.functional.normalize((hidden * kept).sum(1) / kept.sum(1), dim=-1)


@torch.inference_mode()
def embed(encoder: Encoder, sentences: Sequence[Sentence]) -> NDArray[np.float32]:
    """Return (N, H) mean vectors of length 1; a long sentence is represented by its first window.

    Source: Reimers and Gurevych 2019 (mean pooling, as the bundled encoder was trained).
    """
    rows = np.zeros((len(sentences), encoder.hidden_size), dtype=np.float32)
    windows = [window for window in encoder.windows(sentences) if window.start == 0]
    training = encoder.model.training
    encoder.model.eval()
    device = next(encoder.model.parameters()).device
    order = sorted(range(len(windows)), key=lambda index: -len(windows[index].input_ids))
    size = sentences_at_once(device)
    for first in range(0, len(order), size):
        indices = order[first : first + size]
        batch = encoder.collate([windows[index] for index in indices]).to(device)
        hidden = vectors(encoder.model, batch)
        mean = mean_vectors(hidden, batch.attention_mask)  # (B, H)
        rows[[windows[index].sentence for index in indices]] = mean.cpu().numpy()
    encoder.model.train(training)
    return rows
