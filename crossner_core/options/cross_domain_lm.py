"""Options of cross-domain language modelling: a BiLSTM generated for each domain and task."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option

_ONLY = {"setting": ("cross_domain_lm", "cross_domain_lm_unsupervised")}


@dataclass(frozen=True)
class CrossDomainLmOptions:
    """Weight and samples of the language model, and the sizes of the vectors that a BiLSTM is generated from.

    Defaults are those of the released code for labelled sentences alone; beside raw text its `lm_weight` is 0.5.
    Source: Jia et al. 2019, section 3.
    """

    lm_weight: float = option(
        1.0,
        "Weight of the language model's loss beside that of the tags; 0: no language model.",
        min=0.0,
        max=100.0,
        group="source",
        only=_ONLY,
        later=True,
        title="weight of the language model",
    )
    lm_samples: int = option(
        50,
        "Words drawn in each step as alternatives to the right one; all if there are no more.",
        min=1,
        max=1_000_000,
        group="source",
        only=_ONLY,
        unless=({"lm_weight": (0.0,)},),
        later=True,
        title="words drawn in a step",
    )
    lm_domain_size: int = option(
        8,
        "Size of the vector of a domain.",
        min=1,
        max=256,
        group="source",
        only=_ONLY,
        later=True,
        title="size of a domain vector",
    )
    lm_task_size: int = option(
        8,
        "Size of the vector of a task, which is to tag or to predict words.",
        min=1,
        max=256,
        group="source",
        only=_ONLY,
        later=True,
        title="size of a task vector",
    )
