"""What stands around a sentence: its page or document, the sentences before and after, and what is marked there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import WorkbenchError
from crossner_core.folders import find_folder
from crossner_core.schema import Sentence, fields_from_kept
from db import campaign_rows, context_rows
from db.engine import Session, Store
from db.tables import SentenceRow
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import stage_roles
from workbench.data.values import sentence_of, text_of
from workbench.settings import Settings, settings_of

if TYPE_CHECKING:
    from crossner_core.wikipedia.corpus import Corpus

MOST_AROUND = 10
"""Sentences on each side."""
MOST_TASKS = 20
_SLACK = 3  # ids that are missing, or another import's, between two sentences of a document
_SEPARATOR = 4  # characters between two sentences that follow each other
_WIKIPEDIA = re.compile(r"(?P<language>[a-z]{2,3}(?:_[a-z_]+)?|simple)wiki-\d+-(?P<revision>\d+)-\d+")
_GONE = (
    "The corpus {name!r} that this sentence came from is not here, or was built again: its neighbours cannot be shown."
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sentence comes from: page or document, section, and the address of the page; empty what is not known."""

    title: str
    section: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Marked:
    """A span over characters `[start, end)` of a line."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True)
class Line:
    """A neighbour; after a `gap` there is text between it and the next one towards the sentence that is not here."""

    text: str
    marks: tuple[Marked, ...] = ()
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """The sentences before and after, in the order of the text; `note` says why there are none."""

    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """A sentence of the same text, with its id in the campaign if it is in it."""

    sentence: Sentence
    offset: int | None
    id: int | None


def origin_of(row: SentenceRow) -> Origin | None:
    """Return where a sentence comes from; None for one that stands by itself."""
    kept = fields_from_kept(row.meta)
    key = text_of(kept)
    if key is None:
        return None
    meta = kept["meta"]
    title = _words(meta.get("title")) or _words(kept["document"]) or key[1]
    return Origin(title, _words(meta.get("section")), _link(row.external_id, meta))


def around(
    store: Store, actor: Actor, campaign_id: int, stage: str, task_ids: Sequence[int], *, each: int = 1
) -> dict[int, Context]:
    """Return what stands around the sentences of the actor's own tasks, by task id; other tasks are left out.

    What is marked there is gold, or what the actor submitted: never the open work of others. `each` is how many
    sentences on either side, at most `MOST_AROUND`.
    """
    require(actor, *stage_roles(stage))
    reach = min(max(each, 1), MOST_AROUND)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *stage_roles(stage))
        own = context_rows.own(
            session,
            campaign_id=campaign.id,
            stage=stage,
            task_ids=list(task_ids)[:MOST_TASKS],
            user_id=current.id,
        )
        rows = {task_id: row for task_id, row in own.items() if origin_of(row) is not None}
        texts = _texts(session, settings_of(store), campaign.id, list(rows.values()), reach)
        windows = {task_id: _window(texts[row.id], row, reach) for task_id, row in rows.items() if row.id in texts}
        seen = {neighbour.id for window in windows.values() for side in window for neighbour in side}
        marks = context_rows.marked(session, [id_ for id_ in seen if id_ is not None], user_id=current.id)
    return {
        task_id: _context(windows[task_id], row, marks) if task_id in windows else Context(note=_note(row))
        for task_id, row in rows.items()
    }


def _words(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _link(external_id: str, meta: Mapping[str, Any]) -> str:
    """Return the address of the page as it was read, or the one that came with the sentence."""
    if match := _WIKIPEDIA.fullmatch(external_id):
        language = match["language"].replace("_", "-")
        return f"https://{language}.wikipedia.org/w/index.php?oldid={match['revision']}"
    address = _words(meta.get("url")) or _words(meta.get("link"))
    return address if address.startswith(("https://", "http://")) else ""


def _texts(
    session: Session, settings: Settings, campaign_id: int, rows: Sequence[SentenceRow], reach: int
) -> dict[int, list[_Neighbour]]:
    """Return, by sentence id, the sentences of the text around it in order, the sentence itself included."""
    pages = {row.id: page for row in rows if (page := _page_of(settings, row))}
    hashes = [sentence.content_hash for page in pages.values() for sentence in page]
    ids = campaign_rows.ids_of(session, campaign_id, hashes) if hashes else {}
    texts = {
        row_id: [_Neighbour(sentence, sentence.meta["offset"], ids.get(sentence.content_hash)) for sentence in page]
        for row_id, page in pages.items()
    }
    others = {row.id: text_of(fields_from_kept(row.meta)) for row in rows if not _corpus_of(row)}
    beside = context_rows.near(session, campaign_id, list(others), reach + _SLACK) if others else []
    keys = {row.id: text_of(fields_from_kept(row.meta)) for row in beside}
    for row_id, key in others.items():
        within = (row for row in beside if abs(row.id - row_id) <= reach + _SLACK and keys[row.id] == key)
        texts[row_id] = _in_order([_neighbour(row) for row in within])
    return texts


def _neighbour(row: SentenceRow) -> _Neighbour:
    sentence = sentence_of(row)
    offset = row.meta.get("offset") if sentence.offset is None else sentence.offset
    return _Neighbour(sentence, offset if isinstance(offset, int) else None, row.id)


def _in_order(text: list[_Neighbour]) -> list[_Neighbour]:
    """Sort by place in the text; where that is not known, sentences stand as they were imported."""
    known = [neighbour.offset for neighbour in text if neighbour.offset is not None]
    return sorted(text, key=lambda neighbour: neighbour.offset or 0) if len(known) == len(text) else text


def _corpus_of(row: SentenceRow) -> tuple[str, int] | None:
    """Return the corpus and the page that a sentence was drawn from."""
    name, page = row.meta.get("corpus"), row.meta.get("page")
    return (name, page) if isinstance(name, str) and isinstance(page, int) else None


def _page_of(settings: Settings, row: SentenceRow) -> tuple[Sentence, ...]:
    """Return the sentences of the page that a sentence was drawn from; none if that corpus is not here any more."""
    if (place := _corpus_of(row)) is None:
        return ()
    try:
        folder = find_folder(settings.corpora, "corpus", place[0])
        stamp = (folder / "manifest.json").stat().st_mtime_ns
        page = _page(folder, stamp, place[1])
    except (WorkbenchError, OSError):
        return ()
    return page if any(sentence.id == row.external_id and sentence.text == row.text for sentence in page) else ()


@lru_cache(maxsize=4)
def _opened(folder: Path, _stamp: int) -> Corpus:
    from crossner_core.wikipedia.corpus import Corpus

    return Corpus.open(folder)


@lru_cache(maxsize=128)
def _page(folder: Path, stamp: int, page: int) -> tuple[Sentence, ...]:
    return tuple(drawn.sentence for drawn in _opened(folder, stamp).of_page(page))


def _note(row: SentenceRow) -> str:
    place = _corpus_of(row)
    return _GONE.format(name=place[0]) if place else ""


_Window = tuple[tuple[_Neighbour, ...], tuple[_Neighbour, ...]]


def _window(text: Sequence[_Neighbour], row: SentenceRow, reach: int) -> _Window:
    """Return the neighbours before and after a sentence, nearest last and first."""
    here = next((place for place, neighbour in enumerate(text) if neighbour.id == row.id), None)
    if here is None:  # the page holds it under other tokens
        here = next(place for place, neighbour in enumerate(text) if neighbour.sentence.id == row.external_id)
    return tuple(text[max(here - reach, 0) : here]), tuple(text[here + 1 : here + 1 + reach])


def _context(window: _Window, row: SentenceRow, marks: Mapping[int, Sequence[context_rows.Mark]]) -> Context:
    before, after = window
    here = _neighbour(row)
    lines = [_line(neighbour, marks) for neighbour in (*before, *after)]
    gaps = [_apart(left, right) for left, right in pairwise((*before, here, *after))]
    made = tuple(replace(line, gap=gap) for line, gap in zip(lines, gaps, strict=True))
    return Context(made[: len(before)], made[len(before) :])


def _line(neighbour: _Neighbour, marks: Mapping[int, Sequence[context_rows.Mark]]) -> Line:
    sentence = neighbour.sentence
    spans = marks.get(neighbour.id, ()) if neighbour.id is not None else ()
    return Line(sentence.text, tuple(Marked(*sentence.char_range(start, end), kind) for start, end, kind in spans))


def _apart(left: _Neighbour, right: _Neighbour) -> bool:
    """Return whether text between two neighbours is missing."""
    if left.offset is None or right.offset is None:
        return False
    return right.offset - left.offset - len(left.sentence.text) > _SEPARATOR
