"""Options of the multi-cell compositional LSTM."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.crf import CrfOptions

TITLE = "Multi-cell LSTM (a cell for each type)"

_ONLY = {"architecture": ("multi_cell",)}


@dataclass(frozen=True)
class MultiCellOptions(CrfOptions):
    """Size of the cells, and the weights of the two losses beside the tags'."""

    cell_size: int = option(
        100, "Size of a cell's state in each direction.", min=1, max=4096, group="model", only=_ONLY, later=True
    )
    cell_type_weight: float = option(
        1.0,
        "Weight of the loss by which each type's cell predicts whether a token is of its type.",
        min=0.0,
        max=100.0,
        group="model",
        only=_ONLY,
        later=True,
    )
    cell_attention_weight: float = option(
        1.0,
        "Weight of the loss by which the attention over the cells is that of the token's own type.",
        min=0.0,
        max=100.0,
        group="model",
        only=_ONLY,
        later=True,
    )
