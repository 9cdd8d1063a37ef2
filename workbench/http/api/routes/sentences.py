"""Sentences and documents in, as files of any format; sentences and layers out, as JSON and as files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from crossner_core.errors import BadInput
from crossner_core.formats.base import options_from_text
from crossner_core.records import read_json
from crossner_core.schema import Sentence, Span
from workbench import out_of_process
from workbench.accounts import audit
from workbench.accounts.actors import admit
from workbench.accounts.roles import EVERYONE, KEEPERS, OVERSEERS
from workbench.campaigns.campaigns import get_campaign
from workbench.data import browsing, exchange, layers, staging
from workbench.data.packing import in_numbers, packed
from workbench.data.searching import Search
from workbench.http.api.declared import (
    ROOT,
    Accepted,
    Answer,
    Call,
    File,
    Files,
    Id,
    Inputs,
    Page,
    PageInputs,
    cursor_of,
    number_in,
    part_of,
    route,
)
from workbench.jobs import queue

Split = Literal["pool", "dev", "test"]
Place = Literal["annotate", "check", "adjudicate", "gold", "parked"]
Layer = Literal["first", "second", "gold", "suggestions"]
Name = Annotated[str, Field(min_length=1, max_length=100)]
IMPORT_BYTES = exchange.MAX_BYTES


class SentenceLine(Answer):
    """A sentence in a list."""

    id: int
    external_id: str
    """Its id as it was imported."""
    text: str
    split: Split
    place: Place
    """The stage at which it waits; `gold` or `parked`."""
    suggestions: int


class MarkedSpan(Answer):
    """A span: tokens `[start, end)`, characters `[char_start, char_end)` of the sentence's text."""

    start: int
    end: int
    char_start: int
    char_end: int
    type: str
    text: str
    entity: str | None = None
    """The address of the resource that it names, `NIL`, or null while it is linked to none."""


class LabelledText(Answer):
    """A sentence of a layer with its spans."""

    external_id: str
    text: str
    tokens: list[tuple[int, int]]
    """Character offsets of the tokens."""
    document: str | None
    split: Split
    spans: list[MarkedSpan]


class Work(Answer):
    """One person's work at one stage."""

    layer: Literal["first", "second", "gold"]
    who: str
    state: str
    imported: bool
    when: dt.datetime
    spans: list[MarkedSpan]
    flagged: list[MarkedSpan]
    """Spans of annotator 1 that annotator 2 doubts."""
    note: str


class SuggestedSpan(MarkedSpan):
    """A suggestion with its source and its probability."""

    source: str
    probability: float


class WholeSentence(Answer):
    """A sentence with every layer."""

    external_id: str
    text: str
    tokens: list[tuple[int, int]]
    document: str | None
    split: Split
    place: Place
    control: bool
    """Its suggestions are withheld from annotators."""
    blind: bool
    """Annotator 2 annotates it without annotator 1's spans."""
    meta: dict[str, Any]
    work: list[Work]
    suggestions: list[SuggestedSpan]


class Layers(Answer):
    """How many sentences each layer holds."""

    first: int
    second: int
    gold: int
    suggestions: int


class Imported(Answer):
    """Outcome of an import, in sentences."""

    added: int
    duplicates: int
    """Sentences that the campaign had already; left out."""
    gold: int
    first: int
    suggestions: int
    format: str
    problems: list[str]
    """What was skipped, as file:line: reason."""
    note: str
    again: list[str]
    """The first duplicates."""


class Import(Accepted):
    """An import that the worker does: all of it, or nothing."""

    id: int
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float
    """In [0, 1]."""
    message: str
    """What it is at; at the end, what came in."""
    error: str | None
    cancel_requested: bool
    created_at: dt.datetime
    finished_at: dt.datetime | None
    log: list[str]
    """What was wrong, skipped or left out, as file:line: reason."""


class OneImport(Inputs):
    """An import that the worker does."""

    campaign: Id
    job: Id


class SentencesAsked(PageInputs):
    """Which sentences of a campaign; conditions that are left out do not narrow it."""

    campaign: Id
    text: Annotated[str, Field(max_length=200)] = ""
    """A part of text or id; case does not matter."""
    regex: bool = False
    """`text` is a regular expression."""
    place: Place | None = None
    split: Split | None = None
    type: Name | None = None
    """An entity type."""
    layer: Layer | None = None
    """Where the type is looked for."""
    source: Name | None = None
    """A kind of source of suggestions, such as model."""
    differ: Literal["any", "type", "boundary", "first", "second", "flagged"] | None = None
    """How annotators 1 and 2 differ."""


class OneSentence(Inputs):
    """A sentence of a campaign."""

    campaign: Id
    sentence: Id


class OneCampaign(Inputs):
    """A campaign."""

    campaign: Id


class ImportAsked(Inputs):
    """How the files are read, and what their annotation becomes."""

    campaign: Id
    format: Name | None = None
    """Id of the format, such as conll or jsonl; without it, names and content decide."""
    split: Split = "pool"
    annotation: Literal["suggestions", "first", "gold", "none"] = "suggestions"
    """What annotation in the files becomes: suggestions, the work of annotator 1, gold, or nothing."""
    skip_bad: bool = False
    """Import what is good although some is not."""
    preannotate: bool = True
    """Suggest in the new sentences, if the campaign wants suggestions."""
    options: Annotated[str, Field(max_length=2_000)] | None = None
    """The own options of the format that is named, a JSON object of texts, such as {"unfit": "leave_out"}."""


class LayerAsked(PageInputs):
    """A layer of a campaign."""

    campaign: Id
    layer: Layer
    split: Split | None = None


class ExportAsked(Inputs):
    """A layer as a file; `sentences` are all, with the gold there is."""

    campaign: Id
    layer: Literal["first", "second", "gold", "suggestions", "sentences"]
    format: Name = "jsonl"
    """Id of the format; one that writes each document separately gives a zip."""
    split: Split | None = None
    besides: Annotated[str, Field(max_length=100)] = ""
    """Other layers in the same file, with people and times, separated by commas: `first,second,suggestions`."""
    with_names: bool = False
    """People by their user names, which are personal data; else by their numbers."""


@route("GET", "/campaigns/{campaign}/sentences", scope="read", roles=EVERYONE, use=browsing.browse)
def list_sentences(call: Call, inputs: SentencesAsked) -> Page[SentenceLine]:
    """List the sentences of a campaign that match, in the order of the queue.

    Annotators and experts find by their own work and by gold. If the queue is ordered anew between two pages, a
    sentence may come twice or not at all; an export is of one moment.
    """
    offset = number_in(inputs.cursor)
    search = Search(
        text=inputs.text, regex=inputs.regex, place=inputs.place, split=inputs.split, type=inputs.type,
        layer=inputs.layer, source=inputs.source, differ=inputs.differ,
    )  # fmt: skip
    matches = browsing.browse(call.store, call.actor, inputs.campaign, search, offset=offset, limit=inputs.limit)
    end = offset + len(matches.lines)
    after = cursor_of(end) if matches.lines and end < matches.total else None
    return Page(items=[SentenceLine.model_validate(line) for line in matches.lines], next=after)


@route("GET", "/campaigns/{campaign}/sentences/{sentence}", scope="read", roles=OVERSEERS, use=browsing.sentence_layers)
def get_sentence(call: Call, inputs: OneSentence) -> WholeSentence:
    """Get a sentence with every layer; an expert those of gold alone."""
    view = browsing.sentence_layers(call.store, call.actor, inputs.campaign, inputs.sentence)
    sentence = view.sentence
    work = [
        Work(
            layer=part.layer,  # type: ignore[arg-type]
            who=part.who,
            state=part.state,
            imported=part.imported,
            when=part.when,
            spans=marked(sentence, part.spans),
            flagged=marked(sentence, part.flagged),
            note=part.note,
        )
        for part in view.work
    ]
    suggested = [
        SuggestedSpan(**span.model_dump(), source=suggestion.source, probability=suggestion.score)
        for suggestion, span in zip(
            view.suggestions, marked(sentence, (suggestion.span for suggestion in view.suggestions)), strict=True
        )
    ]
    return WholeSentence(
        external_id=sentence.id,
        text=sentence.text,
        tokens=offsets(sentence),
        document=sentence.document,
        split=view.split,  # type: ignore[arg-type]
        place=view.place,  # type: ignore[arg-type]
        control=view.control,
        blind=view.blind,
        meta=dict(view.meta),
        work=work,
        suggestions=suggested,
    )


@route(
    "POST",
    "/campaigns/{campaign}/sentences",
    scope="write",
    roles=KEEPERS,
    use=(staging.import_apart, staging.start_import),
    status=201,
    creates=True,
    slots="long",
    most_bytes=IMPORT_BYTES,
)
def import_sentences(call: Call, inputs: ImportAsked, body: Files) -> Imported | Import:
    """Add the sentences and documents of files to a campaign: all, or with `skip_bad` all good ones, or none.

    Files of a format of several files, such as brat's, come in one request. If one is rejected all are: `problems`
    then says what is wrong as file:line: reason. Files that take longer than a few seconds are left to the worker.
    """
    admit(call.store, call.actor, *KEEPERS)
    reading = inputs.model_dump(include={"format", "split", "annotation", "skip_bad", "preannotate"})
    reading["options"] = options_in(inputs)
    if staging.seconds_for(staging.sizes_of(body.files), inputs.format) < staging.LONG:
        outcome = out_of_process.call(
            staging.import_apart, call.store, call.actor, inputs.campaign, body.files, **reading
        )
        return Imported.model_validate(outcome)
    job_id = staging.start_import(call.store, call.actor, inputs.campaign, body.files, **reading)
    return _import(call, inputs.campaign, job_id)


@route("GET", "/campaigns/{campaign}/imports/{job}", scope="read", roles=KEEPERS, use=staging.get_import)
def get_import(call: Call, inputs: OneImport) -> Import:
    """Say how far an import is that the worker does, and at the end what came in and what was wrong."""
    return _import(call, inputs.campaign, inputs.job)


@route(
    "POST",
    "/campaigns/{campaign}/imports/{job}/cancel",
    scope="write",
    roles=KEEPERS,
    use=(staging.get_import, queue.cancel_job),
)
def cancel_import(call: Call, inputs: OneImport) -> Import:
    """Cancel an import, of which nothing comes in; one that has ended stays as it is."""
    if staging.get_import(call.store, call.actor, inputs.campaign, inputs.job).is_under_way:
        queue.cancel_job(call.store, call.actor, inputs.job)
    return _import(call, inputs.campaign, inputs.job)


def _import(call: Call, campaign_id: int, job_id: int) -> Import:
    job = staging.get_import(call.store, call.actor, campaign_id, job_id)
    lines = queue.job_log(call.store, call.actor, job_id)
    return Import(
        follow=f"{ROOT}/campaigns/{campaign_id}/imports/{job_id}",
        id=job.id,
        state=job.state,  # type: ignore[arg-type]
        progress=job.progress,
        message=job.message,
        error=job.error,
        cancel_requested=job.cancel_requested,
        created_at=job.created_at,
        finished_at=job.finished_at,
        log=[line.text for line in lines],
    )


def options_in(inputs: ImportAsked) -> dict[str, Any]:
    """Return a format's options; raise BadInput or InvalidConfig for what is no option of it."""
    if inputs.options is None:
        return {}
    if inputs.format is None:
        raise BadInput("options are those of a format: name it by the parameter format.")
    given: Mapping[str, str] = read_json(Mapping[str, str], inputs.options, "options")  # type: ignore[type-abstract]
    return options_from_text(inputs.format, given)


@route("GET", "/campaigns/{campaign}/layers", scope="read", roles=KEEPERS, use=browsing.layer_counts)
def count_layers(call: Call, inputs: OneCampaign) -> Layers:
    """Say how many sentences each layer of a campaign holds."""
    return Layers.model_validate(browsing.layer_counts(call.store, call.actor, inputs.campaign))


def _version(call: Call, inputs: LayerAsked) -> str | None:
    return layers.version(call.store, call.actor, inputs.campaign, (inputs.layer,))


def _version_of_export(call: Call, inputs: ExportAsked) -> str | None:
    if inputs.with_names:  # who was renamed changed nothing in a layer
        return None
    return layers.version(call.store, call.actor, inputs.campaign, (inputs.layer, *_besides(inputs)))


def _besides(inputs: ExportAsked) -> list[str]:
    return [name for name in inputs.besides.split(",") if name]


@route(
    "GET",
    "/campaigns/{campaign}/layers/{layer}",
    scope="read",
    roles=OVERSEERS,
    use=(layers.layer, layers.version),
    slots="long",
    version=_version,
)
def get_layer(call: Call, inputs: LayerAsked) -> Page[LabelledText]:
    """Get the sentences of a layer with their spans: gold in the order it became gold, others in that of the queue."""
    rows = layers.layer(call.store, call.actor, inputs.campaign, inputs.layer)
    part, after = part_of([row for row in rows if inputs.split in (None, row[1])], inputs)
    details = {"split": inputs.split, "sentences": len(part)}
    audit.record_alone(call.store, call.actor, "read_layer", ("layer", inputs.layer), inputs.campaign, **details)
    items = [
        LabelledText(
            external_id=item.sentence.id,
            text=item.sentence.text,
            tokens=offsets(item.sentence),
            document=item.sentence.document,
            split=split,  # type: ignore[arg-type]
            spans=marked(item.sentence, item.spans),
        )
        for item, split in part
    ]
    return Page(items=items, next=after)


@route(
    "GET",
    "/campaigns/{campaign}/layers/{layer}/export",
    scope="read",
    roles=KEEPERS,
    use=(exchange.export_files, layers.version),
    slots="long",
    version=_version_of_export,
)
def export_layer(call: Call, inputs: ExportAsked) -> File:
    """Export a layer of a campaign, or all its sentences, as a file of any format."""
    name = get_campaign(call.store, call.actor, inputs.campaign).name
    written = exchange.export_files(
        call.store,
        call.actor,
        inputs.campaign,
        inputs.layer,
        format=inputs.format,
        split=inputs.split,
        besides=_besides(inputs),
        with_names=inputs.with_names,
    )
    data = packed(written.files, inputs.format)
    return File(exchange.file_name(name, inputs.layer, inputs.format), data, left_out=in_numbers(written.losses))


def offsets(sentence: Sentence) -> list[tuple[int, int]]:
    """Return the character offsets of a sentence's tokens."""
    return [(token.start, token.end) for token in sentence.tokens]


def marked(sentence: Sentence, spans: Iterable[Span] | Sequence[Span]) -> list[MarkedSpan]:
    """Return spans with their characters and their text."""
    views = []
    for span in spans:
        first, last = sentence.char_range(span.start, span.end)
        views.append(
            MarkedSpan(
                start=span.start,
                end=span.end,
                char_start=first,
                char_end=last,
                type=span.type,
                text=sentence.surface(span.start, span.end),
                entity=span.entity,
            )
        )
    return views
