"""Checks of a backup: each kind of damage is planted and found."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, NotFound
from db import copying
from db.engine import Store
from tests.support.homes import SENTENCES_OF_GOLD, admin_of, open_home, spoil, unpack_old_store
from workbench.backups import making
from workbench.backups.checking import verify
from workbench.backups.files import sha256_of
from workbench.backups.making import back_up, back_up_file
from workbench.backups.manifest import GOLD, MANIFEST, ROWS, STORE, Entry, Manifest, read_manifest


@pytest.fixture(scope="session")
def backup_template(home_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = open_home(home_template)
    made = back_up(store, admin_of(store), home_template, tmp_path_factory.mktemp("backups"))
    store.close()
    return made.folder


@pytest.fixture
def backup(backup_template: Path, tmp_path: Path) -> Path:
    """A backup that a test may damage."""
    return Path(shutil.copytree(backup_template, tmp_path / "backup"))


@pytest.fixture
def backup_of_rows(home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup as one of a PostgreSQL store is."""
    as_rows(monkeypatch)
    return back_up(store, admin_of(store), home, tmp_path / "rows").folder


def as_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "is_file_store", lambda _store: False)


def again(folder: Path, change: Callable[[Manifest], Manifest]) -> None:
    """Write a changed manifest as if the backup had been made so."""
    change(read_manifest(folder)).write(folder)


def with_hash_of(folder: Path, name: str) -> None:
    """Have the manifest agree to what a file now is."""
    entry = Entry((folder / name).stat().st_size, sha256_of(folder / name))
    again(folder, lambda manifest: replace(manifest, files={**manifest.files, name: entry}))


def in_store(folder: Path, *statements: str) -> None:
    """Change the backed up store so that its hash still agrees."""
    spoil(folder / STORE, lambda data: data)
    connection = sqlite3.connect(folder / STORE)
    connection.execute("PRAGMA journal_mode=DELETE")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    with_hash_of(folder, STORE)


def test_verify_says_what_there_is(backup: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in backup.rglob("*")}
    checked = verify(backup)
    assert not checked.problems and checked.source.path == backup
    assert f"{SENTENCES_OF_GOLD} gold sentences." in checked.source.facts[0]
    assert checked.source.facts[1].startswith("Files of checkpoints, encoders, experiments: ")
    assert {path: path.stat().st_mtime_ns for path in backup.rglob("*")} == before  # nothing is written there


def test_verify_finds_a_flipped_byte_in_every_file(backup: Path) -> None:
    names = list(read_manifest(backup).files)
    assert len(names) > 5
    for name in names:
        kept = (backup / name).read_bytes()
        spoil(backup / name)
        assert any(f"{name} has another content" in problem for problem in verify(backup).problems), name
        spoil(backup / name, lambda _, kept=kept: kept)
    assert not verify(backup).problems


def test_verify_finds_missing_short_and_strange_files(backup: Path) -> None:
    (backup / "encoders" / "music" / "model.safetensors").unlink()
    spoil(backup / "experiments" / "cells" / "one.json", lambda data: data[:-1])
    (backup / "checkpoints" / "more.json").write_text("{}")
    assert verify(backup).problems == (
        "encoders/music/model.safetensors cannot be read: No such file or directory.",
        "experiments/cells/one.json has 3,799 bytes instead of 3,800.",
        "checkpoints/more.json is not in the manifest.",
    )


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (("UPDATE sentence SET position = position + 0.5 WHERE id = 3",), "The table sentence has 6 rows, but not the"),
        (("DELETE FROM run_event WHERE id = 1",), "The table run_event has "),
        (("DELETE FROM user_account WHERE name = 'ann1'",), "refers to a row of user_account that is not there"),
        (("UPDATE alembic_version SET version_num = '0009'",), "is at revision 0009 instead of"),
        (("DROP INDEX ix_sentence_campaign_order", "PRAGMA writable_schema=1", "DELETE FROM sqlite_master "
          "WHERE name = 'ix_link_sentence_id'"), "SQLite: "),
        (("UPDATE sentence SET created_at = 'yesterday' WHERE id = 1",), "A row of sentence cannot be read"),
        (("UPDATE sentence SET tokens = '[[0,' WHERE id = 1",), "A row of sentence cannot be read"),
        (("DROP TABLE job_line",), "The store cannot be read: "),
    ],
)  # fmt: skip
def test_verify_finds_damage_in_the_store(backup: Path, statements: tuple[str, ...], expected: str) -> None:
    in_store(backup, *statements)
    problems = verify(backup).problems
    assert problems and expected in problems[0], problems


def test_verify_finds_a_store_that_is_none(backup: Path) -> None:
    for data in (b"no database at all" * 1000, b"", b"SQLite format 3\x00" + bytes(5000)):
        spoil(backup / STORE, lambda _, data=data: data)
        with_hash_of(backup, STORE)
        assert verify(backup).problems, data[:20]


def test_verify_finds_a_torn_page(backup: Path) -> None:
    spoil(backup / STORE, lambda data: data[: len(data) // 2] + bytes(8192) + data[len(data) // 2 + 8192 :])
    with_hash_of(backup, STORE)
    assert verify(backup).problems


def test_verify_compares_each_gold_sentence(backup: Path) -> None:
    lines = (backup / GOLD).read_text().splitlines()
    spoil(backup / GOLD, lambda _: "\n".join([*lines[:3], *lines[4:]]).encode())
    with_hash_of(backup, GOLD)
    assert verify(backup).problems == (
        f"The gold of 1 sentences differs from the backed up store's, first of sentence {json.loads(lines[3])[1]} "
        "in campaign 1.",
    )


def test_manifest_that_was_changed_is_refused(backup: Path) -> None:
    path = backup / MANIFEST
    whole = path.read_text()
    for change in (
        lambda text: text.replace('"rows": 6', '"rows": 7', 1),
        lambda text: text[: len(text) // 2],
        lambda _: "[]",
        lambda _: '{"backup": {}, "sha256": ""}',
        lambda _: "[" * 100_000,
    ):
        path.write_text(change(whole))
        with pytest.raises(BadInput, match="use another backup"):
            verify(backup)


@pytest.mark.parametrize("name", ["../out", "checkpoints/../../out", "/etc/x", "pages/x.py", "checkpoints", "a\\b"])
def test_manifest_that_leads_out_of_the_home_is_refused(backup: Path, name: str) -> None:
    again(backup, lambda manifest: replace(manifest, files={**manifest.files, name: Entry(0, "")}))
    with pytest.raises(BadInput, match="no part of a home folder"):
        verify(backup)


def test_rows_are_checked_by_making_a_store_of_them(backup_of_rows: Path) -> None:
    manifest = read_manifest(backup_of_rows)
    assert not manifest.has_store_file and len(manifest.tables) == len(copying.TABLES)
    assert not verify(backup_of_rows).problems
    path = backup_of_rows / ROWS / "link.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged, expected in (
        (lines[1:], "The table link has 7 rows instead of 8."),
        ([lines[0].replace(b"Mara", b"Nora"), *lines[1:]], "The table link has 8 rows, but not the same ones."),
        ([*lines, lines[0]], "were refused"),
        ([*lines, b'[99,99,0,1,"x"]\n'], "were refused"),
        ([*lines, b"[1,2]\n"], "is no row of it"),
        ([*lines, b"{\n"], "is no row of it"),
    ):
        spoil(path, lambda _, damaged=damaged: b"".join(damaged))
        with_hash_of(backup_of_rows, f"{ROWS}/link.jsonl")
        problems = verify(backup_of_rows).problems
        assert problems and expected in problems[0], problems
    path.unlink()
    assert len(verify(backup_of_rows).problems) == 2


def test_copied_store_can_be_checked_too(home: Path, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "copy 100%?#.sqlite3"
    assert back_up_file(store, admin_of(store), path) == path.stat().st_size
    checked = verify(path)
    assert not checked.problems and "6 gold sentences" in checked.source.facts[0]
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM user_account WHERE name = 'ann1'")
    connection.commit()
    connection.close()
    assert "refers to a row of user_account" in verify(path).problems[0]
    path.write_bytes(b"no store" * 1000)
    with pytest.raises(BadInput, match="is no store that can be read"):
        verify(path)
    sqlite3.connect(tmp_path / "other.sqlite3").execute("CREATE TABLE other (id INTEGER)").connection.close()
    with pytest.raises(BadInput, match="no store"):
        verify(tmp_path / "other.sqlite3")


def test_store_in_use_is_no_copy(home: Path, store: Store) -> None:
    with store.write() as session:
        session.connection().exec_driver_sql("UPDATE user_account SET display_name = 'in the journal'")
    with pytest.raises(BadInput, match=r"is a store in use: .* lies in workbench\.sqlite3-wal"):
        verify(home / STORE)


def test_old_copied_store_is_checked_by_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    unpack_old_store(path)
    checked = verify(path)
    assert not checked.problems and "0 rows" in checked.source.facts[0]


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no such folder"):
        verify(tmp_path / "nowhere")
    with pytest.raises(NotFound, match="holds no finished backup"):
        verify(tmp_path)
