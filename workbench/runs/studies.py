"""Studies in the app: list them with their results, and run one with the worker."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotFound, WorkbenchError
from crossner_core.experiments.cells import Cell
from crossner_core.experiments.corpora import corpus_ids
from crossner_core.experiments.results import (
    StudyResult,
    checked_section,
    read_study,
    sections_of,
    study_folder,
    table_file,
)
from crossner_core.experiments.stored import StoredStudy, stored_of
from crossner_core.experiments.study import Study, StudyConfig, study, study_ids
from crossner_core.experiments.tables import Measured, Table
from crossner_core.training.recipe import source_names
from db import job_rows
from db.engine import Store
from workbench.accounts import audit
from workbench.accounts.actors import Actor, admit, fresh, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.data.packing import zipped
from workbench.jobs import queue
from workbench.jobs.queue import JobView, view
from workbench.runs import study_data
from workbench.settings import settings_of

ASKED_OF_ALL = ("corpora", "seeds", "encoders", "recipe")
FILES = ("table.md", "table.csv", "table.tex")
_MOST_JOBS = 200


@dataclass(frozen=True, slots=True)
class StudyView:
    """A study, its results here (None: none yet), and the newest job that runs or ran it.

    `section` distinguishes it from others of the same study; `problem` states why its results cannot be read.
    `published` is what its papers print, `stored` what this project measured; both come with the package. `in_part`
    says whether it can train some of its rows only.
    """

    id: str
    section: str
    title: str
    question: str
    reference: str
    result: StudyResult | None
    job: JobView | None
    problem: str = ""
    published: tuple[Table, ...] = ()
    stored: tuple[StoredStudy, ...] = ()
    in_part: bool = False

    @property
    def key(self) -> str:
        """Study and section in one."""
        return f"{self.id}-{self.section}" if self.section else self.id

    @property
    def done(self) -> int:
        """Cells that have their result."""
        return len(self.result.cells) if self.result else 0

    @property
    def total(self) -> int:
        """Number of cells that the tables need; 0 before the first run."""
        return self.done + len(self.result.missing) if self.result else 0

    @property
    def is_under_way(self) -> bool:
        """Whether a job is queued or running."""
        return self.job is not None and self.job.is_under_way


@dataclass(frozen=True, slots=True)
class StudyChoices:
    """What a study can be given here: its own `usual` corpora, those that are `there`, the fields of its config.

    `data` is the folder they are in; None where they are of the store, or where no folder is set.
    """

    data: Path | None
    usual: tuple[str, ...]
    there: tuple[str, ...]
    config: type[StudyConfig]

    @property
    def absent(self) -> tuple[str, ...]:
        """Usual corpora that are not there."""
        return tuple(id for id in self.usual if id not in self.there)


def list_studies(store: Store, actor: Actor) -> tuple[StudyView, ...]:
    """Return all studies, one entry per section.

    Those with results here come first, then those under way, those that came with results, the largest, and those
    of which most came.
    """
    newest = _newest_jobs(store, actor)
    out = settings_of(store).experiments
    views = [
        _view(study(id), section, out, newest.get((id, section)))
        for id in study_ids()
        for section in _sections(id, out, newest)
    ]
    return tuple(sorted(views, key=_place))


def _place(view: StudyView) -> tuple[Any, ...]:
    figures = sum(len(table.rows) * len(table.columns) for table in view.published)
    rows = (row for stored in view.stored for table in stored.tables for row in table.rows)
    came = sum(isinstance(value, Measured) and value.mean is not None for row in rows for value in row)
    return view.result is None, view.job is None, not view.stored, -figures, -came, view.title, view.section


def get_study(store: Store, actor: Actor, id: str, section: str = "") -> StudyView:
    """Return one study; raise NotFound naming those that exist, InvalidConfig for an invalid section."""
    newest = _newest_jobs(store, actor)
    return _view(known_study(id), checked_section(section), settings_of(store).experiments, newest.get((id, section)))


def study_file(store: Store, actor: Actor, id: str, name: str, section: str = "") -> bytes:
    """Return a study's table as it was written: one of FILES; raise NotFound where there is none."""
    if name not in FILES:
        raise NotFound(f"A study has no file {name!r}; there are {', '.join(FILES)}.")
    return _read(_results(store, actor, id, section) / name)


def study_archive(
    store: Store, actor: Actor, id: str, section: str = "", *, prepared: Callable[[bytes], bytes] = lambda data: data
) -> bytes:
    """Return all of a study's tables as CSV in a zip archive, each as `prepared` makes it; raise NotFound without."""
    folder = _results(store, actor, id, section)
    names = [table_file(number) for number in range(len(read_study(folder).tables))]
    return zipped({name: prepared(_read(folder / name)) for name in names})


def _results(store: Store, actor: Actor, id: str, section: str) -> Path:
    admit(store, actor, *OVERSEERS)
    return study_folder(settings_of(store).experiments, known_study(id).id, section)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFound(f"There is no {path.name} of the study {path.parent.name!r} yet; run it first.") from error


def choices(store: Store, actor: Actor, id: str, *, from_store: bool = False) -> StudyChoices:
    """Return what the study can be run on here: corpora of the data folder, or data sets and gold of the store."""
    admit(store, actor, *OVERSEERS)
    data = None if from_store else settings_of(store).data
    ids = study_data.store_corpora(store, actor) if from_store else corpus_ids(data) if data is not None else ()
    known = known_study(id)
    return StudyChoices(data, known.corpora, ids, known.config)


def option_kinds(id: str) -> dict[str, type]:
    """Return the options of the study besides corpora, seeds, encoders and recipe, with their types."""
    hints = typing.get_type_hints(known_study(id).config)
    return {name: typing.get_origin(hint) or hint for name, hint in hints.items() if name not in ASKED_OF_ALL}


def count_cells(store: Store, actor: Actor, id: str, values: Mapping[str, Any], *, from_store: bool = False) -> int:
    """Return how many trainings (or campaigns) a study consists of with these values; finished ones count too."""
    known, whole = _asked(store, actor, id, values, from_store)
    return len(set(known.cells(whole))) + (known.plays(whole) if known.plays is not None else 0)


def count_encoders(store: Store, actor: Actor, id: str, values: Mapping[str, Any], *, from_store: bool = False) -> int:
    """Return how many encoders a study pre-trains with these values; existing ones count too."""
    from crossner_core.experiments.pretrained import PretrainingConfig, planned

    _, whole = _asked(store, actor, id, values, from_store)
    return len(planned(whole)) if isinstance(whole, PretrainingConfig) else 0


def _asked(
    store: Store, actor: Actor, id: str, values: Mapping[str, Any], from_store: bool
) -> tuple[Study, StudyConfig]:
    options, known = choices(store, actor, id, from_store=from_store), known_study(id)
    return known, _whole(known, known.config.from_dict(values), options.there)


def usual_workers(store: Store) -> int:
    """Return the default number of parallel trainings of a study."""
    return settings_of(store).study_workers


def row_labels(
    store: Store, actor: Actor, id: str, values: Mapping[str, Any], *, from_store: bool = False
) -> tuple[str, ...]:
    """Return the rows that `rows` may change with these values; none where a study has no rows."""
    known, whole = _asked(store, actor, id, values, from_store)
    return tuple(known.labels(whole)) if known.labels is not None else ()


def start_study(
    store: Store,
    actor: Actor,
    id: str,
    values: Mapping[str, Any],
    *,
    section: str = "",
    from_store: bool = False,
    data: Path | None = None,
    workers: int | None = None,
    ray: str | None = None,
) -> tuple[int, bool]:
    """Queue a study; return the job's id, and whether it is a new one: the same study is never queued twice.

    `values` are fields of the study's config; results are kept under `section` beside others of the study. Cells
    trained before are not trained again. With `from_store` it is run on data sets and gold of the store, written
    beside the results; `data`, `workers` (parallel trainings) and `ray` (a cluster's address) override the settings.
    Raises InvalidConfig for a value out of range, BadInput for missing corpora, Conflict if the study is
    queued or running with other values.
    """
    admit(store, actor, *KEEPERS)
    if workers is not None and workers < 1:
        raise InvalidConfig(f"workers is {workers}; it must be 1 or more.")
    settings = settings_of(store)
    known = known_study(id)
    checked_section(section)
    config = known.config.from_dict(values)
    known.accept(config)
    folder = None if from_store else _data_folder(data or settings.data)
    present = study_data.store_corpora(store, actor) if folder is None else corpus_ids(folder)
    _require_corpora(known, config, present, "the store" if folder is None else str(folder))
    whole = _whole(known, config, present)
    _require_sources(known.cells(whole), present)  # invalid rows are reported now, not by the worker
    _require_text(whole, settings.home.resolve())
    folder = folder or study_data.write_corpora(store, actor, whole.to_dict())
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        asked: dict[str, Any] = {"section": section or None, "workers": workers, "ray": ray}
        payload = {"study": id, "config": config.to_dict(), "data": str(folder)}
        payload |= {name: value for name, value in asked.items() if value is not None}
        job_id, is_new = queue.start(session, "study", payload, by=actor)
        if is_new:
            audit.record(session, current, "start_study", ("study", id), job=job_id, section=section)
        return job_id, is_new


def cancel_study(store: Store, actor: Actor, id: str, section: str = "") -> str:
    """Cancel a study; return its job's state (`running` until the worker has stopped). Its cells are kept.

    Raises Conflict if it is neither queued nor running.
    """
    require(actor, *KEEPERS)
    chosen = get_study(store, actor, id, section)
    if chosen.job is None or not chosen.is_under_way:
        busy = ", ".join(other.key for other in list_studies(store, actor) if other.is_under_way)
        raise Conflict(f"The study {chosen.key!r} is neither queued nor running; those that are: {busy or 'none'}.")
    return queue.cancel_job(store, actor, chosen.job.id)


def _named(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return study and section of a job."""
    return payload["study"], payload.get("section", "")


def _sections(id: str, out: Path, jobs: Mapping[tuple[str, str], JobView]) -> list[str]:
    """Return the sections of a study that have results, or a job that was not cancelled; if there are none, ""."""
    asked = (section for (study, section), job in jobs.items() if study == id and job.state != "cancelled")
    return sorted({*sections_of(out, id), *asked}) or [""]


def _newest_jobs(store: Store, actor: Actor) -> dict[tuple[str, str], JobView]:
    require(actor, *OVERSEERS)
    with store.read() as session:
        fresh(session, actor, *OVERSEERS)
        recent = job_rows.recent(session, kinds=("study",), limit=_MOST_JOBS)
        return {_named(job.payload): view(job) for job in reversed(recent)}


def _view(known: Study, section: str, out: Path, job: JobView | None) -> StudyView:
    result, problem = None, ""
    try:
        result = read_study(study_folder(out, known.id, section))
    except NotFound:
        pass  # it was not run yet
    except WorkbenchError as error:
        problem = str(error)
    return StudyView(
        id=known.id,
        section=section,
        title=known.title,
        question=known.question,
        reference=known.reference,
        result=result,
        job=job,
        problem=problem,
        published=known.published,
        stored=stored_of(known.id),
        in_part=known.in_part,
    )


def known_study(id: str) -> Study:
    """Return a study; raise NotFound naming those that exist."""
    if id not in study_ids():
        raise NotFound(f"There is no study {id!r}; there are: {', '.join(study_ids())}.")
    return study(id)


def _data_folder(folder: Path | None) -> Path:
    if folder is None:
        raise InvalidConfig(
            "No data folder is set: studies read their corpora from it. Set CROSSNER_DATA to a folder that holds one "
            "folder per corpus (with train, dev and test files), or name it with --data."
        )
    if not folder.is_dir():
        raise InvalidConfig(f"The data folder {folder} does not exist. Set CROSSNER_DATA or --data to one that does.")
    return folder.resolve()


def _whole(known: Study, config: StudyConfig, present: Sequence[str]) -> StudyConfig:
    """Return the config with the corpora that it will be run on."""
    return replace(config, corpora=config.corpora or tuple(name for name in known.corpora if name in present))


def _require_corpora(known: Study, config: StudyConfig, present: Sequence[str], where: str) -> None:
    absent = [id for id in config.corpora if id not in present]
    if absent or not (config.corpora or set(known.corpora) & set(present)):
        wanted = absent or known.corpora
        raise BadInput(f"There is no {', '.join(wanted)} in {where}; there are: {', '.join(present) or 'none'}.")


def _require_sources(cells: Sequence[Cell], present: Sequence[str]) -> None:
    """Raise BadInput if a transfer setting reads a source corpus that is not there."""
    wanted = (name for cell in cells if cell.source is not None for name in source_names(cell.source))
    if absent := sorted({name for name in wanted if name not in present}):
        raise BadInput(
            f"Rows with a transfer setting read the source corpus {', '.join(absent)}, which is not there; there are: "
            f"{', '.join(present)}. Add it, name another one in the recipe field source, or leave these settings out."
        )


def _require_text(config: StudyConfig, home: Path) -> None:
    """Raise NotFound or BadInput if a study is to pre-train encoders on missing text."""
    from crossner_core.experiments.pretrained import PretrainingConfig

    if isinstance(config, PretrainingConfig) and config.own_labels:
        whole = type(config).from_dict(own_places(config.to_dict(), home, config.corpora))
        assert isinstance(whole, PretrainingConfig)  # of the same type
        whole.check_text()


def _own_corpus(name: str, home: Path, corpora: Sequence[str]) -> str:
    """Return the folder of a Wikipedia corpus that was made here, in place of its name."""
    own = (home / "corpora" / name.replace("{corpus}", corpus) for corpus in corpora)
    return str(home / "corpora" / name) if name and any(path.is_dir() for path in own) else name


def own_places(values: Mapping[str, Any], home: Path, corpora: Sequence[str]) -> dict[str, Any]:
    """Replace the names of encoders and corpora made here by their folders, wherever they are named.

    An encoder or entity-tagging corpus without a label gets its name as label.
    """
    from crossner_core.encoders.names import around_place, library_names

    library = home / "encoders"
    names = set(library_names(library))

    def at(name: str) -> str:
        before, place, behind = around_place(name)
        own = any(place.replace("{corpus}", corpus) in names for corpus in ("", *corpora))
        return f"{before}{library / place}{behind}" if own else name

    def tagged_at(name: str) -> str:
        own = home / "tagged" / name
        return str(own) if name and own.is_dir() else name

    def labelled(text: str, at: Callable[[str], str]) -> str:
        label, _, name = text.partition("=") if "=" in text else (text, "", text)
        return text if at(name) == name else f"{label}={at(name)}"

    def with_encoder(recipe: Mapping[str, Any]) -> dict[str, Any]:
        return {name: at(value) if name == "encoder" else value for name, value in recipe.items()}

    made = dict(values)
    if values.get("dapt_corpus"):
        made["dapt_corpus"] = _own_corpus(values["dapt_corpus"], home, corpora)
    if "tagged" in values:
        made["tagged"] = [labelled(text, tagged_at) for text in values["tagged"]]
    made["encoders"] = [labelled(text, at) for text in values.get("encoders", ())]
    made["recipe"] = with_encoder(values.get("recipe", {}))
    made["rows"] = {label: with_encoder(recipe) for label, recipe in values.get("rows", {}).items()}
    if "candidates" in values:
        made["candidates"] = [
            " ".join(
                f"encoder={at(part.removeprefix('encoder='))}" if part.startswith("encoder=") else part
                for part in candidate.split()
            )
            for candidate in values["candidates"]
        ]
    return made
