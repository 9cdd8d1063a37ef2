"""How a run is computed: spread over memory and processes, and the same each time."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option


@dataclass(frozen=True)
class ScaleOptions:
    """They change memory, time, and the order of sums, not the method."""

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
    deterministic: bool = option(
        False,
        "On a GPU, use only algorithms that give the same numbers each time; slower, by how much is not measured.",
        group="machine",
        later=True,
    )
