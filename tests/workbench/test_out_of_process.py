"""Calls in a process of their own: same results, same errors, and a death is words."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NoReturn

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, NotAllowed, WorkbenchError
from db.engine import Store
from tests.support.training_store import person
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import archive, datasets, exchange

CONLL = b"Ada\tB-person\nsang\tO\n\nTin\tB-band\nFoxes\tI-band\n"


def pid_of(data: bytes) -> int:
    return os.getpid()


def die(data: bytes) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def size_and_pid(path: Path) -> tuple[int, int]:
    return path.stat().st_size, os.getpid()


def stumble(data: bytes) -> int:
    return 1 // 0


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_process, "LARGE", 0)


@pytest.fixture
def admin(store: Store) -> Actor:
    return person(store, "admin", "adm")


def music(store: Store, admin: Actor) -> int:
    return campaigns.create_campaign(store, admin, name="Music", domain=load_domain("music"), suggestions_on=False)


def test_what_is_large_is_read_in_another_process_what_is_small_here() -> None:
    assert out_of_process.call(pid_of, b"x" * out_of_process.LARGE) != os.getpid()
    assert out_of_process.call(pid_of, b"x" * (out_of_process.LARGE - 1)) == os.getpid()


def test_a_file_goes_there_by_its_path(tmp_path: Path) -> None:
    for size, is_here in ((out_of_process.LARGE, False), (out_of_process.LARGE - 1, True)):
        file = tmp_path / str(size)
        file.write_bytes(b"x" * size)
        read, pid = out_of_process.call(size_and_pid, file)
        assert read == size and (pid == os.getpid()) == is_here


def test_an_import_there_is_the_same_as_here(store: Store, admin: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_here(*_given: object, **_options: object) -> NoReturn:
        raise AssertionError("read in this process")

    campaign = music(store, admin)
    here = exchange.preview([("a.conll", CONLL)], types=("person", "band"), options={"skip_bad": True})
    monkeypatch.setattr(out_of_process, "LARGE", 0)
    monkeypatch.setattr(exchange, "read_files", not_here)
    there = out_of_process.call(
        exchange.preview, [("a.conll", CONLL)], types=("person", "band"), options={"skip_bad": True}
    )
    assert there == here
    outcome = out_of_process.call(
        exchange.import_files, store, admin, campaign, [("a.conll", CONLL)], annotation="gold"
    )
    assert outcome == exchange.ImportOutcome(added=2, duplicates=0, gold=2, format="conll")
    assert exchange.export_layer(store, admin, campaign, "gold", format="conll") == CONLL


@pytest.mark.usefixtures("apart")
def test_data_sets_and_archives_come_in_there(store: Store, admin: Actor) -> None:
    made = out_of_process.call(
        datasets.import_dataset, store, admin, name="small", splits={"train": ("a.conll", CONLL)}, domain=None
    )
    assert made == datasets.get_dataset(store, admin, "small")
    packed = archive.export_campaign(store, admin, music(store, admin))
    copy = out_of_process.call(archive.import_campaign, store, admin, packed, name="Again")
    assert campaigns.get_campaign(store, admin, copy).name == "Again"


@pytest.mark.usefixtures("apart")
def test_errors_come_back_as_they_were_raised(store: Store, admin: Actor) -> None:
    campaign = music(store, admin)
    with pytest.raises(BadInput) as there:
        out_of_process.call(exchange.import_files, store, admin, campaign, [("a.conll", b"Ada\tB-nobody\n")])
    with pytest.raises(BadInput) as here:
        exchange.import_files(store, admin, campaign, [("a.conll", b"Ada\tB-nobody\n")])
    assert (str(there.value), there.value.problems) == (str(here.value), here.value.problems)
    assert there.value.problems
    annotator = person(store, "annotator", "ann")
    with pytest.raises(NotAllowed, match="this is for researcher or admin"):
        out_of_process.call(exchange.import_files, store, annotator, campaign, [("a.conll", CONLL)])
    assert campaigns.get_campaign(store, admin, campaign).sentences == 0


def test_odd_text_comes_through() -> None:
    odd = '{"text": "a\\u2028b \\ud83c\\udfb8 é"}\n'.encode() * 9000
    seen = out_of_process.call(exchange.preview, [("odd.jsonl", odd)])
    assert seen.first[0] == "a\u2028b 🎸 é"
    half = b'{"text": "a \\ud800 b"}\n' * 9000
    with pytest.raises(BadInput) as refused:
        out_of_process.call(exchange.preview, [("half.jsonl", half)])
    with pytest.raises(BadInput) as here:
        exchange.preview([("half.jsonl", half)])
    assert str(refused.value) == str(here.value)


@pytest.mark.usefixtures("apart")
def test_a_death_is_words_and_a_fault_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="ended by signal 9, probably for lack of memory"):
        out_of_process.call(die, b"x")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        out_of_process.call(stumble, b"x")
    assert "in stumble" in caplog.text
