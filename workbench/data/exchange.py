"""Sentences into a campaign from a file of any format, and its layers out again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, WorkbenchError
from crossner_core.formats import Layout, Parsed, Record, get_format, layout_from_dict, open_file, read_bytes, write
from crossner_core.formats.base import LAYOUT_KEY
from crossner_core.schema import LabelledSentence, Sentence
from db import layer_rows
from db.engine import Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import sentences as campaign_sentences
from workbench.campaigns.domains import domain_of
from workbench.data import layers
from workbench.data.values import sentence_of
from workbench.jobs import queue

EXPORTS = (*layers.LAYERS, "sentences")
MAX_BYTES = 100_000_000
# Beside the formats' own notes in a sentence's metadata: the layout of the whole file it came in.
_FILE = "file"


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What became of a file: sentences added, duplicates left out, how many came with gold; `problems` were skipped."""

    added: int
    duplicates: int
    gold: int
    format: str
    problems: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a file holds, before anything is imported."""

    format: str
    sentences: int
    annotated: int
    types: tuple[str, ...]
    problems: tuple[str, ...]
    first: tuple[str, ...]


def import_into_campaign(
    store: Store,
    actor: Actor,
    campaign_id: int,
    data: bytes | Path,
    *,
    filename: str | None = None,
    format: str | None = None,
    split: str = "pool",
    with_gold: bool = True,
    skip_bad: bool = False,
    preannotate: bool = True,
    options: Mapping[str, Any] | None = None,
) -> ImportOutcome:
    """Add a file's sentences to a campaign: all of them, or with `skip_bad` all good ones, or none.

    Annotation in the file becomes imported gold unless `with_gold` is off; then the sentences go through all stages.
    `options` are the format's own, such as `{"split": "paragraphs"}` for plain text. Raises BadInput with
    file:line: reason for everything that is wrong.
    """
    return import_files(
        store,
        actor,
        campaign_id,
        [(filename, data)],
        format=format,
        split=split,
        with_gold=with_gold,
        skip_bad=skip_bad,
        preannotate=preannotate,
        options=options,
    )


def import_files(
    store: Store,
    actor: Actor,
    campaign_id: int,
    files: Sequence[tuple[str | None, bytes | Path]],
    *,
    format: str | None = None,
    split: str = "pool",
    with_gold: bool = True,
    skip_bad: bool = False,
    preannotate: bool = True,
    options: Mapping[str, Any] | None = None,
) -> ImportOutcome:
    """Add the sentences of several files, each with its name, as `import_into_campaign` does for one.

    Where one file is refused all are, with the problems of all in one error.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        types, endpoint = domain_of(campaign).type_names, campaign.endpoint
        wants_suggestions = preannotate and campaign.suggestions_on
    given = {**(options or {}), "types": types if with_gold else None, "skip_bad": skip_bad}
    parsed = _parse_all(files, format, given)
    rows = [_row(record, one, with_gold) for one in parsed for record in one.sentences]
    report = campaign_sentences.add_sentences(store, actor, campaign_id, rows, split=split)
    note = suggest_new(store, actor, campaign_id, endpoint) if wants_suggestions and report.added > report.gold else ""
    formats = ", ".join(dict.fromkeys(one.format for one in parsed))
    problems = tuple(str(problem) for one in parsed for problem in one.problems)
    if report.doubts:
        places = f"{report.doubts} place{'' if report.doubts == 1 else 's'}"
        note = f"{note} Duplicates had other gold at {places}: see Second look.".strip()
    return ImportOutcome(report.added, report.duplicates, report.gold, formats, problems, note)


def preview(
    data: bytes | Path,
    *,
    filename: str | None = None,
    format: str | None = None,
    types: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Preview:
    """Read a file without keeping anything; raise BadInput where nothing in it can be used."""
    parsed = _parse(data, filename, format, {**(options or {}), "types": types, "skip_bad": True})
    return Preview(
        format=parsed.format,
        sentences=len(parsed.sentences),
        annotated=len(parsed.labelled),
        types=parsed.type_names,
        problems=tuple(map(str, parsed.problems)),
        first=tuple(record.sentence.text for record in parsed.sentences[:3]),
    )


def export_gold(
    store: Store, actor: Actor, campaign_id: int, *, format: str = "jsonl", split: str | None = None
) -> bytes:
    """Return the campaign's gold as a file of a format."""
    return export_layer(store, actor, campaign_id, "gold", format=format, split=split)


def export_layer(
    store: Store, actor: Actor, campaign_id: int, which: str, *, format: str = "jsonl", split: str | None = None
) -> bytes:
    """Return a layer (first, second, gold, suggestions), or all sentences with the gold there is, as a file.

    Where all of it came in one file of that format, it is laid out as that file was. Raises BadInput where a layer
    is empty.
    """
    require(actor, *KEEPERS)
    chosen = get_format(format)
    with store.read() as session:
        enter(session, actor, campaign_id, *KEEPERS)
    found = _everything(store, campaign_id) if which == "sentences" else _layer(store, actor, campaign_id, which)
    records = [record for record, where in found if split is None or where == split]
    if not records:
        raise BadInput(
            f"There is nothing to export: the layer {which!r} has no sentence{f' in {split}' if split else ''}."
        )
    layout = _common_layout(records, chosen.id)
    rows = [_for_output(record, as_it_came=layout is not None) for record in records]
    return write(rows, chosen.id, layout).encode("utf-8")


def file_name(campaign: str, which: str, format: str) -> str:
    """Name an exported file."""
    safe = "".join(char if char.isalnum() else "-" for char in campaign.lower()).strip("-") or "campaign"
    suffix = ".zip" if format == "zip" else get_format(format).suffixes[0]
    return f"{safe}-{which}{suffix}"


def _parse(data: bytes | Path, filename: str | None, format: str | None, options: Mapping[str, Any]) -> Parsed:
    if isinstance(data, Path):
        if data.is_file() and data.stat().st_size > MAX_BYTES:
            raise BadInput(f"{data.name} is larger than {MAX_BYTES // 1_000_000} MB; split it.")
        return open_file(data, format, name=filename, **options)
    if len(data) > MAX_BYTES:
        raise BadInput(f"{filename or 'The upload'} is larger than {MAX_BYTES // 1_000_000} MB; split it.")
    return read_bytes(data, name=filename or "upload", format=format, **options)


def _parse_all(
    files: Sequence[tuple[str | None, bytes | Path]], format: str | None, options: Mapping[str, Any]
) -> list[Parsed]:
    """Read every file before anything is refused, so that one error lists the problems of all."""
    parsed, errors = [], []
    for name, data in files:
        try:
            parsed.append(_parse(data, name, format, options))
        except BadInput as error:
            errors.append(error)
    if errors:
        raise BadInput("\n".join(map(str, errors)), tuple(line for error in errors for line in error.problems))
    return parsed


def _row(record: Record, parsed: Parsed, with_gold: bool) -> LabelledSentence | Sentence:
    """Make the sentence to store, with the layout of its file beside its own."""
    meta = dict(record.sentence.meta)
    meta[LAYOUT_KEY] = {**meta.get(LAYOUT_KEY, {}), _FILE: {"name": parsed.name, "layout": parsed.layout.to_dict()}}
    sentence = replace(record.sentence, meta=meta)
    return LabelledSentence(sentence, record.spans) if with_gold and record.spans is not None else sentence


def suggest_new(store: Store, actor: Actor, campaign_id: int, endpoint: str | None) -> str:
    """Pre-annotate at once from what lies here; leave an endpoint, which may be slow, to the worker.

    Returns what there is to say about it, nothing where all went well.
    """
    if endpoint is not None:
        queue.start_job(store, actor, "preannotate", campaign_id)
        return "Pre-annotation is queued: the worker asks the endpoint."
    from workbench.suggestions.preannotating import preannotate

    try:
        report = preannotate(store, actor, campaign_id)
    except WorkbenchError as error:
        return f"The sentences are in; pre-annotating them failed: {error}"
    return " ".join(report.problems)


def _layer(store: Store, actor: Actor, campaign_id: int, which: str) -> Iterable[tuple[Record, str]]:
    for item, split in layers.layer(store, actor, campaign_id, which):
        yield Record(item.sentence, item.spans), split


def _everything(store: Store, campaign_id: int) -> list[tuple[Record, str]]:
    """Return all sentences in the order they came in, with gold where they have it."""
    with store.read() as session:
        gold = {one.sentence_id: one.labelled.spans for one in layers.gold(session, campaign_id)}
        links = layer_rows.links(session, campaign_id)
        rows = sorted(layer_rows.sentences(session, campaign_id), key=lambda row: row.id)
        return [(Record(sentence_of(row, links.get(row.id, ())), gold.get(row.id)), row.split) for row in rows]


def _common_layout(records: Sequence[Record], format: str) -> Layout | None:
    """Return the layout of the one file of this format that all records came in, if that is so."""
    files = [record.sentence.meta.get(LAYOUT_KEY, {}).get(_FILE) for record in records]
    first = files[0]
    if first is None or first["layout"]["format"] != format or any(one != first for one in files):
        return None
    return layout_from_dict(first["layout"])


def _for_output(record: Record, *, as_it_came: bool) -> Record:
    """Take our note on the file out of the metadata, and the format's own notes where they do not apply."""
    meta = dict(record.sentence.meta)
    own = {key: value for key, value in meta.pop(LAYOUT_KEY, {}).items() if key != _FILE}
    if own and as_it_came:
        meta[LAYOUT_KEY] = own
    return replace(record, sentence=replace(record.sentence, meta=meta))
