"""The house: no circles, no crowded folders, tests that lean on support alone, and words that are banned."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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


def test_tests_import_from_support_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == "tests"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None and re.search(r"\btest_\w+$", node.module)
    ]
    assert not wrong


@pytest.mark.parametrize("phrase", BANNED)
def test_banned_phrases_become_no_more(phrase: str) -> None:
    count = sum(len(re.findall(phrase, path.read_text(encoding="utf-8"))) for path in TEXTS)
    assert len(TEXTS) > 300 and count <= BANNED[phrase]
