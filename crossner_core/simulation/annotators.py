"""A simulated annotator: makes errors, is led by suggestions, and takes time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossner_core.errors import InvalidConfig
from crossner_core.options.base import Checked, option
from crossner_core.schema import LabelledSentence, Span


@dataclass(frozen=True)
class AnnotatorOptions(Checked):
    """Error rates in [0, 1] and seconds of active time; published: 7 s per entity from scratch.

    Suggestions saved 20 to 35 % of the time there, which the costs of keeping, changing and deleting reflect.
    """

    missed: float = option(0.0, "Share of entities without a suggestion that the annotator misses.", min=0.0, max=1.0)
    wrong_type: float = option(0.0, "Share of added entities with a wrong type.", min=0.0, max=1.0)
    wrong_boundary: float = option(
        0.0, "Share of added entities that are one token too short or too long.", min=0.0, max=1.0
    )
    led: float = option(0.0, "Share of wrong suggestions that are accepted as they are.", min=0.0, max=1.0)
    seconds_token: float = option(
        0.0, "Seconds to read a token, in addition to the cost of its entities.", min=0.0, max=60.0
    )
    seconds_added: float = option(7.0, "Seconds to add an entity that was not suggested.", min=0.0, max=600.0)
    seconds_kept: float = option(3.5, "Seconds to accept a correct suggestion.", min=0.0, max=600.0)
    seconds_changed: float = option(5.0, "Seconds to change a suggestion's boundaries or type.", min=0.0, max=600.0)
    seconds_deleted: float = option(2.0, "Seconds to delete a suggestion.", min=0.0, max=600.0)

    def seconds(self, *, tokens: int, kept: int = 0, changed: int = 0, added: int = 0, deleted: int = 0) -> float:
        """Return the seconds for these numbers of steps, in sentences of `tokens` tokens in total."""
        entities = self.seconds_kept * kept + self.seconds_changed * changed + self.seconds_added * added
        return self.seconds_token * tokens + entities + self.seconds_deleted * deleted

    def differing(self, changes: Mapping[str, Any]) -> AnnotatorOptions:
        """Return this annotator with some options changed; raise InvalidConfig for an unknown one."""
        known = self.__dataclass_fields__
        if unknown := sorted(set(changes) - set(known)):
            valid = ", ".join(sorted(known))
            raise InvalidConfig(f"An annotator has no option {', '.join(unknown)}; valid are {valid}.")
        return replace(self, **changes)

    @property
    def words(self) -> str:
        """The annotator's seconds per step and error rates, in words."""
        shares = (
            (self.missed, "of the entities are missed"),
            (self.wrong_type, "of new ones get a wrong type"),
            (self.wrong_boundary, "of new ones a wrong boundary"),
            (self.led, "of wrong suggestions are taken"),
        )
        errors = ", ".join(f"{100 * share:g}% {what}" for share, what in shares if share)
        return (
            f"An entity takes {self.seconds_added:.1f} s, a suggested one that is kept {self.seconds_kept:.1f} s, "
            f"changed {self.seconds_changed:.1f} s, deleted {self.seconds_deleted:.1f} s, a token "
            f"{self.seconds_token:.2f} s to read; {errors or 'no errors'}."
        )


@dataclass(frozen=True, slots=True)
class Work:
    """An annotator's work on a sentence: its spans, and how many were kept, changed, added and deleted."""

    spans: tuple[Span, ...]
    kept: int
    changed: int
    added: int
    deleted: int
    seconds: float


def annotate(
    item: LabelledSentence,
    suggestions: Sequence[Span],
    types: Sequence[str],
    options: AnnotatorOptions,
    rng: np.random.Generator,
) -> Work:
    """Let an annotator work on a sentence with known gold and suggestions that do not overlap."""
    spans: list[Span] = []
    kept = changed = added = deleted = 0
    left = list(suggestions)
    for gold in item.spans:
        near = [span for span in left if span.start < gold.end and gold.start < span.end]
        left = [span for span in left if span not in near]
        if gold in near:
            spans.append(gold)
            kept, deleted = kept + 1, deleted + len(near) - 1
        elif near and rng.random() < options.led:
            spans.append(near[0])
            kept, deleted = kept + 1, deleted + len(near) - 1
        elif near:
            spans.append(gold)
            changed, deleted = changed + 1, deleted + len(near) - 1
        elif rng.random() >= options.missed:
            spans.append(_new(gold, len(item.sentence.tokens), types, options, rng))
            added += 1
    for wrong in left:
        if rng.random() < options.led:
            spans.append(wrong)
            kept += 1
        else:
            deleted += 1
    seconds = options.seconds(
        tokens=len(item.sentence.tokens), kept=kept, changed=changed, added=added, deleted=deleted
    )
    return Work(_apart(spans), kept, changed, added, deleted, seconds)


def _new(gold: Span, tokens: int, types: Sequence[str], options: AnnotatorOptions, rng: np.random.Generator) -> Span:
    """Return a gold span as this annotator enters it."""
    start, end, type = gold.start, gold.end, gold.type
    others = [name for name in types if name != type]
    if others and rng.random() < options.wrong_type:
        type = others[int(rng.integers(len(others)))]
    if rng.random() < options.wrong_boundary:
        if end - start > 1:
            start, end = (start + 1, end) if rng.random() < 0.5 else (start, end - 1)
        elif end < tokens:
            end += 1
    return Span(start, end, type)


def _apart(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans in order; of two that overlap because of an error, the first is kept."""
    apart: list[Span] = []
    for span in sorted(spans):
        if not apart or apart[-1].end <= span.start:
            apart.append(span)
    return tuple(apart)
