"""What must not be loaded when a page, the command line or the engine alone starts."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support.paths import ROOT


def _loaded(code: str) -> set[str]:
    """Return the top-level modules in memory after running `code` in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint('LOADED', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rsplit("LOADED", 1)[1].split())


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "pages").rglob("*.py")))
def test_imports_of_a_page_leave_torch_out(page: str) -> None:
    # Pages run their body on import; compiling what they import is enough to see what start-up loads.
    source = (ROOT / page).read_text()
    imports = "\n".join(
        ast.unparse(node) for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)
    )
    assert not {"torch", "transformers", "spacy"} & _loaded(imports)


def test_imports_of_the_command_line_are_light() -> None:
    assert not {"torch", "transformers", "spacy", "streamlit", "plotly"} & _loaded("import workbench.cli")


def test_imports_of_training_need_no_app_packages() -> None:
    absent = ["streamlit", "sqlalchemy", "spacy", "pyoxigraph", "SPARQLWrapper"]
    blocked = f"import sys\nfor name in {absent}:\n    sys.modules[name] = None\n"
    loaded = _loaded(blocked + "import crossner_core.training.loop, crossner_core.experiments, crossner_core.formats")
    assert "torch" in loaded
