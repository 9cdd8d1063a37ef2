"""`workbench webhook`: from a new webhook to a delivery that is sent again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from db.engine import Store
from tests.support.webhooks import receiving, send_all, settings_here, status
from workbench import cli
from workbench.accounts.actors import Actor


def test_the_command_line_makes_tests_follows_and_removes_a_webhook(
    store: Store,
    people: dict[str, Actor],
    campaign: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = settings_here(store, tmp_path / "home")
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, code: int = 0) -> str:
        capfd.readouterr()
        assert cli.main(["webhook", *arguments]) == code
        out, err = capfd.readouterr()
        return re.sub(" +", " ", out if code == 0 else err)

    with receiving(status(500, 200)) as receiver:
        secret = run("make", "Music", receiver.url, "--event", "gold.made").strip()
        assert f"1 {receiver.url} gold.made on 0 nothing sent yet" in run("list", "Music")
        assert "Delivery 1 waits" in run("test", "Music", "1")
        send_all(store, settings)
        assert "1 1 webhook.test" in run("log", "Music") and "it answers 500" in run("log", "Music")
        run("redeliver", "Music", "1")
        send_all(store, settings)
    line = json.loads(run("log", "Music", "--payloads", "--state", "delivered"))
    assert line["payload"] == receiver.requests[1].verified(secret)
    new = run("secret", "Music", "1").strip()
    assert new.startswith("whsec_") and new != secret
    assert "sends run.ended to" in run("change", "Music", "1", "--event", "run.ended", "--off")
    assert "off: It was switched off." in run("list", "Music")
    assert "There is no event 'run.lost'" in run("change", "Music", "1", "--event", "run.lost", code=2)
    assert "is removed" in run("remove", "Music", "1") and receiver.url not in run("list", "Music")
