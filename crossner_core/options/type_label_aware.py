"""Options of the architecture that reads what types mean and the preceding tags."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.label_aware import LabelAwareOptions
from crossner_core.options.type_aware import TypeAwareOptions

TITLE = "LANER over descriptions (type-aware and label-aware)"
DECODING = ("IOB2 from left to right", "argmax")


@dataclass(frozen=True)
class TypeLabelAwareOptions(LabelAwareOptions, TypeAwareOptions):
    """The options of both parts; it has none of its own."""
