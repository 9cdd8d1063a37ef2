"""This project's own results of the studies, as they are printed in docs/results; they come with the package.

`python -m docs.stored_studies` makes the file from those pages, whose sections the studies' commands write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from crossner_core.experiments.tables import Table

FILE = Path(__file__).with_name("stored.json")


@dataclass(frozen=True)
class StoredStudy:
    """A study's tables with what they were measured with, in words; `section` names them where a study has several."""

    id: str
    section: str
    measured: str
    command: str
    made_on: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return {**vars(self), "tables": [table.to_dict() for table in self.tables], "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StoredStudy:
        """Build one from what `to_dict` returned."""
        tables = tuple(map(Table.from_dict, values["tables"]))
        return cls(**{**values, "tables": tables, "notes": tuple(values["notes"])})


@lru_cache(maxsize=1)
def stored_studies() -> tuple[StoredStudy, ...]:
    """Return all stored results, in the order of the page."""
    return tuple(map(StoredStudy.from_dict, json.loads(FILE.read_text(encoding="utf-8"))))


def stored_of(id: str) -> tuple[StoredStudy, ...]:
    """Return the stored results of a study, the one without a section first."""
    return tuple(sorted((stored for stored in stored_studies() if stored.id == id), key=lambda stored: stored.section))
