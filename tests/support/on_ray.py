"""Run a study's command on a Ray of its own, where Ray is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support.paths import ROOT

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (requirements-ray.txt)"
)


def run_study_on_ray(words: Sequence[str]) -> None:
    """Run the command in a process of its own: Ray's warnings and threads are not ours."""
    done = subprocess.run(
        [sys.executable, "-m", "crossner_core.experiments", *words, "--ray", "local"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stderr
