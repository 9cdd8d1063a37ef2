"""What must not be loaded when a page, the command line or the engine alone starts."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.paths import ROOT


def _loaded(code: str) -> set[str]:
    """Return the top-level modules in memory after running `code` in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint('LOADED', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rsplit("LOADED", 1)[1].split())


# Loaded once, by an interpreter that then forks for each page: what the pages' own modules import comes afresh in each.
_FORKS = """
import json, os, sys, tempfile, traceback
import alembic, argon2, pandas, plotly.graph_objects, pydantic_settings, sqlalchemy, streamlit

def look(imports, file):
    try:
        exec(imports, {})
        answer = {"loaded": sorted({name.split(".")[0] for name in sys.modules})}
    except BaseException:
        answer = {"trouble": traceback.format_exc()}
    file.write(json.dumps(answer))
    file.flush()
    os._exit(0)

answers = {}
for page, imports in json.load(sys.stdin).items():
    with tempfile.TemporaryFile("w+") as file:
        child = os.fork()
        if not child:
            look(imports, file)
        os.waitpid(child, 0)
        file.seek(0)
        answers[page] = json.loads(file.read() or '{"trouble": "the process died"}')
print("ANSWERS" + json.dumps(answers))
"""
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "pages").rglob("*.py"))


def _imports(page: str) -> str:
    # Pages run their body on import; running what they import is enough to see what start-up loads.
    body = ast.parse((ROOT / page).read_text()).body
    return "\n".join(ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom))


@pytest.fixture(scope="module")
def by_page() -> dict[str, dict[str, Any]]:
    """For each page what its imports have loaded, or the trouble they met."""
    imports = json.dumps({page: _imports(page) for page in PAGES})
    command = [sys.executable, "-c", _FORKS]
    done = subprocess.run(command, cwd=ROOT, input=imports, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rsplit("ANSWERS", 1)[1])


@pytest.mark.parametrize("page", PAGES)
def test_imports_of_a_page_leave_torch_out(page: str, by_page: dict[str, dict[str, Any]]) -> None:
    assert "trouble" not in by_page[page], by_page[page]["trouble"]
    assert not {"torch", "transformers", "spacy"} & set(by_page[page]["loaded"])


def test_imports_of_the_command_line_are_light() -> None:
    assert not {"torch", "transformers", "spacy", "streamlit", "plotly"} & _loaded("import workbench.cli")


def test_imports_of_training_need_no_app_packages() -> None:
    absent = ["streamlit", "sqlalchemy", "spacy", "pyoxigraph", "SPARQLWrapper"]
    blocked = f"import sys\nfor name in {absent}:\n    sys.modules[name] = None\n"
    loaded = _loaded(blocked + "import crossner_core.training.loop, crossner_core.experiments, crossner_core.formats")
    assert "torch" in loaded
