"""Who may do what is said once, and every name is imported from the module that defines it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossner_core.errors import NotFound
from db import tables
from tests.support.paths import ROOT
from workbench.accounts import roles

SOURCES = sorted(path for folder in ("db", "pages", "workbench") for path in (ROOT / folder).rglob("*.py"))


def role_sets(path: Path) -> Iterator[int]:
    """Yield the lines on which several roles are listed."""
    for node in ast.walk(ast.parse(path.read_text())):
        parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else ()
        parts = node.args if isinstance(node, ast.Call) else parts
        words = [part.value for part in parts if isinstance(part, ast.Constant)]
        if len(words) > 1 and set(words) <= set(tables.ROLES):
            yield node.lineno


def test_roles_are_those_the_store_accepts_and_each_has_its_tasks() -> None:
    assert roles.EVERYONE == tables.ROLES == tuple(roles.ROLE_TASKS)
    assert tuple(roles.STAGE_ROLES) == tables.STAGES and roles.LABELLERS == tables.LABELLERS


def test_roles_of_a_stage_that_does_not_exist_are_refused() -> None:
    assert roles.stage_roles("adjudicate") == ("expert",)
    with pytest.raises(NotFound, match="There is no stage 'proof'; stages are annotate, check, adjudicate"):
        roles.stage_roles("proof")


def test_role_sets_are_written_in_one_file() -> None:
    own = {ROOT / "workbench" / "accounts" / "roles.py", ROOT / "db" / "tables.py"}
    found = [f"{path.relative_to(ROOT)}:{line}" for path in SOURCES if path not in own for line in role_sets(path)]
    assert len(SOURCES) > 100 and not found


def test_no_module_hands_on_the_names_of_another() -> None:
    """A name that is only imported is refused by the type checker, unless `__all__` lists it."""
    found = [path.relative_to(ROOT) for path in SOURCES if "__all__" in path.read_text()]
    assert found == [Path("db/engine.py")]
