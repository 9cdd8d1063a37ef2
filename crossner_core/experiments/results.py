"""The files of a study's folder: `study.json`, the tables as Markdown, CSV and LaTeX, and the figure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, InvalidConfig, NotFound, StorageError
from crossner_core.experiments.tables import Table
from crossner_core.folders import recover_folder, replace_folder, write_json

STUDY, FIGURE = "study.json", "figure.json"
_SECTION = re.compile(r"[A-Za-z0-9_-]*")
_SEED = re.compile(r"(.*? seed) (\d+)\b(.*)", re.DOTALL)
_AS_TEXT = {
    "table.md": lambda table: f"**{table.title}**\n\n{table.to_markdown()}\n\n{table.note}".strip(),
    "table.tex": lambda table: table.to_latex(),
}


@dataclass(frozen=True)
class StudyResult:
    """A study's tables and provenance; `missing` lists cells without a result, with the reason."""

    id: str
    title: str
    question: str
    reference: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    config: Mapping[str, Any]
    recipe: Mapping[str, Any]
    seeds: tuple[int, ...]
    corpora: tuple[str, ...]
    encoders: tuple[Mapping[str, str], ...]
    """Label, name and fingerprint of each encoder that a cell used, and the result of its pre-training, if any."""
    machines: tuple[str, ...]
    versions: Mapping[str, str]
    made_at: str
    cells: tuple[str, ...] = ()
    """Keys of the results behind the tables: files in `OUT/cells`, or in `OUT/simulations`."""
    missing: tuple[str, ...] = ()
    section: str = ""
    """Distinguishes these results from others of the same study stored next to them."""
    figure: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def complete(self) -> bool:
        """Whether every cell has its result."""
        return not self.missing

    @property
    def missing_rows(self) -> tuple[str, ...]:
        """What is missing, and why; entries that differ only by seed share a line."""
        rows: dict[tuple[str, str], list[str]] = {}
        for text in self.missing:
            before, seed, after = match.groups() if (match := _SEED.fullmatch(text)) else (text, "", "")
            rows.setdefault((before, after), []).extend([seed] * bool(seed))
        return tuple(_row(before, seeds, after) for (before, after), seeds in rows.items())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values without the figure, which has its own file."""
        values = {spec.name: getattr(self, spec.name) for spec in fields(self) if spec.name != "figure"}
        values["tables"] = [table.to_dict() for table in self.tables]
        return values | {"complete": self.complete}


def _row(before: str, seeds: Sequence[str], after: str) -> str:
    return f"{before}{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}{after}" if seeds else before + after


def study_folder(out: Path, id: str, section: str = "") -> Path:
    """Return the folder of a study's results; raise InvalidConfig for an invalid section name."""
    return Path(out) / "studies" / (f"{id}-{checked_section(section)}" if section else id)


def checked_section(section: str) -> str:
    """Return a section's name unchanged, or raise InvalidConfig."""
    if not _SECTION.fullmatch(section):
        raise InvalidConfig(f"{section!r} is not a valid section name; use letters, digits, _ and -.")
    return section


def sections_of(out: Path, id: str) -> tuple[str, ...]:
    """Return the sections of a study that have results, sorted: "" is the one without a name."""
    names = [path.parent.name for path in (Path(out) / "studies").glob(f"{id}*/{STUDY}")]
    return tuple(sorted(name.removeprefix(id)[1:] for name in names if name == id or name.startswith(f"{id}-")))


def write_study(out: Path, result: StudyResult) -> Path:
    """Replace a study's folder as a whole; raise StorageError if it cannot be written."""
    folder = study_folder(out, result.id, result.section)

    def fill(beside: Path) -> None:
        for name, make in _AS_TEXT.items():
            text = "\n\n".join(make(table) for table in result.tables) + "\n"
            (beside / name).write_text(text, encoding="utf-8")
        for index, table in enumerate(result.tables):
            (beside / table_file(index)).write_text(table.to_csv(), encoding="utf-8")
        if result.figure is not None:
            write_json(beside / FIGURE, result.figure)
        write_json(beside / STUDY, result.to_dict())

    try:
        replace_folder(folder, fill)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error}. Free some disk and run the study again.") from error
    return folder


def table_file(index: int) -> str:
    """Return the CSV file name of a study's table, counted from 0."""
    return "table.csv" if index == 0 else f"table-{index + 1}.csv"


def read_study(folder: Path) -> StudyResult:
    """Read what `write_study` wrote; raise NotFound for a folder without a study, BadInput for a damaged one."""
    folder = Path(folder)
    try:
        recover_folder(folder)
        values = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        figure = json.loads((folder / FIGURE).read_text(encoding="utf-8")) if (folder / FIGURE).exists() else None
        values.pop("complete")
        values["tables"] = tuple(Table.from_dict(table) for table in values["tables"])
        tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return StudyResult(**(values | tuples), figure=figure)
    except FileNotFoundError as error:
        raise NotFound(f"There is no study at {folder}: {STUDY} is missing. Run the study first.") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"The study at {folder} is damaged: {error}. Run it again; its cells are kept.") from error


def list_studies(out: Path) -> list[StudyResult]:
    """Return the studies of a folder of results, newest first."""
    # Folders that begin with a dot are still being written.
    results = [read_study(path.parent) for path in sorted((Path(out) / "studies").glob(f"[!.]*/{STUDY}"))]
    return sorted(results, key=lambda result: result.made_at, reverse=True)
