"""Whatever was accepted comes out of every export again: checked for a campaign and for a data set."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.formats import read_files
from crossner_core.formats.base import Layout, NamedFile, Record, get_format, layout_from_dict, written_ids
from crossner_core.formats.xml import fit_xml
from crossner_core.schema import LabelledSentence
from db import dataset_rows, layer_rows
from db.engine import Store
from workbench.accounts.actors import Actor
from workbench.data import archive, datasets, exchange, frozen, layers, snapshots
from workbench.data.values import sentence_of

WHICH = (*layers.LAYERS, "sentences")
_BY_SENTENCE = ("plain", "conll", "jsonl")
_NEVER_HELD = {"characters that XML cannot hold": 1, "entity types unchanged": 1}
_EMPTY, _MIXED = "There is nothing to export", "has no annotation but others do"
# How a layout is stated again to a reader that cannot infer it, and what the sentences of an archive may exceed.
_STATED = {"split": "split", "scheme": "scheme", "token_column": "token_column", "lenient": "lenient"}


def check_campaign(store: Store, admin: Actor, campaign_id: int, **options: Any) -> None:
    """Assert that all sentences come out in each format, each layer in some, and all as an archive and as a snapshot.

    `options` are given to the readers of what came out.
    """
    records = {which: stored(store, admin, campaign_id, which) for which in WHICH}
    for which in WHICH:
        for format in written_ids() if which == "sentences" else _BY_SENTENCE:
            _check_layer(store, admin, campaign_id, which, format, records[which], options)
    _check_archive(store, admin, campaign_id, records, options)
    _check_snapshot(store, admin, campaign_id, records["gold"])


def check_dataset(store: Store, admin: Actor, name: str) -> None:
    """Assert that each split of a data set comes out in each format."""
    for split, items in _splits(store, name).items():
        records = [Record(item.sentence, item.spans) for item in items]
        for format in written_ids():
            data = datasets.export_dataset(store, admin, name, split, format=format)
            _check_read(_files(data, format, f"{name}-{split}"), format, records, {}, None)


def _splits(store: Store, name: str) -> dict[str, list[LabelledSentence]]:
    with store.read() as session:
        row = dataset_rows.find(session, name)
        assert row is not None
        kept = {part.split: dataset_rows.content(session, dataset_id=row.id, split=part.split) for part in row.splits}
    return {split: [item for item, _ in frozen.read_lines(content or "")] for split, content in kept.items()}


def stored(store: Store, admin: Actor, campaign_id: int, which: str) -> list[Record]:
    """Return what the store holds of a layer, in the order of its export."""
    if which != "sentences":
        return [Record(item.sentence, item.spans) for item, _ in layers.layer(store, admin, campaign_id, which)]
    with store.read() as session:
        gold = {item.sentence_id: item.labelled.spans for item in layers.gold(session, campaign_id)}
        links = layer_rows.links(session, campaign_id)
        rows = sorted(layer_rows.sentences(session, campaign_id), key=lambda row: row.id)
        return [Record(sentence_of(row, links.get(row.id, ())), gold.get(row.id)) for row in rows]


def _check_layer(
    store: Store, admin: Actor, campaign_id: int, which: str, format: str, records: list[Record], options: Any
) -> None:
    try:
        written = exchange.export_files(store, admin, campaign_id, which, format=format)
    except BadInput as error:
        mixed = len({record.spans is None for record in records}) == 2
        if (not records and str(error).startswith(_EMPTY)) or (mixed and _MIXED in str(error)):
            return
        raise AssertionError(f"{which} as {format}: {error}") from error
    packed = exchange.export_layer(store, admin, campaign_id, which, format=format)
    assert len(_files(packed, format, "x")) == len(written.files), "files of one export have one name"
    _check_read(written.files, format, records, options, written.losses, layout=_layout(records, format))


def _check_read(
    files: Sequence[NamedFile],
    format: str,
    records: Sequence[Record],
    options: Mapping[str, Any],
    losses: Mapping[str, int] | None,
    layout: Layout | None = None,
) -> None:
    """Assert that files hold the records, but for what the losses name (all that the format cannot, if not given)."""
    known = vars(get_format(format).options())
    stated = {name: value for name, value in vars(layout or object).items() if name in _STATED and name in known}
    labelled = any(record.spans is not None for record in records)
    if layout is not None and labelled and getattr(layout, "tag_column", None) is not None:
        stated["tag_column"] = layout.tag_column  # type: ignore[attr-defined]
    types = dict(layout.type_map) if layout is not None else {}
    if format not in _BY_SENTENCE:  # sentences may be split anew, and a document is annotated as a whole
        documents = read_files(files, format, **options)
        came = [record for document in documents for record in document.sentences]
        lost = dict(_NEVER_HELD if losses is None else losses)
        if "conll" in format:  # columns hold tokens, and what no token covers is not there
            lost["tokens unchanged"] = 1
        wanted, got = _content(records, lost), _content(came, lost)
        assert got == wanted, f"{format}: {wanted} came out as {got}"
        return
    documents = read_files(files, format, **{"skip_bad": layout is not None, "type_map": types, **stated, **options})
    came = [record for document in documents for record in document.sentences]
    assert len(came) == len(records), f"{format}: {len(records)} sentences were written, {len(came)} read"
    for record, again in zip(records, came, strict=True):
        wanted, got = _held(record, format, losses), _held(again, format, losses)
        assert got == wanted, f"{format}: {wanted} came out as {got}"


def _content(records: Sequence[Record], losses: Mapping[str, int]) -> tuple[str, Counter[tuple[str, ...]]]:
    """Return the letters of all texts, sorted, and each entity's letters and type, but for what the losses name."""

    def letters(text: str) -> str:
        if "tokens unchanged" in losses:
            return ""
        held = fit_xml(text, Counter()) if "characters that XML cannot hold" in losses else text
        return "".join(held.split())

    entities = Counter(
        (
            letters(record.sentence.surface(span.start, span.end)),
            re.sub(r"[|\s=]", "_", span.type) if "entity types unchanged" in losses else span.type,
        )
        for record in records
        for span in record.spans or ()
    )
    return "".join(sorted("".join(letters(record.sentence.text) for record in records))), entities


def _held(record: Record, format: str, losses: Mapping[str, int] | None) -> tuple[Any, ...]:
    """Return what a format holds of a record, as far as the losses do not name it."""
    sentence, spans = record.sentence, record.spans
    spans = tuple(sorted(spans)) if spans is not None else None
    lost = losses or {}
    if format == "plain":
        return (" ".join(sentence.text.split()) if losses is None or "line breaks" in lost else sentence.text,)
    words = sentence.words
    if format == "conll":
        return len(words) if losses is None or "tokens unchanged" in lost else words, spans
    meta = dict(sentence.meta)
    return sentence.text, words, sentence.links, spans, json.dumps(meta, sort_keys=True)


def _layout(records: Sequence[Record], format: str) -> Layout | None:
    """Return the layout that an export keeps, by the rule of its docstring."""
    files = {json.dumps([file.name, file.layout], sort_keys=True) if file else None for file in map(_file, records)}
    first = _file(records[0])
    if len(files) > 1 or first is None or first.layout["format"] != format:
        return None
    return layout_from_dict(first.layout)


def _file(record: Record) -> Any:
    return record.sentence.layout.file if record.sentence.layout is not None else None


def _files(data: bytes, format: str, name: str) -> list[NamedFile]:
    if not get_format(format).by_document or get_format(format).one_file:
        return [(name, data)]
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return [(inside, opened.read(inside)) for inside in opened.namelist()]


def _check_archive(
    store: Store, admin: Actor, campaign_id: int, records: Mapping[str, list[Record]], options: Mapping[str, Any]
) -> None:
    data = archive.export_campaign(store, admin, campaign_id)
    again = archive.import_campaign(store, admin, data, name=f"{campaign_id} again")
    for which, before in records.items():
        assert stored(store, admin, again, which) == before, f"{which} came back changed from an archive"
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        for which in layers.LAYERS:
            name = f"layers/{which}.jsonl"
            if name in opened.namelist():
                _check_read([(name, opened.read(name))], "jsonl", records[which], options, {})


def _check_snapshot(store: Store, admin: Actor, campaign_id: int, gold: Sequence[Record]) -> None:
    if not gold:
        return
    frozen_now = snapshots.freeze(store, admin, campaign_id)
    with store.read() as session:
        row, parts = snapshots.content_of(session, frozen_now.id)
    items = [item for part in parts.values() for item in part]
    bare = sorted((record.sentence.bare().content_hash, record.spans) for record in gold)
    assert sorted((item.sentence.content_hash, item.spans) for item in items) == bare
    lines = [(split, item) for split, part in parts.items() for item in part]
    assert frozen.content_hash(row.types, lines) == row.hash
