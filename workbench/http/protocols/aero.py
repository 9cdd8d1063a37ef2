"""AERO v1, the remote API of INCEpTION and WebAnno, as far as pycaprio calls it.

A project is a campaign, a document the sentences that came in one file, the annotation of a user what they submitted
as an annotator, and curation is gold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from starlette.responses import Response

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound
from crossner_core.formats.base import Written, get_format
from workbench import out_of_process
from workbench.accounts.roles import EVERYONE, KEEPERS, LABELLERS, OVERSEERS
from workbench.campaigns import campaigns, domains
from workbench.campaigns.campaigns import CampaignView
from workbench.data import archive, documents, exchange
from workbench.data.documents import RUNNING_TEXT, DocumentView, WorkView
from workbench.data.packing import zipped
from workbench.http.api.declared import Call
from workbench.http.api.problems import Explained
from workbench.http.protocols.declared import PROTOCOLS, Asked, Protocol
from workbench.labelling import whole_documents

MOST_BYTES = exchange.MAX_BYTES


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A format by AERO's name: what it is read as with which options, and what it is written as."""

    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    written: str | None = ""
    has_spans: bool = True

    @property
    def suffix(self) -> str:
        return get_format(self.format).suffixes[0]


FORMATS: Mapping[str, Exchanged] = {
    "text": Exchanged("plain", {"split": "paragraphs"}, RUNNING_TEXT, has_spans=False),
    "textlines": Exchanged("plain", {"split": "lines"}, has_spans=False),
    "ctsv3": Exchanged("webanno-tsv"),
    "xmi": Exchanged("cas-xmi"),
    "json": Exchanged("cas-json"),
    "jsoncas": Exchanged("cas-json"),
    "conllu": Exchanged("conllu"),
    "conll2003": Exchanged("conll2003"),
    "dkpro-core-tei": Exchanged("tei", written=None),
}
_STATES = {
    "new": "NEW",
    "annotating": "ANNOTATION-IN-PROGRESS",
    "annotated": "ANNOTATION-COMPLETE",
    "adjudicating": "CURATION-IN-PROGRESS",
    "gold": "CURATION-COMPLETE",
}
_BECOMES = {"NEW": "suggestions", "CURATION-COMPLETE": "gold"}
"""What annotation in a new document becomes, by the state that it is sent with."""
_IS_COMPLETE = {"NEW": False, "IN-PROGRESS": False, "COMPLETE": True}


def _enveloped(body: Any, *, status: int = 200, messages: Sequence[tuple[str, str]] = ()) -> Response:
    listed = [{"level": level, "message": text} for level, text in messages]
    text = json.dumps({"messages": listed, "body": body}, ensure_ascii=False)
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


def _refuse(made: Explained, _path: str) -> Response:
    texts = [made.detail, *made.problems]
    response = _enveloped(None, status=made.kind.status, messages=[("ERROR", text) for text in texts])
    response.headers.update(made.headers)
    return response


AERO = PROTOCOLS.add("aero", Protocol(id="aero", title="AERO", root="/api/aero/v1", refuse=_refuse))
_PROJECT, _DOCUMENT = "/projects/{project}", "/projects/{project}/documents/{document}"
_WORK = _DOCUMENT + "/annotations/{user}"


@AERO.operation("GET", "/projects", scope="read", roles=EVERYONE, use=campaigns.list_campaigns)
def list_projects(call: Call, asked: Asked) -> Response:
    """List the campaigns that the token's person sees."""
    return _enveloped([_project(view) for view in campaigns.list_campaigns(call.store, call.actor)])


@AERO.operation("POST", "/projects", scope="write", roles=KEEPERS, use=campaigns.create_campaign, reads="form")
def create_project(call: Call, asked: Asked) -> Response:
    """Make an empty campaign; the title names its domain, which AERO has no field for."""
    creator, name = asked.text("creator", call.actor.name), asked.text("name")
    if creator != call.actor.name:
        raise NotAllowed(f"The token is of {call.actor.name!r}, who cannot make a project for {creator!r}.")
    title = asked.text("title", name)
    known = [view.name for view in domains.list_domains(call.store, call.actor)]
    if title not in known:
        raise BadInput(
            f"A campaign needs a domain: send its name as the project's title. {title!r} is none; there are "
            f"{', '.join(known)}."
        )
    domain = domains.get_domain(call.store, title)
    id = campaigns.create_campaign(call.store, call.actor, name=name, domain=domain)
    return _enveloped(_project(campaigns.get_campaign(call.store, call.actor, id)), status=201)


@AERO.operation(
    "POST", "/projects/import", scope="write", roles=("admin",), use=archive.import_campaign, reads="form",
    slots="long", most_bytes=MOST_BYTES,
)  # fmt: skip
def import_project(call: Call, asked: Asked) -> Response:
    """Make a campaign from an archive that `export_project` made."""
    id = archive.import_campaign(call.store, call.actor, asked.file("file"))
    return _enveloped(_project(campaigns.get_campaign(call.store, call.actor, id)), status=201)


@AERO.operation("GET", _PROJECT, scope="read", roles=EVERYONE, use=campaigns.get_campaign)
def get_project(call: Call, asked: Asked) -> Response:
    """Get a campaign."""
    return _enveloped(_project(campaigns.get_campaign(call.store, call.actor, asked.number("project"))))


@AERO.operation("DELETE", _PROJECT, scope="write", roles=("admin",), use=campaigns.delete_campaign)
def delete_project(call: Call, asked: Asked) -> Response:
    """Delete a campaign that was archived before."""
    id = asked.number("project")
    campaigns.delete_campaign(call.store, call.actor, id)
    return _enveloped(None, messages=[("INFO", f"Project {id} is deleted.")])


@AERO.operation("GET", _PROJECT + "/export.zip", scope="read", roles=KEEPERS, use=archive.export_campaign, slots="long")
def export_project(call: Call, asked: Asked) -> Response:
    """Get a campaign as an archive of the workbench, whatever format is asked for: it holds every layer."""
    data = archive.export_campaign(call.store, call.actor, asked.number("project"))
    return Response(data, media_type="application/zip")


@AERO.operation("GET", _PROJECT + "/documents", scope="read", roles=EVERYONE, use=documents.list_documents)
def list_documents(call: Call, asked: Asked) -> Response:
    """List the documents of a campaign."""
    views = documents.list_documents(call.store, call.actor, asked.number("project"))
    return _enveloped([_document(view) for view in views])


@AERO.operation(
    "POST", _PROJECT + "/documents", scope="write", roles=KEEPERS, use=documents.add_document, reads="form",
    slots="long", most_bytes=MOST_BYTES,
)  # fmt: skip
def create_document(call: Call, asked: Asked) -> Response:
    """Import a document; its annotation becomes suggestions, or gold where its state is CURATION-COMPLETE."""
    campaign_id, name = asked.number("project"), asked.text("name")
    format, state = _format(asked.text("format", "text")), asked.text("state", "NEW")
    annotation = _among(_BECOMES, state, "state of a new document")
    made = out_of_process.call(
        documents.add_document,
        call.store,
        call.actor,
        campaign_id,
        [(_file_name(name, format), asked.stored("content"))],
        format=format.format,
        annotation=annotation,
        options=dict(format.options),
    )
    outcome = made.outcome
    messages = [("INFO", outcome.note)] if outcome.note else []
    if outcome.duplicates:
        left_out = f"{outcome.duplicates} sentences are in the campaign already and were left out."
        messages.append(("WARN", left_out))
    return _enveloped(_document(made.view), status=201, messages=messages)


@AERO.operation("GET", _DOCUMENT, scope="read", roles=EVERYONE, use=documents.document_file, slots="long")
def get_document(call: Call, asked: Asked) -> Response:
    """Get a document without annotation."""
    written = documents.document_file(call.store, call.actor, *_place(asked), format=_wanted(asked))
    return _content(written)


@AERO.operation("DELETE", _DOCUMENT, scope="write", roles=KEEPERS, use=documents.remove_document)
def delete_document(call: Call, asked: Asked) -> Response:
    """Delete a document that nobody has begun to work on."""
    place = _place(asked)
    documents.remove_document(call.store, call.actor, *place)
    return _enveloped(None, messages=[("INFO", f"Document {place[1]} is deleted.")])


@AERO.operation("GET", _DOCUMENT + "/annotations", scope="read", roles=KEEPERS, use=documents.list_work)
def list_annotations(call: Call, asked: Asked) -> Response:
    """List who has submitted work on a document."""
    return _enveloped([_annotation(view) for view in documents.list_work(call.store, call.actor, *_place(asked))])


@AERO.operation("GET", _WORK, scope="read", roles=EVERYONE, use=documents.work_file, slots="long")
def get_annotation(call: Call, asked: Asked) -> Response:
    """Get a document with what a person submitted: one's own, or anybody's for researchers and admins."""
    place, user = _place(asked), asked.path["user"]
    return _content(documents.work_file(call.store, call.actor, *place, user, format=_wanted(asked)))


@AERO.operation(
    "POST", _WORK, scope="write", roles=LABELLERS, use=whole_documents.work_on_document, reads="form",
    slots="long", most_bytes=MOST_BYTES,
)  # fmt: skip
def create_annotation(call: Call, asked: Asked) -> Response:
    """Make the content one's own work as annotator 1: submitted if it is COMPLETE, else a draft."""
    place, user = _place(asked), _own(call, asked)
    format, state = _with_spans(asked), asked.text("state", "NEW")
    is_complete = _among(_IS_COMPLETE, state, "state of annotation")
    whole_documents.work_on_document(
        call.store, call.actor, *place, [(_file_name("content", format), asked.file("content"))],
        format=format.format, is_complete=is_complete, options=dict(format.options),
    )  # fmt: skip
    return _enveloped(
        {"user": user, "state": "COMPLETE" if is_complete else "IN-PROGRESS", "timestamp": None}, status=201
    )


@AERO.operation(
    "POST", _WORK + "/state", scope="write", roles=LABELLERS, use=whole_documents.set_document_state, reads="form"
)
def set_annotation_state(call: Call, asked: Asked) -> Response:
    """Submit one's drafts (COMPLETE), or take one's submitted work back to change it (IN-PROGRESS)."""
    place, user = _place(asked), _own(call, asked)
    is_complete = _among(_IS_COMPLETE, asked.text("state"), "state of annotation")
    whole_documents.set_document_state(call.store, call.actor, *place, is_complete=is_complete)
    state = "COMPLETE" if is_complete else "IN-PROGRESS"
    return _enveloped({"user": user, "state": state, "timestamp": None})


@AERO.operation("DELETE", _WORK, scope="write", roles=EVERYONE, use=documents.list_documents)
def delete_annotation(call: Call, asked: Asked) -> Response:
    """Refuse: work is never deleted."""
    _refuse_deleting(call, asked, "Submitted work is never deleted; set its state to IN-PROGRESS to change it")


@AERO.operation("GET", _DOCUMENT + "/curation", scope="read", roles=OVERSEERS, use=documents.layer_file, slots="long")
def get_curation(call: Call, asked: Asked) -> Response:
    """Get a document with its gold."""
    return _content(documents.layer_file(call.store, call.actor, *_place(asked), "gold", format=_wanted(asked)))


@AERO.operation(
    "POST", _DOCUMENT + "/curation", scope="write", roles=KEEPERS, use=documents.give_gold, reads="form",
    slots="long", most_bytes=MOST_BYTES,
)  # fmt: skip
def create_curation(call: Call, asked: Asked) -> Response:
    """Make the content the gold of a document that nobody has begun."""
    place, format = _place(asked), _with_spans(asked)
    documents.give_gold(
        call.store, call.actor, *place, [(_file_name("content", format), asked.file("content"))],
        format=format.format, options=dict(format.options),
    )  # fmt: skip
    return _enveloped({"user": call.actor.name, "state": "CURATION-COMPLETE", "timestamp": None}, status=201)


@AERO.operation("DELETE", _DOCUMENT + "/curation", scope="write", roles=EVERYONE, use=documents.list_documents)
def delete_curation(call: Call, asked: Asked) -> Response:
    """Refuse: gold is never deleted."""
    _refuse_deleting(call, asked, "Gold is never deleted; an expert reopens it in the editor")


def _refuse_deleting(call: Call, asked: Asked, why: str) -> NoReturn:
    campaign_id, document_id = _place(asked)
    views = documents.list_documents(call.store, call.actor, campaign_id)
    if all(view.id != document_id for view in views):
        raise NotFound(f"The campaign has no document {document_id}; see the list of its documents.")
    raise Conflict(f"{why}.")


def _project(view: CampaignView) -> dict[str, Any]:
    return {"id": view.id, "name": view.name, "title": view.domain_name}


def _document(view: DocumentView) -> dict[str, Any]:
    return {"id": view.id, "name": view.name, "state": _STATES[view.state]}


def _annotation(view: WorkView) -> dict[str, Any]:
    state = "COMPLETE" if view.is_whole else "IN-PROGRESS"
    return {"user": view.user, "state": state, "timestamp": f"{view.last_at:%Y-%m-%dT%H:%M:%S%z}"}


def _place(asked: Asked) -> tuple[int, int]:
    return asked.number("project"), asked.number("document")


def _own(call: Call, asked: Asked) -> str:
    user = asked.path["user"]
    if user != call.actor.name:
        raise NotAllowed(
            f"The token is of {call.actor.name!r}; {user[:80]!r} sends their own work, with their own token."
        )
    return user


def _among(known: Mapping[str, Any], value: str, what: str) -> Any:
    if value not in known:
        raise BadInput(f"The {what} is {value[:40]!r}; allowed are {', '.join(known)}.")
    return known[value]


def _format(name: str) -> Exchanged:
    format: Exchanged = _among(FORMATS, name, "format")
    return format


def _with_spans(asked: Asked) -> Exchanged:
    name = asked.text("format", "text")
    format = _format(name)
    if not format.has_spans:
        spans = ", ".join(id for id, known in FORMATS.items() if known.has_spans)
        raise BadInput(f"The format {name!r} holds no annotation; send one of {spans}.")
    return format


def _wanted(asked: Asked) -> str:
    name = asked.query.get("format") or "text"
    format = _format(name)
    if format.written is None:
        written = ", ".join(id for id, known in FORMATS.items() if known.written is not None)
        raise BadInput(f"The format {name!r} is only read; ask for one of {written}.")
    return format.written or format.format


def _file_name(name: str, format: Exchanged) -> str:
    """Return a name for the file from which a format's reader makes the document's name again."""
    return f"{name}{format.suffix}" if get_format(format.format).by_document else name


def _content(written: Written) -> Response:
    """Answer with a file, or with a zip of those that belong together."""
    if len(written.files) == 1:
        return Response(written.files[0][1], media_type="application/octet-stream")
    return Response(zipped(dict(written.files)), media_type="application/zip")
