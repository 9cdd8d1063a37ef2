"""Options of training character language models. Source: Akbik et al. 2018, section 3.1."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.pretraining import PretrainOptions

NEW = "new"
# Options of a head, and of what an LSTM does not have: the models are trained whole, in single precision.
WITHOUT_EFFECT = (
    "head_learning_rate",
    "head_first_steps",
    "head_first_learning_rate",
    "refit_head",
    "precision",
    "recompute",
)
_ONLY_NEW = {"encoder": (NEW,)}


@dataclass(frozen=True, kw_only=True)
class CharacterModelOptions(PretrainOptions):
    """Two character language models. The paper: states of 2048, 250 characters, batches of 100, SGD at 20, annealed."""

    encoder: str = option(
        NEW, "Character models to start from: new, some pre-trained here, or a folder of some.", group="model"
    )
    hidden_size: int = option(
        1024, "Size of each model's state.", min=1, max=8192, group="model", only=_ONLY_NEW, title="size of the states"
    )
    characters: int = option(
        256,
        "Characters that are told apart: the most frequent ones at the beginning of the text.",
        min=1,
        max=65_536,
        group="model",
        only=_ONLY_NEW,
    )
    row_length: int = option(
        250, "Characters per row: whole documents, as many as fit; a longer one is cut.", min=8, max=65_536
    )
    batch_size: int = option(100, "Rows per step.", min=1, max=65_536, title="rows per step")
    learning_rate: float = option(2e-3, "Peak learning rate.", min=1e-7, max=1e-1)
    weight_decay: float = option(0.0, "Decoupled weight decay (not on biases).", min=0.0, max=1.0)
    epochs: int = option(1, "Passes over the text.", min=1, max=10_000)
    held_out_share: float = option(
        0.02, "Share of the text held out for evaluation, unless separate text is given.", min=0.0001, max=0.5
    )
    held_out_rows: int = option(1000, "Maximum rows of held-out text to evaluate on.", min=1, max=10**7)
