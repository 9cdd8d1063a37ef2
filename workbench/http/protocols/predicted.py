"""What a campaign's model predicts in the texts of another tool."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from crossner_core.errors import BadInput
from crossner_core.formats.base import Layout, Record
from crossner_core.formats.standoff import StandoffOptions, Text, document_of
from workbench.http.api.declared import Call
from workbench.http.api.routes.predict import MOST_IN_ALL
from workbench.runs import predicting

log = logging.getLogger(__name__)
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entity:
    """A predicted entity at code points `[start, end)` of its text, with its probability."""

    start: int
    end: int
    type: str
    probability: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Predicted:
    """Entities of each text, and the run whose model predicted them."""

    run_id: int
    entities: tuple[tuple[Entity, ...], ...]


def predict_texts(
    call: Call, campaign_id: int, texts: Sequence[Text], layout: Layout, *, within: Range | None = None
) -> Predicted:
    """Predict with the campaign's model, in sentences that touch `within` alone if it is given.

    A sentence that is too long to be read has no entities. Raises BadInput for too much text.
    """
    records = [_records(text, layout, within) for text in texts]
    characters = sum(len(record.sentence.text) for of_text in records for record in of_text)
    if characters > MOST_IN_ALL:
        raise BadInput(f"The texts have {characters:,} characters; up to {MOST_IN_ALL:,} are read at a time.")
    sentences = [record.sentence for of_text in records for record in of_text]
    made = predicting.predict(call.store, call.actor, sentences, campaign_id=campaign_id)
    suggestions = iter(made.suggestions)
    entities = tuple(
        tuple(
            Entity(*_characters(record, suggestion.start, suggestion.end), suggestion.type, suggestion.score,
                   suggestion.end - suggestion.start)
            for record in of_text
            for suggestion in next(suggestions)
        )
        for of_text in records
    )  # fmt: skip
    return Predicted(made.run_id, entities)


def _records(text: Text, layout: Layout, within: Range | None) -> list[Record]:
    if not text.text.strip():
        return []
    made = document_of(text, (), StandoffOptions(skip_bad=True), layout, file=text.name)
    if made.problems:
        log.info("%d sentences of a text were too long to be predicted in.", len(made.problems))
    low, high = within if within is not None else (0, len(text.text))
    return [record for record in made.sentences if _offset(record) < high and low < _end(record)]


def _offset(record: Record) -> int:
    assert record.sentence.offset is not None
    return record.sentence.offset


def _end(record: Record) -> int:
    return _offset(record) + len(record.sentence.text)


def _characters(record: Record, start: int, end: int) -> Range:
    first, last = record.sentence.char_range(start, end)
    return _offset(record) + first, _offset(record) + last
