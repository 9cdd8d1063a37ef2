"""Each section of docs/results is what the command it names makes of the stored cells."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from crossner_core.experiments.__main__ import main
from crossner_core.experiments.stored import StoredStudy, stored_studies
from docs.stored_studies import read_pages
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

FOLDER = "FOLDER"
WORDS = "words:glove"


def command_of(stored: StoredStudy) -> list[str]:
    """Return the study's command without the places of its data and of its page."""
    words = shlex.split(stored.command)[3:]
    for name in ("--data", "--report"):
        place = words.index(name)
        del words[place : place + 2]
    return words if "--tables" in words else [*words, "--tables"]


def lacks(stored: StoredStudy) -> bool:
    """Return whether the command needs more than the data: a folder of encoders or of a gazetteer, word vectors."""
    return any(FOLDER in word for word in command_of(stored)) or WORDS in stored.measured


MADE_HERE = [stored for stored in stored_studies() if not lacks(stored)]


@pytest.mark.parametrize("stored", MADE_HERE, ids=lambda stored: "-".join(filter(None, (stored.id, stored.section))))
def test_section_is_what_its_command_makes(
    stored: StoredStudy, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command_of(stored)
    out = words[words.index("--out") + 1]
    shutil.copytree(ROOT / out, tmp_path / out, ignore=shutil.ignore_patterns("anew"))
    monkeypatch.chdir(tmp_path)
    code = main([*words, "--data", str(shared / "data" / "ner"), "--report", "page.md"])
    (made,) = read_pages(Path("page.md").read_text(encoding="utf-8"))
    assert (made.measured, made.tables, made.notes) == (stored.measured, stored.tables, stored.notes)
    assert code == any("not trained" in note for note in made.notes)


def test_most_sections_need_no_more_than_the_data() -> None:
    assert len(MADE_HERE) > len(stored_studies()) / 2
