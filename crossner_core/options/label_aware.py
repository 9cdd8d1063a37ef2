"""Options of the label-aware architecture."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.tagger import TaggerOptions

TITLE = "LANER (label-aware tagger)"

_ONLY = {"architecture": ("label_aware",)}
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
        "Size of a label's embedding and of its LSTM's state.",
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
        "Learn a vector for each label; otherwise each keeps the one drawn at the start, which only tells it apart.",
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
        later=True,
    )
    label_bilstm: bool = option(
        True,
        "Read the labels so far by a BiLSTM; otherwise each stands for itself, by its vector alone.",
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
        later=True,
    )
    label_background_over: str = option(
        "tokens",
        "What the labels so far attend to: tokens (as the paper says) or all subwords (as its code does).",
        choices=("tokens", "subwords"),
        group="model",
        only=_ONLY | {"label_background": (True,)},
    )
    label_background_scaled: bool = option(
        False,
        "Divide the background's attention scores by the root of their size (scaled dot product); the paper does not.",
        group="model",
        only=_ONLY | {"label_background": (True,)},
        later=True,
    )
    label_context_scaled: bool = option(
        False,
        "Divide the context's attention scores by the root of their size (scaled dot product); the paper does not.",
        group="model",
        only=_ONLY | {"label_context": (True,)},
        later=True,
    )
    label_history: str = option(
        "gold",
        "Labels before a token in training: gold, or mixed with the model's own from a first pass.",
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
        "Share of labels before a token that training replaces by random ones.",
        min=0.0,
        max=1.0,
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
    )
    label_embedding_dropout: float = option(
        0.0,
        "Share of labels before a token that training leaves out.",
        min=0.0,
        max=1.0,
        group="model",
        only=_ONLY,
        unless=_NO_LABELS,
    )
