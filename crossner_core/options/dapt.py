"""Options of domain-adaptive pre-training. Source: Liu et al. 2021 (CrossNER), "Domain-Adaptive Pre-training"."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.pretraining import PretrainOptions


@dataclass(frozen=True, kw_only=True)
class DaptOptions(PretrainOptions):
    """Masked-LM training on domain text. The released script: 15 passes, a mask share of 0.2, blocks of 512."""

    masking: str = option(
        "span", "What is masked: single subwords, or the same moved next to each other.", choices=("token", "span")
    )
    mask_share: float = option(0.15, "Share of the subwords that are asked for.", min=0.01, max=0.9)
    block_size: int = option(
        512, "Subwords a block, special ones included; cut to what the encoder takes.", min=8, max=8192
    )
    batch_size: int = option(8, "Blocks a step.", min=1, max=65_536)
    epochs: int = option(15, "Passes over the corpus.", min=1, max=10_000)
    held_out_share: float = option(
        0.02, "Share of the corpus held out to be measured on, where no text of its own is given.", min=0.0001, max=0.5
    )
    held_out_blocks: int = option(200, "Most blocks of held-out text that are measured on.", min=1, max=10**6)
    unknown_word: str = option(
        "<unk>", "A word of the corpus that stands for a left-out one: shown as unknown and never asked for."
    )
    refit_head: bool = option(
        True, "In the end, measure the encoder through a fresh head that learns alone as the first one did."
    )
    keep_best: bool = option(False, "Keep the weights with the lowest held-out perplexity rather than the last.")
