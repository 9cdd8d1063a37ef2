"""Options of the architecture that reads what types mean."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.tagger import TaggerOptions

TITLE = "Type-aware tagger (reads descriptions)"
DECODING = ("IOB2", "argmax")

_ONLY = {"architecture": ("type_aware", "type_label_aware")}
_WITH_COACH = {"architecture": (*_ONLY["architecture"], "coach")}


@dataclass(frozen=True)
class TypeAwareOptions(TaggerOptions):
    """What the type-aware tagger reads of a type, and what is left out at random while it learns."""

    type_texts: str = option(
        "guidelines",
        "What is read of a type: title, class names and guideline, the title alone, or a random vector (a control).",
        choices=("guidelines", "titles", "random"),
        group="model",
        only=_WITH_COACH,
        later=True,
    )
    type_encoder: str = option(
        "pretrained",
        "What reads the texts: the pre-trained encoder, once; or the tagger's own, which learns to read them, at each "
        "step. That finds far more of types without labels, and training takes longer.",
        choices=("pretrained", "own"),
        group="model",
        only=_ONLY | {"type_texts": ("guidelines", "titles")},
        later=True,
    )
    type_negatives: str = option(
        "all",
        "Types that the tokens of a batch are compared with, besides those it mentions: all, half of them at random, "
        "or the most similar ones and a few at random.",
        choices=("all", "drawn", "hard"),
        group="model",
        only=_ONLY,
        later=True,
    )
    type_interaction: bool = option(
        False,
        "Let each token's vector take up what the descriptions of all types say (cross-attention) before it is "
        "compared with them.",
        group="model",
        only={"architecture": ("type_aware",)},
        later=True,
    )
    type_scale: float = option(
        16.0,
        "What a cosine of a token and a description is multiplied by at first.",
        min=0.1,
        max=1000.0,
        group="model",
        only=_ONLY,
    )
    type_rows: bool = option(
        True,
        "Learn weights of its own for each type besides its description; a type that was never seen has none.",
        group="model",
        only=_WITH_COACH,
        later=True,
    )
    type_rows_dropout: float = option(
        0.5,
        "Share of types and steps in which a type's own weights are left out in training.",
        min=0.0,
        max=1.0,
        group="model",
        only=_ONLY | {"type_rows": (True,)},
        later=True,
    )
    type_texts_dropout: float = option(
        0.1,
        "Share of types and steps in which a type's description is left out in training.",
        min=0.0,
        max=0.9,
        group="model",
        only=_ONLY | {"type_rows": (True,)},
        later=True,
    )
    type_rate_scale: float = option(
        1.0,
        "Factor on the head's learning rate for what compares tokens with descriptions.",
        min=1e-3,
        max=10.0,
        group="model",
        only=_ONLY,
        later=True,
    )
