"""The routes beside the sentence, behind the gate: who gets an answer, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from crossner_core.errors import StorageError
from db.engine import Store
from tests.support.builders import Tab
from tests.support.campaigns import LINES, document_campaign
from tests.support.screens import give_session
from workbench.accounts.actors import Actor
from workbench.http.beside import Beside
from workbench.http.cookies import SESSION_COOKIE
from workbench.http.gate import Gate
from workbench.labelling import context
from workbench.settings import Settings

People = dict[str, Actor]


@pytest.fixture
def server(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(home=tmp_path, database_url=store.url.render_as_string(hide_password=False))
    app = Gate(Starlette(routes=Beside(settings).routes()), settings=settings)
    with TestClient(app, base_url="http://testserver") as client:
        yield client


def cookie(store: Store, actor: Actor) -> dict[str, str]:
    return {"cookie": f"{SESSION_COOKIE}={give_session(store, actor)}"}


def test_context_comes_by_task_and_is_kept_by_nobody(server: TestClient, store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    first, second, *_ = Tab(store, people["ann1"], campaign, "annotate").items(6)
    url = f"/labelling/{campaign}/annotate/context?tasks={first['task']},{second['task']}&each=3"
    answer = server.get(url, headers=cookie(store, people["ann1"]))
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    contexts = answer.json()["contexts"]
    assert set(contexts) == {str(first["task"]), str(second["task"])}
    assert contexts[str(second["task"])]["before"] == [{"text": LINES[0], "marks": [], "gap": False}]
    assert server.get(url).status_code == 401
    assert server.get(url, headers=cookie(store, people["ann2"])).json() == {"contexts": {}}


def test_guidelines_come_once_for_each_version(server: TestClient, store: Store, people: People) -> None:
    url = f"/labelling/{document_campaign(store, people)}/check/guidelines"
    answer = server.get(url, headers=cookie(store, people["ann1"])).json()
    assert {"band", "album"} <= {kind["name"] for kind in answer["types"]} and answer["decisions"] == []
    again = server.get(url, params={"version": answer["version"]}, headers=cookie(store, people["ann1"])).json()
    assert again == {"version": answer["version"], "types": None, "decisions": None}


@pytest.mark.parametrize(
    "wrong, status, words",
    [
        ("annotate/context?tasks=one", 400, "tasks must be whole numbers, not 'one'"),
        ("annotate/context?tasks=1&each=-1", 400, "each must be whole numbers"),
        ("adjudicate/context?tasks=1", 403, "is an annotator"),
        ("sing/context?tasks=1", 403, "There is no stage 'sing'"),
    ],
)
def test_what_cannot_be_answered_is_said(
    server: TestClient, store: Store, people: People, wrong: str, status: int, words: str
) -> None:
    campaign = document_campaign(store, people)
    answer = server.get(f"/labelling/{campaign}/{wrong}", headers=cookie(store, people["ann1"]))
    assert answer.status_code == status and words in answer.json()["problem"]


def test_a_store_that_fails_is_said(
    server: TestClient, store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("disk I/O error")

    campaign = document_campaign(store, people)
    monkeypatch.setattr(context, "around", fail)
    answer = server.get(f"/labelling/{campaign}/annotate/context", headers=cookie(store, people["ann1"]))
    assert answer.status_code == 503 and "I/O" not in answer.text
