"""A trained model leaves: a run's tagger as a folder, or as a zip, for other software."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from crossner_core.encoders.names import kind_named
from crossner_core.errors import InvalidConfig
from crossner_core.exports.base import EXPORTS, About, Export
from crossner_core.training.events import RunResult
from crossner_core.training.recipe import Recipe
from db import campaign_rows
from db.engine import Session, Store
from db.training_tables import Run
from workbench import out_of_process
from workbench.accounts import audit
from workbench.accounts.access import enter_run
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.runs.predicting import checkpoint_folder
from workbench.settings import Settings, settings_of


def list_targets() -> Sequence[Export]:
    """Return the targets a run can be exported to; loads no model."""
    return [EXPORTS.one(id) for id in EXPORTS.ids()]


def export_run(
    store: Store, actor: Actor, run_id: int, *, to: str, folder: Path, checkpoints: Path, int8: bool = False
) -> None:
    """Write a run's tagger for a target into a folder, with int8 weights if asked for.

    Raises InvalidConfig for a target that is unknown or cannot take this run, CheckpointError where the run has no
    tagger, StorageError where the folder cannot be written or holds something else.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        run = enter_run(session, actor, run_id, *KEEPERS)
        _check(settings_of(store), run, to, int8)
        checkpoint, about = checkpoint_folder(run, checkpoints), _about(session, run)
    from crossner_core.exports.base import export_tagger
    from crossner_core.training.predictor import load_tagger

    export_tagger(load_tagger(checkpoint, device="cpu", precision="fp32"), folder, to, about, int8=int8)
    audit.record_alone(store, actor, "export_run", ("run", run_id), run.campaign_id, to=to, int8=int8)


def export_zip(store: Store, actor: Actor, run_id: int, *, to: str, int8: bool = False) -> bytes:
    """Return the same as a zip; the model is loaded by a process of its own. Raises as `export_run`."""
    require(actor, *KEEPERS)
    with store.read() as session:
        run = enter_run(session, actor, run_id, *KEEPERS)
        _check(settings_of(store), run, to, int8)
        checkpoint_folder(run, settings_of(store).checkpoints)
    with tempfile.TemporaryDirectory(prefix="workbench-") as name:
        path = out_of_process.apart(_write_zip, store, actor, run_id, to=to, int8=int8, place=name)
        return Path(path).read_bytes()


def _write_zip(store: Store, actor: Actor, run_id: int, *, to: str, int8: bool, place: str) -> str:
    folder, path = Path(place, f"run-{run_id}-{to}"), Path(place, "export.zip")
    export_run(store, actor, run_id, to=to, folder=folder, checkpoints=settings_of(store).checkpoints, int8=int8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for file in sorted(folder.rglob("*")):
            packed.write(file, file.relative_to(folder.parent))
    return str(path)


def refusal(settings: Settings, recipe: Recipe, to: str) -> str:
    """Return why a tagger of this recipe cannot be exported to a target; empty if it can."""
    return EXPORTS.one(to).refusal(recipe, kind_named(recipe.encoder, settings.encoders))


def _check(settings: Settings, run: Run, to: str, int8: bool) -> None:
    """Refuse before anything is loaded what the target cannot take."""
    if why := refusal(settings, Recipe.from_dict(run.recipe), to):
        raise InvalidConfig(why)
    EXPORTS.one(to).require_int8(int8)


def _about(session: Session, run: Run) -> About:
    campaign = campaign_rows.find(session, run.campaign_id) if run.campaign_id is not None else None
    where = campaign.name if campaign is not None else run.dataset.name if run.dataset is not None else ""
    if run.snapshot is not None:
        trained_on = f"snapshot {run.snapshot.hash[:12]} of campaign {where}"
    else:
        trained_on = f"data set {where}"
    name = "-".join([*re.findall(r"[A-Za-z0-9]+", where), "run", str(run.id)])
    return About(name, trained_on, RunResult.from_dict(run.result) if run.result is not None else None)
