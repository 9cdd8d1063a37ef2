"""Sentences and everything that has offsets in them."""

from __future__ import annotations

from collections.abc import Iterator

from crossner_core.errors import WorkbenchError
from crossner_core.schema import Sentence
from crossner_core.suggest.base import source_of
from db import health_rows
from db.tables import Annotation, SentenceRow
from workbench.data.values import checked_spans, sentence_of
from workbench.doctor.base import Context, Finding, register


@register(
    "offsets",
    "Tokens, spans, links and suggestions fit their text",
    remedy="No repair is safe: restore a backup; which of text and offsets is right cannot be known.",
)
def offsets(context: Context) -> Iterator[Finding]:
    """Compare every surface with its text, every offset with its tokens, every text with its hash."""
    for rows in health_rows.sentences(context.session):
        ids = [row.id for row in rows]
        annotations = health_rows.annotations_of(context.session, ids)
        lengths: dict[int, int] = {}
        for row in rows:
            sentence = _readable(row)
            if isinstance(sentence, Finding):
                yield sentence
                continue
            lengths[row.id] = len(sentence.tokens)
            if sentence.content_hash != row.content_hash:
                yield Finding(f"sentence {row.id}", "text and tokens are not those of its hash")
            for annotation in annotations.get(row.id, ()):
                yield from _misfits(sentence, annotation)
        for sentence_id, table, row_id, start, end in health_rows.marks_of(context.session, ids):
            length = lengths.get(sentence_id)
            if length is not None and end > length:
                where = f"[{start}, {end}) lies outside the {length} tokens of sentence {sentence_id}"
                yield Finding(f"{table} {row_id}", where)


def _readable(row: SentenceRow) -> Sentence | Finding:
    try:
        return sentence_of(row)
    except (WorkbenchError, TypeError, ValueError, KeyError) as error:
        return Finding(f"sentence {row.id}", f"cannot be read: {error}")


def _misfits(sentence: Sentence, annotation: Annotation) -> Iterator[Finding]:
    try:
        checked_spans(sentence, annotation.spans)
    except WorkbenchError as error:
        yield Finding(f"annotation {annotation.id}", str(error))


@register(
    "suggestions",
    "Every suggestion is of a known source and an existing run",
    remedy="No repair is needed: such suggestions are shown under the name they came with. “workbench campaign "
    "preannotate” makes them anew; those of an unknown source may be a newer version's.",
)
def suggestions(context: Context) -> Iterator[Finding]:
    """Find suggestions of sources that are not registered, and of runs that are gone."""
    for source, count in health_rows.suggestion_sources(context.session):
        if source_of(source) is None:
            yield Finding(f"source {source!r}", f"{count} suggestions of a source that is not registered")
    for run_id, count in health_rows.unknown_runs(context.session):
        yield Finding(f"run {run_id}", f"{count} suggestions of a run that does not exist")
