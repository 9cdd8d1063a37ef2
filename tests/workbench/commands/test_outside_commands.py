"""`workbench outside`: from a plan that sends nothing to suggestions that an annotator sees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from db.engine import Store
from tests.support.builders import Tab
from tests.support.outside.servers import KEY, VARIABLE, knows, serve_json, write_models
from workbench import cli
from workbench.accounts.actors import Actor


def test_the_command_line_leads_from_a_plan_to_suggestions(
    store: Store,
    people: dict[str, Actor],
    campaign: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.jobs.worker.os.nice", lambda by: by)
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CROSSNER_DATABASE_URL", str(store.url))
    monkeypatch.setenv(VARIABLE, KEY)

    def run(*arguments: str, code: int = 0) -> str:
        capfd.readouterr()
        assert cli.main(["outside", *arguments]) == code
        out, err = capfd.readouterr()
        assert KEY not in out + err
        return re.sub(" +", " ", out if code == 0 else err)

    assert "The settings name no outside model" in run("list", "Music")
    with serve_json(knows({"The Tin Gulls": "band"})) as server:
        write_models(tmp_path / "home", server.url, key_variable=VARIABLE, input_price=2)
        assert f"own chat tiny {server.url} no" in run("list", "Music")
        plan = run("plan", "Music", "own")
        assert f"Sent to: {server.url}/chat/completions, model tiny" in plan and "6, one a sentence" in plan
        assert "Mara Vell sang with The Tin Gulls in Oslo ." in plan
        assert "Nobody has allowed the sentences of 'Music'" in run("ask", "Music", "own", code=2)
        assert "was shown as" in run(
            "allow", "Music", "own", "--address", "http://a.example", "--requests", "9", code=2
        )
        assert server.queries == []
        run("allow", "Music", "own", "--address", server.url, "--requests", "9", "--cost", "1")
        assert "The Tin Gulls: band" in run("preview", "Music", "own") and len(server.queries) == 6
        run("ask", "Music", "own", "--wait")
        assert len(server.queries) == 6
        assert re.search(r"yes 6 of 9 1320 0.0024 USD of 1 1 –", run("list", "Music"))
    (item,) = Tab(store, people["ann1"], campaign, "annotate").items(1)
    assert [(each["start"], each["end"], each["type"]) for each in item["suggestions"]] == [(4, 7, "band")]
    assert "0 suggestions of own are withdrawn; 1 stay" in run("withdraw", "Music", "own")
    run("forbid", "Music", "own")
    assert "Nobody has allowed" in run("preview", "Music", "own", code=2)
    assert "nothing to cancel" in run("cancel", "Music", code=2)
