"""Options of BARTNER."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option
from crossner_core.options.tagger import TaggerOptions

TITLE = "BARTNER (writes each entity as its tokens, then its type)"
DECODING = ("token by token", "token by token")

_ONLY = {"architecture": ("bartner",)}


@dataclass(frozen=True)
class BartnerOptions(TaggerOptions):
    """The decoder that writes the entities, where the encoder brings none, and how a token is pointed at."""

    decoder_layers: int = option(
        2,
        "Layers of the decoder, where the encoder has none of its own, as BART has.",
        min=1,
        max=24,
        group="model",
        only=_ONLY,
        later=True,
    )
    pointer_share: float = option(
        0.5,
        "Share of the encoder's vector in what a token is pointed at by; the rest is its embedding.",
        min=0.0,
        max=1.0,
        group="model",
        only=_ONLY,
        later=True,
    )
