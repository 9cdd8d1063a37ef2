"""Imports by the API: files stay on disk, small ones are in at once, large ones are left to the worker."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from db.engine import Store
from tests.support.api import client_of, refused, secret_of, serving, settings_for
from tests.support.builders import make_campaign, make_sentences
from workbench.accounts.actors import Actor
from workbench.client import Client
from workbench.data import staging
from workbench.http.api.declared import ROOT
from workbench.http.api.serving import Api
from workbench.jobs import queue
from workbench.jobs.worker import Worker
from workbench.settings import Settings, open_store

People = dict[str, Actor]
ROW = '{"text": "Mara Vell sang %d times .", "gold": [{"start": 0, "end": 9, "type": "musicalartist"}]}\n'
FILES = [("a.jsonl", "".join(ROW % number for number in range(20)).encode())]


@pytest.fixture
def settings(store: Store, tmp_path: Path) -> Settings:
    return settings_for(store, tmp_path / "home")


@pytest.fixture
def api(settings: Settings, store: Store, people: People) -> Iterator[Client]:
    with serving(settings) as url, client_of(url, store, people["res"], "write") as client:
        yield client


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every import takes long enough for the worker."""
    monkeypatch.setattr(staging, "LONG", 0.0)


def work(settings: Settings) -> None:
    Worker(open_store(settings), settings).run(once=True)


def sentences(api: Client, campaign: int) -> int:
    return int(api.get(f"/campaigns/{campaign}")["sentences"])


def test_large_import_is_followed_to_its_end(api: Client, settings: Settings, campaign: int, long: None) -> None:
    before = sentences(api, campaign)
    broken = [("a.jsonl", FILES[0][1] + b"{\n" + (ROW % 3).encode())]
    started = api.import_files(campaign, broken, annotation="gold", skip_bad=True, preannotate=False)
    assert (started["state"], started["log"]) == ("queued", []) and "added" not in started
    assert sentences(api, campaign) == before
    work(settings)
    ended = api.follow_import(started)
    assert (ended["state"], ended["error"], ended["progress"]) == ("done", None, 1.0)
    assert ended["message"].startswith("20 sentences imported; 20 with gold; 1 were already there")
    assert any(line.startswith("skipped: a.jsonl:21: not JSON") for line in ended["log"])
    assert any(line.startswith("left out: a-22 comes twice") for line in ended["log"])
    assert sentences(api, campaign) == before + 20 and list(settings.uploads.iterdir()) == []


def test_every_fault_of_a_large_import_is_in_its_log(
    api: Client, settings: Settings, campaign: int, long: None
) -> None:
    before = sentences(api, campaign)
    files = [("a.jsonl", FILES[0][1] + b"{oops\n" * 300), ("b.jsonl", b"{\n")]
    work_path = f"/campaigns/{campaign}/sentences"
    at_once = _faults_at_once(api, work_path, files)
    ended = _ended(api, settings, campaign, files)
    assert ended["state"] == "failed" and "a.jsonl:21: not JSON" in ended["error"]
    assert [line for line in ended["log"] if not line.startswith("Failed: ")] == list(at_once) and len(at_once) == 301
    assert at_once[0].startswith("a.jsonl:21: ") and at_once[-1].startswith("b.jsonl:1: ")
    assert sentences(api, campaign) == before


def _faults_at_once(api: Client, path: str, files: list[tuple[str, bytes]]) -> tuple[str, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "LONG", 60.0)
        problem = refused(api, "POST", path, files=files)
    assert problem.status == 400
    return problem.problems


def _ended(api: Client, settings: Settings, campaign: int, files: list[tuple[str, bytes]]) -> dict[str, Any]:
    started = api.import_files(campaign, files, preannotate=False)
    work(settings)
    return api.follow_import(started)


def test_large_import_with_a_key_is_queued_once(
    api: Client, store: Store, people: People, campaign: int, long: None
) -> None:
    path = f"/campaigns/{campaign}/sentences"
    first, again = (api.request("POST", path, files=FILES, key="k") for _ in range(2))
    assert first == again
    assert len(queue.list_jobs(store, people["res"], campaign, kinds=(staging.KIND,))) == 1
    assert refused(api, "POST", path, files=[("a.jsonl", b"{}")], key="k").status == 409


def test_accepted_import_has_a_location_sent_again_or_not(
    settings: Settings, store: Store, people: People, campaign: int, long: None
) -> None:
    headers = {"authorization": f"Bearer {secret_of(store, people['res'])}", "idempotency-key": "k"}
    with serving(settings) as url, httpx.Client(headers=headers, base_url=url) as client:
        for replayed in (None, "true"):
            files = [("files", FILES[0])]
            answer = client.post(f"{ROOT}/campaigns/{campaign}/sentences", files=files)
            assert answer.status_code == 202 and answer.headers.get("idempotent-replayed") == replayed
            assert answer.headers["location"] == answer.json()["follow"]
            assert client.get(answer.headers["location"]).json()["state"] == "queued"


def test_cancelled_import_leaves_nothing_and_stays_cancelled(
    api: Client, settings: Settings, campaign: int, long: None
) -> None:
    before, started = sentences(api, campaign), api.import_files(campaign, FILES)
    one = started["follow"].removeprefix(ROOT)
    assert api.post(f"{one}/cancel")["state"] == "cancelled" == api.post(f"{one}/cancel")["state"]
    work(settings)
    assert sentences(api, campaign) == before and list(settings.uploads.iterdir()) == []


def test_import_of_another_campaign_and_other_jobs_are_hidden(
    api: Client, store: Store, people: People, campaign: int, long: None
) -> None:
    other = make_campaign(store, people, name="other")
    job = api.import_files(campaign, FILES)["id"]
    preannotation = queue.start_job(store, people["res"], "preannotate", campaign)
    for path in (f"/campaigns/{other}/imports/{job}", f"/campaigns/{campaign}/imports/{preannotation}"):
        assert refused(api, "GET", path).status == refused(api, "POST", f"{path}/cancel").status == 404


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"format": "x"}, "x"),
        ({"annotation": "x"}, "annotation"),
        ({"options": '{"unfit": "leave_out"}'}, "name it by the parameter format"),
    ],
)
def test_wrong_parameters_are_refused_at_once(
    api: Client, store: Store, people: People, campaign: int, long: None, parameters: dict[str, str], words: str
) -> None:
    problem = refused(api, "POST", f"/campaigns/{campaign}/sentences", files=FILES, parameters=parameters)
    assert problem.status == 400 and words in problem.detail
    assert queue.list_jobs(store, people["res"], campaign, kinds=(staging.KIND,)) == ()


def test_file_named_like_a_path_stays_in_its_folder(api: Client, settings: Settings, campaign: int) -> None:
    added = api.import_files(campaign, [("../../out.txt", b"Ada sang in Oslo again .\n")], preannotate=False)
    assert added["added"] == 1 and sentences(api, campaign) == len(make_sentences()) + 1
    assert not list(settings.home.rglob("out.txt")) and not list(settings.home.parent.glob("out.txt"))


def test_upload_takes_memory_for_a_piece_not_for_the_file(
    settings: Settings, store: Store, people: People, campaign: int
) -> None:
    """40 MB come in pieces of 64 KB and are kept for the worker."""
    line, pieces = b"Mara sang in Oslo with The Tin Gulls .\n", 640
    piece = (line * (64 * 1024 // len(line) + 1))[: 64 * 1024]
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
    scope = {
        "type": "http", "method": "POST", "path": f"{ROOT}/campaigns/{campaign}/sentences", "query_string": b"",
        "headers": [
            (b"authorization", f"Bearer {secret_of(store, people['res'])}".encode()),
            (b"content-type", b"multipart/form-data; boundary=b"),
        ],
    }  # fmt: skip
    bodies = iter([head, *[piece] * pieces, b"\r\n--b--\r\n"])
    sent: list[Any] = []
    app = Api(settings)

    async def receive() -> dict[str, Any]:
        body = next(bodies, None)
        return {"type": "http.request", "body": body or b"", "more_body": body is not None}

    async def send(message: Any) -> None:
        sent.append(message)

    tracemalloc.start()
    try:
        asyncio.run(app(scope, receive, send))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent[0]["status"] == 202, sent
    (kept,) = settings.uploads.glob("*/0")
    assert kept.stat().st_size == pieces * len(piece) and most < 8_000_000, most
