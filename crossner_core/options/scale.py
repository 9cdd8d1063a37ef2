"""How a run is spread over memory and processes."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option


@dataclass(frozen=True)
class ScaleOptions:
    """Accumulation and recomputation: they change memory and time, not the method."""

    accumulate: int = option(
        1,
        "Gradient accumulation: number of parts that a batch is split into, to save memory; the update is that of "
        "the whole batch.",
        min=1,
        max=1024,
        group="machine",
        later=True,
    )
    recompute: bool = option(
        False,
        "Gradient checkpointing: recompute the encoder's activations in the backward pass; less memory, more time.",
        group="machine",
        later=True,
    )
