"""doccano: JSON lines whose entities are `label: [[start, end, type]]`, or `entities` beside `relations`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.formats.base import Format, Layout, Parsed, register
from crossner_core.formats.json_documents import Entities, offsets, reader, writer
from crossner_core.formats.source import clip
from crossner_core.formats.standoff import StandoffOptions, entities_of, is_annotated


@dataclass(frozen=True)
class DoccanoLayout(Layout):
    """The layout of doccano's lines."""


def _entities(values: Mapping[str, Any], losses: Counter[str]) -> Entities:
    losses["relations"] += len(values.get("relations") or ())
    losses["comments"] += len(values.get("Comments") or values.get("comments") or ())
    if isinstance(values.get("entities"), list):
        entities = [offsets(item, "start_offset", "end_offset", "label", "entity") for item in values["entities"]]
        return entities, bool(entities), None  # doccano writes an empty list where nobody has looked
    labels = values.get("label", values.get("labels"))
    if labels is None:
        return [], False, None
    if not isinstance(labels, list):
        raise BadInput(f"label must be a list of [start, end, type], not {clip(json.dumps(labels))}.")
    entities = []
    for item in labels:
        if not isinstance(item, list) or len(item) != 3:
            raise BadInput(f"label holds {clip(json.dumps(item))}; write [start, end, type].")
        entities.append(
            offsets(dict(zip(("start", "end", "type"), item, strict=True)), "start", "end", "type", "label")
        )
    return entities, bool(entities), None


def _objects(document: Parsed, text: str, starts: list[int], losses: Counter[str]) -> Iterator[Mapping[str, Any]]:
    annotated = is_annotated(document)
    labels = [[start, end, type] for start, end, type, _ in entities_of(document, starts)]
    yield {"text": text, "label": labels if annotated else [], "document": document.name}


register(
    Format(
        "doccano",
        "doccano JSON lines",
        (".jsonl",),
        reader(DoccanoLayout, _entities),
        writer(".jsonl", _objects),
        options_type=StandoffOptions,
        layout_type=DoccanoLayout,
        by_document=True,
        annotates_documents=True,
        one_file=True,
        is_chosen=True,
        example='{"text": "Mara Vell sang.", "label": [[0, 9, "person"]]}',
    )
)
