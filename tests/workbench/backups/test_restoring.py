"""Restoring: an equal home or none, and never over one that is there."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.errors import BadInput, Conflict, StorageError
from db import account_rows, copying
from db.audit.tables import AuditEntry
from db.engine import Store
from db.migrate import head, migrate, revision_in
from db.programs import webhook_rows
from tests.support.homes import admin_of, open_home, spoil, unpack_old_store
from tests.support.paths import ROOT
from tests.support.postgres import fresh_database, needs_postgres
from workbench.backups import making, restoring
from workbench.backups.checking import verify
from workbench.backups.making import back_up, back_up_file
from workbench.backups.manifest import PARTS, STORE, Predictions, read_manifest
from workbench.backups.moving import make_ready, move
from workbench.backups.restoring import restore
from workbench.data import layers
from workbench.runs.predicting import folder_of_run, tag_file
from workbench.settings import Settings

LEFT_OUT = {"login_session", "provider_session", "worker", "api_token", "api_reply"}


@pytest.fixture
def backup(home: Path, store: Store, tmp_path: Path) -> Path:
    return back_up(store, admin_of(store), home, tmp_path / "kept", PARTS).folder


def settings(home: Path, url: str | None = None) -> Settings:
    return Settings(home=home, database_url=url)


def sums_of(store: Store) -> dict[str, copying.TableSum]:
    with store.read() as session:
        return {name: table for name, table in copying.sums(session).items() if name not in (*LEFT_OUT, "audit_entry")}


def actions_of(store: Store) -> list[str]:
    with store.read() as session:
        return list(session.scalars(sa.select(AuditEntry.action).order_by(AuditEntry.id)))


def files_of(home: Path) -> dict[str, bytes]:
    paths = (path for path in home.rglob("*") if path.is_file() and not path.name.startswith(STORE))
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in paths}


def test_restored_home_is_equal_and_works(home: Path, store: Store, backup: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    restored = restore(backup.parent, settings(new))
    assert restored.taggers == 1 and not restored.skipped and restored.source.path == backup
    assert files_of(new) == files_of(home) and {path.name for path in new.iterdir()} == {
        STORE, "checkpoints", "corpora", "encoders", "experiments"
    }  # fmt: skip
    opened = open_home(new)
    try:
        assert sums_of(opened) == sums_of(store)
        assert actions_of(opened)[:-1] == actions_of(store)[:-1]
        assert (actions_of(opened)[-1], actions_of(store)[-1]) == ("restore_backup", "back_up")
        actor = admin_of(opened)
        before, after = (layers.layer(each, actor, 1, "gold") for each in (store, opened))
        assert len(after) == 6 and after == before
        answers = [
            tag_file(folder_of_run(each, actor, 1, place / "checkpoints"), b"Ines toured Oslo .", name="a.txt",
                     format=None, to="jsonl")
            for each, place in ((store, home), (opened, new))
        ]  # fmt: skip
        assert answers[0] == answers[1]
        with opened.read() as session:
            assert account_rows.valid_session(session, token_hash="0" * 64) is None
        again = back_up(opened, actor, new, tmp_path / "kept", PARTS)
        assert again.linked >= len(again.manifest.files) - 1 and not verify(again.folder).problems
    finally:
        opened.close()


def test_sessions_are_not_restored(store: Store, backup: Path, tmp_path: Path) -> None:
    with store.read() as session:
        assert account_rows.valid_session(session, token_hash="0" * 64) is not None
    restore(backup, settings(tmp_path / "new"))
    opened = open_home(tmp_path / "new")
    with opened.read() as session:
        assert not account_rows.open_sessions(session) and account_rows.by_name(session, name="adm") is not None
    opened.close()


def test_webhooks_are_off_once_restored(home: Path, store: Store, tmp_path: Path) -> None:
    with store.write() as session:
        hook = webhook_rows.add(
            session, campaign_id=1, url="https://hooks.example/", events=["gold.made"], secret="whsec_", created_by=1
        )
        webhook_rows.add_delivery(session, webhook_id=hook.id, message_id="msg_1", type="gold.made", payload={})
    kept = back_up(store, admin_of(store), home, tmp_path / "kept", PARTS).folder
    restore(kept, settings(tmp_path / "new"))
    opened = open_home(tmp_path / "new")
    with opened.read() as session, store.read() as before:
        ((restored, _),) = webhook_rows.of_campaign(session, 1)
        assert not restored.active and "restored from a backup" in restored.off_reason
        assert [line.state for line in webhook_rows.deliveries(session, 1)] == ["given up"]
        assert webhook_rows.is_any_due(before, busy=()) and not webhook_rows.is_any_due(session, busy=())
    opened.close()


def test_restored_files_are_not_those_of_the_backup(backup: Path, tmp_path: Path) -> None:
    restore(backup, settings(tmp_path / "new"))
    assert all(path.stat().st_nlink == 1 for path in (tmp_path / "new").rglob("*") if path.is_file())


def test_restore_into_an_empty_folder_keeps_the_folder(backup: Path, tmp_path: Path) -> None:
    """It may be a mount, which cannot be renamed."""
    new = tmp_path / "new"
    new.mkdir()
    number = new.stat().st_ino
    restore(backup, settings(new))
    assert new.stat().st_ino == number and (new / STORE).is_file()


def test_restore_refuses_a_home_with_anything_in_it(home: Path, backup: Path, tmp_path: Path) -> None:
    kept = files_of(home)
    with pytest.raises(Conflict, match="is not empty: it holds checkpoints, corpora, encoders"):
        restore(backup, settings(home))
    assert files_of(home) == kept
    (tmp_path / "file").write_text("")
    with pytest.raises(Conflict, match="is no folder"):
        restore(backup, settings(tmp_path / "file"))


@pytest.mark.parametrize("name", [STORE, "gold.jsonl", "encoders/music/model.safetensors"])
def test_damaged_backup_is_not_restored(backup: Path, tmp_path: Path, name: str) -> None:
    spoil(backup / name)
    with pytest.raises(StorageError, match=rf"{name} has another content.*use another backup"):
        restore(backup, settings(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    (backup / name).unlink()
    with pytest.raises(StorageError, match="cannot be read"):
        restore(backup, settings(tmp_path / "new"))


def test_failed_restore_leaves_the_home_empty(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    new = tmp_path / "new"
    new.mkdir()
    with monkeypatch.context() as patched, pytest.raises(StorageError, match="No space left on device"):
        patched.setattr(restoring.shutil, "copyfile", full)
        restore(backup, settings(new))
    assert not list(new.iterdir())
    assert restore(backup, settings(new)).taggers == 1


def test_killed_restore_leaves_no_store_and_the_next_one_works(home: Path, store: Store, tmp_path: Path) -> None:
    with (home / "corpora" / "small" / "large.parquet").open("wb") as file:
        for number in range(300):
            file.write(bytes([number % 251]) * 1_000_000)
    made, new = back_up(store, admin_of(store), home, tmp_path / "kept", ("corpora",)), tmp_path / "new"
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "restore", str(made.folder), "--home", str(new)], cwd=ROOT
    )
    while process.poll() is None and not list(new.glob(".restore.*.new/corpora/small/large*")):
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL and not (new / STORE).exists()
    restore(made.folder, settings(new))
    assert {path.name for path in new.iterdir()} == {STORE, "corpora"}


def test_tagger_that_predicts_otherwise_is_an_error(backup: Path, tmp_path: Path) -> None:
    manifest = read_manifest(backup)
    (prediction,) = manifest.predictions
    assert prediction.answers is not None
    for answers in ([*prediction.answers[:2], [[0, 1, "band", 0.5]]], [[], *prediction.answers]):
        replace(manifest, predictions=(replace(prediction, answers=answers),)).write(backup)
        with pytest.raises(StorageError, match="The tagger of run 1 predicts otherwise"):
            restore(backup, settings(tmp_path / "new"))
    spans = [[[*span[:3], span[3] + 5e-4] for span in sentence] for sentence in prediction.answers]
    replace(manifest, predictions=(replace(prediction, answers=spans),)).write(backup)
    assert restore(backup, settings(tmp_path / "new")).taggers == 1


def test_predictions_that_cannot_be_compared_say_why(
    home: Path, store: Store, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = back_up(store, admin_of(store), home, tmp_path / "small", ())
    restored = restore(small.folder, settings(tmp_path / "first"))
    assert restored.skipped == ("Predictions were not compared: the backup holds no checkpoints.",)
    replace(read_manifest(backup), predictions=(Predictions(1, "", problem="it was gone."),)).write(backup)
    assert restore(backup, settings(tmp_path / "second")).skipped == (
        "Predictions of run 1 were not compared: it was gone.",
    )
    other = back_up(store, admin_of(store), home, tmp_path / "other").folder
    monkeypatch.setitem(sys.modules, "crossner_core.training.predictor", None)
    restored = restore(other, settings(tmp_path / "third"))
    assert restored.taggers == 0 and "run 1 were not compared: PyTorch cannot be loaded here" in restored.skipped[0]


def test_backup_of_rows_becomes_a_store_file(
    home: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "is_file_store", lambda _store: False)
    made = back_up(store, admin_of(store), home, tmp_path / "kept")
    assert restore(made.folder, settings(tmp_path / "new")).taggers == 1
    opened = open_home(tmp_path / "new")
    assert sums_of(opened) == sums_of(store)
    opened.close()
    replace(made.manifest, revision="0001").write(made.folder)
    with pytest.raises(BadInput, match="restore them with the version that made them"):
        restore(made.folder, settings(tmp_path / "other"))


def test_copied_store_is_restored_and_brought_to_the_newest_migration(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "copy.sqlite3"
    back_up_file(store, admin_of(store), path)
    restore(path, settings(tmp_path / "first"))
    unpack_old_store(tmp_path / "old.sqlite3")
    assert "revision 0009" in restore(tmp_path / "old.sqlite3", settings(tmp_path / "second")).source.facts[0]
    opened = open_home(tmp_path / "second")
    with opened.read() as session:
        assert revision_in(session) == head() and copying.filled(session)
    opened.close()


def test_store_of_a_newer_version_is_refused(backup: Path, tmp_path: Path) -> None:
    path = tmp_path / "newer.sqlite3"
    shutil.copyfile(backup / STORE, path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="revision 9999, which is unknown to this version"):
        restore(path, settings(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_restore_into_another_store_takes_an_empty_one_only(store: Store, backup: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'elsewhere.sqlite3'}"
    restore(backup, settings(tmp_path / "new", url))
    assert not (tmp_path / "new" / STORE).exists()
    opened = Store(url)
    assert sums_of(opened) == sums_of(store)
    opened.close()
    with pytest.raises(Conflict, match="is not empty: it has rows in"):
        restore(backup, settings(tmp_path / "other", url))
    assert not (tmp_path / "other").exists()


@needs_postgres[0]
@needs_postgres[1]
def test_store_on_postgres_is_backed_up_and_restored(home: Path, store: Store, tmp_path: Path) -> None:
    with fresh_database() as url, fresh_database() as other_url:
        server = Store(url)
        move(store, admin_of(store), server)
        first = back_up(server, admin_of(server), home, tmp_path / "kept")
        second = back_up(server, admin_of(server), home, tmp_path / "kept")
        # All but the audit trail, which has the first backup by now.
        assert second.linked == len(second.manifest.files) - 1 and not first.manifest.has_store_file
        earlier, later = (dict(made.manifest.tables) for made in (first, second))
        assert later.pop("audit_entry").rows == earlier.pop("audit_entry").rows + 1 and earlier == later
        assert not verify(tmp_path / "kept").problems
        assert sums_of(server) == sums_of(store)
        server.close()
        restore(tmp_path / "kept", settings(tmp_path / "new"))
        opened = open_home(tmp_path / "new")
        assert sums_of(opened) == sums_of(store)
        opened.close()
        restore(tmp_path / "kept", settings(tmp_path / "second", other_url))
        opened = Store(other_url)
        assert sums_of(opened) == sums_of(store)
        with pytest.raises(Conflict, match="is not empty"):
            make_ready(opened)
        migrate(opened)
        opened.close()
        with pytest.raises(Conflict, match="is not empty"):
            restore(tmp_path / "kept", settings(tmp_path / "third", url))
