"""Documents by the API: in with their annotation, out character for character, with a layer or without."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from db.engine import Store
from tests.support.api import client_of, refused, secret_of, serving, settings_for
from tests.support.builders import make_gold
from workbench.accounts.actors import Actor
from workbench.client import ROOT, Client

People = dict[str, Actor]
TEXT = "Mara Vell sang in Oslo.\r\n\r\n𝄞 The Tin Gulls\tplayed on.  Nobody left.\n"
FILES = [("live/concert.txt", TEXT.encode()), ("live/concert.ann", b"T1\tmusicalartist 0 9\tMara Vell\n")]


@pytest.fixture
def url(store: Store, tmp_path: Path) -> Iterator[str]:
    with serving(settings_for(store, tmp_path)) as address:
        yield address


@pytest.fixture
def api(url: str, store: Store, people: People) -> Iterator[Client]:
    with client_of(url, store, people["res"], "write") as client:
        yield client


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {Path(name).name: archive.read(name) for name in archive.namelist()}


def test_a_document_comes_back_character_for_character(api: Client, campaign: int) -> None:
    made = api.add_document(campaign, FILES, annotation="gold", preannotate=False)
    assert (made["sentences"], made["duplicates"], made["state"]) == (3, 0, "gold")
    whole = api.get(f"/campaigns/{campaign}/documents/{made['id']}")
    assert whole["text"] == TEXT and whole["name"] == made["name"]
    words = [TEXT[place["start"] : place["end"]] for place in whole["places"]]
    assert words == ["Mara Vell sang in Oslo.", "𝄞 The Tin Gulls\tplayed on.", "Nobody left."]
    lines = api.items(f"/campaigns/{campaign}/sentences", text="Nobody left")
    assert [line["id"] for line in lines] == [whole["places"][2]["id"]]
    assert api.document(campaign, made["id"]) == TEXT.encode()
    files = unpacked(api.document(campaign, made["id"], layer="gold", format="brat"))
    assert files["concert.txt"] == TEXT.encode() and b"musicalartist 0 9\tMara Vell" in files["concert.ann"]
    assert b"musicalartist" not in api.document(campaign, made["id"], format="brat")


def test_documents_are_listed_page_by_page(api: Client, campaign: int) -> None:
    for number in range(3):
        api.add_document(campaign, [(f"{number}.txt", f"Song {number} ended .\n".encode())], preannotate=False)
    listed = list(api.items(f"/campaigns/{campaign}/documents", limit=2))
    assert [(each["name"], each["state"]) for each in listed[1:]] == [(f"{number}.txt", "new") for number in range(3)]


def test_layers_of_a_document_go_out_by_their_names(api: Client, store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    (document,) = api.items(f"/campaigns/{campaign}/documents")
    for layer in ("first", "second", "gold"):
        lines = [
            json.loads(line)
            for line in api.document(campaign, document["id"], layer=layer, format="jsonl").splitlines()
        ]
        assert len(lines) == 6 and any(line["gold"] for line in lines), layer
        assert api.left_out == ""
    assert b"B-band" in api.document(campaign, document["id"], layer="gold", format="conll")
    assert api.left_out == "8 links"
    place = f"/campaigns/{campaign}/documents/{document['id']}"
    assert "nothing in the layer 'suggestions'" in refused(api, "GET", f"{place}/layers/suggestions/export").detail
    assert refused(api, "GET", f"{place}/layers/gold/export", parameters={"format": "text"}).status == 400
    assert "'third'" in refused(api, "GET", f"{place}/layers/third/export").detail


def test_a_name_or_a_text_that_is_there_is_a_conflict(api: Client, campaign: int) -> None:
    path, before = f"/campaigns/{campaign}/documents", api.get(f"/campaigns/{campaign}")["sentences"]
    api.add_document(campaign, FILES, preannotate=False)
    other = [("live/concert.txt", b"Another text.\n"), ("live/concert.ann", b"")]
    named = refused(api, "POST", path, files=other)
    assert named.status == 409 and "a document 'live/concert' already" in named.detail
    same = refused(api, "POST", path, files=[("b.txt", FILES[0][1]), ("b.ann", b"")])
    assert same.status == 409 and "All 3 sentences" in same.detail
    several = refused(api, "POST", path, files=[("x.txt", b"A song .\n"), ("y.txt", b"A band .\n")])
    assert several.status == 400 and "hold 2 documents" in several.detail
    assert api.get(f"/campaigns/{campaign}")["sentences"] == before + 3


def test_what_takes_long_goes_another_way(api: Client, campaign: int) -> None:
    path = f"/campaigns/{campaign}/documents"
    problem = refused(api, "POST", path, files=[("long.txt", b"A song ended .\n" * 200_000)])
    assert problem.status == 400 and f"{ROOT}/campaigns/{campaign}/sentences" in problem.detail
    assert len(list(api.items(path))) == 1


def test_a_document_that_was_sent_twice_is_added_once(api: Client, campaign: int) -> None:
    path = f"/campaigns/{campaign}/documents"
    first, again = (api.request("POST", path, files=FILES, key="k") for _ in range(2))
    assert first == again and len(list(api.items(path))) == 2


def test_only_what_nobody_has_begun_is_deleted(api: Client, store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    made = api.add_document(campaign, FILES, preannotate=False)
    path = f"/campaigns/{campaign}/documents"
    begun = next(each["id"] for each in api.items(path) if each["id"] != made["id"])
    assert refused(api, "DELETE", f"{path}/{begun}").status == 409
    api.request("DELETE", f"{path}/{made['id']}")
    assert refused(api, "GET", f"{path}/{made['id']}").status == 404
    assert [each["id"] for each in api.items(path)] == [begun]


def test_annotators_get_texts_and_experts_layers(url: str, store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    with client_of(url, store, people["ann1"]) as ann, client_of(url, store, people["eva"]) as expert:
        (document,) = ann.items(f"/campaigns/{campaign}/documents")
        place = f"/campaigns/{campaign}/documents/{document['id']}"
        assert ann.document(campaign, document["id"]) == ann.get(place)["text"].encode()
        assert refused(ann, "GET", f"{place}/layers/gold/export").status == 403
        assert expert.document(campaign, document["id"], layer="gold", format="jsonl")
        assert refused(expert, "DELETE", place).status == 403


def test_a_document_that_is_known_is_not_sent_again(url: str, store: Store, people: People, campaign: int) -> None:
    headers = {"authorization": f"Bearer {secret_of(store, people['res'], 'read')}"}
    with httpx.Client(base_url=f"{url}{ROOT}/campaigns/{campaign}", headers=headers) as client:
        document = client.get("/documents").json()["items"][0]["id"]
        tag = client.get(f"/documents/{document}").headers["etag"]
        assert client.get(f"/documents/{document}", headers={"if-none-match": tag}).status_code == 304


def test_a_document_that_has_changed_since_is_not_deleted(
    url: str, store: Store, people: People, campaign: int
) -> None:
    make_gold(store, people, campaign)
    headers = {"authorization": f"Bearer {secret_of(store, people['res'], 'write')}"}
    with httpx.Client(base_url=f"{url}{ROOT}/campaigns/{campaign}", headers=headers) as client:
        made = client.post("/documents", files=[("files", ("a.txt", b"A new song .\n"))]).json()["id"]
        tag = client.get(f"/documents/{made}").headers["etag"]
        assert client.delete(f"/documents/{made}", headers={"if-match": '"other"'}).status_code == 412
        assert client.delete(f"/documents/{made}", headers={"if-match": tag}).status_code == 204
