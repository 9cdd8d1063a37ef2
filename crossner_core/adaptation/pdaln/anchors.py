"""Adaptive data: sentences in which an entity of one domain stands in the place of one of the other domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crossner_core.schema import LabelledSentence, Span, sentence_from_words

if TYPE_CHECKING:
    import numpy as np

Surface = tuple[str, ...]
Surfaces = Mapping[str, tuple[Surface, ...]]

# A copy that came out before is drawn again so often, then given up.
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Augmented:
    """Augmented sentences, and of how many sentences none could be made."""

    items: tuple[LabelledSentence, ...]
    skipped: int


def surfaces(items: Sequence[LabelledSentence]) -> dict[str, tuple[Surface, ...]]:
    """Return the words of the entities of each type, each once, sorted."""
    found: dict[str, set[Surface]] = {}
    for item in items:
        words = item.sentence.words
        for span in item.spans:
            found.setdefault(span.type, set()).add(words[span.start : span.end])
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def exchange(
    items: Sequence[LabelledSentence], others: Surfaces, copies: int, rng: np.random.Generator, *, replace: str = "one"
) -> Augmented:
    """Return up to `copies` new sentences of each, with entities of the other domain in the place of its own.

    `replace` is one (a single entity a copy, drawn anew for each) or all. An entity is replaced as a whole by another
    surface of its type, drawn evenly from the distinct ones. Sentences without entities, and those whose types the
    other domain lacks, give none; where there are fewer ways than copies, no copy is made twice.
    Source: PDALN section 4.1.1.
    """
    made: list[LabelledSentence] = []
    skipped = 0
    for item in items:
        own = _copies(item, others, copies, rng, replace)
        made += own
        skipped += not own
    return Augmented(tuple(made), skipped)


def replaced(item: LabelledSentence, by: Mapping[int, Surface], *, id: str) -> LabelledSentence:
    """Return the sentence with other words in its spans of these indices, and spans to fit."""
    words: list[str] = []
    spans: list[Span] = []
    at = 0
    old = item.sentence.words
    for index, span in sorted(enumerate(item.spans), key=lambda pair: pair[1].start):
        words += old[at : span.start]
        start = len(words)
        words += by.get(index, old[span.start : span.end])
        spans.append(Span(start, len(words), span.type))
        at = span.end
    return LabelledSentence(sentence_from_words([*words, *old[at:]], id=id), tuple(spans))


def _copies(
    item: LabelledSentence, others: Surfaces, copies: int, rng: np.random.Generator, replace: str
) -> list[LabelledSentence]:
    words = item.sentence.words
    partners = {
        index: [surface for surface in others.get(span.type, ()) if surface != words[span.start : span.end]]
        for index, span in enumerate(item.spans)
    }
    open_to = [index for index, found in partners.items() if found]
    made: dict[Surface, LabelledSentence] = {}
    tries = copies + _TRIES if open_to else 0
    while len(made) < copies and tries:
        tries -= 1
        chosen = open_to if replace == "all" else [open_to[int(rng.integers(len(open_to)))]]
        by = {index: partners[index][int(rng.integers(len(partners[index])))] for index in chosen}
        copy = replaced(item, by, id=f"{item.sentence.id}~{len(made) + 1}")
        made.setdefault(copy.sentence.words, copy)
    return list(made.values())
