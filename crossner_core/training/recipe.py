"""What to train: the recipe, the one source of forms and command-line flags."""

from __future__ import annotations

import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from crossner_core.adaptation.transfer import setting_ids
from crossner_core.errors import InvalidConfig
from crossner_core.models.registry import architecture_ids


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    min: float | None = None,
    max: float | None = None,
    group: str = "target",
) -> Any:
    """Make a dataclass field that carries what a form or a flag needs to know about it."""
    return field(default=default, metadata={"help": help, "choices": choices, "min": min, "max": max, "group": group})


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the numbers of a run, apart from the sentences themselves."""

    encoder: str = option("minilm", "Encoder: minilm (bundled), a local folder, or a hub name.", group="model")
    architecture: str = option("tagger", "What stands on the encoder.", choices=architecture_ids(), group="model")
    setting: str = option(
        "direct", "Transfer setting: how the source domain is used.", choices=setting_ids(), group="model"
    )
    source: str = option("conll2003", "Name of the source corpus; unused when the setting is direct.", group="source")
    learning_rate: float = option(2e-4, "Peak learning rate of the encoder on the target.", min=1e-7, max=1e-2)
    head_learning_rate: float = option(1e-3, "Peak learning rate of what stands on the encoder.", min=1e-7, max=1e-1)
    layer_decay: float = option(1.0, "Factor on the rate per encoder layer, from the top down.", min=0.1, max=1.0)
    batch_size: int = option(16, "Sentences a step.", min=1, max=1024)
    max_epochs: int = option(20, "Most passes over the target's training sentences.", min=1, max=10_000)
    patience: int = option(8, "Epochs without a better dev F1 before the run stops.", min=1, max=10_000)
    min_epoch_steps: int = option(
        6, "A set too small for so many steps is passed over again within an epoch.", min=1, max=10_000
    )
    warmup_share: float = option(0.1, "Share of all steps over which the rate climbs to its peak.", min=0.0, max=0.9)
    weight_decay: float = option(0.01, "Decoupled weight decay (not on biases and norms).", min=0.0, max=1.0)
    clip_norm: float = option(1.0, "Gradients are scaled down to this norm.", min=1e-3, max=1e3)
    max_length: int = option(256, "Subwords a window; longer sentences are split with overlap.", min=16, max=8192)
    dropout: float = option(0.1, "Dropout before the head.", min=0.0, max=0.9)
    constrained: bool = option(True, "Decode only tag sequences that IOB2 allows.", group="model")
    source_learning_rate: float = option(
        5e-5, "Peak rate of the source stage; keep it low.", min=1e-7, max=1e-2, group="source"
    )
    source_head_learning_rate: float = option(
        5e-4, "Peak rate of the head in the source stage.", min=1e-7, max=1e-1, group="source"
    )
    source_epochs: int = option(2, "Passes over the source corpus.", min=1, max=1000, group="source")
    source_batch_size: int = option(32, "Sentences a step in the source stage.", min=1, max=1024, group="source")
    source_warmup_share: float = option(0.1, "Warm-up share of the source stage.", min=0.0, max=0.9, group="source")
    source_seed: int = option(
        0, "Seed of the source stage: one source checkpoint serves all seeds.", min=0, max=2**31 - 1, group="source"
    )
    head_first_epochs: int = option(
        8, "After the source stage, first epochs in which the head alone learns.", min=0, max=1000, group="source"
    )
    head_first_learning_rate: float = option(
        5e-3, "Rate of the head while it alone learns.", min=1e-7, max=1e-1, group="source"
    )
    inherit: bool = option(
        True, "A type that the source lacks starts from its parent type's head weights.", group="source"
    )
    upsample: int = option(
        50, "Joint training: each target sentence counts this many times.", min=1, max=1000, group="source"
    )
    seed: int = option(555, "Seed of initial head, order and dropout.", min=0, max=2**31 - 1, group="machine")
    device: str = option("auto", "Where to compute.", choices=("auto", "cpu", "cuda"), group="machine")
    precision: str = option("auto", "Number format in the encoder.", choices=("auto", "fp32", "bf16"), group="machine")

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for spec in fields(self):
            _check_type(spec.name, getattr(self, spec.name), hints[spec.name])
            if hints[spec.name] is float:  # 1 and 1.0 are one recipe with one hash
                object.__setattr__(self, spec.name, float(getattr(self, spec.name)))
            _check_range(spec.name, getattr(self, spec.name), spec.metadata)
        if not self.encoder.strip():
            raise InvalidConfig("encoder is empty; give 'minilm', a local folder or a hub name.")

    @property
    def hash(self) -> str:
        """SHA-256 of the recipe's canonical JSON."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Build a recipe; an unknown key raises InvalidConfig and names the valid ones."""
        known = {spec.name for spec in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise InvalidConfig(f"Unknown recipe field {', '.join(unknown)}; valid are {', '.join(sorted(known))}.")
        return cls(**values)


def _check_type(name: str, value: Any, expected: Any) -> None:
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise InvalidConfig(f"{name} is {value!r}; it must be of type {expected.__name__}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidConfig(f"{name} is {value!r}; it must be a finite number.")


def _check_range(name: str, value: Any, metadata: types.MappingProxyType[Any, Any]) -> None:
    choices, low, high = metadata["choices"], metadata["min"], metadata["max"]
    if choices is not None and value not in choices:
        raise InvalidConfig(f"{name} is {value!r}; choose one of {', '.join(choices)}.")
    if (low is not None and value < low) or (high is not None and value > high):
        raise InvalidConfig(f"{name} is {value!r}; it must lie in [{low:g}, {high:g}].")
