"""Label Studio: a JSON list of tasks, each a text with people's annotations and models' predictions.

Offsets count code points in newer exports and UTF-16 units in older ones: the entities' own texts tell which. The
resource of an entity is a note on its region (`meta.text`), which Label Studio shows and lets people edit.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.formats.base import Format, InputFile, Layout, NamedFile, Parsed, register
from crossner_core.formats.json_documents import document_name
from crossner_core.formats.json_lists import list_items
from crossner_core.formats.layers import GOLD, layer_names, proposals, turns, utc
from crossner_core.formats.source import Data, clip, refused
from crossner_core.formats.standoff import (
    Entity,
    Mark,
    StandoffOptions,
    Text,
    Utf16,
    count_links,
    document_of,
    entities_of,
    file_of,
    is_annotated,
    text_of,
)
from crossner_core.schema import is_entity

_TAKE = ("annotations", "predictions")
# A list of objects with keys that only its exports have.
_KEYS = rb'"(?:annotations|completions|predictions|annotation_id|annotator)"'
_CONTENT = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\[\s*\{(?=.*?" + _KEYS + rb"\s*:)", re.DOTALL)
_LABELS = ("labels", "hypertextlabels", "paragraphlabels")


@dataclass(frozen=True)
class LabelStudioOptions(StandoffOptions):
    """How to read an export of Label Studio."""

    take: str = field(
        default="annotations",
        metadata={"doc": "Whose entities: people's, or predictions.", "choices": _TAKE},
    )
    annotator: str = field(
        default="",
        metadata={
            "doc": "Whose annotations: a user's name, e-mail address or number; of predictions the model version."
        },
    )
    text_key: str = field(default="", metadata={"doc": "Key of a task's data that holds the text. Default: text."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.take not in _TAKE:
            raise InvalidConfig(f"take is {self.take!r}; allowed are {' and '.join(_TAKE)}.")


@dataclass(frozen=True)
class LabelStudioLayout(Layout):
    """A task's own id and data beside its text, and the key of that."""

    id: int | None = None
    text_key: str = "text"
    document: str = ""


@dataclass(frozen=True, slots=True)
class _Region:
    start: int
    end: int
    text: str | None
    types: tuple[str, ...]
    entity: str | None = None


def read(files: Sequence[InputFile], options: LabelStudioOptions) -> Iterator[Parsed]:
    """Read each task as a document; of several annotations one.

    It is the newest of the annotator asked for, else the ground truth, else the first that was kept; of predictions the
    last.
    """
    for name, data in files:
        stem = PurePosixPath(name).stem
        units = _counted_in_units(_tasks(data, name, options, counted=False), name)
        for text, regions, layout, place, losses, annotated in _tasks(data, name, options):
            offsets = Utf16.of(text)
            marks = [
                Mark(
                    ((offsets.points(r.start), offsets.points(r.end)) if units else (r.start, r.end),),
                    type,
                    entity=r.entity,
                )
                for r in regions
                for type in r.types
            ]
            called = layout.document or f"{stem}/{layout.id if layout.id is not None else place}"
            made = document_of(
                Text(called, text), marks, options, layout, file=f"{name}, task {place}", annotated=annotated,
                losses=losses,
            )  # fmt: skip
            notes = ("Offsets were read as UTF-16 units, in which they fit the entities' texts.",) if units else ()
            yield replace(made, notes=notes)


_Task = tuple[str, list[_Region], LabelStudioLayout, int, Counter[str], bool]


def _tasks(data: Data, name: str, options: LabelStudioOptions, *, counted: bool = True) -> Iterator[_Task]:
    for number, task in enumerate(list_items(data, name, counted=counted), 1):
        if not isinstance(task, dict):
            raise refused(name, 1, "a list of tasks is expected, as Label Studio exports under JSON")
        yield _task(task, number, name, options)


def _task(task: Mapping[str, Any], number: int, name: str, options: LabelStudioOptions) -> _Task:
    data = task.get("data") if isinstance(task.get("data"), dict) else task
    key, text = _text(data or {}, options.text_key)
    if text is None:
        wanted = options.text_key or "text"
        raise refused(name, 1, f"task {number} has no text under {wanted!r}; name its key by the option text_key")
    losses: Counter[str] = Counter()
    if data is task:  # the short export, JSON_MIN
        labels = task.get("label")
        regions = [region for item in labels or () if (region := _region(item, item, losses)) is not None]
        annotated = labels is not None
        if annotated and options.annotator not in ("", str(task.get("annotator"))):
            losses["annotations by others"] += 1
            regions, annotated = [], False
    else:
        results, annotated = _results(task, options, losses)
        regions = []
        for item in results:
            value = item.get("value") if isinstance(item, dict) else None
            region = _region(value, item, losses) if isinstance(value, dict) else None
            if region is not None:
                regions.append(region)
            else:
                losses[
                    "relations" if isinstance(item, dict) and item.get("type") == "relation" else "other results"
                ] += 1
    id = task.get("id")
    layout = LabelStudioLayout(id=id if type(id) is int else None, text_key=key, document=document_name(data or {}))
    return text, regions, layout, number, losses, annotated


def _text(data: Mapping[str, Any], key: str) -> tuple[str, str | None]:
    if key:
        return key, data[key] if isinstance(data.get(key), str) else None
    if isinstance(data.get("text"), str):
        return "text", data["text"]
    texts = [name for name, value in data.items() if isinstance(value, str)]
    return (texts[0], data[texts[0]]) if len(texts) == 1 else ("text", None)


def _results(task: Mapping[str, Any], options: LabelStudioOptions, losses: Counter[str]) -> tuple[list[Any], bool]:
    """Return the results that count and whether there are any; count the others by kind."""
    people = [entry for entry in task.get("annotations") or task.get("completions") or () if isinstance(entry, dict)]
    kept = [entry for entry in people if not entry.get("was_cancelled") and isinstance(entry.get("result"), list)]
    models = [entry for entry in task.get("predictions") or () if isinstance(entry, dict)]
    models = [entry for entry in models if isinstance(entry.get("result"), list)]
    losses["annotations that were cancelled"] += len(people) - len(kept)
    if options.take == "predictions":
        of_model = [each for each in models if options.annotator in ("", str(each.get("model_version")))]
        losses["annotations by people"] += len(kept)
        losses["predictions of other models"] += len(models) - bool(of_model)
        return (of_model[-1]["result"], True) if of_model else ([], False)
    if options.annotator:
        best = max((each for each in kept if options.annotator in _names(each)), key=_time, default=None)
    else:
        best = next((each for each in kept if each.get("ground_truth")), kept[0] if kept else None)
    losses["predictions"] += len(models)
    losses["annotations by others"] += len(kept) - (best is not None)
    return (best["result"], True) if best is not None else ([], False)


def _names(annotation: Mapping[str, Any]) -> set[str]:
    """Return what names the annotator of an annotation: number, e-mail address, user name."""
    by = annotation.get("completed_by")
    values = by.values() if isinstance(by, dict) else (by,)
    user = str(annotation.get("created_username") or "")
    return {str(value) for value in values if value is not None} | {user, user.rpartition(",")[0].strip()} - {""}


def _time(annotation: Mapping[str, Any]) -> str:
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _region(value: Mapping[str, Any], item: Mapping[str, Any], losses: Counter[str]) -> _Region | None:
    types = next((value[key] for key in _LABELS if isinstance(value.get(key), list)), None)
    start, end, text = value.get("start"), value.get("end"), value.get("text")
    if (
        not types
        or type(start) is not int
        or type(end) is not int
        or not all(isinstance(entry, str) for entry in types)
    ):
        return None
    return _Region(start, end, text if isinstance(text, str) else None, tuple(types), _entity(item, losses))


def _entity(item: Mapping[str, Any], losses: Counter[str]) -> str | None:
    """Return the first resource among the notes of a region (`meta.text`), and count the other notes."""
    meta = item.get("meta")
    notes = meta.get("text") if isinstance(meta, dict) else None
    notes = [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []
    entity = next(filter(is_entity, notes), None)
    losses["notes on entities"] += len(notes) - (entity is not None)
    return entity


def _counted_in_units(tasks: Iterable[_Task], name: str) -> bool:
    """Tell whether offsets are UTF-16 units: the texts fit only so. Raise BadInput where they fit in neither count."""
    fits = {True: True, False: True}
    worst = ""
    for text, regions, _, place, *_ in tasks:
        astral = Utf16.of(text)
        for region in regions:
            if region.text is None:
                continue
            wanted = region.text.split()
            points = text[region.start : region.end].split() == wanted
            units = points
            if astral.astral:
                units = text[astral.points(region.start) : astral.points(region.end)].split() == wanted
            fits[False] &= points
            fits[True] &= units
            if not (points or units) and not worst:
                worst = f"task {place}: [{region.start}, {region.end}) is not {clip(region.text)} in its text"
    if any(fits.values()):
        return not fits[False]
    raise refused(name, 1, f"{worst or 'offsets of some tasks count code points and of others UTF-16 units'}")


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write all documents as tasks of one list, annotated ones with an annotation; offsets count code points."""
    tasks = []
    for number, document in enumerate(documents, 1):
        text, starts = text_of(document)
        layout = document.layout
        key = layout.text_key if isinstance(layout, LabelStudioLayout) else "text"
        id = layout.id if isinstance(layout, LabelStudioLayout) and layout.id is not None else number
        task: dict[str, Any] = {"id": id, "data": {key: text, "document": document.name}}
        if layer_names(document):
            task["annotations"] = list(_annotations(document, text, starts, number, losses))
            task["predictions"] = _predictions(document, text, starts, number)
        elif is_annotated(document):
            result = _result(text, entities_of(document, starts), number)
            task["annotations"] = [{"result": result, "was_cancelled": False, "ground_truth": False}]
        count_links(document, losses)
        tasks.append(task)
    yield file_of(documents, ".json"), _dumped(tasks)


def _result(text: str, entities: Iterable[Entity], number: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{number}-{place}", "from_name": "label", "to_name": "text", "type": "labels",
            "value": {"start": start, "end": end, "text": text[start:end], "labels": [type]},
            **({"meta": {"text": [entity]}} if entity is not None else {}),
        }
        for place, (start, end, type, entity) in enumerate(entities, 1)
    ]  # fmt: skip


def _annotations(
    document: Parsed, text: str, starts: Sequence[int], number: int, losses: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yield an annotation for each person of a layer, and one for the gold, which is the ground truth.

    Who did it is `created_username`: of people who are no users of its own, Label Studio refuses a `completed_by`.
    """
    for layer, done, by, when in turns(document, layer_names(document), losses):
        yield {
            "result": _result(text, entities_of(done, starts), number),
            "was_cancelled": False,
            "ground_truth": layer == GOLD,
            "layer": layer,
            **({"created_at": utc(when), "updated_at": utc(when)} if when is not None else {}),
            **({"created_username": by} if by else {}),
        }


def _predictions(document: Parsed, text: str, starts: Sequence[int], number: int) -> list[dict[str, Any]]:
    """Return a prediction for each source of suggestions; its score is the mean of theirs."""
    by_source: dict[str, list[tuple[Entity, float]]] = {}
    for entity, source, score in proposals(document, starts):
        by_source.setdefault(source, []).append((entity, score))
    made = []
    for source, proposed in by_source.items():
        result = _result(text, [entity for entity, _ in proposed], number)
        scores = [score for _, score in proposed]
        result = [{**region, "score": score} for region, score in zip(result, scores, strict=True)]
        made.append({"model_version": source, "score": sum(scores) / len(scores), "result": result})
    return made


def _dumped(tasks: Sequence[Mapping[str, Any]]) -> bytes:
    lines = ",\n".join(json.dumps(task, ensure_ascii=False) for task in tasks)
    return f"[\n{lines}\n]\n".encode()


register(
    Format(
        "label-studio",
        "Label Studio JSON",
        (".json",),
        read,
        write,
        options_type=LabelStudioOptions,
        layout_type=LabelStudioLayout,
        by_document=True,
        annotates_documents=True,
        holds_entities=True,
        holds_layers=True,
        one_file=True,
        content=_CONTENT,
        example='[{"data": {"text": "Mara Vell sang."}, "annotations": [{"result": […]}]}]',
    )
)
