"""Stopping this process on signals, and checking whether another process has ended."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signal(*, launched: bool = False) -> Iterator[Callable[[], bool]]:
    """Yield `should_stop`, which returns True after Ctrl-C or SIGTERM; a second Ctrl-C ends the process at once.

    Not if it was `launched` with others: a launcher forwards the first signal to processes that already received it.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        stop.set()
        if not launched:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def has_ended(host: str, pid: int) -> bool:
    """Return whether a process of this machine has ended; False for another machine's, or if unknown."""
    if host != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
