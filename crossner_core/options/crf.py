"""Options of the conditional random field."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.tagger import TaggerOptions

TITLE = "BERT + CRF"
WITH_CRF = ("crf", "bilstm_crf", "multi_cell", "coach")
"""The architectures with a conditional random field."""


@dataclass(frozen=True)
class CrfOptions(TaggerOptions):
    """The learning rate of the transitions."""

    transition_rate_scale: float = option(
        20.0,
        "Factor on the head's learning rate for the transition, start and end scores, once the epochs of the head "
        "alone are over: they start at zero and must grow to several units within a short run.",
        min=0.0,
        max=1000.0,
        group="model",
        only={"architecture": WITH_CRF},
    )
