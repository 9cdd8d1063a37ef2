"""What PDALN can be told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PdalnOptions:
    """Weights, sizes and switches of progressive domain adaptation."""
