"""What the label-aware architecture can be told."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option

_ONLY = {"architecture": ("label_aware",)}


@dataclass(frozen=True)
class LabelAwareOptions:
    """Sizes and switches of LANER; every switch is one of its ablations."""

    label_size: int = option(
        100, "Size of a label's embedding and of its LSTM's state.", min=1, max=4096, group="model", only=_ONLY
    )
    label_background: bool = option(True, "Attend from the labels so far to the sentence.", group="model", only=_ONLY)
    label_context: bool = option(True, "Attend from the token to the labels so far.", group="model", only=_ONLY)
