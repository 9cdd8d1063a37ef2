"""Options of entity-tagging pre-training. Source: Liu et al. 2021 (NER-BERT), sections 3.1 and 4.4."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.pretraining import PretrainOptions


@dataclass(frozen=True, kw_only=True)
class TaggingPretrainOptions(PretrainOptions):
    """Token tagging on a large silver corpus. The paper: Adam at 5e-5, 960 sentences per step, the best F1 is kept."""

    batch_size: int = option(32, "Sentences per step.", min=1, max=65_536)
    max_length: int = option(256, "Subwords per window; longer sentences are split with overlap.", min=16, max=8192)
    dropout: float = option(0.1, "Dropout before the head.", min=0.0, max=0.9)
    head_first_steps: int = option(
        0, "Steps in which only the head is trained; the first evaluation (before) follows them.", min=0, max=10**6
    )
    held_out_share: float = option(
        0.1, "Share of the sentences held out for evaluation, unless separate ones are given.", min=0.0001, max=0.5
    )
    held_out_sentences: int = option(2000, "Maximum held-out sentences to evaluate on.", min=1, max=10**7)
    keep_best: bool = option(True, "Keep the weights with the highest held-out F1 rather than the last.")
