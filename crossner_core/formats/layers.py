"""Layers of a document beside one another: who did which sentences, and what a file cannot say of it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from crossner_core.formats.base import Parsed, Record, Work
from crossner_core.formats.standoff import Entity, entities_of, is_annotated

NAMES = "first", "second", "gold", "suggestions"
GOLD, SUGGESTIONS = NAMES[2:]
NOBODY, CURATOR, UNTOUCHED = "imported", "CURATION_USER", "INITIAL_CAS"
"""The users of INCEpTION's files: of work that was imported here, of the gold, and of a document nobody has begun."""
UNSAID = "sentences not annotated in their layer, written as without entities"
PEOPLE, TIMES = "names of who did single sentences", "times of single sentences"


def layer_names(document: Parsed) -> list[str]:
    """Return the layers that a document is to be written with, none if its own spans are all."""
    return list(dict.fromkeys(name for record in document.sentences for name in record.layers))


def people_of(document: Parsed, names: Iterable[str]) -> list[str]:
    """Return who did sentences in some layers, sorted."""
    return sorted({record.layers[name].by for name in names for record in document.sentences if name in record.layers})


def works_of(document: Parsed, names: Sequence[str], by: str | None = None) -> list[Work | None]:
    """Return what stands in the first of some layers for each sentence, of one person if they are named."""
    return [next(_works(record, names, by), None) for record in document.sentences]


def _works(record: Record, names: Sequence[str], by: str | None) -> Iterator[Work]:
    works = (record.layers[name] for name in names if name in record.layers)
    return (work for work in works if by is None or work.by == by)


def with_works(document: Parsed, works: Sequence[Work | None]) -> Parsed:
    """Return a document with the spans of these works, a sentence without one not annotated."""
    pairs = zip(document.sentences, works, strict=True)
    records = tuple(
        Record(record.sentence, None if work is None else tuple(sorted(work.spans))) for record, work in pairs
    )
    return replace(document, sentences=records)


def count_unsaid(works: Sequence[Work | None], losses: Counter[str]) -> None:
    """Count the sentences without annotation, for files that say only of whole documents that somebody did them."""
    losses[UNSAID] += sum(work is None for work in works)


def count_bare(documents: Iterable[Parsed], losses: Counter[str]) -> None:
    """Count the sentences without annotation in documents of which others are annotated, for such files."""
    for document in documents:
        if is_annotated(document):
            losses[UNSAID] += sum(record.spans is None for record in document.sentences)


def only_person(works: Sequence[Work | None], losses: Counter[str]) -> str:
    """Return who did all sentences; of several people none, and count the sentences."""
    people = [work.by for work in works if work is not None and work.by]
    if len(set(people)) == 1:
        return people[0]
    losses[PEOPLE] += len(people)
    return ""


def newest(works: Sequence[Work | None], losses: Counter[str]) -> dt.datetime | None:
    """Return the newest time of some works, and count the others."""
    times = [work.when for work in works if work is not None and work.when is not None]
    latest = max(times, default=None)
    losses[TIMES] += sum(when != latest for when in times)
    return latest


def turns(
    document: Parsed, names: Iterable[str], losses: Counter[str]
) -> Iterator[tuple[str, Parsed, str, dt.datetime | None]]:
    """Yield of each layer but suggestions the document as each person has it, the gold as all have, by whom and when.

    What a file cannot say of single sentences is counted.
    """
    for name in (name for name in names if name != SUGGESTIONS):
        for person in [None] if name == GOLD else people_of(document, (name,)):
            works = works_of(document, (name,), person)
            count_unsaid(works, losses)
            yield name, with_works(document, works), only_person(works, losses), newest(works, losses)


def utc(when: dt.datetime) -> str:
    """Return a time as text, to the second in UTC."""
    return when.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def proposals(document: Parsed, starts: Sequence[int]) -> Iterator[tuple[Entity, str, float]]:
    """Yield the suggestions of a document in order, each with its source and score."""
    works = works_of(document, (SUGGESTIONS,))
    proposed = [
        pair
        for work in works
        if work is not None
        for _, pair in sorted(zip(work.spans, work.proposed, strict=True), key=lambda each: each[0])
    ]
    for entity, (source, score) in zip(entities_of(with_works(document, works), starts), proposed, strict=True):
        yield entity, source, score


def by_person(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[Parsed]:
    """Yield a document of the gold and one for each person, named as in INCEpTION's exports of a project.

    A person's file holds all that they did, at whatever stage. If no document has layers, all stay as they are.
    """
    if not any(map(layer_names, documents)):
        yield from documents
        return
    for document in documents:
        names = [name for name in layer_names(document) if name not in (GOLD, SUGGESTIONS)]
        files: dict[str, tuple[Sequence[str], str | None]] = {
            f"annotation/{document.name}/{by or NOBODY}": (names, by) for by in people_of(document, names)
        }
        if people_of(document, (GOLD,)):
            files[f"curation/{document.name}/{CURATOR}"] = ((GOLD,), None)
        if not files:
            bare = with_works(document, [None] * len(document.sentences))
            yield replace(bare, name=f"annotation/{document.name}/{UNTOUCHED}")
        for name, (own, by) in files.items():
            works = works_of(document, own, by)
            count_unsaid(works, losses)
            yield replace(with_works(document, works), name=name)
        _count_besides_spans(document, names, losses)


def _count_besides_spans(document: Parsed, names: Sequence[str], losses: Counter[str]) -> None:
    for layers in (record.layers for record in document.sentences):
        people = [layers[name].by for name in names if name in layers]
        losses["sentences that somebody did at two stages"] += len(people) - len(set(people))
        losses["stages of sentences (first, second)"] += len(set(people))
        losses[PEOPLE] += GOLD in layers and bool(layers[GOLD].by)
        losses[TIMES] += sum(work.when is not None for work in layers.values())
        losses[f"sentences of the layer {SUGGESTIONS}"] += SUGGESTIONS in layers


def count_all(documents: Sequence[Parsed], losses: Counter[str]) -> None:
    """Count the layers besides a document's own, and people and times, for a format that has no place for them."""
    for record in (record for document in documents for record in document.sentences):
        for name, work in record.layers.items():
            losses[f"sentences of the layer {name}"] += name != record.layer
            losses["people and times of sentences"] += bool(work.by) or work.when is not None
