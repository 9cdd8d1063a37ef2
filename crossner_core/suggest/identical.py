"""Suggestions where the words of a marked span occur again, because an annotator asked for them."""

from __future__ import annotations

from collections.abc import Iterator

from crossner_core.schema import Sentence
from crossner_core.suggest.base import SuggestionSource, register

IDENTICAL = register(
    SuggestionSource(
        id="identical",
        title="Identical words",
        cost="nothing: an annotator asks for it",
        kinds={"identical": "identical words"},
        from_people=True,
    )
)

CONFIDENCE = 0.77
"""Share of 6,663 proposals that gold confirms, by `benchmarks.identical`: 0.61 to 0.70 in the CrossNER domains, where
words such as *rock* stand in longer names, 0.85 to 0.94 in conll2003 and wikigold.
"""


def places(sentence: Sentence, surface: str) -> Iterator[tuple[int, int]]:
    """Yield token ranges `[start, end)` whose text is the surface to the letter; no two overlap."""
    starts = {token.start: index for index, token in enumerate(sentence.tokens)}
    ends = {token.end: index + 1 for index, token in enumerate(sentence.tokens)}
    offset = sentence.text.find(surface) if surface else -1
    while offset >= 0:
        start, end = starts.get(offset), ends.get(offset + len(surface))
        if start is not None and end is not None:
            yield start, end
        offset = sentence.text.find(surface, offset + (1 if start is None or end is None else len(surface)))


def places_like(sentence: Sentence, span: tuple[int, int], other: Sentence) -> Iterator[tuple[int, int]]:
    """Yield the places of a span's words in another sentence, but for those that look like a part of a longer name.

    There a word beside them has a capital, is not the sentence's first, and does not stand beside the span as well.
    """
    start, end = span
    before, after = _beside(sentence, start, end)
    for place in places(other, sentence.surface(start, end)):
        left, right = _beside(other, *place)
        if left in ("", before) and right in ("", after):
            yield place


def _beside(sentence: Sentence, start: int, end: int) -> tuple[str, str]:
    """Return the words with a capital before and after `[start, end)`; one that begins the sentence says nothing."""
    words = sentence.words
    beside = words[start - 1] if start > 1 else "", words[end] if end < len(words) else ""
    return tuple(word if word[:1].isupper() else "" for word in beside)  # type: ignore[return-value]
