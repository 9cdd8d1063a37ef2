"""Options of every architecture: what all taggers share."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option

TITLE = "BERT tagger"
DECODING = ("IOB2", "argmax")
_WHOLE = ({"architecture": ("bartner",)},)  # it writes whole entities, never anything else


@dataclass(frozen=True)
class TaggerOptions:
    """Dropout before the head, label smoothing, and whether decoding is constrained to valid IOB2."""

    label_smoothing: float = option(
        0.0,
        "Label smoothing: share of the gold tag's weight in the loss that is spread over all tags.",
        min=0.0,
        max=0.9,
        only={"architecture": ("tagger", "label_aware", "type_aware", "type_label_aware")},
        later=True,
    )
    dropout: float = option(
        0.1,
        "Dropout before the head; also before and between the layers of a BiLSTM, before the cells of multi_cell, and "
        "in BARTNER's decoder.",
        min=0.0,
        max=0.9,
    )
    constrained: bool = option(True, "Constrain decoding to valid IOB2 tag sequences.", group="model", unless=_WHOLE)
