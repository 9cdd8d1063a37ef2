"""The wheel: all that the checkout has is in it, it starts where nothing else is, and the requirements files fit it."""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.NewSession_pb2 import Config
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from benchmarks.streamlit_client import open_page_message
from db.engine import Store
from db.migrate import migrate
from tests.support.serving import ROOT, free_port, post_sign_in, wait_until_ready
from workbench.accounts import accounts

PASSWORD = "correct horse battery"
PACKAGES = ("crossner_core", "db", "pages", "workbench")
STREAMLIT = (
    "/", "/pages/main.py", "/app.py", "/.streamlit/config.toml", "/static/index.html", "/app/static/x", "/index.html",
    "/_stcore/health", "/_stcore/host-config", "/_stcore/script-health-check", "/_stcore/stream", "/media/x",
    "/component/x/index.html", "/_stcore/bidi-components/crossner_sign_out/index.js", "/_stcore/upload_file/a/b",
)  # fmt: skip


def test_requirements_files_are_those_of_pyproject() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "requirements.py"))["requirements"]()
    kept = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("requirements*.txt")}
    assert kept == made, "run `make requirements`"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, built from a copy, as a build leaves its folders where it runs."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("app.py", "pyproject.toml", "README.md"):
        shutil.copyfile(ROOT / name, source / name)
    _pip("wheel", source, "--no-deps", "--no-build-isolation", "--wheel-dir", dist)
    (built,) = dist.iterdir()
    return built


def _pip(*words: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_wheel_holds_the_checkout_and_its_command(wheel: Path) -> None:
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"} | {"app.py"}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        commands = archive.read("crossner_workbench-0.1.0.dist-info/entry_points.txt").decode()
    assert held == wanted
    assert "workbench = workbench.cli:main" in commands.splitlines()


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it needs, in which the checkout is not installed."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True)
    program = environment / "bin" / "python"
    # The folder alone: .pth files in it, such as that of an editable install, do not count.
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    _pip("--python", program, "install", "--no-deps", "--no-index", "--quiet", wheel)
    return program


@pytest.fixture(scope="module")
def started(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `workbench up`, started in a folder with nothing but files that could be in the way."""
    folder = tmp_path_factory.mktemp("empty")
    for name in ("app.py", "queue.py", "db/__init__.py", "pages/__init__.py", "workbench/__init__.py"):
        (_made((folder / name).parent) / Path(name).name).write_text("raise SystemExit('imported')\n")
    log = folder / "up.log"
    store = Store(f"sqlite:///{_made(folder / '.workbench') / 'workbench.sqlite3'}")
    migrate(store)
    accounts.create_user(store, None, name="adm", display_name="Ada", password=PASSWORD, role="admin")
    store.close()
    command = [python.with_name("workbench"), "up", "--no-demo"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=_environment(), stdout=output, stderr=output)
    try:
        yield wait_until_ready(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _environment() -> dict[str, str]:
    ours = ("CROSSNER_", "STREAMLIT_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "CROSSNER_PORT": str(free_port()),
        "PYTHONUNBUFFERED": "1",
    }


@pytest.mark.slow
def test_checkout_is_out_of_reach_of_the_environment(python: Path, tmp_path: Path) -> None:
    names = ("app", *PACKAGES)
    code = f"from importlib.util import find_spec; print(*(find_spec(name).origin for name in {names}), sep='\\n')"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=_environment(), capture_output=True, text=True)
    files = done.stdout.splitlines()
    assert len(files) == len(names) and all(Path(file).is_relative_to(python.parents[1]) for file in files), done


@pytest.mark.slow
def test_stranger_reaches_only_the_sign_in_page_of_an_installed_app(started: str, python: Path) -> None:
    pages = sorted(path.stem for path in python.parents[1].glob("lib/*/site-packages/pages/*.py"))
    assert "people" in pages and "main" in pages
    with httpx.Client(base_url=started) as stranger:
        assert stranger.get("/health").text == "ok"
        form = stranger.get("/auth/login")
        assert form.status_code == 200 and 'name="form_token"' in form.text
        for path in (*STREAMLIT, *(f"/{page}" for page in pages)):
            answer = stranger.get(path)
            assert (answer.status_code, answer.text) == (401, "Sign in first."), path
    with pytest.raises(InvalidStatus):
        _open_page(started, "", "")


@pytest.mark.slow
def test_installed_app_shows_its_start_page_with_its_own_options(started: str) -> None:
    with httpx.Client(base_url=started) as client:
        assert post_sign_in(client, "adm", PASSWORD).status_code == 303
        messages = _open_page(started, "", f"crossner_session={client.cookies['crossner_session']}")
    session = next(message.new_session for message in messages if message.WhichOneof("type") == "new_session")
    assert session.config.toolbar_mode == Config.ToolbarMode.MINIMAL  # as pages/.streamlit/config.toml has it
    assert "Good to see you" in "".join(map(str, messages))


def _open_page(url: str, page: str, cookie: str) -> list[ForwardMsg]:
    """Ask for a page over the websocket and return all that came until the script had run."""
    address, messages = url.replace("http", "ws", 1) + "/_stcore/stream", []
    headers = {"Origin": url, "Cookie": cookie}
    with connect(address, subprotocols=[Subprotocol("streamlit")], additional_headers=headers, max_size=None) as socket:
        socket.send(open_page_message(page))
        while not messages or messages[-1].WhichOneof("type") != "script_finished":
            messages.append(ForwardMsg.FromString(socket.recv(timeout=60, decode=False)))
    return messages
