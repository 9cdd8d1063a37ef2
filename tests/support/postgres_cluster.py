"""A PostgreSQL server of one's own that can be stopped hard and started again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.serving import free_port


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs: Debian's newest, or that on the PATH; None without any."""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return newest[-1].parent if newest else Path(on_path).parent if on_path else None


class Cluster:
    """A fresh server in a folder, on a free port, for this machine only."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        if found is None:
            raise RuntimeError("No PostgreSQL found: install Debian's package postgresql, or put initdb on the PATH.")
        self._programs, self.folder, self.port = found, folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._as: list[str] = []
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, "postgres")
            self._as = ["runuser", "-u", "postgres", "--"]
        self._run("initdb", "--username", "postgres", "--auth", "trust", "--encoding", "UTF8")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, recover what a hard stop left, and wait until it answers."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "--log", str(self.folder / "log"), "--wait", "--options", options, "start")

    def stop_hard(self) -> None:
        """Stop it at once, in the middle of transactions, as by a crash."""
        self._run("pg_ctl", "--mode", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._programs / program), "--pgdata", str(self.folder / "data"), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, timeout=120, stdout=subprocess.DEVNULL)
