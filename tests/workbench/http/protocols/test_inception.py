"""INCEpTION's external recommender: a request as it sends it, answered by the document with predicted spans."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import httpx
import pytest
from cassis import Cas, TypeSystem, load_cas_from_xmi, load_typesystem

from crossner_core.formats.cas import dkpro_types
from crossner_core.formats.webanno_tsv import NAMED_ENTITY
from crossner_core.schema import LabelledSentence
from tests.support.api import secret_of
from tests.workbench.http.protocols.conftest import Trained
from workbench.runs import predicting

pytestmark = pytest.mark.slow
SEGMENTS = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"
HEAD = "𝄞 A letter that takes two units of UTF-16 ."


def inception_types() -> TypeSystem:
    """Return a type system as INCEpTION sends it: DKPro's, with the features of predictions on the layer."""
    system = dkpro_types()
    layer = system.get_type(NAMED_ENTITY)
    for name, kind in (
        ("inception_internal_predicted", "uima.cas.Boolean"),
        ("value_score", "uima.cas.Double"),
        ("value_score_explanation", "uima.cas.String"),
    ):
        system.create_feature(layer, name, kind)
    return system


def document(items: list[LabelledSentence], *, system: TypeSystem | None = None, segmented: bool = True) -> Cas:
    cas = Cas(system or inception_types())
    lines = [HEAD, *(item.sentence.text for item in items)]
    cas.sofa_string, cas.sofa_mime = "\n".join(lines), "text/plain"
    sentence, token = (cas.typesystem.get_type(f"{SEGMENTS}.{name}") for name in ("Sentence", "Token"))
    start = len(HEAD) + 1
    for item in items if segmented else []:
        cas.add(sentence(begin=start, end=start + len(item.sentence.text)))
        cas.add_all(token(begin=start + each.start, end=start + each.end) for each in item.sentence.tokens)
        start += len(item.sentence.text) + 1
    return cas


def request_of(cas: Cas, **metadata: Any) -> dict[str, Any]:
    known = {
        "layer": NAMED_ENTITY, "feature": "value", "projectId": 7, "anchoringMode": "tokens", "crossSentence": False,
        "range": {"begin": 0, "end": len(cas.sofa_string.encode("utf-16-le")) // 2},
    }  # fmt: skip
    return {
        "metadata": known | metadata,
        "document": {"xmi": cas.to_xmi(), "documentId": 3, "userId": "ann1"},
        "typeSystem": cas.typesystem.to_xml(),
        "tagsets": {},
    }


def post(trained: Trained, body: Any, *, who: str = "res", call: str = "predict", **options: Any) -> httpx.Response:
    secret = secret_of(trained.store, trained.people[who], options.pop("scope", "read"))
    campaign = options.pop("campaign", trained.campaign)
    url = f"{trained.url}/api/inception/{campaign}/{secret}/{call}"
    return httpx.post(
        url, timeout=60, **({"json": body} if not isinstance(body, bytes) else {"content": body}), **options
    )


def predicted(answer: httpx.Response, cas: Cas) -> list[Any]:
    assert answer.status_code == 200, answer.text
    system = load_typesystem(BytesIO(cas.typesystem.to_xml().encode()))
    back = load_cas_from_xmi(answer.json()["document"], system)  # strict: nothing that its type system lacks
    assert back.sofa_string == cas.sofa_string
    return [each for each in back.select(NAMED_ENTITY) if each.inception_internal_predicted]


def test_prediction_is_the_models_in_the_same_document(trained: Trained, unseen: list[LabelledSentence]) -> None:
    cas = document(unseen)
    entity = cas.typesystem.get_type(NAMED_ENTITY)
    cas.add(entity(begin=2, end=3, value="somebody's"))
    made = predicted(post(trained, request_of(cas)), cas)
    expected, start = [], len(HEAD) + 1
    for item, spans in zip(unseen, trained.spans(unseen), strict=True):
        for first, last, type in spans:
            low, high = item.sentence.char_range(first, last)
            expected.append((start + low, start + high, type))
        start += len(item.sentence.text) + 1
    assert expected and [(each.begin, each.end, each.value) for each in made] == expected
    assert all(0 <= each.value_score <= 1 for each in made)
    assert all("inception_internal_predicted" not in str(each.value) for each in made)


def test_range_counts_units_of_utf16(trained: Trained, unseen: list[LabelledSentence]) -> None:
    cas = document(unseen)
    first = next(number for number, spans in enumerate(trained.spans(unseen)) if spans)
    begin = len(HEAD) + 1 + sum(len(item.sentence.text) + 1 for item in unseen[:first])
    units = {"begin": begin + 1, "end": begin + 1 + len(unseen[first].sentence.text)}
    made = predicted(post(trained, request_of(cas, range=units)), cas)
    assert made and all(begin <= each.begin < begin + len(unseen[first].sentence.text) for each in made)
    before = predicted(post(trained, request_of(cas, range={"begin": 0, "end": 2})), cas)
    assert before == []


def test_text_without_sentences_is_split_and_single_tokens_stay_single(
    trained: Trained, unseen: list[LabelledSentence]
) -> None:
    cas = document(unseen, segmented=False)
    assert predicted(post(trained, request_of(cas)), cas)
    for each in predicted(post(trained, request_of(document(unseen), anchoringMode="singleToken")), document(unseen)):
        assert " " not in cas.sofa_string[each.begin : each.end]


def test_features_of_predictions_are_added_where_the_type_system_lacks_them(
    trained: Trained, unseen: list[LabelledSentence]
) -> None:
    answer = post(trained, request_of(document(unseen, system=dkpro_types())))
    assert answer.status_code == 200 and 'inception_internal_predicted="true"' in answer.json()["document"]


def test_training_is_left_to_the_campaign(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"metadata": {}, "documents": [{"xmi": "x" * 5_000_000}], "typeSystem": ""}
    answer = post(trained, body, call="train")
    assert (answer.status_code, answer.content) == (204, b"")
    with monkeypatch.context() as patched:
        patched.setattr(predicting, "is_training", lambda *_: True)
        assert post(trained, body, call="train").status_code == 429


BOMB = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'


@pytest.mark.parametrize(
    "change, words",
    [
        ({"metadata": {"layer": "custom.Span"}}, "no layer 'custom.Span'; it has"),
        ({"metadata": {"feature": "nothing"}}, "The feature 'nothing' of"),
        ({"metadata": {"feature": "begin"}}, "is uima.cas.Integer"),
        ({"metadata": {"anchoringMode": "sentences"}}, "predicts spans of tokens"),
        ({"metadata": {"range": {"begin": "x", "end": 2}}}, "begin"),
        ({"document": {"xmi": BOMB}}, "document type (DOCTYPE)"),
        ({"document": {"xmi": "no xml"}}, "no CAS that can be read"),
        ({"document": {}}, "xmi"),
        ({"typeSystem": BOMB}, "document type (DOCTYPE)"),
        ({"typeSystem": "<x/>"}, "no layer"),
    ],
)
def test_what_cannot_be_predicted_is_explained(
    trained: Trained, unseen: list[LabelledSentence], change: dict[str, Any], words: str
) -> None:
    body = request_of(document(unseen))
    body = {key: {**value, **change.get(key, {})} if key == "metadata" else change.get(key, value)
            for key, value in body.items()}  # fmt: skip
    answer = post(trained, body)
    assert answer.status_code == 400 and words in answer.json()["detail"], answer.text


def test_bodies_that_are_none_or_too_large(trained: Trained) -> None:
    for body in (b"", b"[]", b"{", b"\xff\xfe", b'{"metadata": 3}'):
        assert post(trained, body).status_code == 400
    answer = post(trained, b"x" * (32 * 1024 * 1024 + 1))
    assert answer.status_code == 413 and "33,554,432" in answer.json()["detail"]


def test_too_much_text_is_refused(trained: Trained, unseen: list[LabelledSentence]) -> None:
    cas = document(unseen, segmented=False)
    cas.sofa_string = "Ines sang with Marble in Oslo .\n" * 7_000
    answer = post(trained, request_of(cas))
    assert answer.status_code == 400 and "up to 200,000" in answer.json()["detail"]


def test_campaign_without_a_model_and_people_who_may_not(trained: Trained, unseen: list[LabelledSentence]) -> None:
    body = request_of(document(unseen))
    answer = post(trained, body, campaign=trained.bare)
    assert answer.status_code == 404 and "no model yet" in answer.json()["detail"]
    assert post(trained, body, campaign="x").status_code == 404
    for call in ("predict", "train"):
        assert post(trained, body, who="ann1", call=call).status_code == 403
        assert post(trained, body, who="adm", call=call).status_code in (200, 204)
