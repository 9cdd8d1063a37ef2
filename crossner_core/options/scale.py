"""How a run is spread over memory and processes."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option


@dataclass(frozen=True)
class ScaleOptions:
    """Accumulation and recomputation: they change memory and time, not the method."""

    accumulate: int = option(
        1,
        "Parts that a step's batch is cut into, one after the other in memory; the step is that of the whole batch.",
        min=1,
        max=1024,
        group="machine",
        later=True,
    )
    recompute: bool = option(
        False,
        "Compute the encoder's inner values again for the gradient instead of keeping them: less memory, more time.",
        group="machine",
        later=True,
    )
