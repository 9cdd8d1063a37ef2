"""Threads of one process write to the store in turn."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from db.engine import Store
from tests.support.builders import make_person


def test_store_lets_one_thread_write_at_a_time(store: Store) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def write(number: int) -> None:
        nonlocal inside, most
        make_person(store, f"writer{number}", "annotator")
        with store.write():
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.005)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    assert most == 1


def test_store_gives_the_turn_on_after_an_error(store: Store) -> None:
    with pytest.raises(ValueError, match="stop"), store.write():
        raise ValueError("stop")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(make_person, store, "next", "annotator").result(5).name == "next"
