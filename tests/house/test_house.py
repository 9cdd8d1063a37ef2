"""The house: no circles, no crowded folders, tests that lean on support, and words that are banned."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TypeGuard

import grimp
import networkx
import pytest

from tests.support.paths import ROOT

PRODUCT = ("pages", "workbench", "db", "crossner_core")
MOST_FILES = 30
FILES = sorted(path for folder in (*PRODUCT, "benchmarks", "tests", "docs") for path in (ROOT / folder).rglob("*.py"))
TEXTS = [ROOT / "app.py", *(path for path in FILES if path.relative_to(ROOT).parts[0] in PRODUCT)]
# Phrases that are not the field's, with how often they still stand in the product; a number may only go down.
BANNED = {
    r"told to stop": 0,
    r"teacher's word": 0,
    r"hears_gazetteer": 0,
    r"\bworkplace\b": 0,
    r"\b[Tt]he model says\b": 0,
}


VAGUE = {"one", "found", "at", "there", "said", "told", "heard", "hears", "twin"}
VAGUE_NAMES = 125
IMPORTS_FROM_TESTS = 0


def test_modules_import_each_other_in_no_circle() -> None:
    graph = grimp.build_graph(*PRODUCT, cache_dir=None)  # imports inside functions and for types only count
    arrows = networkx.DiGraph()
    for module in graph.modules:
        arrows.add_edges_from((module, other) for other in graph.find_modules_directly_imported_by(module))
    circles = [sorted(part) for part in networkx.strongly_connected_components(arrows) if len(part) > 1]
    assert arrows.number_of_edges() > 1000 and not circles


def test_no_folder_is_crowded() -> None:
    folders: dict[Path, int] = {}
    for path in FILES:
        folders[path.parent] = folders.get(path.parent, 0) + (path.name != "__init__.py")
    crowded = {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > MOST_FILES}
    assert len(folders) > 40 and not crowded


def test_no_command_of_a_package_starts_processes_of_its_own() -> None:
    """A spawned process does not import a package's `__main__`, so what that defines cannot be sent to it."""
    commands = [path for path in FILES if path.name == "__main__.py"]
    wrong = [
        str(path.relative_to(ROOT))
        for path in commands
        if re.search(r"multiprocessing|ProcessPoolExecutor", path.read_text(encoding="utf-8"))
    ]
    assert len(commands) > 5 and not wrong


def test_tests_import_from_tests_no_more_than_they_did() -> None:
    """What is shared belongs into tests/support; a number may only go down."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == "tests"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None and re.search(r"\btest_\w+$", node.module)
    ]
    assert len(wrong) <= IMPORTS_FROM_TESTS, wrong


def test_slow_tests_are_there() -> None:
    """A renamed test would be back in `make check` without anybody noticing."""
    slow = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").split()
    assert slow == sorted(set(slow))
    for name in slow:
        file, _, test = name.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert any(isinstance(node, ast.FunctionDef) and node.name == test for node in tree.body), name


def test_vague_names_become_no_more() -> None:
    count = sum(_vague_names(path) for path in TEXTS)
    assert len(TEXTS) > 300 and count <= VAGUE_NAMES


def _vague_names(path: Path) -> int:
    """Count the places where a variable or argument gets a name that says nothing about type or role."""
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = [node.arg if isinstance(node, ast.arg) else node.id for node in tree if _is_binding(node)]
    return sum(name.strip("_") in VAGUE for name in names)


def _is_binding(node: ast.AST) -> TypeGuard[ast.arg | ast.Name]:
    return isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


@pytest.mark.parametrize("phrase", BANNED)
def test_banned_phrases_become_no_more(phrase: str) -> None:
    count = sum(len(re.findall(phrase, path.read_text(encoding="utf-8"))) for path in TEXTS)
    assert len(TEXTS) > 300 and count <= BANNED[phrase]
