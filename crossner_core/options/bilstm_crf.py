"""Options of the BiLSTM-CRF."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.crf import CrfOptions

TITLE = "BiLSTM-CRF (for word vectors)"

_ONLY = {"architecture": ("bilstm_crf", "coach")}


@dataclass(frozen=True)
class BilstmCrfOptions(CrfOptions):
    """Size and depth of the BiLSTM between the encoder and the conditional random field."""

    lstm_size: int = option(
        256, "Size of the LSTM's state in each direction.", min=1, max=4096, group="model", only=_ONLY, later=True
    )
    lstm_layers: int = option(2, "Layers of the BiLSTM.", min=1, max=8, group="model", only=_ONLY, later=True)
    lstm_private: bool = option(
        False,
        "A second BiLSTM of the same size beside the first; with the setting datnet each domain has its own, and only "
        "the first is shared (DATNet-P; without it, DATNet-F).",
        group="model",
        only={"architecture": ("bilstm_crf",)},
        later=True,
    )
