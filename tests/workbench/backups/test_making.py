"""Backups: all or nothing, while in use, and only what changed is written again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound, StorageError
from db.engine import Store
from tests.support.builders import Tab, make_campaign
from tests.support.homes import admin_of
from tests.support.paths import ROOT
from workbench.accounts import accounts
from workbench.backups import files, making
from workbench.backups.checking import verify
from workbench.backups.files import take_part
from workbench.backups.making import back_up, back_up_file
from workbench.backups.manifest import PARTS, STORE, backups_in, find_backup
from workbench.campaigns import campaigns
from workbench.settings import Settings


def test_backup_holds_what_was_asked_for(home: Path, store: Store, tmp_path: Path) -> None:
    small = back_up(store, admin_of(store), home, tmp_path / "small", ())
    usual = back_up(store, admin_of(store), home, tmp_path / "usual")
    whole = back_up(store, admin_of(store), home, tmp_path / "whole", PARTS)
    folders = [{name.partition("/")[0] for name in made.manifest.files} for made in (small, usual, whole)]
    assert folders[0] == {STORE, "gold.jsonl"}
    assert folders[1] == folders[0] | {"checkpoints", "encoders", "experiments"}
    assert folders[2] == folders[1] | {"corpora"}
    assert len((usual.folder / "gold.jsonl").read_text().splitlines()) == 6
    (prediction,) = usual.manifest.predictions
    assert prediction.answers is not None and len(prediction.answers) == 3 and not small.manifest.predictions
    assert not verify(tmp_path / "whole").problems


def test_every_folder_of_a_home_can_be_backed_up(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    values = (getattr(settings, name) for name, kind in vars(Settings).items() if isinstance(kind, property))
    folders = {value.name for value in values if isinstance(value, Path) and not value.suffix}
    assert folders >= {"checkpoints", "tagged"} and folders <= set(PARTS)


def test_backup_links_what_did_not_change(home: Path, store: Store, tmp_path: Path) -> None:
    first = back_up(store, admin_of(store), home, tmp_path / "kept")
    second = back_up(store, admin_of(store), home, tmp_path / "kept")
    assert first.folder != second.folder and second.linked == len(second.manifest.files) - 1
    tables, earlier = dict(second.manifest.tables), dict(first.manifest.tables)
    assert tables.pop("audit_entry").rows == earlier.pop("audit_entry").rows + 1  # the first backup, recorded
    assert tables == earlier
    weights = home / "encoders" / "music" / "model.safetensors"
    weights.write_text("pre-trained anew\n")
    os.utime(home / "experiments" / "cells" / "one.json")  # a new time, the same content
    make_campaign(store, _people(store), name="Another")
    third = back_up(store, admin_of(store), home, tmp_path / "kept")
    changed = {"encoders/music/model.safetensors", STORE}
    fresh = {name for name in third.manifest.files if (third.folder / name).stat().st_nlink == 1}
    assert fresh == changed and third.linked == len(third.manifest.files) - len(changed)
    assert (second.folder / "encoders/music/model.safetensors").read_text().startswith("what is in")
    for folder in backups_in(tmp_path / "kept"):
        assert not verify(folder).problems


def test_backup_sees_a_change_that_keeps_size_and_time(home: Path, store: Store, tmp_path: Path) -> None:
    path = home / "encoders" / "music" / "model.safetensors"
    back_up(store, admin_of(store), home, tmp_path / "kept")
    before = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    made = back_up(store, admin_of(store), home, tmp_path / "kept")
    assert (made.folder / "encoders/music/model.safetensors").read_bytes() == path.read_bytes()


def test_known_predictions_are_not_made_again(
    home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = back_up(store, admin_of(store), home, tmp_path / "kept")
    monkeypatch.setitem(sys.modules, "crossner_core.training.predictor", None)  # importing it fails
    second = back_up(store, admin_of(store), home, tmp_path / "kept")
    assert second.manifest.predictions == first.manifest.predictions and not second.manifest.notes
    elsewhere = back_up(store, admin_of(store), home, tmp_path / "other")
    assert elsewhere.manifest.notes and "PyTorch cannot be loaded here" in elsewhere.manifest.notes[0]


def test_backup_that_fails_leaves_nothing(
    home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    kept = tmp_path / "kept"
    for module, name in ((files, "take"), (making.Manifest, "write"), (making.os, "sync")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, full)
            with pytest.raises(StorageError, match=r"No space left on device\. Free some disk"):
                back_up(store, admin_of(store), home, kept)
        assert not list(kept.iterdir())
        with pytest.raises(NotFound, match="It holds no finished backup"):
            verify(kept)


def test_backup_on_a_full_disk_is_refused_in_words(home: Path, store: Store, tmp_path: Path) -> None:
    """The limit on a file's size stands for a full disk: SQLite meets it itself."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        with pytest.raises(StorageError, match=r"free space|Free some disk"):
            back_up(store, admin_of(store), home, tmp_path / "kept")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert not list((tmp_path / "kept").iterdir())


def test_killed_backup_is_none_and_the_next_clears_it(home: Path, store: Store, tmp_path: Path) -> None:
    with (home / "corpora" / "small" / "large.parquet").open("wb") as file:
        for number in range(300):
            file.write(bytes([number % 251]) * 1_000_000)
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "workbench", "--home", str(home), "backup", str(kept), "--with", "corpora"]
    killed = 0
    for parts_seen in (0, 1):
        process = subprocess.Popen(command, cwd=ROOT)
        while process.poll() is None and len(list(kept.glob(".backup.*.new/corpora/small/large*"))) < parts_seen:
            time.sleep(0.005)
        while process.poll() is None and not list(kept.glob(".backup.*.new")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        with pytest.raises(NotFound):
            find_backup(kept)
    assert killed == 2 and list(kept.glob(".backup.*.new"))
    made = back_up(store, admin_of(store), home, kept, ("corpora",))
    assert [path.name for path in kept.iterdir()] == [made.folder.name] and not verify(kept).problems


def test_part_is_copied_again_until_it_stands_still(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = home / "encoders" / "music" / "model.safetensors", home / "encoders" / "new.json"
    take, calls = files.take, [0]

    def beside_a_writer(source: Path, target: Path, name: str, earlier: files.Earlier | None) -> files.Entry:
        entry = take(source, target, name, earlier)
        calls[0] += 1
        if calls[0] == 1:
            first.write_text("second version")
            second.write_text("{}")
        return entry

    monkeypatch.setattr(files, "take", beside_a_writer)
    taken = take_part(home, "encoders", tmp_path / "into", None)
    assert sorted(taken) == ["encoders/music/model.safetensors", "encoders/new.json"] and calls[0] == 3
    assert (tmp_path / "into" / "encoders" / "music" / "model.safetensors").read_text() == "second version"
    assert not files.file_problems(tmp_path / "into", taken)

    def restless(source: Path, target: Path, name: str, earlier: files.Earlier | None) -> files.Entry:
        entry = take(source, target, name, earlier)
        first.write_text(first.read_text() + "more")
        return entry

    monkeypatch.setattr(files, "take", restless)
    with pytest.raises(Conflict, match="Stop the worker"):
        take_part(home, "encoders", tmp_path / "other", None)


def test_half_written_and_removed_files_are_left_out(home: Path, tmp_path: Path) -> None:
    (home / "encoders" / ".music.abc.new").mkdir()
    (home / "encoders" / ".music.abc.new" / "half").write_text("half")
    (home / "encoders" / "gone").symlink_to(home / "nowhere")
    (home / "encoders" / "again").symlink_to(home / "encoders")
    assert list(take_part(home, "encoders", tmp_path / "into", None)) == ["encoders/music/model.safetensors"]


def test_backup_while_somebody_saves(
    home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    people = _people(store)
    tab = Tab(store, people["ann1"], make_campaign(store, people, name="Busy"), "annotate")
    item = tab.items(1)[0]
    tab.do("draft", item)
    monkeypatch.setattr("db.engine._BUSY_TIMEOUT_MS", 100)
    store.engine.dispose()
    with store.write() as session:  # a transaction under way
        account = session.connection()
        account.exec_driver_sql("UPDATE user_account SET display_name = 'Half'")
        made = back_up(store, people["adm"], home, tmp_path / "kept", ())
        session.rollback()
    assert not verify(made.folder).problems and b"Half" not in (made.folder / STORE).read_bytes()
    assert f"The backup {made.folder} was not recorded: " in caplog.text


def test_gold_that_cannot_be_read_is_noted_and_still_backed_up(home: Path, store: Store, tmp_path: Path) -> None:
    with store.write() as session:
        session.connection().exec_driver_sql("UPDATE annotation_span SET surface = 'other'")
    made = back_up(store, admin_of(store), home, tmp_path / "kept", ())
    assert made.manifest.notes[0].startswith("The gold of campaign 1 cannot be read: ")
    assert not verify(made.folder).problems


def test_backups_are_for_admins(home: Path, store: Store, tmp_path: Path) -> None:
    for name in ("res", "eva", "ann1"):
        with pytest.raises(NotAllowed):
            back_up(store, _people(store)[name], home, tmp_path / "kept")
        with pytest.raises(NotAllowed):
            back_up_file(store, _people(store)[name], tmp_path / "copy.sqlite3")
    assert not (tmp_path / "kept").exists() and not (tmp_path / "copy.sqlite3").exists()


def test_backup_refuses_odd_requests(home: Path, store: Store, tmp_path: Path) -> None:
    admin = admin_of(store)
    with pytest.raises(BadInput, match="'weights' is no folder of a home; choose from checkpoints, "):
        back_up(store, admin, home, tmp_path / "kept", ("weights",))
    for inside in (home, home / "corpora", home / "kept"):
        with pytest.raises(BadInput, match="lies within the home"):
            back_up(store, admin, home, inside)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        back_up(store, admin, home, tmp_path / "file")


def test_damaged_earlier_backup_is_not_used(home: Path, store: Store, tmp_path: Path) -> None:
    first = back_up(store, admin_of(store), home, tmp_path / "kept")
    (first.folder / "manifest.json").write_text("{")
    second = back_up(store, admin_of(store), home, tmp_path / "kept")
    assert second.linked == 0
    shutil.rmtree(first.folder)
    assert not verify(tmp_path / "kept").problems


def _people(store: Store) -> dict[str, accounts.Actor]:
    listed = accounts.list_people(store, admin_of(store))
    return {person.name: accounts.current(store, person.id) for person in listed}  # type: ignore[misc]


@pytest.fixture(params=["killed", "copied", "stopped"])
def read_only(home: Path, store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The home on a read-only disk, as a server left it: killed, with its last change only in the log, or stopped."""
    make_campaign(store, {name: admin_of(store) for name in ("adm", "res")}, name="In the log")
    assert (home / "workbench.sqlite3-wal").stat().st_size
    if request.param == "stopped":
        store.close()
        assert not (home / "workbench.sqlite3-wal").exists()
    shutil.copytree(home, tmp_path / "killed")
    if request.param == "copied":
        (tmp_path / "killed" / "workbench.sqlite3-shm").unlink()
    (tmp_path / "disk").mkdir()
    for command in ("--bind", "-o remount,ro,bind"):
        where = [str(tmp_path / "disk")] if "ro" in command else [str(tmp_path / "killed"), str(tmp_path / "disk")]
        if subprocess.run(["mount", *command.split(), *where], capture_output=True).returncode:
            pytest.skip("only root can mount a read-only disk")
    yield tmp_path / "disk"
    subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def test_backup_from_a_read_only_disk_has_what_is_in_the_log(read_only: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Read-only"):
        (read_only / "new").touch()
    for target in ("kept", "kept.sqlite3"):
        command = [sys.executable, "-m", "workbench", "--home", str(read_only), "backup", str(tmp_path / target)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert not verify(tmp_path / "kept").problems
    copy = Store(f"sqlite:///{tmp_path / 'kept.sqlite3'}")
    assert "In the log" in [view.name for view in campaigns.list_campaigns(copy, admin_of(copy))]
    copy.close()
