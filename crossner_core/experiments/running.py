"""One study from its cells to its folder: what is there is read, what is missing is trained, then the tables."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from crossner_core.adaptation.pretraining import read_result
from crossner_core.errors import BadInput, NotFound, WorkbenchError
from crossner_core.experiments.cells import Binder, Cell, CellResult, CellStore, run_folder
from crossner_core.experiments.executor import run_cells
from crossner_core.experiments.pretrained import PretrainingConfig, pretrain
from crossner_core.experiments.results import StudyResult, write_study
from crossner_core.experiments.study import Inputs, Study, StudyConfig, StudyEvent
from crossner_core.experiments.training_cells import CellTask


class NothingMeasured(WorkbenchError):
    """A study of which no cell has a result; the message gives the first reason."""


def run(
    chosen: Study,
    config: StudyConfig,
    data: Path,
    out: Path,
    *,
    workers: int,
    ray: str,
    keep: bool,
    section: str,
    notes: Sequence[str],
    should_stop: Callable[[], bool],
) -> Iterator[StudyEvent]:
    """Run a study whose corpora are all there; see `run_study`."""
    keep = keep or chosen.keep
    told, lacking = config, dict[str, str]()
    if isinstance(config, PretrainingConfig) and config.own_labels:
        place, notes = out / "encoders", (*notes, config.said())
        absent_ones = yield from pretrain(config, place, should_stop, len(set(chosen.cells(config))))
        lacking = {str(place / name): why for name, why in absent_ones.items()}
        config = config.made_in(place)
    binder, store = Binder(data), CellStore(out)
    whole = chosen.cells(config)
    planned = {cell: binder.bind(cell) for cell in whole if cell.recipe.encoder not in lacking}
    homeless = {cell: lacking[cell.recipe.encoder] for cell in whole if cell.recipe.encoder in lacking}
    by_key = {cell.key: cell for cell in planned.values()}
    missing = {key: cell for key, cell in by_key.items() if not _there(store, key, keep)}
    done, total, errors = len(by_key) - len(missing), len(by_key) + len(homeless), dict[str, str]()
    yield StudyEvent(f"{chosen.title}: {total} cells, of which {done} are there.", done, total)
    tasks = [CellTask(cell, data, out, keep) for cell in missing.values()]
    for event in run_cells(tasks, workers=workers, ray=ray, should_stop=should_stop):
        message = event.message if not event.stopped else "Stopped; what was trained is saved."
        if event.result is not None:
            store.found[event.key], done = event.result, done + 1
            message = f"test F1 {event.result.f1:.2f} in {event.result.wall_seconds:.0f} s"
        elif event.error:
            errors[event.key] = message = event.error
        if message:
            yield StudyEvent(f"{missing[event.key]}: {message}", done, total, len(errors), event.key)
    results = {cell: found for cell, there in planned.items() if (found := store.get(there.key)) is not None}
    if whole and not results:
        why = next(
            iter([*homeless.values(), *errors.values()]), "the study was stopped before its first cell was done."
        )
        raise NothingMeasured(why[:1].upper() + why[1:])
    absent = tuple(
        f"{cell.in_full}: {errors.get(key, 'not trained yet')}" for key, cell in by_key.items() if not store.get(key)
    )
    absent += tuple(f"{cell.in_full}: {why}" for cell, why in homeless.items())
    if chosen.play is not None:
        for one in chosen.play(config, data, out, workers=workers, ray=ray, should_stop=should_stop):
            done, total, absent = one.done, one.total, one.missing
            yield StudyEvent(one.message, done, total, len(absent))
        if not done:
            raise NothingMeasured(next(iter(absent), "The study was stopped before anything was done."))
    result = _made(chosen, told, config, Inputs(results, data, out), absent, notes, section)
    write_study(out, result)
    yield StudyEvent("Tables and figure are written.", done, total, len(absent), result=result)


def _there(store: CellStore, key: str, keep: bool) -> bool:
    found = store.get(key)
    return found is not None and (not keep or (run_folder(store.folder.parent, key) / "tagger").is_dir())


def _made(
    chosen: Study,
    told: StudyConfig,
    config: StudyConfig,
    inputs: Inputs,
    missing: tuple[str, ...],
    notes: Sequence[str],
    section: str,
) -> StudyResult:
    """Make the tables by the config that names the encoders; what is kept is the one that the study was told."""
    made = chosen.build(config, inputs)
    results = list(inputs.results.values())
    return StudyResult(
        id=chosen.id,
        title=chosen.title,
        question=chosen.question,
        reference=chosen.reference,
        tables=made.tables,
        notes=(*notes, *made.notes),
        config=told.to_dict(),
        recipe=told.recipe_of().to_dict(),
        seeds=config.seeds,
        corpora=config.corpora,
        encoders=_encoders(config, inputs.results),
        machines=tuple(sorted({_machine(one.machine) for one in results})),
        versions=results[0].versions if results else {"python": platform.python_version(), "numpy": version("numpy")},
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        cells=tuple(sorted({one.key for one in results} | set(made.played))),
        missing=missing,
        section=section,
        figure=made.figure,
    )


def _encoders(config: StudyConfig, results: Mapping[Cell, CellResult]) -> tuple[dict[str, str], ...]:
    """Return each encoder that a cell used: its label, if the config gives one, its name and its fingerprint."""
    labels = config.labelled_encoders
    found: dict[tuple[str, str], dict[str, str]] = {}
    for cell, result in results.items():
        name = cell.recipe.encoder
        label = next((text for text, path in labels.items() if path.replace("{corpus}", cell.corpus) == name), "")
        short = Path(name).name
        found[short, result.encoder_hash] = {
            "label": label, "name": short, "fingerprint": result.encoder_hash, "pretrained": _pretrained(name),
        }  # fmt: skip
    return tuple(found.values())


def _pretrained(encoder: str) -> str:
    """Say how an encoder was pre-trained, if it was here."""
    try:
        result = read_result(encoder)
    except NotFound:
        return ""
    except BadInput:  # the tables stand all the same: the weights, which their cells name by hash, could be read
        return "what its pre-training came to cannot be read"
    return f"{result.in_words()} by {result.tokens:,} subwords in {result.steps:,} steps"


def _machine(values: Mapping[str, Any]) -> str:
    threads = f"{values['threads']} thread{'s' if values['threads'] != 1 else ''}"
    device = "" if str(values["device"]).startswith("CPU") else f", {values['device']}"
    precision = f", {values['precision']}" if "precision" in values else ""
    return f"{values['cpu']}, {values['cores']} cores, {threads} a cell{device}{precision}"
