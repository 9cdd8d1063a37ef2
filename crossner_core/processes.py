"""Worker processes and Ray, as every part that spreads its work uses them."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any

from crossner_core.errors import InvalidConfig


def begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it is gone: nobody else would end an idle worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


@contextmanager
def told_to_stop(*, launched: bool = False) -> Iterator[Callable[[], bool]]:
    """Yield what says whether this process was told to stop, by Ctrl-C or SIGTERM; a second Ctrl-C ends it at once.

    Not where it was `launched` with others: a launcher passes the first one on to a process that has had it already.
    """
    told = threading.Event()

    def tell(number: int, frame: object) -> None:
        told.set()
        if not launched:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def has_ended(host: str, pid: int) -> bool:
    """Say whether a process of this machine has ended; False of another machine's, and where it cannot be known."""
    if host != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


@contextmanager
def ray_session(address: str, workers: int) -> Iterator[Any]:
    """Connect to a cluster, or for the address `local` begin a Ray of this machine; yield the module, and let go.

    Raises InvalidConfig where Ray is not installed or does not answer.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise InvalidConfig("Ray is not installed: pip install -r requirements-ray.txt, or leave --ray out.") from error
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        if address == "local":
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **options)
        else:
            ray.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidConfig(
            f"No Ray answers at {address!r} ({error}). Give HOST:PORT or ray://HOST:PORT of a cluster, or local."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
