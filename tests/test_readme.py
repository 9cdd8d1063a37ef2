"""The README names every command, only targets and pictures that exist, and shows every screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from typer.main import get_command

from docs.take_screens import FOLDER, MOST_BYTES, SHOTS
from docs.take_transcript import BEGIN, END, PARTS
from pages.main import SECTIONS
from workbench.cli import app
from workbench.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ("README.md", "docs/carry-on.md")
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLES = "\n".join(line for line in README.splitlines() if line.startswith("|"))


def _commands(group: click.Command, words: str = "workbench") -> Iterator[str]:
    """Yield every command below a group with the words that call it."""
    for name, command in getattr(group, "commands", {}).items():
        called = f"{words} {name}"
        if getattr(command, "commands", None):
            yield from _commands(command, called)
        else:
            yield called


COMMANDS = sorted(_commands(get_command(app)))


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_names_the_command(command: str) -> None:
    assert re.search(rf"`{re.escape(command)}`", TABLES)


def test_readme_names_no_command_that_is_gone() -> None:
    assert set(re.findall(r"^\| `(workbench [a-z -]+)`", TABLES, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("text", TEXTS)
def test_readme_names_only_make_targets_that_exist(text: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / text).read_text(encoding="utf-8"), re.MULTILINE))
    assert named and named <= targets


@pytest.mark.parametrize("text", TEXTS)
def test_readme_links_only_what_exists(text: str) -> None:
    file = ROOT / text
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if not (file.parent / link).exists()]


def test_readme_links_only_headings_that_exist() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", head.lower()).strip().replace(" ", "-")
        for head in re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= headings


@pytest.mark.parametrize("screen", [screen.file for section in SECTIONS.values() for screen in section])
def test_readme_shows_the_screen(screen: str) -> None:
    assert f"(docs/screens/{screen}.png)" in README


def test_readme_shows_all_pictures_that_are_taken() -> None:
    taken = {shot.name for shot in SHOTS}
    assert set(re.findall(r"\(docs/screens/(\w+)\.png\)", README)) == taken
    assert {path.stem for path in FOLDER.glob("*.png")} == taken


def test_readme_pictures_are_small() -> None:
    assert not [path.name for path in FOLDER.glob("*.png") if path.stat().st_size >= MOST_BYTES]


def test_readme_names_every_setting_with_its_default() -> None:
    for name, spec in Settings.model_fields.items():
        row = next((line for line in TABLES.splitlines() if line.startswith(f"| `CROSSNER_{name.upper()}` |")), "")
        assert spec.description is not None and spec.description.split(";")[0] in row, name
        if spec.default is not None:
            default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default).lower()
            assert f"| `{default}` |" in row, name


def test_readme_transcript_holds_every_command_that_is_run() -> None:
    transcript = README.split(BEGIN)[1].split(END)[0]
    assert [line[2:] for line in transcript.splitlines() if line.startswith("$ ")] == [
        command for _title, commands in PARTS for command in commands
    ]


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m ((?:docs|benchmarks)\.\w+)", README))))
def test_readme_names_only_modules_that_exist(module: str) -> None:
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
