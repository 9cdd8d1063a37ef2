"""Encoders and pre-trainings as pages show them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_core.adaptation.pretraining import PretrainResult, read_result
from crossner_core.errors import NotFound, WorkbenchError
from db.training_tables import Job
from workbench.jobs.queue import JobView, view
from workbench.runs.encoder_library import Order


@dataclass(frozen=True, slots=True)
class EncoderView:
    """An encoder that a recipe can name; one whose folder is damaged has a `problem` in words.

    `before` and `after` are of held-out text, perplexity or F1 in [0, 1] as `measure` says; `after` is through a fresh
    head that learnt as the one before did, where that was measured (`equal_heads`), else through the head that learnt
    with the encoder, as all of `history` is. `held_out` says on how much they were measured; `tokens` counts subwords
    over all passes, `runs` the runs that name it.
    """

    name: str
    how: str
    base: str | None = None
    kind: str | None = None
    measure: str | None = None
    before: float | None = None
    after: float | None = None
    equal_heads: bool = False
    held_out: str = ""
    steps: int = 0
    epochs: int = 0
    tokens: int = 0
    seconds: float = 0.0
    peak_memory_mb: float = 0.0
    made_by: str = ""
    made_at: dt.datetime | None = None
    runs: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[tuple[int, float], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PretrainingView:
    """A pre-training that waits, runs or failed; `job` says how far it is."""

    job: JobView
    name: str
    kind: str
    how: str
    base: str
    made_by: str
    options: Mapping[str, Any]


def encoder_view(folder: Path, runs: int) -> EncoderView:
    """Show an encoder of the library."""
    try:
        return _of_result(folder.name, read_result(folder), runs)
    except NotFound:
        return EncoderView(folder.name, "put here by hand", runs=runs)
    except WorkbenchError as error:
        return EncoderView(folder.name, "", runs=runs, problem=str(error))


def _of_result(name: str, result: PretrainResult, runs: int) -> EncoderView:
    told = result.provenance
    made_at = told.get("made_at")
    return EncoderView(
        name=name,
        how=str(told.get("how", result.kind)),
        base=(told.get("base") or {}).get("name"),
        kind=result.kind,
        measure=result.measure,
        before=result.before,
        after=result.after if result.refit is None else result.refit,
        equal_heads=result.refit is not None,
        held_out=_held_out(told),
        steps=result.steps,
        epochs=result.epochs,
        tokens=result.tokens,
        seconds=result.seconds,
        peak_memory_mb=result.peak_memory_mb,
        made_by=str(told.get("made_by", "")),
        made_at=dt.datetime.fromisoformat(made_at) if made_at else None,
        runs=runs,
        options=dict(told.get("options", {})),
        history=tuple((one.step, one.value) for one in result.history),
    )


def _held_out(told: Mapping[str, Any]) -> str:
    """Say on how much of the held-out text was measured; an empty text for results that did not keep it."""
    options = told.get("options", {})
    if {"held_out_subwords", "block_size"} <= told.keys() and "held_out_blocks" in options:
        return f"{min(told['held_out_subwords'], options['held_out_blocks'] * told['block_size']):,} held-out subwords"
    if "held_out_windows" in told and "held_out_sentences" in options:
        return f"{min(told['held_out_windows'], options['held_out_sentences']):,} held-out sentences"
    return ""


def pretraining_view(job: Job) -> PretrainingView:
    """Show a job with what it was asked for."""
    order = Order.from_dict(job.payload)
    return PretrainingView(view(job), order.name, order.kind, order.how, order.base, order.made_by, order.options)
