"""Call a function that reads large files in a process of its own: in this one all requests would wait for it.

Arguments and results travel as JSON and files in a private folder, never as pickles.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import typing
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from crossner_core import errors
from crossner_core.errors import BadInput, WorkbenchError
from crossner_core.records import read, to_json
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.accounts.ways import acting, way
from workbench.settings import open_store, settings_of

LARGE = 200_000
"""Bytes of input from which a call gets its own process; fewer are read in less time than that takes to start."""
_AT_ONCE = threading.BoundedSemaphore(2)
_ROOT = Path(__file__).resolve().parents[1]
_REQUEST, _ANSWER = "request.json", "answer.json"
log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a module-level function returns, or raise the WorkbenchError it raises.

    Arguments are stores, actors, bytes, paths and what JSON can hold (sequences arrive as tuples); the annotated
    result is a value that `records.read` can read. Raises WorkbenchError if the process is killed, most likely for
    lack of memory.
    """
    if _bytes_in([args, kwargs]) < LARGE:
        return function(*args, **kwargs)
    return apart(function, *args, **kwargs)


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do the same in a process of its own, however small the input: for what loads a model."""
    store = next((value for value in args if isinstance(value, Store)), None)
    with _AT_ONCE, tempfile.TemporaryDirectory(prefix="workbench-") as name:
        folder = Path(name)
        request = {"module": function.__module__, "name": function.__name__, "way": to_json(way())}
        values = {key: _packed(value, folder) for key, value in {"args": args, "kwargs": kwargs}.items()}
        (folder / _REQUEST).write_text(json.dumps(request | values), "utf-8")
        _run(folder, store)
        answer = json.loads((folder / _ANSWER).read_bytes())
    if error := answer.get("error"):
        raise error_there(**error)
    kind = typing.get_type_hints(function)["return"]
    return typing.cast(T, read(kind, answer["result"], function.__name__))


def environment() -> dict[str, str]:
    """Return the environment in which a child imports this same code, a checkout that is not installed too."""
    path = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    if str(_ROOT) not in sys.path[1:]:  # the first entry is what -P leaves out
        path.insert(0, str(_ROOT))
    return {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(path)}


def _run(folder: Path, store: Store | None) -> None:
    own = environment()
    if store is not None:
        own |= settings_of(store).environment()
        own["CROSSNER_DATABASE_URL"] = store.url.render_as_string(hide_password=False)
    # -P: files of the working directory (a `db` or `queue.py` of the user's) must not hide modules.
    command = [sys.executable, "-P", "-m", __name__, str(folder)]
    process = subprocess.Popen(command, env=own, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    with process:
        assert process.stderr is not None
        complaints = process.stderr.read().decode(errors="replace").strip()
    if complaints:
        log.error("A call out of process wrote: %s", complaints)
    if process.returncode < 0:
        raise WorkbenchError(
            f"This was ended by signal {-process.returncode}, probably for lack of memory. An import is all or "
            "nothing: see whether its sentences are there, then split the files and import the parts."
        )
    if process.returncode:
        raise RuntimeError(
            f"A call out of process failed: {complaints.splitlines()[-1] if complaints else 'no reason'}"
        )


def _bytes_in(value: Any) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Path):
        return value.stat().st_size if value.is_file() else 0
    if isinstance(value, Mapping):
        return sum(map(_bytes_in, value.values()))
    return sum(map(_bytes_in, value)) if isinstance(value, Sequence) and not isinstance(value, str) else 0


def _packed(value: Any, folder: Path) -> Any:
    """Return an argument as JSON; bytes become a file, and objects one key that states what they are."""
    if isinstance(value, Store):
        return {"store": True}
    if isinstance(value, Actor):
        return {"actor": to_json(value)}
    if isinstance(value, bytes):
        path = folder / f"{sum(1 for _ in folder.iterdir())}.bin"
        path.write_bytes(value)
        return {"file": path.name}
    if isinstance(value, Path):
        return {"path": str(value.absolute())}
    if isinstance(value, Mapping):
        return {"mapping": {key: _packed(part, folder) for key, part in value.items()}}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_packed(part, folder) for part in value]
    return value


def _unpacked(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return tuple(_unpacked(part, folder) for part in value)
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "store":
        return open_store()
    if kind == "actor":
        return read(Actor, content, "actor")
    if kind == "file":
        return (folder / content).read_bytes()
    if kind == "path":
        return Path(content)
    return {key: _unpacked(part, folder) for key, part in content.items()}


def error_there(kind: str, message: str, problems: Sequence[str] = ()) -> WorkbenchError:
    """Return the error that another process of ours raised, of its class."""
    made: type[WorkbenchError] = getattr(errors, kind, WorkbenchError)
    return BadInput(message, tuple(problems)) if made is BadInput else made(message)


def _answer(folder: Path) -> dict[str, Any]:
    request = json.loads((folder / _REQUEST).read_bytes())
    with acting(**request["way"]):
        return _called(request, folder)


def _called(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    function = getattr(import_module(request["module"]), request["name"])
    args, kwargs = (_unpacked(request[key], folder) for key in ("args", "kwargs"))
    try:
        return {"result": to_json(function(*args, **kwargs))}
    except WorkbenchError as error:
        problems = list(error.problems) if isinstance(error, BadInput) else []
        return {"error": {"kind": type(error).__name__, "message": str(error), "problems": problems}}


def _end_with_parent() -> None:
    while os.read(0, 1):  # standard input ends with the parent
        pass
    os._exit(1)


def main() -> None:
    """Do what the request in the folder says and leave the answer beside it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(sys.argv[1])
    (folder / _ANSWER).write_text(json.dumps(_answer(folder)), "utf-8")
    sys.stdout.flush()
    os._exit(0)  # nothing is left to wait for


if __name__ == "__main__":
    main()
