"""Run one study: read existing results, train missing cells, then make the tables."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from crossner_core.adaptation.pretraining import read_result
from crossner_core.errors import BadInput, NotFound, WorkbenchError
from crossner_core.experiments.cells import Binder, Cell, CellResult, CellStore, find_corpora, run_folder
from crossner_core.experiments.executor import run_cells
from crossner_core.experiments.pretrained import PretrainingConfig, pretrain
from crossner_core.experiments.records import pack
from crossner_core.experiments.results import StudyResult, checked_section, write_study
from crossner_core.experiments.study import Inputs, Study, StudyConfig, StudyEvent, study
from crossner_core.experiments.training_cells import CellEvent, CellTask
from crossner_core.parallel import ShouldStop, never

_NOT_YET, _STOPPED = "not trained yet", "the study was stopped before its first cell was done."


class NothingMeasured(WorkbenchError):
    """No cell of the study has a result; the message gives the first reason."""


def run_study(
    id: str,
    config: StudyConfig,
    *,
    data: Path,
    out: Path,
    workers: int = 1,
    ray: str = "",
    keep: bool = False,
    section: str = "",
    should_stop: ShouldStop = never,
) -> Iterator[StudyEvent]:
    """Train what is missing, make tables and figure, store them in `study_folder`; the last event has the result.

    A cell in `out/cells` is not trained again, whichever study requested it; one that fails or is stopped leaves the
    study incomplete, which its tables state. With a `section` results are stored next to others of the study. Raises
    BadInput for a missing corpus.
    """
    chosen = study(id)
    chosen.accept(config)
    checked_section(section)
    run = _StudyRun(chosen, config, Path(data), Path(out), keep or chosen.keep)
    yield from run.pretrain(should_stop)
    yield from run.train(workers, ray, should_stop)
    yield from run.play(workers, ray, should_stop)
    result = run.result(section)
    write_study(run.out, result)
    pack(run.out, begin=False)
    yield StudyEvent("Tables and figure are written.", run.done, run.total, len(run.missing), result=result)


class _StudyRun:
    """A running study: its cells, the encoders it pre-trains, and what is missing, with the reason."""

    def __init__(self, chosen: Study, config: StudyConfig, data: Path, out: Path, keep: bool) -> None:
        corpora, absent = find_corpora(config.corpora, chosen.corpora, data)
        self.chosen, self.data, self.out, self.keep = chosen, data, out, keep
        self.given = self.config = replace(config, corpora=corpora)
        self.notes = [f"Not in the data folder and left out: {', '.join(absent)}."] if absent else []
        self.lacking = dict[str, str]()  # encoder → why it could not be pre-trained
        self.reasons = list[str]()  # why cells could not be trained
        self.results = dict[Cell, CellResult]()
        self.missing: tuple[str, ...] = ()
        self.done = self.total = 0

    def pretrain(self, should_stop: ShouldStop) -> Iterator[StudyEvent]:
        """Pre-train the study's own encoders; afterwards the config names them."""
        config = self.config
        if isinstance(config, PretrainingConfig) and config.own_labels:
            folder = self.out / "encoders"
            self.notes.append(config.description())
            lacking = yield from pretrain(config, folder, should_stop, len(set(self.chosen.cells(config))))
            self.lacking = {str(folder / name): why for name, why in lacking.items()}
            self.config = config.made_in(folder)

    def train(self, workers: int, ray: str, should_stop: ShouldStop) -> Iterator[StudyEvent]:
        """Train the cells that have no result, then those that follow; raise NothingMeasured if none has one."""
        cells = self.chosen.cells(self.config)
        yield from self._train(cells, workers, ray, should_stop)
        if self.chosen.follow is not None:
            following = self.chosen.follow(self.config, Inputs(self.results, self.data, self.out))
            if more := [cell for cell in following if cell not in cells]:
                yield from self._train(more, workers, ray, should_stop)
        if cells and not self.results:
            why = self.reasons[0] if self.reasons else _STOPPED
            raise NothingMeasured(why[:1].upper() + why[1:])

    def _train(self, cells: Sequence[Cell], workers: int, ray: str, should_stop: ShouldStop) -> Iterator[StudyEvent]:
        binder, store, before = Binder(self.data), CellStore(self.out), self.total
        bound = {cell: binder.bind(cell) for cell in cells if cell.recipe.encoder not in self.lacking}
        without_encoder = {cell: why for cell in cells if (why := self.lacking.get(cell.recipe.encoder))}
        by_key = {cell.key: cell for cell in bound.values()}
        waiting = {key: cell for key, cell in by_key.items() if not self._has(store, key)}
        count, known = len(by_key) + len(without_encoder), len(by_key) - len(waiting)
        self.done, self.total = self.done + known, before + count
        more = " more" if before else ""
        yield StudyEvent(
            f"{self.chosen.title}: {count}{more} cells, of which {known} have a result already.",
            self.done,
            self.total,
        )
        errors = dict[str, str]()
        tasks = [CellTask(cell, self.data, self.out, self.keep) for cell in waiting.values()]
        for event in run_cells(tasks, workers=workers, ray=ray, should_stop=should_stop):
            if event.result is not None:
                store.known[event.key] = event.result
                self.done += 1
            elif event.error:
                errors[event.key] = event.error
            if message := _message(event):
                yield StudyEvent(f"{waiting[event.key]}: {message}", self.done, self.total, len(errors), event.key)
        self.results |= {cell: result for cell, own in bound.items() if (result := store.get(own.key)) is not None}
        self.reasons += [*without_encoder.values(), *errors.values()]
        self.missing = (
            *self.missing,
            *(f"{cell.in_full}: {errors.get(key, _NOT_YET)}" for key, cell in by_key.items() if not store.get(key)),
            *(f"{cell.in_full}: {why}" for cell, why in without_encoder.items()),
        )

    def _has(self, store: CellStore, key: str) -> bool:
        kept = not self.keep or (run_folder(store.out, key) / "tagger").is_dir()
        return kept and store.get(key) is not None

    def play(self, workers: int, ray: str, should_stop: ShouldStop) -> Iterator[StudyEvent]:
        """Play the study's campaigns, if it has any; raise NothingMeasured if none has a result in the end."""
        if self.chosen.play is None:
            return
        for playing in self.chosen.play(
            self.config, self.data, self.out, workers=workers, ray=ray, should_stop=should_stop
        ):
            self.done, self.total, self.missing = playing.done, playing.total, playing.missing
            yield StudyEvent(playing.message, self.done, self.total, len(self.missing))
        if not self.done:
            raise NothingMeasured(next(iter(self.missing), "The study was stopped before anything was done."))

    def result(self, section: str) -> StudyResult:
        """Make the tables with the config that names the encoders; the result keeps the original one."""
        chosen, config = self.chosen, self.config
        made = chosen.build(config, Inputs(self.results, self.data, self.out))
        results = list(self.results.values())
        return StudyResult(
            id=chosen.id,
            title=chosen.title,
            question=chosen.question,
            reference=chosen.reference,
            tables=made.tables,
            notes=(*self.notes, *made.notes),
            config=self.given.to_dict(),
            recipe=self.given.recipe_of().to_dict(),
            seeds=config.seeds,
            corpora=config.corpora,
            encoders=_encoders(config, self.results),
            machines=tuple(sorted({result.ran_on for result in results})),
            versions=versions_of(results),
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            cells=tuple(sorted({result.key for result in results} | set(made.played))),
            missing=self.missing,
            section=section,
            figure=made.figure,
        )


def _message(event: CellEvent) -> str:
    if event.result is not None:
        return f"test F1 {event.result.f1:.2f} in {event.result.wall_seconds:.0f} s"
    return "Stopped; what was trained is saved." if event.stopped else event.error or event.message


def versions_of(results: Sequence[CellResult]) -> dict[str, str]:
    """Return the versions of packages that the results were made with, more than one if they differ."""
    if not results:
        return {"python": platform.python_version(), "numpy": version("numpy")}
    names = dict.fromkeys(name for result in results for name in result.versions)
    return {name: " / ".join(sorted({result.versions.get(name, "none") for result in results})) for name in names}


def _encoders(config: StudyConfig, results: Mapping[Cell, CellResult]) -> tuple[dict[str, str], ...]:
    """Return each encoder that a cell used: its label, if the config gives one, its name and its fingerprint."""
    labels = config.labelled_encoders
    encoders: dict[tuple[str, str], dict[str, str]] = {}
    for cell, result in results.items():
        name = cell.recipe.encoder
        label = next((text for text, path in labels.items() if path.replace("{corpus}", cell.corpus) == name), "")
        short = Path(name).name
        encoders[short, result.encoder_hash] = {
            "label": label, "name": short, "fingerprint": result.encoder_hash, "pretrained": _pretrained(name),
        }  # fmt: skip
    return tuple(encoders.values())


def _pretrained(encoder: str) -> str:
    """Describe how an encoder was pre-trained, if it was here."""
    try:
        result = read_result(encoder)
    except NotFound:
        return ""
    except BadInput:  # the tables remain valid: the weights, which their cells name by hash, could be read
        return "the outcome of its pre-training cannot be read"
    text = f" of {result.text}" if result.text else ""
    return f"{result.in_words()} by {result.tokens:,} subwords{text} in {result.steps:,} steps"
