"""Pre-train an encoder: read the source, follow the engine's events, put it into the library."""

from __future__ import annotations

import datetime as dt
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from crossner_core.adaptation.pretraining import MEASURES, PretrainEvent, PretrainResult
from crossner_core.errors import BadInput, CheckpointError, Conflict
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from db.engine import Session
from db.types import now
from workbench.jobs.context import Claimed, JobContext, require_space, saved_step
from workbench.jobs.kind import JobKind, LogLine, Outcome, register
from workbench.runs.encoder_library import LOG, Order, PretrainLog, line_text, read_log, remove_work_folder, work_folder
from workbench.runs.pretraining_sources import open_tagged, open_texts
from workbench.settings import Settings


def pretrain(context: JobContext, order: Order) -> Outcome:
    """Pre-train the encoder that a job asks for, resuming where it stopped, and put it into the library."""
    library = context.settings.encoders
    require_space(library)
    folder, last = work_folder(library, order.key), PretrainEvent(0, 0, math.nan)
    log = PretrainLog(folder)

    def anew() -> None:
        log.say("The saved state of this pre-training does not fit: it starts over.")
        for part in folder.iterdir():
            if part.is_dir():
                shutil.rmtree(part)

    for last in context.resumed(_start(context, order), anew):
        context.report(last.step / last.total if last.total else 0.0, _message(last, order.kind))
        log.write(last)
    if last.outcome == "stopped":
        return Outcome(finished=False)
    if last.outcome == "not_finite":
        raise CheckpointError(f"{last.message} Start a new pre-training with that changed; resuming repeats it.")
    if last.outcome != "done" or last.result is None:
        raise BadInput("Pre-training ended without a result; start it again.")
    if (folder / LOG).is_file():
        shutil.copyfile(folder / LOG, library / order.name / LOG)
    return Outcome(summary(last.result), finished=True, after=partial(remove_work_folder, library, order.key))


def _start(context: JobContext, order: Order) -> Callable[[], Iterator[PretrainEvent]]:
    """Return a function that starts or resumes the engine."""
    from crossner_core.adaptation.character_models import run_character_models, split_into_tokens
    from crossner_core.adaptation.dapt import run_dapt
    from crossner_core.adaptation.entity_tagging import run_entity_tagging

    library, options = context.settings.encoders, order.parsed_options
    out = library / order.name
    _require_free(out, order)
    shared: dict[str, Any] = {
        "out": out,
        "work": work_folder(library, order.key),
        "should_stop": context.should_stop,
        "encoder": context.encoder(order.base) if order.base is not None else None,
    }
    provenance = _provenance(order)
    if isinstance(options, TaggingPretrainOptions):
        tagged = open_tagged(context.store, order.source)
        return partial(run_entity_tagging, options, replace(tagged, provenance=provenance), **shared)
    text = replace(open_texts(context.store, order.source, options), provenance=provenance)
    if isinstance(options, DaptOptions):
        return partial(run_dapt, options, text, **shared)
    tokens = text if order.source.has_tokens else split_into_tokens(text)
    return partial(run_character_models, options, tokens, **shared)


def _provenance(order: Order) -> dict[str, Any]:
    return {
        "name": order.name,
        "key": order.key,
        "corpus": order.source.hash,
        "source": order.source.to_dict(),
        "how": order.how,
        "made_by": order.made_by,
        "made_at": now().isoformat(timespec="seconds"),
    }


def _require_free(out: Path, order: Order) -> None:
    """Raise Conflict rather than overwrite an encoder of another pre-training."""
    from crossner_core.adaptation.pretraining import read_result

    if out.exists() and read_result(out).provenance.get("key") != order.key:
        raise Conflict(f"An encoder {order.name!r} exists by now; pre-train under another name, or remove that one.")


def _message(event: PretrainEvent, kind: str) -> str:
    if not event.step:
        return event.message
    parts = [f"pass {event.epoch}", f"step {event.step:,} of {event.total:,}"]
    if math.isfinite(event.loss) and event.loss:
        parts.append(f"loss {event.loss:.3f}")
    if event.tokens_per_second:
        parts.append(f"{event.tokens_per_second:,.0f} {MEASURES[kind][2]} a second")
    return " · ".join(parts)


def summary(result: PretrainResult) -> str:
    """Describe what a pre-training gained, and what it took."""
    return f"{result.in_words()} · {result.steps:,} steps in {result.seconds:.0f} s"


def _folder(settings: Settings, job: Claimed) -> Path:
    return work_folder(settings.encoders, job.payload["key"])


def _say(context: JobContext, message: str) -> None:
    PretrainLog(_folder(context.settings, context.job)).say(message)


def _log(_session: Session, settings: Settings, job: Claimed) -> tuple[LogLine, ...]:
    kind = job.payload["kind"]
    lines = read_log(_folder(settings, job))
    return tuple(LogLine(dt.datetime.fromtimestamp(line.at, dt.UTC), line_text(line, kind)) for line in lines)


register(
    JobKind(
        name="pretrain",
        title="pre-training",
        priority=22,  # it takes hours: what a person waits for, and the cells of a curve, go first
        payload=Order,
        handle=pretrain,
        forget=lambda settings, job: remove_work_folder(settings.encoders, job.payload["key"]),
        can_resume=lambda settings, job: _folder(settings, job).is_dir(),
        saved_step=lambda session, settings, job: saved_step(_folder(settings, job) / "state"),
        say=_say,
        log=_log,
    )
)
