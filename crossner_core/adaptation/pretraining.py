"""Events and result of a pre-training run; needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from crossner_core.errors import BadInput, NotFound
from crossner_core.records import Record, read_json

RESULT = "pretraining.json"
# The measure of each kind of run, whether higher is better, and what is counted.
MEASURES = {
    "dapt": ("perplexity", False, "subwords"),
    "entity_tagging": ("f1", True, "subwords"),
    "character_models": ("bits per character", False, "characters"),
}
# How a run can end.
OUTCOMES = ("done", "stopped", "not_finite")


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement on held-out text: after `step` steps of the whole model, in pass `epoch` (from 1)."""

    step: int
    epoch: int
    loss: float
    value: float


@dataclass(frozen=True)
class PretrainResult(Record):
    """The result of a pre-training run; `encoder` is its folder, `before` and `after` were measured on held-out text.

    `before` is measured once a new head has been trained alone (`head_first_steps`), so that it reflects the encoder.
    The head is trained further after that; `refit` is measured like `before`, through a fresh head on the final
    encoder, so that their difference is due to the encoder alone. None if no head was new, or `refit_head` is off.
    `tokens` counts the subwords or characters trained on, summed over passes; `seconds` is computing time, summed over
    resumes; `peak_memory_mb` is the process's (or the GPU's). Perplexity is over masked subwords, F1 lies in [0, 1].
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "ignore"}  # other versions wrote other fields

    kind: str
    encoder: str
    before: float
    after: float
    measure: str
    steps: int
    epochs: int
    tokens: int
    seconds: float
    peak_memory_mb: float
    provenance: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Measured, ...] = ()
    refit: float | None = None

    @property
    def is_better(self) -> bool:
        """Whether pre-training improved the measure, compared through equally trained heads where available."""
        now = self.after if self.refit is None else self.refit
        return now > self.before if MEASURES[self.kind][1] else now < self.before

    @property
    def text(self) -> str:
        """What it was trained on: names of files, or a level of a Wikipedia corpus; empty if that is not recorded."""
        return ", ".join(dict.fromkeys(_texts(self.provenance.get("corpus"))))

    def in_words(self) -> str:
        """Return the effect as text: held-out perplexity, or F1 in percent, before and after."""
        f1 = self.measure == "f1"
        before, after, *refit = (
            f"{100 * value if f1 else value:,.2f}"
            for value in (self.before, self.after, self.refit)
            if value is not None
        )
        words = f"held-out {'F1' if f1 else self.measure} {before} → {after}"
        return f"{words} ({refit[0]} through a fresh head)" if refit else words


def _texts(part: Any) -> Iterator[str]:
    """Yield the texts that a provenance names, wherever they are in it."""
    if isinstance(part, Mapping):
        if "bytes" in part:  # a file
            yield str(part["name"])
        elif "level" in part:
            yield f"Wikipedia ({', '.join(filter(None, (part['domain'], part['level'])))})"
        else:
            part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _texts(inner)


@dataclass(frozen=True, slots=True)
class PretrainEvent:
    """One event; `step` counts steps of the whole model, 0 while text is prepared or the head is trained alone.

    `total` is the final value of `step`, 0 while unknown. `measured` is set if held-out text was measured; speed counts
    subwords trained on, without time spent measuring. The last event has an `outcome`, one of OUTCOMES, and if that is
    "done" the `result`; a stopped run can be resumed.
    """

    step: int
    epoch: int
    loss: float
    measured: float | None = None
    message: str = ""
    tokens_per_second: float = 0.0
    result: PretrainResult | None = None
    outcome: str = ""
    total: int = 0


def read_result(folder: str | Path) -> PretrainResult:
    """Read the result in a pre-trained encoder's folder; raise NotFound or BadInput."""
    path = Path(folder) / RESULT
    try:
        values = read_json(dict[str, Any], path.read_bytes(), RESULT)
        return PretrainResult.from_dict({**values, "encoder": str(folder)})
    except FileNotFoundError as error:
        raise NotFound(f"{folder} holds no encoder that was pre-trained here: {RESULT} is missing.") from error
    except (OSError, BadInput) as error:
        raise BadInput(f"{path} is damaged ({error}); pre-train the encoder again.") from error


def not_stopped() -> bool:
    """Never stop."""
    return False


ShouldStop = Callable[[], bool]
Events = Iterator[PretrainEvent]
