"""The command line: what it does, what it says when something is wrong, and that it starts fast."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from crossner_core.formats import write
from crossner_core.training.recipe import Recipe
from tests.support.paths import ROOT
from tests.support.training_builders import own_sentences, save_encoder, small_files
from workbench import cli
from workbench.jobs import lease
from workbench.settings import open_store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store_template: Path
) -> Run:
    """Run a command line in a fresh home; return exit code, output and errors.

    A worker's lower priority is not taken on: it would stay with this process, for every later test.
    """
    monkeypatch.setattr("workbench.jobs.worker.os.nice", lambda by: by)
    home = tmp_path / "home"
    home.mkdir()
    (home / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    monkeypatch.setenv("CROSSNER_HOME", str(home))
    monkeypatch.setenv("CROSSNER_WORKER_THREADS", "1")
    for name in ("CROSSNER_AS", "CROSSNER_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.main(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return call


def ok(result: tuple[int, str, str]) -> str:
    code, out, err = result
    assert code == 0, err
    return out


def with_admin(run: Run) -> Run:
    ok(run("user", "add", "adm", "--role", "admin"))
    return run


@pytest.mark.alone
def test_cli_help_is_fast_and_light() -> None:
    code = (
        "import sys, time; began = time.perf_counter()\n"
        "from workbench import cli\n"
        "assert cli.main(['--help']) == 0\n"
        "print(time.perf_counter() - began, file=sys.stderr)\n"
        "heavy = {'torch', 'transformers', 'spacy', 'sqlalchemy', 'streamlit', 'pandas', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    seconds = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "few-shot" in done.stdout
        seconds.append(float(done.stderr))
        time.sleep(0.05)
    assert min(seconds) < 0.5


def test_cli_first_account_is_an_admin(run: Run) -> None:
    code, _, err = run("campaign", "list")
    assert code == 2 and "user add" in err and err.count("\n") == 1
    assert run("user", "add", "rosa", "--role", "researcher")[0] == 2
    out = ok(run("user", "add", "adm", "--role", "admin"))
    assert "Password: " in out
    ok(run("user", "add", "rosa", "--role", "researcher", "--display-name", "Rosa R."))
    listed = ok(run("user", "list"))
    assert "Rosa R." in listed and listed.index("adm") < listed.index("rosa")
    ok(run("user", "role", "rosa", "expert"))
    assert "expert" in ok(run("user", "list"))
    ok(run("user", "link", "rosa", "sub-1", "--issuer", "https://login.example"))
    assert "sub-1" in ok(run("user", "list"))
    assert "oidc.toml is not there" in run("user", "link", "rosa", "sub-2")[2]
    assert "does not wait" in run("user", "let-in", "rosa", "expert")[2]
    assert "new password: " in ok(run("user", "password", "rosa"))


def test_cli_acts_as_the_named_person(run: Run) -> None:
    with_admin(run)
    ok(run("user", "add", "ann"))
    code, _, err = run("--as", "ann", "user", "list")
    assert code == 2 and "annotator" in err
    code, _, err = run("--as", "nobody", "user", "list")
    assert code == 2 and "adm, ann" in err


def test_cli_wrong_use_is_one_line(run: Run) -> None:
    with_admin(run)
    cases: list[tuple[tuple[str, ...], str]] = [
        (("nonsense",), "nonsense"),
        (("campaign", "show", "None"), "none yet"),
        (("run", "--dataset", "x"), "none yet"),
        (("run", "--dataset", "x", "--setting", "sideways"), "sideways"),
        (("run",), "--campaign"),
        (("few-shot", "--dataset", "x", "--sizes", "a,b"), "x"),
        (("import", "/nowhere/file.txt", "--dataset", "x"), "nowhere"),
        (("domain", "check", "/nowhere/x.toml"), "nowhere"),
        (("predict", "x.txt"), "--run"),
    ]
    for arguments, said in cases:
        code, _, err = run(*arguments)
        assert code == 2 and said in err and err.count("\n") == 1 and "Traceback" not in err, (arguments, err)


def test_cli_a_wrong_setting_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSNER_PORT", "eighty")
    code, _, err = run("migrate")
    assert code == 2 and "PORT" in err and err.count("\n") == 1


def test_cli_recipe_flags_are_the_fields_of_the_recipe(run: Run) -> None:
    for command in ("run", "few-shot"):
        out = ok(run(command, "--help"))
        for spec in fields(Recipe):
            assert f"--{spec.name.replace('_', '-')} " in out, spec.name


def test_cli_domains(run: Run, tmp_path: Path) -> None:
    with_admin(run)
    toml = ok(run("domain", "show", "music")).replace('name = "music"', 'name = "folk"', 1)
    path = tmp_path / "folk.toml"
    path.write_text(toml)
    assert "folk: valid" in ok(run("domain", "check", str(path)))
    ok(run("domain", "add", str(path)))
    assert "folk" in ok(run("domain", "list"))
    ok(run("domain", "delete", "folk"))
    assert "folk" not in ok(run("domain", "list"))


def test_cli_campaign_in_and_out(run: Run, tmp_path: Path) -> None:
    with_admin(run)
    ok(run("user", "add", "ann"))
    ok(run("campaign", "create", "Small", "--domain", "music", "--control", "0"))
    ok(run("campaign", "members", "Small", "ann"))
    text = "Milo\tB-musicalartist\nsang\tO\n\nOslo\tB-location\nwaits\tO\n"
    path = tmp_path / "in.conll"
    path.write_text(text)
    assert "2 sentences added to pool (2 with gold)" in ok(
        run("import", str(path), "-c", "Small", "--annotation", "gold")
    )
    assert ok(run("export", "-c", "Small", "--format", "conll")) == text
    asked = ("export", "-c", "Small", "--besides", "first")
    code, out, err = run(*asked, "--format", "conll", "--with-names")
    assert (code, out) == (0, text) and "conll cannot hold 2 people and times of sentences" in err
    task = json.loads(ok(run(*asked, "--format", "label-studio")))[0]
    assert [each["layer"] for each in task["annotations"]] == ["gold"]
    assert "User names go out with layers beside" in run("export", "-c", "Small", "--with-names")[2]
    assert "--with-names go with a layer" in run(*asked, "--layer", "all")[2]
    assert "2" in ok(run("campaign", "list")) and "ann" in ok(run("campaign", "show", "1"))
    first = ok(run("snapshot", "-c", "Small"))
    assert "pool 2" in first and "already existed" in ok(run("snapshot", "-c", "Small"))
    ok(run("export", "-c", "Small", "--layer", "all", "-o", str(tmp_path / "all.zip")))
    with small_files(1_000):  # a disk that fills leaves the file of before
        code, _, err = run("export", "-c", "Small", "--layer", "all", "-o", str(tmp_path / "all.zip"))
    assert code == 2 and "disk I/O error" in err  # the audit trail comes first
    with small_files(1_000), pytest.MonkeyPatch.context() as patched:
        patched.setattr("workbench.accounts.audit.rows.add", lambda session, **values: None)
        code, _, err = run("export", "-c", "Small", "--layer", "all", "-o", str(tmp_path / "all.zip"))
    assert code == 2 and "all.zip cannot be written" in err and "Free some disk" in err
    code, _, err = run("export", "-c", "Small", "-o", str(tmp_path))
    assert code == 2 and "cannot be written: Is a directory" in err
    ok(run("campaign", "import", str(tmp_path / "all.zip"), "--name", "Twin"))
    assert ok(run("export", "-c", "Twin", "--format", "conll")) == text
    assert "already existed" in ok(run("snapshot", "-c", "Twin"))
    bad = tmp_path / "bad.conll"
    bad.write_text("Milo\tB-singer\n")
    code, _, err = run("import", str(bad), "-c", "Small")
    assert code == 2 and "bad.conll:1" in err


def test_cli_import_of_what_takes_long_shows_progress(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.data import staging

    with_admin(run)
    ok(run("campaign", "create", "Small", "--domain", "music", "--control", "0"))
    monkeypatch.setattr(staging, "LONG", 0.0)
    path = tmp_path / "in.conll"
    path.write_text("Milo\tB-musicalartist\nsang\tO\n")
    code, out, err = run("import", str(path), "-c", "Small", "--annotation", "gold")
    assert code == 0 and "1 sentences added to pool (1 with gold)" in out and "Importing" in err
    path.write_text("Milo\tB-singer\n")
    code, _, err = run("import", str(path), "-c", "Small")
    assert code == 2 and "in.conll:1" in err and "Traceback" not in err


def with_own_dataset(run: Run, tmp_path: Path) -> Path:
    """Import a data set called own; return the file of a recipe with a tiny encoder in `tmp_path / "encoder"`."""
    with_admin(run)
    folder = tmp_path / "own"
    folder.mkdir()
    for name, items in (("train", own_sentences(16)), ("dev", own_sentences(4, offset=30)), ("test", own_sentences(4))):
        (folder / f"{name}.jsonl").write_text(write(items, "jsonl"))
    ok(run("import", str(folder), "--dataset", "own"))
    recipe = tmp_path / "recipe.toml"
    encoder = save_encoder(tmp_path / "encoder")
    recipe.write_text(f'encoder = "{encoder}"\nlearning_rate = 5e-3\nmax_length = 64\nbatch_size = 4\n')
    return recipe


def test_cli_imports_the_files_of_a_data_set_whatever_a_release_calls_them(run: Run, tmp_path: Path) -> None:
    with_admin(run)
    folder = tmp_path / "released"
    folder.mkdir()
    names = (("all.conllu", 16, 0), ("devel.TSV", 4, 30), ("testb.txt", 4, 60), ("extra.txt", 2, 90))
    for name, count, offset in names:
        (folder / name).write_text(write(own_sentences(count, offset=offset), "conll"))
    code, out, err = run("import", str(folder), "--dataset", "released")
    assert code == 0, err
    assert "train 16 sentences" in out and "dev 4 sentences" in out and "test 4 sentences" in out
    assert "Ignored: extra.txt." in err
    silver = folder / "testb.txt"
    silver.write_text(silver.read_text().replace("B-", "I-", 1))
    code, _, err = run("import", str(folder), "--dataset", "silver")
    assert code == 2 and "with --lenient a stray I- begins an entity" in err
    ok(run("import", str(folder), "--dataset", "silver", "--lenient"))
    (folder / "all.conllu").rename(folder / "rest.conllu")
    code, _, err = run("import", str(folder), "--dataset", "other")
    assert code == 2 and "has no file called train or all (it has devel.TSV, extra.txt, rest.conllu, testb.txt)" in err


def test_cli_trains_and_predicts(run: Run, tmp_path: Path) -> None:
    recipe = with_own_dataset(run, tmp_path)
    out = ok(run("run", "-d", "own", "--recipe", str(recipe), "--max-epochs", "3", "--device", "cpu", "--wait"))
    assert "run 1 · target · epoch 3" in out and "run 1 done" in out and "test strict IOB2" in out
    out = ok(
        run("few-shot", "-d", "own", "--recipe", str(recipe), "--sizes", "4,8,99", "--seeds", "1", "--max-epochs", "1")
    )
    assert "3 runs queued, 0 already existed. 99 became 16, all there is.\n" in out and "No worker is alive" in out
    ok(run("cancel", "2"))
    ok(run("worker", "--once"))
    listed = ok(run("runs", "-d", "own"))
    assert "cancelled" in listed and listed.count("done") >= 2
    assert "sentences" in ok(run("curve", "-d", "own"))
    text = tmp_path / "new.txt"
    text.write_text("Ada Brook sang in Oslo .\n")
    tagged = ok(run("predict", str(text), "--run", "1"))
    assert [line.split("\t")[0] for line in tagged.split("\n") if line] == ["Ada", "Brook", "sang", "in", "Oslo", "."]
    code, _, err = run("predict", str(text), "--run", "3")
    assert code == 2 and "no checkpoint" in err
    checkpoint = tmp_path / "home" / "checkpoints" / "run-1"
    assert ok(run("predict", str(text), "--checkpoint", str(checkpoint))) == tagged


def test_cli_trains_for_any_types_on_everything_but_the_target(run: Run, tmp_path: Path) -> None:
    recipe = with_own_dataset(run, tmp_path)
    for name in ("press", "radio"):
        ok(run("import", str(tmp_path / "own"), "--dataset", name))
    with recipe.open("a") as file:
        file.write('source_epochs = 1\ndevice = "cpu"\n')
    flags = ("--recipe", str(recipe), "--wait")
    code, _, err = run("universal", "own", "--leave-out", "nowhere", *flags)
    assert code == 2 and "There is no source nowhere to leave out; those here are own, press, radio." in err
    out = ok(run("universal", "own", "--leave-out", "radio", *flags))
    assert "Run 1 is queued: press, measured on own." in out and "run 1 done" in out
    assert "source_only" in ok(run("runs", "-d", "own")) or "Source only" in ok(run("runs", "-d", "own"))


def test_cli_refuses_flags_of_another_kind_of_target(run: Run, tmp_path: Path) -> None:
    with_own_dataset(run, tmp_path)
    for command in ("run", "few-shot"):
        code, _, err = run(command, "-d", "own", "--snapshot", "321")
        assert code == 2 and "--snapshot applies to a campaign's gold; a --dataset has none." in err
    code, _, err = run("encoder", "dapt", "x", "-d", "own", "--domain", "nonsense")
    assert code == 2 and "domain is 'nonsense', but only a corpus has one" in err


def test_cli_goes_on_with_a_failed_run_and_with_no_other(run: Run, tmp_path: Path) -> None:
    recipe = str(with_own_dataset(run, tmp_path))
    for seed in ("1", "2", "3"):
        ok(run("run", "-d", "own", "--recipe", recipe, "--max-epochs", "1", "--device", "cpu", "--seed", seed))
    assert lease.claim(open_store(), worker="w", run_ids=[2]) is not None
    assert ok(run("cancel", "2")) == "Run 2: running; it will stop at its next step\n"
    assert ok(run("cancel", "3")) == "Run 3: cancelled\n"
    code, _, err = run("go-on", "3")
    assert code == 2 and "what a cancelled one had saved is removed" in err
    code, _, err = run("go-on", "1")
    assert code == 2 and "Run 1 is queued; only a failed run can be resumed." in err
    (tmp_path / "encoder").rename(tmp_path / "away")
    ok(run("worker", "--once"))
    assert ok(run("cancel", "1")) == "Run 1: failed; there is nothing to cancel\n"
    (tmp_path / "away").rename(tmp_path / "encoder")
    out = ok(run("go-on", "1"))
    assert "Run 1 is queued again." in out and "No worker is alive" in out
    ok(run("worker", "--once"))
    assert ok(run("cancel", "1")) == "Run 1: done; there is nothing to cancel\n"


def test_cli_backup_is_a_whole_store(run: Run, tmp_path: Path) -> None:
    with_admin(run)
    target = tmp_path / "copy.sqlite3"
    ok(run("backup", str(target)))
    code, _, err = run("backup", str(target))
    assert code == 2 and "already exists" in err
    other = tmp_path / "other"
    other.mkdir()
    target.rename(other / "workbench.sqlite3")
    assert "adm" in ok(run("--home", str(other), "user", "list"))


def test_cli_backup_is_checked_and_restored(run: Run, tmp_path: Path) -> None:
    with_admin(run)
    kept, new = tmp_path / "kept.2026.11", tmp_path / "new"
    assert "2 files" in ok(run("backup", str(kept), "--with", "store"))
    assert "1 linked" in ok(run("backup", str(kept)))
    assert "is whole." in ok(run("backup", str(kept), "--verify"))
    assert "is equal to" in ok(run("restore", str(kept), "--home", str(new)))
    assert "adm" in ok(run("--home", str(new), "user", "list"))
    code, _, err = run("--home", str(new), "restore", str(kept))
    assert code == 2 and "is not empty" in err and err.count("\n") == 1
    for path in (new, kept, *new.rglob("*"), *kept.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    newest = max(kept.iterdir())
    (newest / "gold.jsonl").unlink()
    code, out, err = run("backup", "--verify", str(kept))
    assert code == 1 and "gold.jsonl cannot be read" in err and "is damaged." in out
    code, _, err = run("restore", str(kept), "--home", str(tmp_path / "other"))
    assert code == 2 and "gold.jsonl" in err and not (tmp_path / "other").exists()


def test_cli_backup_names_what_it_takes(run: Run, tmp_path: Path) -> None:
    with_admin(run)
    code, _, err = run("backup", str(tmp_path / "kept"), "--with", "weights")
    assert code == 2 and "choose from checkpoints, encoders" in err
    for flags in (("--all",), ("--with", "encoders")):
        code, _, err = run("backup", str(tmp_path / "copy.db"), *flags)
        assert code == 2 and "give a folder" in err
    assert ", 0 linked" in ok(run("backup", str(tmp_path / "kept"), "--all"))
    ok(run("backup", str(tmp_path / "copy.db")))
    assert "is whole." in ok(run("backup", str(tmp_path / "copy.db"), "--verify"))
    ok(run("restore", str(tmp_path / "copy.db"), "--home", str(tmp_path / "new")))


def test_cli_move_takes_urls_and_files(run: Run, tmp_path: Path) -> None:
    with_admin(run)
    source, target = tmp_path / "home" / "workbench.sqlite3", tmp_path / "moved.sqlite3"
    ok(run("user", "add", "rosa", "--role", "researcher"))
    code, _, err = run("--as", "rosa", "move", str(source), str(target))
    assert code == 2 and "this is for admin" in err and not target.exists()
    assert "the same in both" in ok(run("move", f"sqlite:///{source}", str(target)))
    code, _, err = run("move", str(source), str(target))
    assert code == 2 and "is not empty" in err
    code, _, err = run("move", str(tmp_path / "none.sqlite3"), str(target))
    assert code == 2 and "There is no store" in err and not (tmp_path / "none.sqlite3").exists()
    code, _, err = run("move", "mongo://x/y", str(target))
    assert code == 2 and "use sqlite or postgresql" in err


def test_tokens_are_made_listed_and_revoked(run: Run) -> None:
    with_admin(run)
    code, secret, said = run("token", "create", "nightly job", "--scope", "write", "--days", "7")
    assert code == 0 and secret.startswith("crossner_") and secret.count("\n") == 1 and "Token 1 of adm: write" in said
    listed = ok(run("token", "list"))
    assert "nightly job" in listed and "valid" in listed and "never" in listed and secret.strip() not in listed
    assert ok(run("token", "revoke", "1")) == "Token 1 is revoked.\n" and "revoked" in ok(run("token", "list"))
    code, out, err = run("token", "revoke", "7")
    assert (code, out) == (2, "") and "no token 7" in err
    assert run("token", "create", "x", "--days", "1000")[0] == 2
