"""The documents name every command, setting and screen, and only files, links, targets and pictures that exist."""

from __future__ import annotations

import re

import pytest
import yaml

from docs import command_line
from docs.take_screens import FOLDER, MOST_BYTES, SHOTS
from docs.take_transcript import BEGIN, END, PARTS
from pages.main import SECTIONS
from tests.support.paths import ROOT
from workbench.settings import Settings

DOCS = ROOT / "docs"
TEXTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", *(f"docs/{path.name}" for path in sorted(DOCS.glob("*.md"))))
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCREENS = (DOCS / "screens.md").read_text(encoding="utf-8")
COMMANDS = sorted(name for name, _command in command_line.commands())
_LONGEST_README = 200


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _prose(text: str) -> str:
    """Leave out code blocks, whose comments look like headings."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(text: str) -> set[str]:
    """Return the anchors of a text's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", _prose(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def _links(text: str) -> list[tuple[str, str]]:
    """Return path and anchor of every link that stays in the repository."""
    return re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= _LONGEST_README


def test_command_line_is_up_to_date() -> None:
    assert command_line.FILE.read_text(encoding="utf-8") == command_line.render(), "run python -m docs.command_line"


@pytest.mark.parametrize("command", COMMANDS)
def test_command_line_names_the_command(command: str) -> None:
    assert re.search(rf"^### {re.escape(command)}$", _text("docs/command-line.md"), re.MULTILINE)


def test_command_line_lists_every_flag() -> None:
    text = _text("docs/command-line.md")
    flags = {flag for _name, command in command_line.commands() for param in command.params for flag in param.opts}
    assert not [flag for flag in sorted(flags) if flag.startswith("--") and flag != "--help" and flag not in text]


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "docs/command-line.md"])
def test_documents_name_only_commands_that_exist(name: str) -> None:
    groups = {command.rsplit(" ", 1)[0] for command in COMMANDS}
    called = re.findall(r"(?<![\w/*])workbench((?: [a-z][a-z-]*)+)", " ".join(re.findall(r"`[^`]+`", _text(name))))
    unknown = []
    for words in called:
        first, *rest = words.split()
        command = f"workbench {first}"
        if command in groups and rest:
            command = f"{command} {rest[0]}"
        if command not in COMMANDS and command not in groups:
            unknown.append(command)
    assert not unknown


def test_documents_name_only_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):(?!=)", _text("Makefile"), re.MULTILINE))
    for name in ("README.md", "docs/architecture.md", "docs/install.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", _text(name), re.MULTILINE))
        assert named and named <= targets, name


@pytest.mark.parametrize("name", TEXTS)
def test_documents_link_only_what_exists(name: str) -> None:
    file = ROOT / name
    text = file.read_text(encoding="utf-8")
    for path, anchor in _links(text):
        target = file.parent / path if path else file
        assert target.exists(), path
        if anchor:
            assert anchor in _anchors(target.read_text(encoding="utf-8")), f"{path}#{anchor}"


def test_readme_leads_to_every_document() -> None:
    reached = {path for path, _anchor in _links(README)}
    assert {f"docs/{path.name}" for path in DOCS.glob("*.md")} <= reached
    assert {"LICENSE", "NOTICE", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} <= reached


@pytest.mark.parametrize("name", TEXTS)
def test_documents_name_only_paths_that_exist(name: str) -> None:
    """A path in backticks that has a slash and ends in a known suffix or a slash is from the root of the checkout."""
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", _text(name))
    paths = [path for path in named if path.endswith(("/", ".py", ".md", ".toml", ".js", ".nt"))]
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_architecture_names_where_things_go() -> None:
    assert len(re.findall(r"`[\w./-]+/[\w.-]+\.py`", _text("docs/architecture.md"))) > 50


@pytest.mark.parametrize("screen", [screen.file for section in SECTIONS.values() for screen in section])
def test_screens_shows_the_screen(screen: str) -> None:
    assert f"(screens/{screen}.png)" in SCREENS


def test_screens_shows_all_pictures_that_are_taken() -> None:
    taken = {shot.name for shot in SHOTS}
    assert set(re.findall(r"\(screens/(\w+)\.png\)", SCREENS)) == taken
    assert set(re.findall(r"\(docs/screens/(\w+)\.png\)", README)) <= taken
    assert {path.stem for path in FOLDER.glob("*.png")} == taken


def test_readme_shows_three_pictures() -> None:
    assert len(re.findall(r"!\[[^]]+\]\(docs/screens/\w+\.png\)", README)) == 3


def test_pictures_are_small() -> None:
    assert not [path.name for path in FOLDER.glob("*.png") if path.stat().st_size >= MOST_BYTES]


def test_install_names_every_setting_with_its_default() -> None:
    rows = [line for line in _text("docs/install.md").splitlines() if line.startswith("|")]
    for name, spec in Settings.model_fields.items():
        row = next((line for line in rows if line.startswith(f"| `CROSSNER_{name.upper()}` |")), "")
        assert spec.description is not None and spec.description.split(";")[0] in row, name
        if spec.default is not None:
            default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default).lower()
            assert f"| `{default}` |" in row, name


def test_transcript_holds_every_command_that_is_run() -> None:
    transcript = _text("docs/transcript.md").split(BEGIN)[1].split(END)[0]
    assert [line[2:] for line in transcript.splitlines() if line.startswith("$ ")] == [
        command for _title, commands in PARTS for command in commands
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_documents_name_only_modules_that_exist(name: str) -> None:
    for module in re.findall(r"python -m ((?:docs|benchmarks)\.\w+)", _text(name)):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), module


def test_citation_names_software_and_papers() -> None:
    citation = yaml.safe_load(_text("CITATION.cff"))
    assert citation["license"] == "Apache-2.0" and citation["version"] in _text("CHANGELOG.md")
    assert [(one["authors"][0]["family-names"], one["year"]) for one in citation["references"]] == [
        ("Liu", 2021),
        ("Hu", 2022),
        ("Liu", 2021),
        ("Zhang", 2021),
    ]


def test_notice_names_all_bundled_data() -> None:
    notice = _text("NOTICE")
    tracked = [path for folder in ("workbench", "crossner_core", "tests/data") for path in (ROOT / folder).rglob("*")]
    data = [path.relative_to(ROOT).as_posix() for path in tracked if path.suffix in (".nt", ".xml", ".jsonl")]
    assert data and not [path for path in data if path not in notice]


def test_licence_is_there_in_full() -> None:
    assert "Version 2.0, January 2004" in _text("LICENSE") and "END OF TERMS AND CONDITIONS" in _text("LICENSE")


def test_changelog_begins_with_what_is_not_released() -> None:
    heads = re.findall(r"^## (.*)$", _text("CHANGELOG.md"), re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] – \d{4}-\d\d-\d\d", head) for head in heads[1:])
    kinds = set(re.findall(r"^### (.*)$", _text("CHANGELOG.md"), re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_commit_hooks_run_what_ci_runs() -> None:
    config = yaml.safe_load(_text(".pre-commit-config.yaml"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert (
        tools
        == {"ruff", "mypy", "lint-imports"}
        == set(re.findall(r"@\$\(BIN\)/(ruff|mypy|lint-imports)", _text("Makefile")))
    )
