"""Options of Coach."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.bilstm_crf import BilstmCrfOptions
from crossner_core.options.type_aware import TypeAwareOptions

TITLE = "Coach (finds spans, then their types by descriptions)"


@dataclass(frozen=True)
class CoachOptions(BilstmCrfOptions, TypeAwareOptions):
    """What the BiLSTM-CRF and the type-aware tagger have, and the size of what reads a span."""

    span_size: int = option(
        200,
        "Size of the state, in each direction, of the BiLSTM that reads a span.",
        min=1,
        max=4096,
        group="model",
        only={"architecture": ("coach",)},
        later=True,
    )
    template_weight: float = option(
        0.0,
        "Weight of template regularisation: a sentence is to be near the same one with its spans replaced by their "
        "types, and far from two with other types. CrossNER's baseline has none.",
        min=0.0,
        max=100.0,
        group="model",
        only={"architecture": ("coach",)},
        later=True,
    )
