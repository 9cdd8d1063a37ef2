"""Options of label-aware double transfer learning (La-DTL)."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option

_ONLY = {"setting": ("la_dtl",)}


@dataclass(frozen=True)
class LaDtlOptions:
    """Weights of L = L_s + L_t + α Σ_y μ_y MMD²_y + β ‖θ_s − θ_t‖² + γ ‖θ‖²; weight decay takes the place of γ.

    Defaults are those of the released code, whose norm is halved: β is half of its 0.1. Source: Wang et al. 2018,
    section 3.
    """

    la_dtl_alpha: float = option(
        0.02,
        "Weight α of the MMD between source and target tokens of each tag; its kernel is the sum of 19 Gaussians.",
        min=0.0,
        max=1000.0,
        group="source",
        only=_ONLY,
        later=True,
    )
    la_dtl_outside: float = option(
        1.0,
        "Weight μ of the tag O within the MMD; every other tag has 1.",
        min=0.0,
        max=1000.0,
        group="source",
        only=_ONLY,
        unless=({"la_dtl_alpha": (0.0,)},),
        later=True,
    )
    la_dtl_beta: float = option(
        0.05,
        "Weight β of the squared distance between the two CRFs' parameters of shared tags.",
        min=0.0,
        max=1000.0,
        group="source",
        only=_ONLY,
        later=True,
    )
