"""One vector a text: the mean of the encoder's vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from crossner_core.encoders.base import Encoder, vectors
from crossner_core.schema import Sentence

BATCH = 64


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
    for first in range(0, len(order), BATCH):
        indices = order[first : first + BATCH]
        batch = encoder.collate([windows[index] for index in indices]).to(device)
        hidden = vectors(encoder.model, batch)
        kept = batch.attention_mask.unsqueeze(-1)  # (B, L, 1)
        mean = (hidden * kept).sum(1) / kept.sum(1)  # (B, H)
        rows[[windows[index].sentence for index in indices]] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
    encoder.model.train(training)
    return rows
