"""Label review by keys: its script is one valid module, and data is never turned into markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pages.components.review_keys import HERE, MODULES, bundle


def test_bundle_is_one_valid_module(tmp_path: Path) -> None:
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed: modules are only tested where it is")
    (tmp_path / "bundle.mjs").write_text(bundle(), encoding="utf-8")
    done = subprocess.run([node, "--check", str(tmp_path / "bundle.mjs")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr  # two modules with the same name at their top level, for one
    assert re.findall(r"^export .*", bundle(), re.MULTILINE) == ["export default function mount(component) {"]
    assert not re.search(r"^import\b", bundle(), re.MULTILINE) and ".review .track" in bundle()


def test_bundle_holds_every_module_after_what_it_uses() -> None:
    assert {path for path in MODULES if path.parent == HERE} == set(HERE.glob("*.js"))
    for place, path in enumerate(MODULES):
        used = re.findall(r'from "(\.{1,2}/[\w./]+)"', path.read_text(encoding="utf-8"))
        assert {(path.parent / name).resolve() for name in used} <= {each.resolve() for each in MODULES[:place]}, path


def test_data_is_never_turned_into_markup() -> None:
    for path in HERE.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text()), path
