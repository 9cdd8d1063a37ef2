"""Options of the label-aware architecture."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.tagger import TaggerOptions

TITLE = "LANER (label-aware tagger)"
DECODING = ("IOB2 from left to right", "argmax")

_ONLY = {"architecture": ("label_aware", "type_label_aware")}
# Both parts that read labels are off.
_NO_LABELS = ({"label_background": (False,), "label_context": (False,)},)


@dataclass(frozen=True)
class LabelAwareOptions(TaggerOptions):
    """Sizes and switches of LANER, each switch an ablation, and the tag history in training.

    The defaults are the paper's. `label_background_over` can select the released code's variant. The scaled attentions
    are in neither.
    """

    label_size: int = option(
        100,
        "Size of the label embeddings and of the label LSTM's state.",
        min=1,
        max=4096,
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
    )
    label_background: bool = option(True, "Attend from the labels so far to the sentence.", group="model", only=_ONLY)
    label_context: bool = option(True, "Attend from the token to the labels so far.", group="model", only=_ONLY)
    label_embeddings: bool = option(
        True,
        "Learn a vector for each label; otherwise the random initial vectors stay fixed.",
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
        later=True,
    )
    label_bilstm: bool = option(
        True,
        "Encode the labels so far with a BiLSTM; otherwise their vectors are used as they are.",
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
        later=True,
    )
    label_background_over: str = option(
        "tokens",
        "What the labels so far attend to: tokens (as in the paper) or all subwords (as in its code).",
        choices=("tokens", "subwords"),
        group="model",
        only=_ONLY | {"label_background": (True,)},
    )
    label_background_scaled: bool = option(
        False,
        "Divide the background's attention scores by the square root of their dimension (scaled dot product); the "
        "paper does not.",
        group="model",
        only=_ONLY | {"label_background": (True,)},
        later=True,
    )
    label_context_scaled: bool = option(
        False,
        "Divide the context's attention scores by the square root of their dimension (scaled dot product); the paper "
        "does not.",
        group="model",
        only=_ONLY | {"label_context": (True,)},
        later=True,
    )
    label_history: str = option(
        "gold",
        "Previous labels in training: gold, or mixed with the model's own from a first pass.",
        choices=("gold", "mixed"),
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
    )
    label_own_share: float = option(
        0.5,
        "Share of the model's own labels in a mixed history.",
        min=0.0,
        max=1.0,
        group="model",
        only=_ONLY | {"label_history": ("mixed",)},
        unless=_NO_LABELS,
    )
    label_noise: float = option(
        0.0,
        "Share of previous labels that are replaced with random ones in training.",
        min=0.0,
        max=1.0,
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
    )
    label_embedding_dropout: float = option(
        0.0,
        "Share of previous labels that are dropped in training.",
        min=0.0,
        max=1.0,
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
    )
