"""`workbench encoder`: pre-train, list, cancel, go on, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.encoders import CHARACTERS, options, own_text
from tests.support.training_builders import save_encoder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    save_encoder(tmp_path / "tiny")
    return tmp_path


@pytest.fixture
def run(home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store_template: Path) -> Any:
    """Run a command line in a home with an admin; return exit code, output and errors."""
    from workbench import cli

    (home / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    monkeypatch.setenv("CROSSNER_WORKER_THREADS", "1")
    for name in ("CROSSNER_AS", "CROSSNER_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.main(["encoder", *map(str, arguments)])
        out, err = capfd.readouterr()
        return code, out, err

    assert cli.main(["user", "add", "adm", "--role", "admin"]) == 0
    return call


def test_encoder_commands_pretrain_list_and_remove(run: Any, home: Path) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options(home).items()]
    code, out, err = run("dapt", "dapt-own", "--text", own_text(home), *flags, "--wait")
    assert code == 0, err
    assert "job 1 is queued" in out and "job 1 done: held-out perplexity" in out
    code, out, err = run("dapt", "dapt-own", "--text", own_text(home), *flags)
    assert (code, err.startswith("workbench: There is already an encoder 'dapt-own'")) == (2, True)
    code, out, err = run("dapt", "later", "--text", own_text(home), *flags, "--masking=token")
    assert code == 0 and "No worker is alive" in out
    _, out, _ = run("list")
    lines = out.splitlines()
    assert lines[1].startswith("minilm") and lines[2].startswith("dapt-own") and "DAPT with span masking" in lines[2]
    assert any(line.split()[:3] == ["later", "2", "queued"] for line in lines)
    assert run("cancel", "later")[1] == "later: cancelled\n"
    assert run("cancel", "later")[0] == 2
    assert run("remove", "dapt-own")[:2] == (0, "dapt-own is removed.\n")
    assert run("remove", "dapt-own")[0] == 2


def test_encoder_commands_train_character_models(run: Any, home: Path) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in CHARACTERS.items()]
    code, out, err = run("character-models", "chars", "--text", own_text(home), "--percent", "60", *flags, "--wait")
    assert code == 0 and "job 1 done: held-out bits per character" in out, err
    line = next(line for line in run("list")[1].splitlines() if line.startswith("chars"))
    assert " characters " in line and line.endswith("character models on 60 % of the text own.txt")
    code, _, err = run("character-models", "more", "--text", own_text(home), *flags, "--encoder", "minilm")
    assert code == 2 and "encoder is 'minilm', which this cannot train" in err
    assert run("character-models", "more", "--text", own_text(home), "--refit-head")[0] == 2


def test_encoder_commands_go_on_with_a_failed_pretraining(run: Any, home: Path) -> None:
    (home / "tiny").rename(home / "away")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options(home).items()]
    code, out, _ = run("dapt", "dapt-own", "--text", own_text(home), *flags, "--wait")
    assert code == 1 and "failed: No encoder folder" in out
    (home / "away").rename(home / "tiny")
    code, out, err = run("go-on", "dapt-own", "--wait")
    assert code == 0 and "done: held-out perplexity" in out, err


def test_encoder_commands_name_one_source(run: Any, home: Path) -> None:
    code, _, err = run("entity-tagging", "et")
    assert code == 2 and "name exactly one of tagged, dataset" in err
    code, _, err = run("entity-tagging", "et", "--tagged", "none")
    assert code == 2 and "There is no entity-tagging corpus 'none'" in err
