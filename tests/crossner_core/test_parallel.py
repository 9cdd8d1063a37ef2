"""Tasks in a pool of processes: one that dies takes no other with it, and is tried again with nothing beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossner_core.parallel import Queue, ShouldStop, WorkerDied, run_here, run_pool


def log_work(given: tuple[Path, str], should_stop: ShouldStop) -> Iterator[str]:
    """Note when a task begins and ends; `bad` dies, `good` waits for that, `wrong` raises, `long` waits for a stop."""
    log, name = given
    with log.open("a") as file:
        file.write(f"+{name}\n")
    if name == "bad":
        os._exit(1)
    if name == "wrong":
        raise ValueError("out of luck")
    while name == "good" and "bad" not in log.read_text():
        time.sleep(0.01)
    while name == "long" and not should_stop():
        time.sleep(0.01)
    if name != "long":
        yield f"{name} is half done"
        time.sleep(0.3)
    with log.open("a") as file:
        file.write(f"-{name}\n")
    yield name


@pytest.mark.slow
def test_pool_tries_what_died_again_with_nothing_beside_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tasks = [(log, name) for name in ("good", "bad", "wrong", "late")]
    errors: dict[str, Exception] = {}

    def failed(given: tuple[Path, str], error: Exception) -> str:
        errors[given[1]] = error
        return f"{given[1]} failed"

    events = list(run_pool(log_work, Queue(tasks), 2, failed=failed))
    assert sorted(events) == [
        "bad failed", "good", "good is half done", "late", "late is half done", "wrong failed",
    ]  # fmt: skip
    assert isinstance(errors["bad"], WorkerDied) and str(errors["wrong"]) == "out of luck"
    assert "log_work" in errors["wrong"].__notes__[0]
    lines = log.read_text().split()
    assert [lines.count(f"+{name}") for name in ("good", "wrong", "late")] == [1, 1, 1]
    assert lines.count("+bad") in (2, 3)  # the first time counts only if nothing was beside it by then
    again = lines.index("+bad", lines.index("+bad") + 1)
    assert lines.index("-good") < again and set(lines[again : again + lines[again:].count("+bad")]) == {"+bad"}


def result_then_death(given: tuple[Path, str], should_stop: ShouldStop) -> Iterator[str]:
    """Note the task, yield its result, and die before saying that it is done."""
    log, name = given
    with log.open("a") as file:
        file.write(f"+{name}\n")
    yield name
    os._exit(1)


@pytest.mark.slow
def test_pool_does_not_repeat_a_task_whose_worker_died_after_its_result(tmp_path: Path) -> None:
    tasks = [(tmp_path / "log", name) for name in ("first", "second", "third")]
    events = list(run_pool(result_then_death, Queue(tasks), 2, is_last=lambda event: True))
    assert (
        sorted(events)
        == sorted((tmp_path / "log").read_text().replace("+", "").split())
        == ["first", "second", "third"]
    )


@pytest.mark.slow
def test_pool_that_is_stopped_or_closed_asks_what_is_at_work_to_stop(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tasks = [(log, "long"), (log, "late")]
    begun = False

    def stop() -> bool:
        return log.exists()

    assert list(run_pool(log_work, Queue(tasks), 1, should_stop=stop)) == ["long"]
    assert log.read_text().split() == ["+long", "-long"]
    events = run_pool(log_work, Queue([(log, "late"), (log, "long"), (log, "late")]), 2)
    for event in events:
        begun = begun or event == "late"
        if begun and log.read_text().count("+long") == 2:
            break
    events.close()  # type: ignore[attr-defined]
    assert log.read_text().count("-long") == 2


def test_here_stops_between_tasks_and_raises_what_they_raise(tmp_path: Path) -> None:
    log = tmp_path / "log"
    events = []
    for event in run_here(log_work, [(log, "late"), (log, "good")], should_stop=lambda: "late" in events):
        events.append(event)
    assert events == ["late is half done", "late"]
    with pytest.raises(ValueError, match="out of luck"):
        list(run_here(log_work, [(log, "wrong")]))
