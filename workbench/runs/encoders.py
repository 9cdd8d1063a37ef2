"""Encoders that recipes can start from: list them, see how each was made, and pre-train more."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossner_core.adaptation.pretraining import MEASURES, PretrainResult, read_result
from crossner_core.encoders.names import BUNDLED, TRANSFORMER, kind_at, kind_named, library_names, place_named
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotFound, WorkbenchError
from db import job_rows, run_rows
from db.engine import Session, Store
from db.training_tables import Job
from workbench.accounts import audit
from workbench.accounts.actors import Actor, admit, fresh, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.jobs import queue
from workbench.jobs.queue import JobView, view
from workbench.runs.encoder_gains import Gain, gains
from workbench.runs.encoder_library import (
    KINDS,
    TAGGING,
    LogLine,
    Order,
    check_name,
    read_log,
    remove_work_folder,
    work_folder,
)
from workbench.runs.pretraining_sources import (
    Source,
    campaign_source,
    corpus_source,
    dataset_source,
    share_of_source,
    tagged_names,
    tagged_source,
    text_source,
    upload_source,
)
from workbench.settings import settings_of

KIND = "pretrain"
_MOST_JOBS = 1000
# A work folder without a job is removed at this age: a younger one may belong to an order that is being placed.
_ORPHAN_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class EncoderView:
    """An encoder that a recipe can name; one whose folder is damaged has a `problem` in words.

    `kind` is how it was pre-trained, `body` its own kind; `base` is None for one that was made anew. `before` and
    `after` are measured on held-out text: F1 in [0, 1], or what else `measure` states. `after` uses a fresh head
    trained like that of `before` where that was measured (`equal_heads`), else the head trained with the encoder, as
    all of `history` does. `held_out` states how much text they were measured on; `tokens` counts what was read, over
    all passes, in the kind's units, `runs` the runs that name it.
    """

    name: str
    how: str
    body: str = TRANSFORMER
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

    @property
    def unit(self) -> str:
        """What `tokens` counts."""
        return MEASURES[self.kind][2] if self.kind else ""


@dataclass(frozen=True, slots=True)
class PretrainingView:
    """A queued, running or failed pre-training; `job` has its progress."""

    job: JobView
    name: str
    kind: str
    how: str
    base: str | None
    made_by: str
    options: Mapping[str, Any]


def list_encoders(store: Store, actor: Actor) -> tuple[EncoderView, ...]:
    """Return the bundled encoder, then those pre-trained here by name; damaged ones come with the reason."""
    require(actor, *OVERSEERS)
    library = settings_of(store).encoders
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        runs = _runs_by_encoder(session)
    bundled = EncoderView(BUNDLED, "comes with the workbench", runs=runs[BUNDLED])
    return (bundled, *(_encoder_view(library / name, runs[name]) for name in library_names(library)))


def encoder_names(store: Store, actor: Actor, *, body: str | None = None) -> tuple[str, ...]:
    """Return the names that a recipe can choose from, or those of one kind; folders and hub names can be given too."""
    views = list_encoders(store, actor)
    return tuple(encoder.name for encoder in views if not encoder.problem and body in (None, encoder.body))


def encoder_log(store: Store, actor: Actor, name: str) -> tuple[LogLine, ...]:
    """Return the log of an encoder's pre-training; empty for one that has none."""
    view = next((encoder for encoder in list_encoders(store, actor) if encoder.name == name), None)
    return read_log(settings_of(store).encoders / name) if view is not None and view.kind else ()


def encoder_gains(store: Store, actor: Actor, encoder: EncoderView) -> tuple[Gain, ...]:
    """Return the gains of an encoder over its base, in runs made with both."""
    require(actor, *KEEPERS)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        return gains(session, encoder.name, encoder.base) if encoder.base else ()


def list_pretrainings(store: Store, actor: Actor) -> tuple[PretrainingView, ...]:
    """Return the pre-trainings that are queued, running, or failed and can be resumed, newest first."""
    require(actor, *OVERSEERS)
    library = settings_of(store).encoders
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        return tuple(_pretraining_view(job) for job in _newest(session, library))


def tagged_corpora(store: Store, actor: Actor) -> tuple[str, ...]:
    """Return the names of the entity-tagging corpora in the home folder."""
    admit(store, actor, *OVERSEERS)
    return tagged_names(settings_of(store))


def start_on_text(
    store: Store,
    actor: Actor,
    *,
    kind: str,
    name: str,
    options: Mapping[str, Any],
    corpus: str | None = None,
    level: str | None = None,
    percent: float = 100.0,
    domain: str | None = None,
    dataset: str | None = None,
    campaign_id: int | None = None,
    text: Path | tuple[str, bytes] | None = None,
) -> int:
    """Queue DAPT or character models on a share of a corpus's level, a data set, a campaign or a text; return the job.

    `kind` is one of KINDS that reads text; `text` is a path, or the name and bytes of a file; `level` (the domain
    level, if not given) and `domain` apply to a corpus only. Raises Conflict for a name that is taken or an encoder to
    start from that is not ready, NotFound, BadInput or InvalidConfig for a source that is absent, has too little text
    or lacks what was asked for, and for an encoder that the kind cannot train.
    """

    def find(folder: Path) -> Source:
        if corpus is not None:
            return corpus_source(store, actor, corpus, level=level or "domain", percent=percent, domain=domain)
        return share_of_source(whole(folder), percent)

    def whole(folder: Path) -> Source:
        if dataset is not None:
            with store.read() as session:
                return dataset_source(session, dataset)
        if campaign_id is not None:
            with store.read() as session:
                return campaign_source(session, actor, campaign_id, folder)
        assert text is not None
        return text_source(text) if isinstance(text, Path) else upload_source(*text, folder)

    _require_one(corpus=corpus, dataset=dataset, campaign=campaign_id, text=text)
    for what, value in (("level", level), ("domain", domain)):
        if corpus is None and value is not None:
            raise InvalidConfig(f"{what} is {value!r}, but only a corpus has one; leave it out, or name a corpus.")
    return _start(store, actor, name, _of_text(kind), options, find)


def start_entity_tagging(
    store: Store,
    actor: Actor,
    *,
    name: str,
    options: Mapping[str, Any],
    tagged: str | None = None,
    dataset: str | None = None,
) -> int:
    """Queue entity-tagging pre-training on an entity-tagging corpus or on a data set; return the job's id.

    Raises as `start_on_text` does.
    """

    def find(_folder: Path) -> Source:
        if tagged is not None:
            return tagged_source(settings_of(store), tagged)
        with store.read() as session:
            return dataset_source(session, str(dataset))

    _require_one(tagged=tagged, dataset=dataset)
    return _start(store, actor, name, TAGGING, options, find)


def remove(store: Store, actor: Actor, name: str) -> None:
    """Remove an encoder, or what a failed pre-training left; raise Conflict while something still needs it."""
    require(actor, *KEEPERS)
    library = settings_of(store).encoders
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        if name == BUNDLED:
            raise Conflict(f"{BUNDLED!r} comes with the workbench and cannot be removed.")
        jobs = [job for job in _newest(session, library) if job.payload["name"] == name]
        if name not in library_names(library) and not jobs:
            known = ", ".join(library_names(library)) or "none yet"
            raise NotFound(f"No encoder {name!r} was pre-trained here; there are: {known}.")
        _require_unused(session, library, name)
        audit.record(session, current, "remove_encoder", ("encoder", name))
        for job in jobs:
            remove_work_folder(library, job.payload["key"])
        if name in library_names(library):
            # Hidden first: nobody loads a half-removed encoder.
            hidden = library / f".{name}.{uuid.uuid4().hex}.removed"
            (library / name).rename(hidden)
            shutil.rmtree(hidden)


def _start(
    store: Store,
    actor: Actor,
    name: str,
    kind: str,
    options: Mapping[str, Any],
    find: Callable[[Path], Source],
) -> int:
    require(actor, *KEEPERS)
    check_name(name)
    checked = KINDS[kind].options.from_dict(options)
    library, key = settings_of(store).encoders, uuid.uuid4().hex[:12]
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        _require_free(session, library, name)
        _sweep(session, library)
    folder = work_folder(library, key)
    try:
        folder.mkdir(parents=True)
        source = find(folder)
        with store.write() as session:
            now = fresh(session, actor, *KEEPERS)
            _require_free(session, library, name)
            order = Order(name, kind, checked.to_dict(), source, key, now.display_name)
            if order.base is not None:
                _require_base(session, library, kind, order.base)
            job_id, _ = queue.start(session, KIND, order.to_dict(), by=actor)
            audit.record(session, now, "start_pretraining", ("encoder", name), kind=kind, job=job_id)
            return job_id
    except BaseException:
        remove_work_folder(library, key)
        raise


def _of_text(kind: str) -> str:
    """Return a kind that reads text; raise InvalidConfig for another one."""
    known = [name for name, each in KINDS.items() if not each.on_labels]
    if kind not in known:
        raise InvalidConfig(f"kind is {kind!r}, which does not pre-train on text; choose one of {', '.join(known)}.")
    return kind


def _runs_by_encoder(session: Session) -> Counter[str]:
    """Count the runs that start from each encoder."""
    runs: Counter[str] = Counter()
    for name, count in run_rows.count_by_encoder(session).items():
        runs[place_named(name)] += count
    return runs


def _require_one(**sources: Any) -> None:
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise InvalidConfig(
            f"{' and '.join(given) or 'Nothing'} given to pre-train on; name exactly one of {', '.join(sources)}."
        )


def _require_free(session: Session, library: Path, name: str) -> None:
    if name in library_names(library):
        raise Conflict(f"There is already an encoder {name!r}; choose another name, or remove that one first.")
    for job in _newest(session, library):
        if job.payload["name"] == name:
            what = "failed; resume it, or remove it" if job.state == "failed" else f"is {job.state}"
            raise Conflict(f"A pre-training of {name!r} (job {job.id}) {what}. Or choose another name.")
    if runs := _runs_by_encoder(session)[name]:
        raise Conflict(
            f"{runs} run{'s' * (runs != 1)} used an earlier encoder named {name!r}; choose another name, so that it "
            "stays clear which encoder was used."
        )


def _require_base(session: Session, library: Path, kind: str, base: str) -> None:
    """Raise Conflict for an encoder that is still being made, InvalidConfig for one that the kind cannot train."""
    place = place_named(base)
    for job in _newest(session, library):
        if job.payload["name"] == place and place not in library_names(library):
            raise Conflict(
                f"The encoder {place!r} is not ready yet (job {job.id} is {job.state}); start from it later."
            )
    if kind_named(base, library) != KINDS[kind].body:
        raise InvalidConfig(f"encoder is {base!r}, which this cannot train; give {KINDS[kind].starts_from}.")


def _require_unused(session: Session, library: Path, name: str) -> None:
    """Raise Conflict while a run, a study or another pre-training waits for the encoder or works with it."""
    names = [given for given in run_rows.count_by_encoder(session) if place_named(given) == name]
    if runs := run_rows.of_encoders(session, names, states=queue.OPEN):
        listed = ", ".join(str(run.id) for run in runs[:10])
        raise Conflict(f"The encoder {name!r} is needed by runs that wait or train: {listed}. Cancel them first.")
    for job in job_rows.recent(session, kinds=(KIND, "study"), limit=_MOST_JOBS):
        if job.state not in queue.OPEN:
            continue
        if job.kind == KIND and job.payload["name"] == name:
            raise Conflict(f"The pre-training of {name!r} (job {job.id}) is {job.state}; cancel it first.")
        its_folder = json.dumps(str(library / name)).strip('"')
        its_base = place_named(job.payload["options"]["encoder"]) if job.kind == KIND else ""
        if its_base == name or its_folder in json.dumps(job.payload):
            raise Conflict(f"The encoder {name!r} is needed by job {job.id}, which is {job.state}; cancel it first.")


def _newest(session: Session, library: Path) -> list[Job]:
    """Return the newest job of each order that is not done and not removed, newest first."""
    newest: dict[str, Job] = {}
    for job in job_rows.recent(session, kinds=(KIND,), limit=_MOST_JOBS):
        newest.setdefault(job.payload["key"], job)
    return [
        job
        for key, job in newest.items()
        if job.state in queue.OPEN or (job.state == "failed" and work_folder(library, key).is_dir())
    ]


def _sweep(session: Session, library: Path) -> None:
    """Remove work folders that no order needs any more."""
    needed = {job.payload["key"] for job in _newest(session, library)}
    for folder in work_folder(library, "").glob("*"):
        if folder.name not in needed and time.time() - folder.stat().st_mtime > _ORPHAN_SECONDS:
            remove_work_folder(library, folder.name)


def _encoder_view(folder: Path, runs: int) -> EncoderView:
    """Return the view of an encoder of the library."""
    try:
        body = kind_at(folder)
        try:
            return _of_result(folder.name, read_result(folder), runs, body)
        except NotFound:
            return EncoderView(folder.name, "put here by hand", body, runs=runs)
    except WorkbenchError as error:
        return EncoderView(folder.name, "", runs=runs, problem=str(error))


def _of_result(name: str, result: PretrainResult, runs: int, body: str) -> EncoderView:
    if result.kind not in KINDS:
        raise BadInput(f"It was made by {result.kind!r}, which is unknown here; known are {', '.join(KINDS)}.")
    provenance = result.provenance
    base = (provenance.get("base") or {}).get("name")
    made_at = provenance.get("made_at")
    return EncoderView(
        name=name,
        how=str(provenance.get("how", result.kind)),
        body=body,
        base=None if base == KINDS[result.kind].anew else base,
        kind=result.kind,
        measure=result.measure,
        before=result.before,
        after=result.after if result.refit is None else result.refit,
        equal_heads=result.refit is not None,
        held_out=_held_out(provenance),
        steps=result.steps,
        epochs=result.epochs,
        tokens=result.tokens,
        seconds=result.seconds,
        peak_memory_mb=result.peak_memory_mb,
        made_by=str(provenance.get("made_by", "")),
        made_at=dt.datetime.fromisoformat(made_at) if made_at else None,
        runs=runs,
        options=dict(provenance.get("options", {})),
        history=tuple((point.step, point.value) for point in result.history),
    )


def _held_out(provenance: Mapping[str, Any]) -> str:
    """Describe how much held-out text was measured; empty for results that did not record it."""
    options = provenance.get("options", {})
    if {"held_out_subwords", "block_size"} <= provenance.keys() and "held_out_blocks" in options:
        subwords = min(provenance["held_out_subwords"], options["held_out_blocks"] * provenance["block_size"])
        return f"{subwords:,} held-out subwords"
    if "held_out_characters" in provenance and {"held_out_rows", "row_length"} <= options.keys():
        characters = min(provenance["held_out_characters"], options["held_out_rows"] * options["row_length"])
        return f"{characters:,} held-out characters"
    if "held_out_windows" in provenance and "held_out_sentences" in options:
        return f"{min(provenance['held_out_windows'], options['held_out_sentences']):,} held-out sentences"
    return ""


def _pretraining_view(job: Job) -> PretrainingView:
    """Return the view of a pre-training job."""
    order = Order.from_dict(job.payload)
    return PretrainingView(view(job), order.name, order.kind, order.how, order.base, order.made_by, order.options)
