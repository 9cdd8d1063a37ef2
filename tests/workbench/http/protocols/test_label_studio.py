"""Label Studio's ML backend: its client's calls, and regions that fit the labelling interface."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from crossner_core.errors import BadInput
from crossner_core.schema import LabelledSentence
from tests.support.api import secret_of
from tests.workbench.http.protocols.conftest import Trained
from workbench.http.protocols.label_studio import read_interface

CONFIG = """<View>
  <Labels name="ner" toName="body"><Label value="Musical artist" background="red"/><Label value="BAND"/>
  <Label value="Place" alias="location"/></Labels>
  <Text name="body" value="$content"/>
</View>"""
LABELS = {"musicalartist": "Musical artist", "band": "BAND", "location": "location"}
TYPES = {"musicalartist": "musical artist", "band": "band", "location": "location"}


def post(trained: Trained, call: str, body: Any, *, who: str = "res", campaign: int = 0) -> httpx.Response:
    secret = secret_of(trained.store, trained.people[who], "read")
    url = f"{trained.url}/api/label-studio/{campaign or trained.campaign}/{secret}/{call}"
    return httpx.post(url, json=body, timeout=60)


def request_of(texts: list[str], **changes: Any) -> dict[str, Any]:
    tasks = [{"id": number, "data": {"content": text}, "annotations": []} for number, text in enumerate(texts, 9)]
    params = {"login": "a", "password": "b", "context": None}
    known = {"tasks": tasks, "project": "3.1700000000", "label_config": CONFIG, "model_version": "x", "params": params}
    return known | changes


@pytest.mark.slow
def test_tasks_are_predicted_in_their_order_by_code_points(trained: Trained, unseen: list[LabelledSentence]) -> None:
    texts = ["🎻 " + item.sentence.text for item in unseen] + ["", " "]
    answer = post(trained, "predict", request_of(texts))
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert len(results) == len(texts) and results[-1]["result"] == results[-2]["result"] == []
    assert sum(len(result["result"]) for result in results) > 0
    for text, result in zip(texts, results, strict=True):
        assert result["model_version"] == f"run-{trained.run}"
        ids = [region["id"] for region in result["result"]]
        assert len(set(ids)) == len(ids)
        for region in result["result"]:
            value = region["value"]
            assert (region["from_name"], region["to_name"], region["type"]) == ("ner", "body", "labels")
            assert text[value["start"] : value["end"]] == value["text"] != ""
            assert value["labels"][0] in LABELS.values() and 0 <= region["score"] <= 1
        assert result["score"] == min((region["score"] for region in result["result"]), default=0.0)


@pytest.mark.slow
def test_the_other_calls_of_its_client(trained: Trained) -> None:
    secret = secret_of(trained.store, trained.people["res"], "read")
    url = f"{trained.url}/api/label-studio/{trained.campaign}/{secret}"
    for address in (f"{url}/health", f"{url}/", url):
        health = httpx.get(address)
        assert health.status_code == 200 and health.json()["status"] == "UP"
    setup = {"project": "3.17", "schema": CONFIG, "hostname": "http://studio", "access_token": "its own"}
    assert post(trained, "setup", setup).json() == {"model_version": f"run-{trained.run}"}
    assert post(trained, "setup", {}).status_code == 200
    webhook = post(trained, "webhook", {"action": "ANNOTATION_CREATED", "annotation": {}})
    assert webhook.status_code == 201 and webhook.json()
    header = {"authorization": f"Token {secret}"}
    assert httpx.get(f"{trained.url}/api/label-studio/{trained.campaign}/health", headers=header).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "change, words",
    [
        ({"tasks": [{"data": {"text": "a"}}]}, "no text under 'content'"),
        ({"tasks": [{"data": {"content": 3}}]}, "no text under 'content'"),
        ({"tasks": [{}]}, "data"),
        ({"tasks": [{"data": {}}] * 1_001}, "up to 1,000"),
        ({"label_config": "<View/>"}, "no <Labels>"),
        ({"label_config": "<View>"}, "cannot be read"),
        ({"label_config": None}, "label_config"),
        ({"label_config": '<!DOCTYPE x [<!ENTITY a "b">]><View>&a;</View>'}, "DOCTYPE"),
    ],
)
def test_what_cannot_be_predicted_is_explained(trained: Trained, change: dict[str, Any], words: str) -> None:
    answer = post(trained, "predict", request_of(["a"], **change))
    assert answer.status_code == 400 and words in answer.json()["detail"], answer.text


@pytest.mark.slow
def test_campaign_without_a_model_and_people_who_may_not(trained: Trained) -> None:
    for call, body in (("setup", {"schema": CONFIG}), ("predict", request_of(["Ines sang ."]))):
        answer = post(trained, call, body, campaign=trained.bare)
        assert answer.status_code == 404 and "no model yet" in answer.json()["detail"]
        assert post(trained, call, body, who="eva").status_code in (403, 404)
    assert post(trained, "webhook", {}, who="ann1").status_code in (403, 404)


def test_interface_is_read() -> None:
    made = read_interface(CONFIG, TYPES)
    assert (made.from_name, made.to_name, made.key, made.labels) == ("ner", "body", "content", LABELS)


@pytest.mark.parametrize(
    "config, words",
    [
        ('<View><Labels name="a" toName="b"><Label value="band"/></Labels></View>', "no <Labels> whose toName"),
        ('<View><Labels name="a" toName="b"/><Text name="b" value="$t"/></View>', r"\(none\) is a type"),
        (CONFIG.replace("$content", "content"), "must be \\$ and a key"),
        (CONFIG.replace("$content", "$"), "must be \\$ and a key"),
        (CONFIG.replace('value="$content"', 'value="$u" valueType="url"'), "at an address"),
    ],
)
def test_interface_without_a_place_for_types_is_refused(config: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_interface(config, TYPES)
