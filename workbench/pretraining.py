"""What the worker does to pre-train an encoder: read the source, follow the engine's events, settle how it ended."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from crossner_core.adaptation.pretraining import PretrainEvent, PretrainResult
from crossner_core.errors import BadInput, CheckpointError, CheckpointMismatch, Conflict, WorkbenchError
from crossner_core.options.dapt import DaptOptions
from db import job_rows
from db.types import now
from workbench.lease import Lease
from workbench.running import LeaseLost, Workplace, require_space
from workbench.runs.encoder_library import LOG, Order, PretrainLog, remove_workplace, workplace
from workbench.runs.pretraining_sources import open_tagged, open_texts

log = logging.getLogger(__name__)


def pretrain(place: Workplace, lease: Lease) -> None:
    """Pre-train the encoder that a job asks for, from where it stands, and put it into the library."""
    order = Order.from_dict(lease.job.payload)
    require_space(place.library)
    folder = workplace(place.library, order.key)
    writer = PretrainLog(folder)
    if lease.job.attempts > 1:
        writer.say(f"Attempt {lease.job.attempts} of {lease.job.max_attempts}: the worker before this one stopped.")
    try:
        last = PretrainEvent(0, 0, math.nan)
        for last in _from_where_it_stands(_start(place, lease, order), folder, writer):
            if lease.lost.is_set():
                raise LeaseLost
            lease.progress, lease.message = _progress(last), _message(last)
            writer.write(last)
        _settle(place, lease, order, last)
    except WorkbenchError as error:
        writer.say(f"Failed: {error}")
        raise


def _start(place: Workplace, lease: Lease, order: Order) -> Callable[[], Iterator[PretrainEvent]]:
    """Return what starts the engine, or resumes it."""
    from crossner_core.adaptation.dapt import run_dapt
    from crossner_core.adaptation.entity_tagging import run_entity_tagging

    options, out = order.parsed_options, place.library / order.name
    _require_free(out, order)
    shared: dict[str, Any] = {
        "out": out,
        "work": workplace(place.library, order.key),
        "should_stop": lease.should_stop,
        "provenance": _provenance(order),
        "encoder": place.encoder(order.base),
    }
    if isinstance(options, DaptOptions):
        texts, held_out = open_texts(place.store, order.source, options)
        return partial(run_dapt, options, texts, held_out, **shared)
    tagged = open_tagged(place.store, order.source)
    return partial(run_entity_tagging, options, tagged.sentences, tagged.held_out, tagged.types, **shared)


def _from_where_it_stands(
    start: Callable[[], Iterator[PretrainEvent]], folder: Path, writer: PretrainLog
) -> Iterator[PretrainEvent]:
    """Yield the events of a pre-training; a state that an older version of the workbench left is dropped."""
    try:
        yield from start()
    except CheckpointMismatch as error:
        log.warning("%s", error)
        writer.say("What was kept of this pre-training was made otherwise: it begins anew.")
        for part in folder.iterdir():
            if part.is_dir():
                shutil.rmtree(part)
        yield from start()


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
    """Refuse to write over an encoder of another pre-training."""
    from crossner_core.adaptation.pretraining import read_result

    if out.exists() and read_result(out).provenance.get("key") != order.key:
        raise Conflict(f"There is an encoder {order.name!r} by now; pre-train under another name, or remove that one.")


def _settle(place: Workplace, lease: Lease, order: Order, last: PretrainEvent) -> None:
    """Write down how a pre-training ended."""
    if lease.lost.is_set():
        raise LeaseLost
    if last.outcome == "not_finite":
        raise CheckpointError(f"{last.message} Pre-train anew with that changed; trying this one again repeats it.")
    if last.outcome not in ("done", "stopped") or (last.outcome == "done" and last.result is None):
        raise BadInput("Pre-training ended without a result; start it again.")
    held: dict[str, Any] = {"job_id": lease.job.id, "worker": place.worker}
    folder = workplace(place.library, order.key)
    if last.result is not None and (folder / LOG).is_file():
        shutil.copyfile(folder / LOG, place.library / order.name / LOG)
    with place.store.write() as session:
        if last.result is not None:
            kept = job_rows.finish(session, **held, state="done", message=summary(last.result))
        elif lease.cancelled.is_set():
            kept = job_rows.finish(session, **held, state="cancelled", message="Cancelled.")
        else:
            kept = job_rows.give_back(session, **held, message=lease.why_back(), counted=False)
    if not kept:
        raise LeaseLost
    if last.result is not None or lease.cancelled.is_set():
        remove_workplace(place.library, order.key)


def _progress(event: PretrainEvent) -> float:
    return event.step / event.total if event.total else 0.0


def _message(event: PretrainEvent) -> str:
    if not event.step:
        return event.message
    parts = [f"pass {event.epoch}", f"step {event.step:,} of {event.total:,}"]
    if math.isfinite(event.loss) and event.loss:
        parts.append(f"loss {event.loss:.3f}")
    if event.tokens_per_second:
        parts.append(f"{event.tokens_per_second:,.0f} subwords a second")
    return " · ".join(parts)


def summary(result: PretrainResult) -> str:
    """Say in words what a pre-training bought, and what it took."""
    return f"{result.in_words()} · {result.steps:,} steps in {result.seconds:.0f} s"
