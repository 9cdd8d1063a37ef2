"""The web app as a process that is killed and started again on the same store and port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.serving import free_port, wait_until_ready


@dataclass
class Server:
    """A web process; `url` is a store's elsewhere than in `home`."""

    home: Path
    url: str = ""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        variables = {
            name: text for name, text in os.environ.items() if not name.startswith(("CROSSNER_", "STREAMLIT_"))
        }
        variables |= {"CROSSNER_HOME": str(self.home), "CROSSNER_PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
        variables |= {"CROSSNER_DATABASE_URL": self.url} if self.url else {}
        log = self.home / f"server-{self.port}.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workbench.http.server"], cwd=ROOT, env=variables, stdout=output, stderr=output
            )
        wait_until_ready(self.process, log)

    def kill(self) -> None:
        """Kill it in the middle of whatever it does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def resident(self) -> int:
        """Return the bytes of memory it holds."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
