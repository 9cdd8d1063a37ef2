"""AERO v1: every call of pycaprio against a running server, and what is refused in AERO's envelope."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cassis import load_cas_from_xmi, load_typesystem
from pycaprio import Pycaprio
from pycaprio.core.adapters.http_adapter import HttpInceptionAdapter
from pycaprio.core.exceptions import InceptionBadResponse
from pycaprio.core.interfaces.client import BaseInceptionClient
from pycaprio.core.mappings import AnnotationState, DocumentState, InceptionFormat

from crossner_core.formats.cas import TYPE_SYSTEM
from crossner_core.formats.webanno_tsv import NAMED_ENTITY
from db.engine import Store
from tests.support.api import secret_of, serving, settings_for
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import browsing
from workbench.data.searching import Search
from workbench.http.protocols.aero import AERO, FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")
TEXT = "Mara Vell sang in Oslo. It was cold.\n\n𝄞 The Tin Gulls played on.  Nobody left.\n"


@dataclass
class Served:
    """A server with a campaign, and clients of pycaprio for people."""

    url: str
    store: Store
    people: dict[str, Actor]
    campaign: int

    def client(self, name: str, scope: str = "write") -> HttpInceptionAdapter:
        return Pycaprio(self.url, (name, secret_of(self.store, self.people[name], scope))).api

    def http(self, name: str) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}{AERO.root}", auth=(name, secret_of(self.store, self.people[name])))


@pytest.fixture
def served(
    store: Store, people: dict[str, Actor], campaign: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setattr("pycaprio.core.clients.retryable_client.time.sleep", lambda _seconds: None)
    with serving(settings_for(store, tmp_path)) as url:
        yield Served(url, store, people, campaign)


def stream(data: str | bytes) -> io.BytesIO:
    return io.BytesIO(data.encode() if isinstance(data, str) else data)


def refusal(call: Callable[[], Any]) -> tuple[int, str]:
    """Return the status and the message of a call that is refused; its body must be AERO's envelope."""
    with pytest.raises(InceptionBadResponse) as caught:
        call()
    response = caught.value.bad_response
    value = response.json()
    assert value["body"] is None and all(set(each) == {"level", "message"} for each in value["messages"])
    assert value["messages"][0]["level"] == "ERROR"
    return response.status_code, value["messages"][0]["message"]


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def opened(data: bytes) -> Any:
    files = unpacked(data)
    xmi = next(value for name, value in files.items() if name.endswith(".xmi"))
    return load_cas_from_xmi(io.BytesIO(xmi), load_typesystem(io.BytesIO(files[TYPE_SYSTEM])))


def marked(data: bytes, *spans: tuple[str, str]) -> bytes:
    """Return an XMI of ours with entities (words, type) added, and the type system it needs no longer beside it."""
    cas = opened(data)
    entity = cas.typesystem.get_type(NAMED_ENTITY)
    for words, type in spans:
        begin = cas.sofa_string.index(words)
        cas.add(entity(begin=begin, end=begin + len(words), value=type))
    return cas.to_xmi().encode()


def entities(data: bytes) -> list[tuple[str, str]]:
    cas = opened(data)
    return [(each.get_covered_text(), each.value) for each in cas.select(NAMED_ENTITY)]


def test_projects_come_and_go(served: Served) -> None:
    adm, res = served.client("adm"), served.client("res")
    made = res.create_project("Concerts", "music")
    assert (made.project_name, made.project_title) == ("Concerts", "music")
    assert res.project(made).project_name == "Concerts"
    assert [each.project_name for each in res.projects()] == ["Concerts", "Music"]
    assert [each.project_name for each in served.client("ann1").projects()] == ["Music"]
    archived = adm.export_project(served.campaign)
    assert "manifest.json" in unpacked(archived)
    assert refusal(lambda: adm.import_project(stream(archived)))[0] == 409
    assert refusal(lambda: adm.delete_project(made)) == (
        409, "The campaign 'Concerts' is in use; archive it first, then delete it.",
    )  # fmt: skip
    campaigns.update_settings(served.store, served.people["adm"], made.project_id, archived=True)
    assert refusal(lambda: res.delete_project(made))[0] == 403
    assert adm.delete_project(made)
    campaigns.update_settings(served.store, served.people["adm"], served.campaign, name="Older")
    back = adm.import_project(stream(archived))
    assert back.project_name == "Music" and back.project_id != served.campaign
    for call, words in (
        (lambda: res.create_project("X"), "A campaign needs a domain"),
        (lambda: res.create_project("X", "music", creator_name="adm"), "cannot make a project for 'adm'"),
        (lambda: adm.import_project(stream(b"no zip")), "zip"),
    ):
        status, message = refusal(call)
        assert status in (400, 403) and words in message, message


def test_document_comes_back_character_for_character(served: Served) -> None:
    res = served.client("res")
    made = res.create_document(served.campaign, "concert", stream(TEXT))
    assert (made.document_name, made.document_state) == ("concert", "NEW")
    listed = {each.document_name: each for each in res.documents(served.campaign)}
    assert set(listed) == {"Music", "concert"} and listed["concert"].document_id == made.document_id
    assert res.document(served.campaign, made) == TEXT.encode()
    cas = opened(res.document(served.campaign, made, InceptionFormat.UIMA_CAS_XMI))
    assert cas.sofa_string == TEXT
    for name, format in FORMATS.items():
        if format.written is not None:
            assert res.document(served.campaign, made, name)
    again = res.create_document(served.campaign, "tagged", stream(another_document(res, served, made)), "xmi")
    assert again.document_name == "tagged"
    assert "𝄞" in res.document(served.campaign, again).decode()
    assert refusal(lambda: res.create_document(served.campaign, "concert", stream("New ."), "text"))[0] == 409
    status, message = refusal(lambda: res.create_document(served.campaign, "twice", stream(TEXT)))
    assert status == 409 and "in the campaign already" in message


def another_document(res: HttpInceptionAdapter, served: Served, made: Any) -> bytes:
    """Return another text as XMI, so that nothing of it is in the campaign."""
    xmi = marked(res.document(served.campaign, made, "xmi"), ("Mara Vell", "musicalartist"))
    return (
        xmi.replace(b"Mara Vell", b"Vara Mell")
        .replace(b"cold", b"warm")
        .replace(b"on.", b"by.")
        .replace(b"left", b"went")
    )


def test_only_documents_without_work_are_deleted(served: Served) -> None:
    res, ann = served.client("res"), served.client("ann1")
    made = res.create_document(served.campaign, "concert", stream(TEXT))
    draft = marked(res.document(served.campaign, made, "xmi"), ("Mara Vell", "musicalartist"))
    ann.create_annotation(served.campaign, made, "ann1", stream(draft), "xmi")
    status, message = refusal(lambda: res.delete_document(served.campaign, made))
    assert status == 409 and "Work is never overwritten" in message
    other = res.create_document(served.campaign, "other", stream("Ada Quill won . Then it rained ."))
    assert refusal(lambda: ann.delete_document(served.campaign, other))[0] == 403
    assert res.delete_document(served.campaign, other)
    assert refusal(lambda: res.document(served.campaign, other))[0] == 404
    assert not browsing.browse(served.store, served.people["res"], served.campaign, Search(text="rained")).lines


def test_annotation_of_a_person(served: Served) -> None:
    res, ann, other = served.client("res"), served.client("ann1"), served.client("ann2")
    made = res.create_document(served.campaign, "concert", stream(TEXT))
    place = (served.campaign, made)
    empty = ann.document(*place, "xmi")
    draft = ann.create_annotation(*place, "ann1", stream(marked(empty, ("Oslo", "location"))), "xmi")
    assert draft.annotation_state == "IN-PROGRESS" and res.annotations(*place) == []
    wanted = (("Mara Vell", "musicalartist"), ("The Tin Gulls", "band"))
    sent = ann.create_annotation(*place, "ann1", stream(marked(empty, *wanted)), "xmi", AnnotationState.COMPLETE)
    assert (sent.user_name, sent.annotation_state) == ("ann1", "COMPLETE")
    (listed,) = res.annotations(*place)
    assert (listed.user_name, listed.annotation_state) == ("ann1", "COMPLETE") and listed.timestamp
    for client in (ann, res):
        assert entities(client.annotation(*place, "ann1", "xmi")) == list(wanted)
        assert client.annotation(*place, "ann1", "text") == TEXT.encode()
    assert b"band" in res.annotation(*place, "ann1", InceptionFormat.WEBANNO_TSV_3)
    assert res.documents(served.campaign)[-1].document_state == DocumentState.ANNOTATION_IN_PROGRESS
    assert ann.create_annotation(*place, "ann1", stream(marked(empty, *wanted)), "xmi", "COMPLETE")  # sent again
    assert ann.update_annotation_state(*place, "ann1", AnnotationState.IN_PROGRESS)
    assert res.annotations(*place) == []
    assert ann.update_annotation_state(*place, "ann1", AnnotationState.COMPLETE)
    assert entities(res.annotation(*place, "ann1", "xmi")) == list(wanted)
    late = marked(empty, ("Oslo", "location"))
    for call, status, words in (
        (lambda: other.create_annotation(*place, "ann2", stream(late), "xmi", "COMPLETE"), 409, "Somebody else"),
        (lambda: other.create_annotation(*place, "ann1", stream(late), "xmi"), 403, "their own work"),
        (lambda: other.annotation(*place, "ann1", "xmi"), 403, "their own work"),
        (lambda: res.create_annotation(*place, "res", stream(late), "xmi"), 403, "annotator or expert"),
        (lambda: other.annotations(*place), 403, "researcher or admin"),
        (lambda: res.annotation(*place, "ann2"), 404, "has submitted nothing"),
        (lambda: res.annotation(*place, "nobody"), 404, "has submitted nothing"),
        (lambda: other.update_annotation_state(*place, "ann2", "COMPLETE"), 404, "no work"),
        (lambda: ann.update_annotation_state(*place, "ann1", "LOCKED"), 400, "allowed are NEW"),
        (lambda: ann.delete_annotation(*place, "ann1"), 409, "never deleted"),
        (lambda: ann.create_annotation(*place, "ann1", stream(TEXT), "text"), 400, "holds no annotation"),
    ):
        assert refusal(call)[0] == status and words in refusal(call)[1], refusal(call)


def test_curation_is_gold(served: Served) -> None:
    res, eva = served.client("res"), served.client("eva")
    made = res.create_document(served.campaign, "concert", stream(TEXT))
    place = (served.campaign, made)
    assert refusal(lambda: res.curation(*place))[0] == 404
    wanted = [("Mara Vell", "musicalartist"), ("The Tin Gulls", "band")]
    content = marked(res.document(*place, "xmi"), *wanted)
    assert refusal(lambda: eva.create_curation(*place, ("data", stream(content)), curation_format="xmi"))[0] == 403
    done = res.create_curation(*place, ("data", stream(content)), curation_format="xmi")
    assert done.document_state == "CURATION-COMPLETE"
    for client in (res, eva):
        assert entities(client.curation(*place, "xmi")) == wanted
    assert [each.document_name for each in res.curations(served.campaign, "CURATION-COMPLETE")] == ["concert"]
    assert refusal(lambda: served.client("ann1").curation(*place))[0] == 403
    assert refusal(lambda: res.delete_curation(*place)) == (
        409, "Gold is never deleted; an expert reopens it in the editor.",
    )  # fmt: skip
    again = refusal(lambda: res.create_curation(*place, ("data", stream(content)), curation_format="xmi"))
    assert again[0] == 409 and "carry work" in again[1]
    other = stream(another_document(res, served, made))
    sent = res.create_document(served.campaign, "gold", other, "xmi", DocumentState.CURATION_COMPLETE)
    assert sent.document_state == "CURATION-COMPLETE" and res.curation(served.campaign, sent)


def test_content_that_does_not_fit_changes_nothing(served: Served) -> None:
    res = served.client("res")
    made = res.create_document(served.campaign, "concert", stream(TEXT))
    place = (served.campaign, made)
    xmi = res.document(*place, "xmi")
    bomb = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'
    for content, status, words in (
        (marked(xmi, ("Mara", "no type")), 400, "entity type"),
        (marked(xmi, ("Mara", "band")).replace(b"Oslo", b"Rome"), 409, "The text is not that"),
        (marked(xmi, ("ara", "band")), 400, "begin and end with its tokens"),
        (bomb, 400, "DOCTYPE"),
        (b"", 400, ""),
    ):
        call = lambda content=content: res.create_curation(*place, ("data", stream(content)), curation_format="xmi")  # noqa: E731
        found = refusal(call)
        assert found[0] == status and words in found[1], found
    assert res.documents(served.campaign)[-1].document_state == "NEW"
    status, message = refusal(lambda: res.create_document(served.campaign, "long", stream("A song .\n" * 400_000)))
    assert status == 400 and "import it on Data" in message
    for call in (
        lambda: res.create_document(served.campaign, "b", stream("x"), "nothing"),
        lambda: res.create_document(served.campaign, "b", stream("x"), "text", "LOCKED"),
        lambda: res.document(*place, "bin"),
        lambda: res.document(*place, "dkpro-core-tei"),
    ):
        status, message = refusal(call)
        assert status == 400 and ("allowed are" in message or "only read" in message)


def test_strangers_wrong_scopes_and_odd_requests(served: Served) -> None:
    with pytest.raises(InceptionBadResponse):
        Pycaprio(served.url, ("res", "crossner_wrong")).api.projects()
    reader = served.client("res", "read")
    assert reader.projects()
    status, message = refusal(lambda: reader.create_project("X", "music"))
    assert status == 403 and "needs the scope write" in message
    with served.http("res") as http:
        assert http.get("/projects/99/documents").status_code == 404
        for path in ("/projects/x", "/projects/-1", "/projects/99999999999", "/nothing", "/projects/1/documents/9"):
            answer = http.get(path)
            assert answer.status_code == 404 and answer.json()["messages"], path
        assert http.put("/projects").status_code == 405
        assert http.get("/projects/1/documents", headers={"sec-fetch-site": "cross-site"}).status_code == 403
        form = {"name": "x", "content": "y" * 5}
        secret = secret_of(served.store, served.people["res"], "write")
        for data, files in (({}, None), (form | {"name": "a\0"}, None), ({"name": "x"}, None)):
            answer = http.post("/projects/1/documents", data=data, files=files, auth=("res", secret))
            assert answer.status_code == 400 and answer.json()["body"] is None
        assert http.post("/projects", content=b"x" * (5 * 1024 * 1024), auth=("res", secret)).status_code == 413


def test_every_call_of_pycaprio_is_tried_above() -> None:
    names = {name for name in vars(HttpInceptionAdapter) if not name.startswith("_")}
    text = Path(__file__).read_text(encoding="utf-8")
    assert len(names) > 18 and not {name for name in names if f".{name}(" not in text}
    assert AERO.root == BaseInceptionClient.INCEPTION_API_PATH
