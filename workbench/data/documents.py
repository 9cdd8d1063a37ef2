"""Documents of a campaign: the sentences that came in one file, as a whole again, with a layer or none.

A document's id is that of its first sentence. Sentences of no document are one, which is called as the campaign.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound
from crossner_core.formats import make_document, read_files
from crossner_core.formats.base import NamedFile, Record, Written
from crossner_core.formats.source import clip
from crossner_core.formats.standoff import entities_of, text_of
from crossner_core.schema import LabelledSentence, Sentence, Span, check_spans
from db import account_rows
from db.documents import rows
from db.documents.rows import Step
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import EVERYONE, KEEPERS, LABELLERS, OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.campaigns.sentences import make_gold
from workbench.data import exchange, layers, staging
from workbench.data.exchange import ImportOutcome
from workbench.data.values import checked_spans, sentence_of

State = Literal["new", "annotating", "annotated", "adjudicating", "gold"]
RUNNING_TEXT = "text"
"""Not a format of ours: the whole text of a document, as it stood in its file."""
_AS_TEXT = "cas-xmi"


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document in a list; `annotated` once both annotators have finished with all of it."""

    id: int
    name: str
    sentences: int
    state: State


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document's whole text; `starts` say where in it each of its sentences begins."""

    view: DocumentView
    text: str
    sentences: tuple[Sentence, ...]
    ids: tuple[int, ...]
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddedDocument:
    """A document that came in, and the outcome of its import."""

    view: DocumentView
    outcome: ImportOutcome


@dataclass(frozen=True, slots=True)
class WorkView:
    """How many sentences of a document a person has annotated or checked."""

    user: str
    sentences: int
    is_whole: bool
    last_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Document:
    """A document with its sentences, and their ids."""

    name: str
    ids: tuple[int, ...]
    sentences: tuple[Sentence, ...]


def list_documents(store: Store, actor: Actor, campaign_id: int) -> tuple[DocumentView, ...]:
    """Return the documents of a campaign in the order they came in."""
    require(actor, *EVERYONE)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *EVERYONE)
        return tuple(_views(session, campaign))


def add_document(
    store: Store,
    actor: Actor,
    campaign_id: int,
    files: Sequence[tuple[str, Path]],
    *,
    format: str | None = None,
    **asked: Any,
) -> AddedDocument:
    """Import the files of one document as `staging.import_apart` does; raises as that does.

    Raises Conflict where the campaign has a document of that name, or all its sentences, and BadInput for files of
    several documents and for those that take `staging.LONG` to read. For researchers and admins.
    """
    require(actor, *KEEPERS)
    if (seconds := staging.seconds_for(staging.sizes_of(files), format)) >= staging.LONG:
        raise BadInput(
            f"The document takes about {seconds:.0f} s to read, and at most {staging.LONG:.0f} s are allowed here; "
            f"import it on Data, or post it to /api/v1/campaigns/{campaign_id}/sentences: both leave it to the worker."
        )
    before: set[str] = set()

    def refuse(session: Session, staged: staging.Staged) -> None:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        before.update(_documents(session, campaign))
        if len(staged.names) != 1:
            raise BadInput(f"The files hold {len(staged.names)} documents; send one, or import them all together.")
        if (name := staged.names[0] or campaign.name) in before:
            raise Conflict(f"The campaign has a document {name!r} already; choose another name.")

    outcome = staging.import_apart(store, actor, campaign_id, files, check=refuse, format=format, **asked)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        made = next((view for view in _views(session, campaign) if view.name not in before), None)
    if made is None:
        raise Conflict(f"All {outcome.duplicates} sentences are in the campaign already; nothing was added.")
    return AddedDocument(made, outcome)


def get_document(store: Store, actor: Actor, campaign_id: int, document_id: int) -> DocumentText:
    """Return a document's text and where its sentences lie in it; raise NotFound."""
    require(actor, *EVERYONE)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *EVERYONE)
        return _whole(session, campaign, document_in(session, campaign, document_id))


def document_file(store: Store, actor: Actor, campaign_id: int, document_id: int, *, format: str) -> Written:
    """Return a document without annotation, as files of a format or as `RUNNING_TEXT`."""
    require(actor, *EVERYONE)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *EVERYONE)
        document = document_in(session, campaign, document_id)
    return _written(document, {}, format)


def layer_file(store: Store, actor: Actor, campaign_id: int, document_id: int, which: str, *, format: str) -> Written:
    """Return a document with what a layer (`layers.LAYERS`) holds of it; raise NotFound where that is nothing.

    For experts, researchers and admins.
    """
    require(actor, *OVERSEERS)
    layers.check_names((which,))
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        document = document_in(session, campaign, document_id)
        if which in layers.STAGES:
            spans = _spans(session, document, (layers.STAGES[which],))
        else:
            known = set(document.ids)
            spans = {id: row.spans for id, row, _ in layers.rows_in(session, campaign, which) if id in known}
    if not spans:
        raise NotFound(f"The document {document.name!r} has nothing in the layer {which!r} yet.")
    return _written(document, spans, format)


def list_work(store: Store, actor: Actor, campaign_id: int, document_id: int) -> tuple[WorkView, ...]:
    """Return who has annotated or checked sentences of a document. For researchers and admins."""
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        ids = document_in(session, campaign, document_id).ids
        return tuple(
            WorkView(name, count, count == len(ids), when)
            for name, (count, when) in sorted(rows.workers(session, ids).items())
        )


def work_file(
    store: Store, actor: Actor, campaign_id: int, document_id: int, user_name: str, *, format: str
) -> Written:
    """Return a document with what a person has submitted as an annotator; raise NotFound where that is nothing.

    Annotators and experts see their own, researchers and admins anybody's.
    """
    require(actor, *EVERYONE)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *EVERYONE)
        if current.role in LABELLERS and user_name != current.name:
            raise NotAllowed(f"{current.display_name} sees their own work here, not that of {user_name[:80]!r}.")
        document = document_in(session, campaign, document_id)
        user = account_rows.by_name(session, name=user_name)
        spans = _spans(session, document, ("annotate", "check"), user_id=user.id) if user is not None else {}
    if not spans:
        raise NotFound(f"{user_name[:80]!r} has submitted nothing of the document {document.name!r}.")
    return _written(document, spans, format)


def remove_document(
    store: Store,
    actor: Actor,
    campaign_id: int,
    document_id: int,
    *,
    check: Callable[[DocumentText], object] = lambda document: None,
) -> None:
    """Delete a document that nobody has begun to work on; raise Conflict for any other. For researchers and admins.

    `check` may refuse it as it is now.
    """
    require(actor, *KEEPERS)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        document = document_in(session, campaign, document_id)
        check(_whole(session, campaign, document))
        _refuse_begun(session, campaign, document, "deleted")
        audit.record(
            session, current, "remove_document", ("document", document.name), campaign_id, sentences=len(document.ids)
        )
        rows.remove(session, document.ids)


def give_gold(
    store: Store,
    actor: Actor,
    campaign_id: int,
    document_id: int,
    files: Sequence[NamedFile],
    *,
    format: str,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Make the annotation in files the gold of a document that nobody has begun, as an import of gold does.

    Raises Conflict where somebody has, or where the text is another. For researchers and admins.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        document, types = document_in(session, campaign, document_id), domain_of(campaign).type_names
    spans = spans_in(document, files, types, format=format, options=options)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        _refuse_begun(session, campaign, document, "given gold")
        labelled = [LabelledSentence(*pair) for pair in zip(document.sentences, spans, strict=True)]
        make_gold(session, current, campaign, dict(zip(document.ids, labelled, strict=True)))
        audit.record(session, current, "give_gold", ("document", document.name), campaign_id, sentences=len(labelled))


def document_in(session: Session, campaign: Campaign, document_id: int) -> Document:
    """Return a document, inside a transaction whose caller has authorised the actor; raise NotFound."""
    for name, ids in _documents(session, campaign).items():
        if ids[0] == document_id:
            made = tuple(sentence_of(row, links) for row, links in rows.sentences(session, ids))
            return Document(name, tuple(ids), made)
    raise NotFound(f"The campaign {campaign.name!r} has no document {document_id}; see the list of its documents.")


def spans_in(
    document: Document,
    files: Sequence[NamedFile],
    types: Sequence[str],
    *,
    format: str,
    options: Mapping[str, Any] | None = None,
) -> list[tuple[Span, ...]]:
    """Read a document's annotation out of files, as spans of each of its sentences.

    White space, sentences and tokens of the files may be others. Raises Conflict for another text, BadInput for an
    entity that our tokens or sentences cut.
    """
    parsed = read_files(files, format, types=types, **(options or {}))
    if len(parsed) != 1:
        raise BadInput(f"The file holds {len(parsed)} documents; send the annotation of one.")
    theirs, starts = text_of(parsed[0])
    ours, places = _text(map(Record, document.sentences))
    letters, own = _letters(theirs), _letters(ours)
    for low, high in zip_longest(letters, own):
        if low is None or high is None or theirs[low] != ours[high]:
            other, own_text = theirs[low or 0 :][:40], ours[high or 0 :][:40]
            raise Conflict(
                f"The text is not that of the document {document.name!r}: {clip(other)} stands where it has "
                f"{clip(own_text)}."
            )
    spans: list[list[Span]] = [[] for _ in document.sentences]
    for start, end, type, entity in entities_of(parsed[0], starts):
        low, high = bisect.bisect_left(letters, start), bisect.bisect_left(letters, end)
        if low < high:
            first, last = own[low], own[high - 1] + 1
            number = bisect.bisect_right(places, first) - 1
            place = places[number]
            span = _span(document.sentences[number], first - place, last - place, type)
            spans[number].append(replace(span, entity=entity))
    return [check_spans(*pair) for pair in zip(document.sentences, spans, strict=True)]


def _letters(text: str) -> list[int]:
    """Return where a text has what is no white space."""
    return [place for place, letter in enumerate(text) if not letter.isspace()]


def _span(sentence: Sentence, start: int, end: int, type: str) -> Span:
    starts, ends = [token.start for token in sentence.tokens], [token.end for token in sentence.tokens]
    if end > len(sentence.text) or start not in starts or end not in ends:
        raise BadInput(
            f"The entity {clip(sentence.text[start:end])} of type {clip(type)} in sentence {sentence.id} does not "
            "begin and end with its tokens; use the sentences and tokens that the document has here."
        )
    return Span(starts.index(start), ends.index(end) + 1, type)


def _documents(session: Session, campaign: Campaign) -> dict[str, list[int]]:
    """Return the ids of the sentences by document, both in the order they came in."""
    documents: dict[str, list[int]] = {}
    for id, name in rows.names(session, campaign.id):
        documents.setdefault(name or campaign.name, []).append(id)
    return documents


def _whole(session: Session, campaign: Campaign, document: Document) -> DocumentText:
    view = _view(document.name, document.ids, rows.steps(session, campaign.id))
    text, starts = _text(map(Record, document.sentences))
    return DocumentText(view, text, document.sentences, document.ids, tuple(starts))


def _views(session: Session, campaign: Campaign) -> Iterator[DocumentView]:
    steps = rows.steps(session, campaign.id)
    for name, ids in _documents(session, campaign).items():
        yield _view(name, ids, steps)


def _view(name: str, ids: Sequence[int], steps: Mapping[int, Sequence[Step]]) -> DocumentView:
    return DocumentView(ids[0], name, len(ids), _state([steps.get(id, []) for id in ids]))


def _state(sentences: Sequence[Sequence[Step]]) -> State:
    gold = sum(any(step.stage == "adjudicate" and step.state == "done" for step in steps) for steps in sentences)
    if gold == len(sentences):
        return "gold"
    if gold:
        return "adjudicating"
    if all(any(step.stage == "adjudicate" for step in steps) for steps in sentences):
        return "annotated"
    return "annotating" if any(step.is_begun for steps in sentences for step in steps) else "new"


def _refuse_begun(session: Session, campaign: Campaign, document: Document, what: str) -> None:
    """Raise Conflict unless all sentences wait for annotator 1, and nobody has begun."""
    steps = rows.steps(session, campaign.id)
    begun = sum([step.is_begun for step in steps.get(id, [])] != [False] for id in document.ids)
    if begun:
        raise Conflict(
            f"The document {document.name!r} cannot be {what}: of its {len(document.ids)} sentences {begun} carry "
            "work, or somebody has them open. Work is never overwritten."
        )


def _spans(
    session: Session, document: Document, stages: Sequence[str], *, user_id: int | None = None
) -> dict[int, tuple[Span, ...]]:
    works = rows.submitted(session, document.ids, stages, user_id=user_id)
    return {
        id: checked_spans(sentence, works[id].spans)
        for id, sentence in zip(document.ids, document.sentences, strict=True)
        if id in works
    }


def _written(document: Document, spans: Mapping[int, Iterable[Span]], format: str) -> Written:
    records = [
        Record(sentence, tuple(spans[id]) if id in spans else None)
        for id, sentence in zip(document.ids, document.sentences, strict=True)
    ]
    if format != RUNNING_TEXT:
        return exchange.write_document(document.name, records, format)
    text, _ = _text(records)
    return Written(((f"{document.name}.txt", text.encode("utf-8")),), {})


def _text(records: Iterable[Record]) -> tuple[str, list[int]]:
    """Return a document's text as it stood in its file, and where each of its sentences begins."""
    return text_of(make_document("", records, _AS_TEXT))
