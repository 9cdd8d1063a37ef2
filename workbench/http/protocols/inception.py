"""INCEpTION's external recommender: a document with its type system in, the same document with predicted spans out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import Field
from starlette.responses import Response

from crossner_core.errors import BadInput
from crossner_core.formats.cas import XmiLayout, open_cas, text_in, xmi_of
from crossner_core.formats.source import clip
from crossner_core.formats.standoff import Utf16
from workbench.accounts.roles import KEEPERS
from workbench.http.api.declared import Call
from workbench.http.api.problems import Explained, problem
from workbench.http.protocols.declared import PROTOCOLS, Asked, Protocol, Sent
from workbench.http.protocols.predicted import Entity, Range, predict_texts
from workbench.runs import predicting

if TYPE_CHECKING:
    from cassis import Cas
    from cassis.typesystem import Type

DOCUMENT_BYTES = 32 * 1024 * 1024
TRAINING_BYTES = 512 * 1024 * 1024
"""What INCEpTION sends of all documents to train on; it is not read, but has to be received."""
IS_PREDICTION = "inception_internal_predicted"
_ANCHORS = ("tokens", "singleToken", "characters")
_NAME = "document.xmi"


class Between(Sent):
    """A part of the text, in UTF-16 units."""

    begin: int
    end: int


class Metadata(Sent):
    """Which layer and feature are to be predicted, and where."""

    layer: str
    feature: str
    anchoring_mode: str = Field("tokens", alias="anchoringMode")
    range: Between | None = None


class Document(Sent):
    """A document as XMI."""

    xmi: str


class ToPredict(Sent):
    """A request for predictions."""

    metadata: Metadata
    document: Document
    type_system: str = Field(alias="typeSystem")


def _refuse(made: Explained, path: str) -> Response:
    return problem(made.kind, made.detail, path=path, problems=made.problems, headers=made.headers)


INCEPTION = PROTOCOLS.add(
    "inception",
    Protocol(
        id="inception",
        title="INCEpTION's external recommender",
        root="/api/inception",
        refuse=_refuse,
        has_token_in_path=True,
    ),
)


@INCEPTION.operation(
    "POST",
    "/{campaign}/predict",
    scope="read",
    roles=KEEPERS,
    use=predicting.predict,
    reads="body",
    slots="model",
    most_bytes=DOCUMENT_BYTES,
)
def predict(call: Call, asked: Asked) -> Response:
    """Answer with the document and what the campaign's model predicts in the part that is asked for."""
    campaign_id, sent = asked.number("campaign"), asked.json(ToPredict)
    metadata = sent.metadata
    if metadata.anchoring_mode not in _ANCHORS:
        raise BadInput(
            f"The layer {clip(metadata.layer)} is anchored at {clip(metadata.anchoring_mode)}; a campaign's model "
            f"predicts spans of tokens, for layers anchored at {', '.join(_ANCHORS)}."
        )
    cas = open_cas(sent.document.xmi.encode("utf-8", "replace"), sent.type_system.encode("utf-8", "replace"), _NAME)
    layer = _layer(cas, metadata)
    text = text_in(cas, _NAME)
    made = predict_texts(call, campaign_id, [text], XmiLayout(), within=_within(metadata, text.text))
    for entity in made.entities[0]:
        if metadata.anchoring_mode != "singleToken" or entity.tokens == 1:
            cas.add(_annotation(layer, metadata.feature, entity))
    return Response(json.dumps({"document": xmi_of(cas, _NAME)}).encode(), media_type="application/json")


@INCEPTION.operation(
    "POST",
    "/{campaign}/train",
    scope="read",
    roles=KEEPERS,
    use=predicting.is_training,
    reads="skipped",
    most_bytes=TRAINING_BYTES,
)
def train(call: Call, asked: Asked) -> Response:
    """Answer 204, or 429 while a run of the campaign waits or trains: a campaign trains by its own rounds."""
    is_training = predicting.is_training(call.store, call.actor, asked.number("campaign"))
    return Response(status_code=429 if is_training else 204)


def _layer(cas: Cas, metadata: Metadata) -> Type:
    """Return the layer's type with the features of predictions; raise BadInput where the type system lacks it."""
    system, layer, feature = cas.typesystem, metadata.layer, metadata.feature
    if not system.contains_type(layer):
        names = sorted(type.name for type in system.get_types() if not type.name.startswith("uima."))
        listed = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
        raise BadInput(f"The type system has no layer {clip(layer)}; it has {listed or 'none'}.")
    type = system.get_type(layer)
    features = {each.name: str(each.rangeType.name) for each in type.all_features}
    if "begin" not in features or "end" not in features:
        raise BadInput(f"The layer {clip(layer)} has no spans; a campaign's model predicts spans.")
    if features.get(feature) != "uima.cas.String":
        texts = ", ".join(name for name, kind in sorted(features.items()) if kind == "uima.cas.String")
        kind = f"is {features[feature]}" if feature in features else "is not there"
        raise BadInput(
            f"The feature {clip(feature)} of {clip(layer)} {kind}; an entity type is a text, and the layer has "
            f"{texts or 'no feature with texts'}."
        )
    for name, kind in ((IS_PREDICTION, "uima.cas.Boolean"), (f"{feature}_score", "uima.cas.Double")):
        if name not in features:
            system.create_feature(type, name, kind)
    return type


def _within(metadata: Metadata, text: str) -> Range | None:
    if metadata.range is None:
        return None
    units = Utf16.of(text)
    return units.points(metadata.range.begin), units.points(metadata.range.end)


def _annotation(layer: Type, feature: str, entity: Entity) -> Any:
    values = {feature: entity.type, IS_PREDICTION: True, f"{feature}_score": entity.probability}
    return layer(begin=entity.start, end=entity.end, **values)
