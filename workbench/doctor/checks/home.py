"""The home folder and the machine: checkpoints, what interrupted builds left, free disk, versions of packages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from crossner_core.errors import CheckpointError
from crossner_core.folders import abandoned, named_folders, settle_abandoned
from db import run_rows
from db.training_tables import Run
from workbench.doctor.base import Context, Finding, register
from workbench.jobs.context import LEAST_FREE_BYTES
from workbench.runs.predicting import checkpoint_folder

_PACKAGE = "crossner-workbench"
_CONSTRAINTS = Path(__file__).resolve().parents[3] / "constraints.txt"
_RUN_FOLDER = re.compile(r"run-([1-9]\d{0,17})")
_MANIFEST = "manifest.json"


@register(
    "checkpoints",
    "Every run that keeps its weights has them",
    remedy="No repair is safe: restore the checkpoints from a backup, or train the run again.",
)
def checkpoints(context: Context) -> Iterator[Finding]:
    """Look for the folder of every finished run on all sentences, and read the heads of its files."""
    for run in run_rows.everything(context.session):
        if run.state == "done" and run.size is None and (problem := _missing(run, context.settings.checkpoints)):
            yield Finding(f"run {run.id}", problem)


def _missing(run: Run, folder: Path) -> str:
    from safetensors import SafetensorError, safe_open

    if run.checkpoint is None:
        return "is done, but names no checkpoint"
    try:
        kept = checkpoint_folder(run, folder)
    except CheckpointError as error:
        return str(error)
    if not (kept / "meta.json").is_file():
        return f"its checkpoint {kept} lacks meta.json"
    try:
        with safe_open(kept / "tensors.safetensors", framework="np"):
            return ""
    except (OSError, SafetensorError) as error:
        return f"its checkpoint {kept} cannot be read: {error}"


def _run_folders(context: Context) -> Iterator[tuple[Path, Run | None]]:
    """Yield the folders of runs, each with its run, None where there is none."""
    runs = {run.id: run for run in run_rows.everything(context.session)}
    folder = context.settings.checkpoints
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and (name := _RUN_FOLDER.fullmatch(path.name)):
            yield path, runs.get(int(name[1]))


@register(
    "run-folders",
    "Every folder of a run has its run",
    remedy="No repair is safe: the store may be older than the folder; look at it, then delete it by hand.",
)
def run_folders(context: Context) -> Iterator[Finding]:
    """Find folders below `checkpoints` whose run the store does not know."""
    for path, run in _run_folders(context):
        if run is None:
            yield Finding(str(path), "is the folder of a run that does not exist")


def _cells(context: Context) -> list[Path]:
    return [path for path, run in _run_folders(context) if run is not None and run.size and run.state == "done"]


def _remove_cells(context: Context) -> None:
    for path in _cells(context):
        shutil.rmtree(path)


@register(
    "cells",
    "Finished cells of a curve keep scores, no weights",
    remedy="Deletes the weights, which a crash after the last step left; scores and predictions stay.",
    mend=_remove_cells,
)
def cells(context: Context) -> Iterator[Finding]:
    """Find weights of few-shot cells that are done."""
    for path in _cells(context):
        yield Finding(str(path), "holds the weights of a finished cell")


def _settle(context: Context) -> None:
    for path in abandoned(context.settings.home.resolve()):
        settle_abandoned(path)


@register(
    "leftovers",
    "No interrupted build has left half-written files",
    remedy="Deletes what nobody writes any more; an older folder whose successor never came is put back.",
    mend=_settle,
)
def leftovers(context: Context) -> Iterator[Finding]:
    """Find half-written files and folders of processes that have ended."""
    for path in abandoned(context.settings.home.resolve()):
        yield Finding(str(path), "was left half-written")


@register(
    "builds",
    "Every corpus and gazetteer is finished",
    remedy="No repair is safe: run the command that builds it again, which resumes, or delete the folder.",
)
def builds(context: Context) -> Iterator[Finding]:
    """Find built folders without a manifest, which is written last."""
    settings = context.settings
    for folder in (settings.corpora, settings.tagged, settings.gazetteers):
        for path in named_folders(folder):
            if not (path / _MANIFEST).is_file():
                yield Finding(str(path), f"has no {_MANIFEST}: it is being built, or its build was interrupted")


@register(
    "disk",
    "There is room on the disk",
    remedy="No repair is safe: free some space; checkpoints of old runs and old backups are large.",
)
def disk(context: Context) -> Iterator[Finding]:
    """Compare free space with what one run needs."""
    home = context.settings.home.resolve()
    free = shutil.disk_usage(home).free
    if free < LEAST_FREE_BYTES:
        yield Finding(str(home), f"{free / 1e6:.0f} MB are free, a run needs {LEAST_FREE_BYTES / 1e6:.0f} MB")


@register(
    "packages",
    "The installed Python packages are the tested versions",
    remedy="No repair is made here: install again, pip install -r requirements.txt -c constraints.txt.",
)
def packages(context: Context) -> Iterator[Finding]:
    """Compare what is installed with what this version requires, and with constraints.txt in a checkout."""
    required = {canonicalize_name(wanted.name): wanted for wanted in _required()}
    pinned = {canonicalize_name(wanted.name): wanted for wanted in _pinned()}
    for name, wanted in sorted({**pinned, **required}.items()):
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name in required:
                yield Finding(name, f"is not installed; {wanted} is required")
            continue
        if not wanted.specifier.contains(installed, prereleases=True):
            yield Finding(name, f"is installed as {installed}; tested is {wanted.specifier}")


def _required() -> list[Requirement]:
    try:
        lines = metadata.requires(_PACKAGE) or ()
    except metadata.PackageNotFoundError:  # started from a checkout that was not installed
        return []
    wanted = map(Requirement, lines)
    return [need for need in wanted if need.marker is None or need.marker.evaluate({"extra": ""})]


def _pinned() -> list[Requirement]:
    lines: Iterable[str] = _CONSTRAINTS.read_text(encoding="utf-8").splitlines() if _CONSTRAINTS.is_file() else ()
    pinned = []
    for line in lines:
        try:
            pinned.append(Requirement(line.partition("#")[0].strip()))
        except InvalidRequirement:  # a comment or an empty line
            continue
    return [need for need in pinned if need.marker is None or need.marker.evaluate()]
