"""Events and result of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from crossner_core.calibration.model_scores import CalibrationReport
from crossner_core.evaluation.confusion import Confusion
from crossner_core.evaluation.scores import Scores
from crossner_core.schema import Span
from crossner_core.training.sources import SourceLine

# How a run can end.
OUTCOMES = ("early_stop", "all_epochs", "stopped", "not_finite")


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One finished epoch of a phase: mean training loss, and dev F1 in [0, 1] if there is dev data."""

    phase: str
    epoch: int
    loss: float
    dev_f1: float | None


@dataclass(frozen=True, slots=True)
class StageScore:
    """F1 in [0, 1] on dev and test of what a stage left, and of its last epoch; None where nothing was measured.

    `epoch` is the one that was kept, 0 for the model that the stage began with.
    """

    phase: str
    epoch: int | None
    dev: float | None
    test: float | None
    last_dev: float | None
    last_test: float | None

    def __str__(self) -> str:
        kept = "what it began with" if self.epoch == 0 else f"epoch {self.epoch}" if self.epoch else "its last epoch"
        text = f"{self.phase}: {kept} is kept, F1 {_pair(self.dev, self.test)}"
        if (self.dev, self.test) == (self.last_dev, self.last_test):
            return f"{text}."
        return f"{text}; its last epoch has {_pair(self.last_dev, self.last_test)}."


def _pair(dev: float | None, test: float | None) -> str:
    return " and ".join(f"{100 * f1:.2f} on {where}" for f1, where in ((dev, "dev"), (test, "test")) if f1 is not None)


@dataclass(frozen=True)
class RunResult:
    """The result of a run; `test` and `confusion` are of the best epoch, `seconds` is computing time over all resumes.

    `predictions` are the test sentences' spans in order (the dev sentences' if there is no test); `confusion` is
    computed on the same ones. `dev_predictions` are those of dev if there is also a test set; older results lack them.
    `outcome` is one of OUTCOMES; a stopped run can be resumed. `peak_memory_mb` (2**20 bytes) is the GPU's if computed
    there, else the main process's; 0 in results of older versions.
    """

    outcome: str
    recipe_hash: str
    data_hash: str
    snapshot: str
    best_epoch: int | None
    epochs: int
    steps: int
    seconds: float
    tokens_per_second: float
    train_sentences: int
    dev: Scores | None = None
    test: Scores | None = None
    confusion: Confusion | None = None
    predictions: tuple[tuple[Span, ...], ...] = ()
    history: tuple[EpochRecord, ...] = ()
    notes: tuple[str, ...] = ()
    checkpoint: str | None = None
    peak_memory_mb: float = 0.0
    dev_predictions: tuple[tuple[Span, ...], ...] = ()
    calibration: CalibrationReport | None = None
    """How span scores were calibrated on dev; None without dev."""
    encoder_hash: str = ""
    """Fingerprint of the encoder that the run started from; empty in results of older versions."""
    sources: tuple[SourceLine, ...] = ()
    """What it had from each source corpus; empty in results of older versions."""
    stages: tuple[StageScore, ...] = ()
    """The scores of each stage, of settings whose stages are reported."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("dev", "test", "confusion", "calibration"):
            values[name] = values[name].to_dict() if values[name] is not None else None
        for name in ("predictions", "dev_predictions"):
            values[name] = [[[s.start, s.end, s.type] for s in spans] for spans in values[name]]
        values["history"] = [[r.phase, r.epoch, r.loss, r.dev_f1] for r in self.history]
        values["notes"] = list(self.notes)
        values["sources"] = [line.to_dict() for line in self.sources]
        values["stages"] = [asdict(stage) for stage in self.stages]
        return {name: value for name, value in values.items() if value or name not in ("sources", "stages")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunResult:
        """Build a result from what `to_dict` returned."""
        made = dict(values)
        for name, kind in _PARTS:
            made[name] = kind.from_dict(made[name]) if made.get(name) is not None else None
        for name in ("predictions", "dev_predictions"):
            made[name] = tuple(tuple(Span(*span) for span in spans) for spans in made.get(name, ()))
        made["history"] = tuple(EpochRecord(*record) for record in made["history"])
        made["notes"] = tuple(made["notes"])
        made["sources"] = tuple(SourceLine.from_dict(line) for line in made.get("sources", ()))
        made["stages"] = tuple(StageScore(**stage) for stage in made.get("stages", ()))
        return cls(**made)


_PARTS: tuple[tuple[str, Any], ...] = (
    ("dev", Scores),
    ("test", Scores),
    ("confusion", Confusion),
    ("calibration", CalibrationReport),
)


@dataclass(frozen=True, slots=True)
class TrainEvent:
    """One event of a run; `step` counts over all phases, `epoch` from 1 within its phase.

    `dev_f1` is set if an epoch was measured; `result` on the last event only.
    """

    step: int
    epoch: int
    phase: str
    loss: float
    dev_f1: float | None = None
    is_best: bool = False
    message: str = ""
    tokens_per_second: float = 0.0
    result: RunResult | None = None
