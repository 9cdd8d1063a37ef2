"""Options shared by all ways of pre-training an encoder: steps, rates and machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from crossner_core.errors import InvalidConfig
from crossner_core.options.base import Checked, matters, option
from crossner_core.options.scale import ScaleOptions


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(ScaleOptions, Checked):
    """How an encoder is pre-trained, whatever the objective."""

    encoder: str = option(
        "minilm",
        "Encoder to start from: minilm (bundled), one pre-trained here, a folder, or a hub name.",
        group="model",
    )
    learning_rate: float = option(5e-5, "Peak learning rate of the encoder.", min=1e-7, max=1e-2)
    head_learning_rate: float = option(5e-4, "Peak learning rate of the new head.", min=1e-7, max=1e-1)
    epochs: int = option(3, "Passes over the corpus.", min=1, max=10_000)
    max_steps: int = option(0, "Maximum training steps of the whole model; 0: no limit.", min=0, max=10**9)
    warmup_share: float = option(
        0.06, "Share of all steps in which the learning rate warms up to its peak.", min=0.0, max=0.9
    )
    weight_decay: float = option(0.01, "Decoupled weight decay (not on biases and norms).", min=0.0, max=1.0)
    clip_norm: float = option(1.0, "Maximum gradient norm; larger gradients are scaled down.", min=1e-3, max=1e3)
    head_first_steps: int = option(
        200, "Steps in which only a new head is trained; the first evaluation (before) follows them.", min=0, max=10**6
    )
    head_first_learning_rate: float = option(
        1e-3, "Learning rate of the head while only the head is trained.", min=1e-7, max=1e-1
    )
    refit_head: bool = option(
        False, "At the end, also evaluate the encoder with a new head, trained alone as the first one was."
    )
    measure_every: int = option(
        0, "Steps between evaluations on held-out text; 0: at the end of each epoch.", min=0, max=10**9
    )
    seed: int = option(
        555, "Seed of the new head, batch order, masks and dropout.", min=0, max=2**31 - 1, group="machine"
    )
    device: str = option("auto", "Device to compute on.", choices=("auto", "cpu", "cuda"), group="machine")
    precision: str = option(
        "auto", "Floating-point precision of the encoder.", choices=("auto", "fp32", "bf16"), group="machine"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.encoder.strip():
            raise InvalidConfig("encoder is empty; give 'minilm', a local folder or a hub name.")

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON of what has an effect."""
        values = self.to_dict()
        counted = {spec.name: values[spec.name] for spec in fields(self) if matters(spec, values)}
        if not self.deterministic:  # runs from before it was an option can be resumed
            del counted["deterministic"]
        return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build options; an unknown key raises InvalidConfig and names the valid ones."""
        known = {spec.name for spec in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise InvalidConfig(f"Unknown option {', '.join(unknown)}; valid are {', '.join(sorted(known))}.")
        return cls(**values)
