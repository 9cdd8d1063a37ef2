"""Options of domain-adaptive pre-training. Source: Liu et al. 2021 (CrossNER), "Domain-Adaptive Pre-training"."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.pretraining import PretrainOptions


@dataclass(frozen=True, kw_only=True)
class DaptOptions(PretrainOptions):
    """Masked-LM training on domain text. The released script: 15 passes, a mask share of 0.2, blocks of 512."""

    masking: str = option(
        "span",
        "Unit of masking: single subwords, or contiguous spans with as many subwords in total.",
        choices=("token", "span"),
    )
    mask_share: float = option(0.15, "Share of the subwords to predict.", min=0.01, max=0.9)
    block_size: int = option(
        512,
        "Subwords per sequence, special tokens included; limited to the encoder's maximum.",
        min=8,
        max=8192,
        title="sequence length",
    )
    batch_size: int = option(8, "Sequences per step.", min=1, max=65_536, title="sequences per step")
    epochs: int = option(15, "Passes over the corpus.", min=1, max=10_000)
    held_out_share: float = option(
        0.02, "Share of the corpus held out for evaluation, unless separate text is given.", min=0.0001, max=0.5
    )
    held_out_blocks: int = option(
        200, "Maximum sequences of held-out text to evaluate on.", min=1, max=10**6, title="held-out sequences"
    )
    unknown_word: str = option(
        "<unk>", "Word that stands for an omitted one in the corpus: encoded as unknown and never predicted."
    )
    refit_head: bool = option(
        True, "At the end, also evaluate the encoder with a new head, trained alone as the first one was."
    )
    keep_best: bool = option(False, "Keep the weights with the lowest held-out perplexity rather than the last.")
