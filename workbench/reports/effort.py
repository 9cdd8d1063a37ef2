"""How much work the stages took, with and without suggestions, and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from db.tables import Annotation, SentenceRow, User

Submitted = Mapping[str, Mapping[int, tuple[SentenceRow, Annotation]]]


@dataclass(frozen=True, slots=True)
class Effort:
    """Active seconds and keystrokes of the submitted work of one kind; the rates are None where nothing is counted."""

    stage: str
    suggestions: str
    """with · control (withheld) · - (stages that show no suggestions)"""
    sentences: int
    entities: int
    active_seconds: float
    keystrokes: int

    @property
    def seconds_per_sentence(self) -> float | None:
        return self.active_seconds / self.sentences if self.sentences else None

    @property
    def seconds_per_entity(self) -> float | None:
        return self.active_seconds / self.entities if self.entities else None

    @property
    def keystrokes_per_sentence(self) -> float | None:
        return self.keystrokes / self.sentences if self.sentences else None

    @property
    def keystrokes_per_entity(self) -> float | None:
        return self.keystrokes / self.entities if self.entities else None


@dataclass(frozen=True, slots=True)
class PersonRow:
    """What one person has submitted; of their `judged` entities, `kept` are in the gold."""

    user_id: int
    name: str
    role: str
    annotated: int
    checked: int
    adjudicated: int
    skipped: int
    entities: int
    active_seconds: float
    keystrokes: int
    judged: int
    kept: int


def efforts(submitted: Submitted, *, suggestions_on: bool) -> tuple[Effort, ...]:
    """Return the effort of annotating with suggestions and without, of checking and of adjudicating."""
    first = list(submitted["annotate"].values())
    shown = [work for row, work in first if suggestions_on and not row.control]
    withheld = [work for row, work in first if row.control or not suggestions_on]
    return (
        _effort("annotate", "with", shown),
        _effort("annotate", "control", withheld),
        _effort("check", "-", [work for _, work in submitted["check"].values()]),
        _effort("adjudicate", "-", [work for _, work in submitted["adjudicate"].values() if work.origin == "person"]),
    )


def _effort(stage: str, suggestions: str, works: Iterable[Annotation]) -> Effort:
    annotations = list(works)
    return Effort(
        stage=stage,
        suggestions=suggestions,
        sentences=len(annotations),
        entities=sum(len(work.spans) for work in annotations),
        active_seconds=sum(work.active_ms for work in annotations) / 1000,
        keystrokes=sum(work.keystrokes for work in annotations),
    )


def person_rows(submitted: Submitted, people: Mapping[int, User], skipped: Mapping[int, int]) -> tuple[PersonRow, ...]:
    """Return the table of people, those with the most work first; imported gold is nobody's work."""
    gold = {id_: _spans(work) for id_, (_, work) in submitted["adjudicate"].items()}
    rows = []
    for user_id, user in people.items():
        own = {
            stage: {id_: w for id_, (_, w) in by_sentence.items() if w.user_id == user_id and w.origin == "person"}
            for stage, by_sentence in submitted.items()
        }
        works = [work for by_sentence in own.values() for work in by_sentence.values()]
        if not works and not skipped.get(user_id):
            continue
        judged = [
            (span, gold[id_])
            for stage in ("annotate", "check")
            for id_, work in own[stage].items()
            if id_ in gold
            for span in _spans(work)
        ]
        rows.append(
            PersonRow(
                user_id=user_id,
                name=user.display_name,
                role=user.role,
                annotated=len(own["annotate"]),
                checked=len(own["check"]),
                adjudicated=len(own["adjudicate"]),
                skipped=skipped.get(user_id, 0),
                entities=sum(len(work.spans) for work in works),
                active_seconds=sum(work.active_ms for work in works) / 1000,
                keystrokes=sum(work.keystrokes for work in works),
                judged=len(judged),
                kept=sum(span in spans for span, spans in judged),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-(row.annotated + row.checked + row.adjudicated), row.name)))


def _spans(work: Annotation) -> set[tuple[int, int, str]]:
    return {(span.start, span.end, span.type) for span in work.spans}
