"""Label Studio's ML backend: tasks and their labelling interface in, predicted regions out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from starlette.responses import Response

from crossner_core.errors import BadInput
from crossner_core.formats.label_studio import LabelStudioLayout
from crossner_core.formats.source import clip
from crossner_core.formats.standoff import Text
from crossner_core.formats.xml import elements
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.campaigns import get_domain
from workbench.http.api.declared import Call
from workbench.http.api.problems import Explained, problem
from workbench.http.protocols.declared import PROTOCOLS, Asked, Protocol, Sent
from workbench.http.protocols.predicted import Entity, predict_texts
from workbench.runs import predicting

TASK_BYTES = 8 * 1024 * 1024
WEBHOOK_BYTES = 64 * 1024 * 1024
"""Label Studio sends a whole annotation; it is not read, but has to be received."""
MOST_TASKS = 1_000
_CONFIG = "the labelling interface"


class Task(Sent):
    """A task: its data, such as {"text": "…"}."""

    data: dict[str, Any]


class ToPredict(Sent):
    """A request for predictions."""

    tasks: list[Task]
    label_config: str


class Setup(Sent):
    """What a project sends when it is connected; its own token beside it is not read."""

    interface: str = Field("", alias="schema")


@dataclass(frozen=True, slots=True)
class Interface:
    """Where regions go: the names of <Labels> and <Text>, the key of the text, and our types → their labels."""

    from_name: str
    to_name: str
    key: str
    labels: Mapping[str, str]


def _refuse(made: Explained, path: str) -> Response:
    return problem(made.kind, made.detail, path=path, problems=made.problems, headers=made.headers)


LABEL_STUDIO = PROTOCOLS.add(
    "label_studio",
    Protocol(
        id="label_studio",
        title="Label Studio's ML backend",
        root="/api/label-studio",
        refuse=_refuse,
        has_token_in_path=True,
    ),
)


@LABEL_STUDIO.operation("GET", "/{campaign}/health", scope="read", roles=KEEPERS, use=predicting.model_of)
def health(call: Call, asked: Asked) -> Response:
    """Say that predictions can be asked for; without a model they cannot."""
    run = predicting.model_of(call.store, call.actor, asked.number("campaign"))
    return _json({"status": "UP", "model_class": "CrossNER workbench", "model_version": _version(run)})


@LABEL_STUDIO.operation("GET", "/{campaign}", scope="read", roles=KEEPERS, use=predicting.model_of)
def root_health(call: Call, asked: Asked) -> Response:
    """Answer as `health`, for versions that ask for the address itself."""
    return health(call, asked)


@LABEL_STUDIO.operation("POST", "/{campaign}/setup", scope="read", roles=KEEPERS, use=predicting.model_of, reads="body")
def setup(call: Call, asked: Asked) -> Response:
    """Check the labelling interface, if it is sent, and name the model."""
    campaign_id, sent = asked.number("campaign"), asked.json(Setup)
    run = predicting.model_of(call.store, call.actor, campaign_id)
    if sent.interface.strip():
        read_interface(sent.interface, _types(call, campaign_id))
    return _json({"model_version": _version(run)})


@LABEL_STUDIO.operation(
    "POST",
    "/{campaign}/predict",
    scope="read",
    roles=KEEPERS,
    use=predicting.predict,
    reads="body",
    slots="model",
    most_bytes=TASK_BYTES,
)
def predict(call: Call, asked: Asked) -> Response:
    """Answer with the regions of each task, in the order of the tasks."""
    campaign_id, sent = asked.number("campaign"), asked.json(ToPredict)
    if len(sent.tasks) > MOST_TASKS:
        raise BadInput(f"The request has {len(sent.tasks):,} tasks; up to {MOST_TASKS:,} are read at a time.")
    interface = read_interface(sent.label_config, _types(call, campaign_id))
    texts = [_text(task, number, interface) for number, task in enumerate(sent.tasks, 1)]
    made = predict_texts(call, campaign_id, texts, LabelStudioLayout())
    version = _version(made.run_id)
    results = [
        _prediction(text.text, entities, interface, version)
        for text, entities in zip(texts, made.entities, strict=True)
    ]
    return _json({"results": results, "model_version": version})


@LABEL_STUDIO.operation(
    "POST", "/{campaign}/webhook", scope="read", roles=KEEPERS, use=predicting.is_training, reads="skipped",
    most_bytes=WEBHOOK_BYTES,
)  # fmt: skip
def webhook(call: Call, asked: Asked) -> Response:
    """Answer 201 and do nothing: a campaign trains on its own gold, by its own rounds."""
    predicting.is_training(call.store, call.actor, asked.number("campaign"))
    return _json({"status": "nothing to do: the campaign trains by its own rounds"}, status=201)


def read_interface(config: str, types: Mapping[str, str]) -> Interface:
    """Read a labelling interface for types (name → title); raise BadInput where it has no place for them."""
    texts: dict[str, str] = {}
    labels: list[tuple[str, str, list[str]]] = []
    tags: list[str] = []
    for event, element in elements(config.encode("utf-8", "replace"), _CONFIG):
        tag, attributes = str(element.tag), element.attrib
        if event == "start":
            tags.append(tag)
        elif tag == "Text" and "name" in attributes:
            texts[attributes["name"]] = _key(attributes)
        elif tag == "Labels":
            values = [each.get("alias") or each.get("value") or "" for each in element.iter("Label")]
            labels.append((attributes.get("name", ""), attributes.get("toName", ""), values))
    chosen = next((each for each in labels if each[0] and each[1] in texts), None)
    if chosen is None:
        shown = ", ".join(f"<{clip(tag)}>" for tag in dict.fromkeys(tags[:20]))
        raise BadInput(f"The labelling interface has no <Labels> whose toName is a <Text>; it has {shown}.")
    ours = {_plain(name): type for type, title in types.items() for name in (title, type)}
    matching = {ours[_plain(value)]: value for value in reversed(chosen[2]) if _plain(value) in ours}
    if not matching:
        listed = ", ".join(map(clip, chosen[2][:20])) or "none"
        raise BadInput(
            f"No label of <Labels> {clip(chosen[0])} ({listed}) is a type of the campaign: {', '.join(types)}. "
            "Name the labels after the types."
        )
    return Interface(chosen[0], chosen[1], texts[chosen[1]], matching)


def _key(attributes: Mapping[str, str]) -> str:
    """Return the key of a task's data that a <Text> shows."""
    value = attributes.get("value", "")
    name = clip(attributes["name"])
    if attributes.get("valueType", "text") != "text":
        raise BadInput(f"<Text> {name} shows what lies at an address; only texts in tasks are read.")
    if not value.startswith("$") or len(value) == 1:
        raise BadInput(f"<Text> {name} has the value {clip(value)}; it must be $ and a key.")
    return value[1:]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _types(call: Call, campaign_id: int) -> dict[str, str]:
    return {type.name: type.title for type in get_domain(call.store, call.actor, campaign_id).types}


def _text(task: Task, number: int, interface: Interface) -> Text:
    text = task.data.get(interface.key)
    if not isinstance(text, str):
        raise BadInput(
            f"Task {number} has no text under {clip(interface.key)}, which the labelling interface shows; it has "
            f"{', '.join(map(clip, list(task.data)[:10])) or 'nothing'}."
        )
    return Text(f"task {number}", text)


def _prediction(text: str, entities: Sequence[Entity], interface: Interface, version: str) -> dict[str, Any]:
    """Return a task's prediction; offsets count code points, and its score is its least certain region's."""
    shown = [entity for entity in entities if entity.type in interface.labels]
    result = [
        {
            "id": f"{version}-{place}", "from_name": interface.from_name, "to_name": interface.to_name,
            "type": "labels", "score": entity.probability,
            "value": {
                "start": entity.start, "end": entity.end, "text": text[entity.start : entity.end],
                "labels": [interface.labels[entity.type]],
            },
        }
        for place, entity in enumerate(shown, 1)
    ]  # fmt: skip
    score = min((entity.probability for entity in shown), default=0.0)
    return {"result": result, "score": score, "model_version": version}


def _version(run_id: int) -> str:
    return f"run-{run_id}"


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(json.dumps(value).encode(), status, media_type="application/json")
