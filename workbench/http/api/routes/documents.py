"""Documents of a campaign, each as a whole: its text, its sentences' places, and its file with a layer or without."""

from __future__ import annotations

from typing import Literal

from crossner_core.formats.base import Written, get_format
from workbench import out_of_process
from workbench.accounts import audit
from workbench.accounts.roles import EVERYONE, KEEPERS, OVERSEERS
from workbench.data import documents
from workbench.data.documents import RUNNING_TEXT, DocumentText
from workbench.data.packing import in_numbers, zipped
from workbench.http.api.declared import Answer, Call, File, Files, Id, Inputs, Page, PageInputs, part_of, route
from workbench.http.api.routes.sentences import IMPORT_BYTES, ImportAsked, Layer, Name, options_in

_DOCUMENTS = "/campaigns/{campaign}/documents"
_DOCUMENT = _DOCUMENTS + "/{document}"


class Document(Answer):
    """A document of a campaign; its id is that of its first sentence."""

    id: int
    name: str
    """The name of its file; sentences of no document are one, which is called as the campaign."""
    sentences: int
    state: Literal["new", "annotating", "annotated", "adjudicating", "gold"]
    """`annotated` once both annotators have finished with all of it, `gold` once all of it is gold."""


class AddedDocument(Document):
    """A document that came in."""

    duplicates: int
    """Its sentences that the campaign had already; left out."""
    problems: list[str]
    """What was skipped, as file:line: reason."""
    note: str


class PlacedSentence(Answer):
    """A sentence: characters `[start, end)` of its document's text."""

    id: int
    external_id: str
    start: int
    end: int


class WholeDocument(Document):
    """A document with its text."""

    text: str
    """As it stands in its file, character for character."""
    places: list[PlacedSentence]


class DocumentsAsked(PageInputs):
    """Documents of a campaign."""

    campaign: Id


class OneDocument(Inputs):
    """A document of a campaign."""

    campaign: Id
    document: Id


class DocumentFile(OneDocument):
    """A document as a file of a format."""

    format: Name = RUNNING_TEXT
    """Id of the format, or `text` for the text alone."""


class LayerOfDocument(OneDocument):
    """A document with a layer, as a file of a format."""

    layer: Layer
    format: Name = "jsonl"
    """Id of the format; one of several files gives a zip."""


@route("GET", _DOCUMENTS, scope="read", roles=EVERYONE, use=documents.list_documents)
def list_documents(call: Call, inputs: DocumentsAsked) -> Page[Document]:
    """List the documents of a campaign in the order they came in."""
    part, after = part_of(documents.list_documents(call.store, call.actor, inputs.campaign), inputs)
    return Page(items=[Document.model_validate(view) for view in part], next=after)


@route(
    "POST",
    _DOCUMENTS,
    scope="write",
    roles=KEEPERS,
    use=documents.add_document,
    status=201,
    creates=True,
    slots="long",
    most_bytes=IMPORT_BYTES,
)
def add_document(call: Call, inputs: ImportAsked, body: Files) -> AddedDocument:
    """Add one document, whose name must be new in the campaign; its file's name becomes its own.

    Files of a format of several files, such as brat's, come in one request. `/sentences` takes many documents at once,
    and those that take longer than a few seconds.
    """
    made = out_of_process.call(
        documents.add_document,
        call.store,
        call.actor,
        inputs.campaign,
        body.files,
        **inputs.model_dump(include={"format", "split", "annotation", "skip_bad", "preannotate"}),
        options=options_in(inputs),
    )
    outcome = made.outcome
    return AddedDocument(
        **Document.model_validate(made.view).model_dump(),
        duplicates=outcome.duplicates,
        problems=list(outcome.problems),
        note=outcome.note,
    )


@route("GET", _DOCUMENT, scope="read", roles=EVERYONE, use=documents.get_document)
def get_document(call: Call, inputs: OneDocument) -> WholeDocument:
    """Get a document's text, and where its sentences lie in it."""
    return _whole(documents.get_document(call.store, call.actor, inputs.campaign, inputs.document))


@route("DELETE", _DOCUMENT, scope="write", roles=KEEPERS, use=documents.remove_document, status=204, matches=True)
def remove_document(call: Call, inputs: OneDocument) -> None:
    """Delete a document that nobody has begun to work on."""
    documents.remove_document(
        call.store,
        call.actor,
        inputs.campaign,
        inputs.document,
        check=lambda document: call.refuse_changed(_whole(document)),
    )


@route("GET", _DOCUMENT + "/export", scope="read", roles=EVERYONE, use=documents.document_file, slots="long")
def export_document(call: Call, inputs: DocumentFile) -> File:
    """Get a document without annotation, as a file of any format or as its text alone."""
    return _file(
        documents.document_file(call.store, call.actor, inputs.campaign, inputs.document, format=inputs.format)
    )


@route(
    "GET",
    _DOCUMENT + "/layers/{layer}/export",
    scope="read",
    roles=OVERSEERS,
    use=documents.layer_file,
    slots="long",
)
def export_layer_of_document(call: Call, inputs: LayerOfDocument) -> File:
    """Get a document with the spans of a layer, as a file of any format."""
    format = get_format(inputs.format).id
    made = documents.layer_file(call.store, call.actor, inputs.campaign, inputs.document, inputs.layer, format=format)
    details = {"document": inputs.document, "format": format}
    audit.record_alone(call.store, call.actor, "read_layer", ("layer", inputs.layer), inputs.campaign, **details)
    return _file(made)


def _whole(made: DocumentText) -> WholeDocument:
    places = [
        PlacedSentence(id=id, external_id=sentence.id, start=start, end=start + len(sentence.text))
        for id, sentence, start in zip(made.ids, made.sentences, made.starts, strict=True)
    ]
    return WholeDocument(**Document.model_validate(made.view).model_dump(), text=made.text, places=places)


def _file(written: Written) -> File:
    """Return a file, or a zip of those that belong together."""
    left_out = in_numbers(written.losses)
    if len(written.files) == 1:
        return File(*written.files[0], left_out=left_out)
    return File("document.zip", zipped(dict(written.files)), left_out=left_out)
