"""The routes of the API as programs use them, from a token to a started training, over a socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from db.engine import Store
from tests.support.api import client_of, refused, secret_of, serving, settings_for
from tests.support.builders import make_gold, make_sentences
from workbench.accounts.actors import Actor
from workbench.client import Client
from workbench.http.api.declared import ROOT

People = dict[str, Actor]


@pytest.fixture
def url(store: Store, tmp_path: Path) -> Iterator[str]:
    with serving(settings_for(store, tmp_path)) as address:
        yield address


@pytest.fixture
def api(url: str, store: Store, people: People) -> Iterator[Client]:
    with client_of(url, store, people["res"]) as client:
        yield client


def test_token_says_whom_it_acts_for(api: Client) -> None:
    me = api.get("/me")
    assert (me["name"], me["role"], me["scope"], me["token"]) == ("res", "researcher", "train", "of a test")


def test_campaign_is_made_filled_and_read_page_by_page(api: Client, people: People) -> None:
    made = api.post("/campaigns", {
        "name": "By program", "domain": "music", "members": [people["ann1"].id], "settings": {"blind_share": 0.25},
    })  # fmt: skip
    assert made["settings"]["blind_share"] == 0.25 and [member["name"] for member in made["members"]] == ["ann1"]
    number = made["id"]
    files = [("a.txt", b"Ada sang in Oslo .\nHe went home .\n"), ("b.txt", "Zoë blieb .\n".encode())]
    imported = api.import_files(number, files, preannotate=False)
    assert (imported["added"], imported["duplicates"], imported["format"]) == (3, 0, "plain")
    lines = list(api.items(f"/campaigns/{number}/sentences", limit=1))
    assert [line["text"] for line in lines] == ["Ada sang in Oslo .", "He went home .", "Zoë blieb ."]
    assert [line["text"] for line in api.items(f"/campaigns/{number}/sentences", text="OSLO")] == ["Ada sang in Oslo ."]
    assert api.import_files(number, files[:1], preannotate=False)["duplicates"] == 2
    tasks = list(api.items(f"/campaigns/{number}/tasks", limit=2, stage="annotate"))
    assert [task["state"] for task in tasks] == ["open"] * 3
    names = [one["name"] for one in api.items("/campaigns", limit=1)]
    assert names == ["By program"] and api.get(f"/campaigns/{number}")["sentences"] == 3
    assert "music" in [domain["name"] for domain in api.get("/domains")["items"]]


def test_bad_file_is_refused_line_by_line_and_nothing_is_added(api: Client, campaign: int) -> None:
    problem = refused(api, "POST", f"/campaigns/{campaign}/sentences", files=[("a.jsonl", b'{"text": "x"}\n{oops\n')])
    assert problem.status == 400 and problem.type.endswith("#problem-invalid")
    assert any("a.jsonl:2" in line for line in problem.problems)
    assert api.get(f"/campaigns/{campaign}")["sentences"] == len(make_sentences())


def test_documents_of_several_files_come_in_together(api: Client, campaign: int) -> None:
    files = [("d.txt", b"Ada sang in Oslo."), ("d.ann", b"T1\tmusicalartist 0 3\tAda\n")]
    imported = api.import_files(campaign, files, annotation="gold", preannotate=False)
    assert (imported["format"], imported["gold"]) == ("brat", 1)
    zipped = api.export(campaign, "gold", format="brat")
    assert zipped.startswith(b"PK")


def test_layers_go_out_beside_one_another(api: Client, store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    besides = ("first", "second")
    (task,) = json.loads(api.export(campaign, "gold", format="label-studio", besides=besides, with_names=True))
    said = [(each["layer"], each["created_username"]) for each in task["annotations"]]
    assert said == [("first", "ann1"), ("second", "ann2"), ("gold", "eva")]
    assert b"ann1" not in api.export(campaign, "gold", format="label-studio", besides=besides)
    assert api.left_out == "8 links, 15 times of single sentences"
    api.export(campaign, "gold")
    assert api.left_out == ""
    problem = refused(api, "GET", f"/campaigns/{campaign}/layers/gold/export?besides=first,third")
    assert problem.status == 404 and "no layer 'third'" in problem.detail


def test_a_formats_own_options_are_those_of_the_format_that_is_named(api: Client, campaign: int) -> None:
    nested = b"T1\tmusicalartist 0 8\tAda Lott\nT2\tband 4 8\tLott\n"
    files = [("n.txt", b"Ada Lott sang."), ("n.ann", nested)]
    path = f"/campaigns/{campaign}/sentences"
    assert "it overlaps another" in refused(api, "POST", path, files=files).problems[0]
    leave = '{"unfit": "leave_out"}'
    for parameters, words in (
        ({"options": leave}, "name it by the parameter format"),
        ({"options": "[]", "format": "brat"}, "options must be an object"),
        ({"options": '{"layer": "x"}', "format": "brat"}, "Format brat has no option 'layer'"),
    ):
        assert words in refused(api, "POST", path, files=files, parameters=parameters).detail
    imported = api.import_files(campaign, files, annotation="gold", preannotate=False, format="brat", options=leave)
    assert imported["gold"] == 1 and "1 overlapping entities" in imported["note"]


def test_gold_layers_and_exports(api: Client, store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    assert api.get(f"/campaigns/{campaign}/layers") == {"first": 6, "second": 6, "gold": 6, "suggestions": 0}
    gold = list(api.items(f"/campaigns/{campaign}/layers/gold", limit=4))
    assert len(gold) == 6
    for item in gold:
        for span in item["spans"]:
            assert item["text"][span["char_start"] : span["char_end"]] == span["text"]
            assert item["tokens"][span["start"]][0] == span["char_start"]
            assert item["tokens"][span["end"] - 1][1] == span["char_end"]
    lines = [json.loads(line) for line in api.export(campaign, "gold").splitlines()]
    assert len(lines) == 6 and b"B-band" in api.export(campaign, "gold", format="conll")
    sentence = api.get(f"/campaigns/{campaign}/sentences", place="gold")["items"][0]
    whole = api.get(f"/campaigns/{campaign}/sentences/{sentence['id']}")
    assert [work["layer"] for work in whole["work"]] == ["first", "second", "gold"]
    assert refused(api, "GET", f"/campaigns/{campaign}/layers/gold/export", parameters={"format": "x"}).status == 400


def test_export_has_a_name(url: str, store: Store, people: People, campaign: int) -> None:
    headers = {"authorization": f"Bearer {secret_of(store, people['res'], 'read')}"}
    answer = httpx.get(f"{url}{ROOT}/campaigns/{campaign}/layers/sentences/export", headers=headers)
    assert answer.headers["content-disposition"] == 'attachment; filename="music-sentences.jsonl"'
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["cache-control"] == "no-store"


def test_gold_is_frozen_and_trained_on(api: Client, store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    first, again = (api.post(f"/campaigns/{campaign}/snapshots") for _ in range(2))
    assert (first["is_new"], again["is_new"], again["id"]) == (True, False, first["id"])
    assert api.get(f"/campaigns/{campaign}/snapshots/{first['hash'][:8]}")["id"] == first["id"]
    run = api.post("/runs", {"snapshot": first["id"], "recipe": {"max_epochs": 1, "seed": 7}})
    assert (run["state"], run["seed"], run["recipe"]["max_epochs"], run["size"]) == ("queued", 7, 1, 6)
    assert [one["id"] for one in api.items("/runs", campaign=campaign, limit=1)] == [run["id"]]
    assert api.get(f"/runs/{run['id']}/events") == {"items": [], "last": 0, "state": "queued", "progress": 0}
    assert api.post(f"/runs/{run['id']}/cancel") == {"id": run["id"], "state": "cancelled"}
    assert list(api.follow(run["id"])) == [] and api.get(f"/runs/{run['id']}")["types"] == []
    assert refused(api, "POST", f"/runs/{run['id']}/resume").status == 409
    curve = api.post("/curves", {"snapshot": first["id"], "sizes": [2, 4], "seeds": [1, 2]})
    assert (curve["started"], len(curve["cells"])) == (4, 4)
    (series,) = [one for one in api.get("/curves", campaign=campaign)["items"] if one["pending"]]
    assert series["pending"] == 4 and series["snapshot"] == first["hash"]
    assert [run["id"] for run in api.items("/runs", group=curve["group_id"], limit=3)] == [5, 4, 3, 2]
    assert api.get(f"/campaigns/{campaign}/snapshots")["items"][0]["runs"] == 5


@pytest.mark.parametrize(
    "body, words",
    [
        ({"recipe": {}}, "either a snapshot or a data set"),
        ({"snapshot": 1, "recipe": {"max_epoch": 1}}, "max_epoch"),
        ({"snapshot": "1"}, "snapshot must be a whole number, not '1'"),
        ({"snapshot": 0}, "snapshot is 0; at least 1"),
        ({"snapshot": 1, "seed": 3}, "seed is no key of the body; valid are snapshot"),
    ],
)
def test_wrong_run_is_explained(api: Client, body: dict[str, object], words: str) -> None:
    problem = refused(api, "POST", "/runs", body=body)
    assert problem.status == 400 and words in problem.detail


def test_annotator_sees_own_campaigns_and_no_members(url: str, store: Store, people: People, campaign: int) -> None:
    with client_of(url, store, people["ann1"]) as client:
        (mine,) = client.items("/campaigns")
        assert mine["id"] == campaign and mine["members"] is None
        assert refused(client, "GET", f"/campaigns/{campaign}/layers").status == 403
        assert refused(client, "GET", "/campaigns/999").status == 404


@pytest.mark.parametrize("address", ["127.0.0.1:80", "ftp://x", ""])
def test_client_wants_an_address(address: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        Client(address, "x")


def test_client_survives_a_server_that_closes_idle_connections(api: Client) -> None:
    api.get("/me")
    assert api._connection.sock is not None
    api._connection.sock.shutdown(socket.SHUT_RDWR)
    assert api.get("/me")["name"] == "res"
    key_made = api.post("/campaigns", {"name": "Once", "domain": "music"})
    assert key_made["id"]
