"""Options of the conditional random field."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.tagger import TaggerOptions

TITLE = "BERT + CRF"


@dataclass(frozen=True)
class CrfOptions(TaggerOptions):
    """The learning rate of the transitions."""

    transition_rate_scale: float = option(
        20.0,
        "Factor on the head's learning rate for the scores of tag to tag, of first and of last tags, after the passes "
        "of the head alone: they begin at zero and have to become several units large within a short run.",
        min=0.0,
        max=1000.0,
        group="model",
        only={"architecture": ("crf",)},
    )
