"""Options of the dual adversarial transfer network (DATNet)."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option

_ONLY = {"setting": ("datnet",)}
_NO_DISCRIMINATOR = ({"datnet_reversal": (0.0,)},)


@dataclass(frozen=True)
class DatnetOptions:
    """The discriminator of domains, and the noise on a sentence's inputs; DATNet-P is `lstm_private` of the BiLSTM-CRF.

    Defaults are those of the released code. Source: Zhou et al. 2019, section 3.
    """

    datnet_alpha: float = option(
        0.25,
        "Weight α of source sentences in the discriminator's loss; target sentences have 1 − α.",
        min=0.0,
        max=1.0,
        group="source",
        only=_ONLY,
        unless=_NO_DISCRIMINATOR,
        later=True,
    )
    datnet_gamma: float = option(
        2.0,
        "Exponent γ of the discriminator's loss: the higher, the less a sentence counts whose domain it predicts well; "
        "0: all count alike.",
        min=0.0,
        max=10.0,
        group="source",
        only=_ONLY,
        unless=_NO_DISCRIMINATOR,
        later=True,
    )
    datnet_reversal: float = option(
        0.7,
        "Factor on the discriminator's gradient, reversed, where it reaches the shared layers; 0: no discriminator.",
        min=0.0,
        max=100.0,
        group="source",
        only=_ONLY,
        later=True,
    )
    datnet_epsilon: float = option(
        5.0,
        "Length ε of the adversarial noise on a sentence's inputs, in standard deviations of these; 0: no noise.",
        min=0.0,
        max=1000.0,
        group="source",
        only=_ONLY,
        later=True,
    )
