"""How a run is spread over memory and processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScaleOptions:
    """Accumulation and recomputation: they change memory and time, not the method."""
