"""Import sentences into a campaign from files of any format, and export its layers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

from crossner_core.errors import BadInput, WorkbenchError
from crossner_core.formats import file_bytes, make_document, read_files, write_files
from crossner_core.formats.base import (
    Layout,
    NamedFile,
    Parsed,
    Record,
    Written,
    get_format,
    layout_from_dict,
    notes_of,
)
from crossner_core.schema import FileLayout, LabelledSentence, Sentence, SentenceLayout
from db import layer_rows
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts import audit
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import sentences as campaign_sentences
from workbench.campaigns.domains import domain_of
from workbench.data import layers
from workbench.data.packing import file_suffix, in_numbers, packed, safe_paths
from workbench.data.values import sentence_of
from workbench.jobs import queue

MAX_BYTES = 100_000_000
MOST_AT_ONCE = 1_000
"""Sentences that an import pre-annotates itself, which takes a few seconds."""
NONE = "none"
ANNOTATIONS = (*campaign_sentences.ANNOTATIONS, NONE)
Files = Sequence[tuple[str | None, bytes | Path]]


class Asked(TypedDict, total=False):
    """How to export a layer: see `export_files`."""

    format: str
    split: str | None
    besides: Sequence[str]
    with_names: bool


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """Outcome of an import: sentences added, duplicates left out, and where their annotation went.

    `suggestions`, `first` and `gold` count sentences; `problems` were skipped, and `again` lists the first duplicates.
    """

    added: int
    duplicates: int
    gold: int
    format: str
    problems: tuple[str, ...] = ()
    note: str = ""
    suggestions: int = 0
    first: int = 0
    again: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """Sentences of files as they are to be stored; `problems` were skipped, `losses` no record can carry, by kind.

    `notes` say how files were read that could be read otherwise.
    """

    rows: tuple[LabelledSentence | Sentence, ...]
    format: str
    problems: tuple[str, ...]
    losses: Mapping[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """Content of a file, or of the files of some documents, before anything is imported."""

    format: str
    sentences: int
    annotated: int
    types: tuple[str, ...]
    problems: tuple[str, ...]
    first: tuple[str, ...]
    losses: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def import_files(
    store: Store,
    actor: Actor,
    campaign_id: int,
    files: Files,
    *,
    format: str | None = None,
    split: str = "pool",
    annotation: str = "suggestions",
    skip_bad: bool = False,
    preannotate: bool = True,
    options: Mapping[str, Any] | None = None,
) -> ImportOutcome:
    """Add the sentences of files to a campaign: all of them, or with `skip_bad` all good ones, or none.

    Files come with their names; those of a format of several files are read together. Their annotation becomes
    suggestions, the work of annotator 1 (`first`), gold, or nothing (`none`). `options` are the format's own, such as
    `{"split": "paragraphs"}` for plain text. If one file is rejected all are: raises BadInput with file:line: reason
    for everything that is wrong.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        types, endpoint = domain_of(campaign).type_names, campaign.endpoint
        wants_suggestions = preannotate and campaign.suggestions_on
    came = read_rows(files, types, format=format, annotation=annotation, skip_bad=skip_bad, options=options)
    becomes = stored_as(annotation)
    report = campaign_sentences.add_sentences(store, actor, campaign_id, came.rows, split=split, annotation=becomes)
    new = report.added - report.gold - report.first
    note = suggest_new(store, actor, campaign_id, endpoint, new) if wants_suggestions and new else ""
    return outcome_of(came, report, note)


def read_rows(
    files: Files,
    types: Sequence[str],
    *,
    format: str | None = None,
    annotation: str = "suggestions",
    skip_bad: bool = False,
    options: Mapping[str, Any] | None = None,
) -> ReadFiles:
    """Read files for a campaign of these types, as `import_files` does; raises as it does."""
    check_annotation(annotation)
    wanted = annotation != NONE
    parsed = _parse(files, format, {**(options or {}), "types": types if wanted else None, "skip_bad": skip_bad})
    return ReadFiles(
        rows=tuple(row for document in parsed for row in _rows(document, wanted)),
        format=", ".join(dict.fromkeys(document.format for document in parsed)),
        problems=tuple(str(problem) for document in parsed for problem in document.problems),
        losses=_losses(parsed),
        notes=_notes(parsed),
    )


def check_annotation(annotation: str) -> None:
    """Raise BadInput for what annotation cannot become."""
    if annotation not in ANNOTATIONS:
        raise BadInput(f"Annotation cannot become {annotation!r}; choose one of {', '.join(ANNOTATIONS)}.")


def check_size(name: str | None, size: int) -> None:
    """Raise BadInput for a file that is too large."""
    if size > MAX_BYTES:
        raise BadInput(f"{name or 'The upload'} is larger than {MAX_BYTES // 1_000_000} MB; split it.")


def _losses(parsed: Sequence[Parsed]) -> Counter[str]:
    return sum((Counter(document.losses) for document in parsed), Counter[str]())


def _notes(parsed: Sequence[Parsed]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for document in parsed for note in document.notes))


def stored_as(annotation: str) -> campaign_sentences.Annotation:
    """Return how `campaigns.sentences` names what annotation becomes; where it is left out, no row has any."""
    return cast(campaign_sentences.Annotation, "suggestions" if annotation == NONE else annotation)


def outcome_of(came: ReadFiles, report: campaign_sentences.ImportReport, note: str) -> ImportOutcome:
    """Put together what was read, what was written, and what pre-annotation has to say."""
    if report.doubts:
        places = f"{report.doubts} place{'' if report.doubts == 1 else 's'}"
        note = f"{note} Duplicates had different gold at {places}: see Label review.".strip()
    if came.losses:
        note = f"{note} Not imported: {in_numbers(came.losses)}.".strip()
    note = " ".join(filter(None, (note, *came.notes)))
    return ImportOutcome(
        added=report.added,
        duplicates=report.duplicates,
        gold=report.gold,
        format=came.format,
        problems=came.problems,
        note=note,
        suggestions=report.suggestions,
        first=report.first,
        again=report.again,
    )


def preview(
    files: Files,
    *,
    format: str | None = None,
    types: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Preview:
    """Read files of a format without keeping anything; raise BadInput if nothing in them can be used."""
    parsed = _parse(files, format, {**(options or {}), "types": types, "skip_bad": True})
    records = [record for document in parsed for record in document.sentences]
    return Preview(
        format=parsed[0].format,
        sentences=len(records),
        annotated=sum(record.spans is not None for record in records),
        types=tuple(sorted({name for document in parsed for name in document.type_names})),
        problems=tuple(str(problem) for document in parsed for problem in document.problems),
        first=tuple(record.sentence.text for record in records[:3]),
        losses=_losses(parsed),
        notes=_notes(parsed),
    )


def export_layer(store: Store, actor: Actor, campaign_id: int, which: str, **asked: Unpack[Asked]) -> bytes:
    """Return what `export_files` returns as one file: a zip if the format writes each document separately."""
    return packed(export_files(store, actor, campaign_id, which, **asked).files, asked.get("format", "jsonl"))


def export_files(
    store: Store,
    actor: Actor,
    campaign_id: int,
    which: str,
    *,
    format: str = "jsonl",
    split: str | None = None,
    besides: Sequence[str] = (),
    with_names: bool = False,
) -> Written:
    """Return a layer (first, second, gold, suggestions), or all sentences with the gold there is, as files.

    If all of it came in one file of that format, it keeps that file's layout; a format that writes each document
    separately restores each as it came. Other layers stand `besides`, with people and times, where the format has a
    place for them, else they are counted; people go as numbers unless `with_names`. Raises BadInput if the layer is
    empty.
    """
    require(actor, *KEEPERS)
    chosen = get_format(format)
    if with_names and not besides:
        raise BadInput("User names go out with layers beside the one exported; choose some, or leave the names.")
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        whole = campaign.name
        rows = _everything(session, campaign_id) if which == "sentences" else _layer(session, campaign, which)
        if besides:
            own = "gold" if which == "sentences" else which
            names = [name for name in layers.LAYERS if name in (own, *besides)]
            layers.check_names(besides)
            works = layers.works_in(session, campaign, names, with_names=with_names)
            rows = [(replace(row, layers=works.get(id, {}), layer=own), part, id) for row, part, id in rows]
    records = [record for record, part, _ in rows if split is None or part == split]
    if not records:
        raise BadInput(
            f"There is nothing to export: the layer {which!r} has no sentence{f' in {split}' if split else ''}."
        )
    documents: dict[str, list[Record]] = {}
    for record in records:
        name = document_of(record) if chosen.by_document else None
        documents.setdefault(name or whole, []).append(record)
    names = safe_paths(list(documents)) if chosen.by_document else list(documents)
    made = write_files([_to_write(*item, chosen.id) for item in zip(names, documents.values(), strict=True)], chosen.id)
    details: dict[str, Any] = {"format": chosen.id, "split": split, "sentences": len(records)}
    details |= {"besides": list(besides), "with_names": with_names} if besides else {}
    audit.record_alone(store, actor, "export_layer", ("layer", which), campaign_id, **details)
    return made


def write_document(name: str, records: Sequence[Record], format: str) -> Written:
    """Return one document as files of a format, in the layout it came in if that is of this format."""
    (path,) = safe_paths([name])
    return write_files([_to_write(path, records, format)], format)


def file_name(campaign: str, which: str, format: str) -> str:
    """Name an exported file."""
    safe = "-".join(re.findall(r"[^\W_]+", campaign.lower())) or "campaign"
    return f"{safe}-{which}{'.zip' if format == 'zip' else file_suffix(format)}"


def _parse(files: Files, format: str | None, options: Mapping[str, Any]) -> list[Parsed]:
    return read_files([_named(name, data) for name, data in files], format, **options)


def _named(name: str | None, data: bytes | Path) -> NamedFile:
    """Return a file with its name and its bytes; raise BadInput where it is too large or cannot be read."""
    name = name or (data.name if isinstance(data, Path) else None)
    check_size(name, len(data) if isinstance(data, bytes) else data.stat().st_size if data.is_file() else 0)
    return name or "upload", file_bytes(data) if isinstance(data, Path) else data


def _rows(parsed: Parsed, annotated: bool) -> Iterable[LabelledSentence | Sentence]:
    """Make the sentences to store, each with the layout of its file beside its own."""
    file = FileLayout(parsed.name, parsed.layout.to_dict())
    for record in parsed.sentences:
        layout = SentenceLayout(parsed.format, notes_of(record.sentence, parsed.format), file)
        sentence = replace(record.sentence, layout=layout)
        yield LabelledSentence(sentence, record.spans) if annotated and record.spans is not None else sentence


def suggest_new(store: Store, actor: Actor, campaign_id: int, endpoint: str | None, new: int) -> str:
    """Pre-annotate a few sentences at once from local sources; leave many, or a slow endpoint, to the worker.

    Returns a note about problems, empty if all went well.
    """
    if endpoint is not None or new > MOST_AT_ONCE:
        queue.start_job(store, actor, "preannotate", campaign_id)
        return f"Pre-annotation is queued: the worker {'queries the endpoint' if endpoint else 'does it'}."
    from workbench.suggestions.preannotating import preannotate

    try:
        report = preannotate(store, actor, campaign_id)
    except WorkbenchError as error:
        return f"The sentences were imported; pre-annotating them failed: {error}"
    return " ".join(report.problems)


def _layer(session: Session, campaign: Campaign, which: str) -> list[tuple[Record, str, int]]:
    rows = layers.rows_in(session, campaign, which)
    return [(Record(item.sentence, item.spans), split, id) for id, item, split in rows]


def _everything(session: Session, campaign_id: int) -> list[tuple[Record, str, int]]:
    """Return all sentences in import order, with gold where they have it, their splits and ids."""
    gold = {item.sentence_id: item.labelled.spans for item in layers.gold(session, campaign_id)}
    links = layer_rows.links(session, campaign_id)
    rows = sorted(layer_rows.sentences(session, campaign_id), key=lambda row: row.id)
    return [(Record(sentence_of(row, links.get(row.id, ())), gold.get(row.id)), row.split, row.id) for row in rows]


def _file_of(record: Record) -> FileLayout | None:
    return record.sentence.layout.file if record.sentence.layout is not None else None


def document_of(record: Record) -> str | None:
    """Return the name of the document that a sentence came in: that of its file, if one was kept."""
    file = _file_of(record)
    return file.name if file is not None else record.sentence.document


def _to_write(name: str, records: Sequence[Record], format: str) -> Parsed:
    """Make a document of records, in their order in it, with the layout they came in, if any."""
    layout = _common_layout(records, format)
    if get_format(format).by_document:
        records = sorted(records, key=lambda record: record.sentence.offset or 0)
    return make_document(name, records, format, layout)


def _common_layout(records: Sequence[Record], format: str) -> Layout | None:
    """Return the layout of the one file of this format that all records came in, if that is so."""
    files = [_file_of(record) for record in records]
    first = files[0]
    if first is None or first.layout["format"] != format or any(file != first for file in files):
        return None
    return layout_from_dict(first.layout)
