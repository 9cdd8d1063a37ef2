"""The web app as a process that is killed and started again on the same store and port."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.serving import free_port, wait_until_ready


@dataclass
class Server:
    """A web process; `url` is that of a store elsewhere than in `home`."""

    home: Path
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
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
        variables |= self.environment
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

    def limit_files(self, size: int) -> None:
        """Let it write no file beyond `size` bytes, as if the disk were full."""
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def resident(self) -> int:
        """Return the bytes of memory it holds."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
