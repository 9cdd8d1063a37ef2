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
        kinds={"identical": "identical words, marked elsewhere"},
    )
)

CONFIDENCE = 0.85
"""How often the same words are the same entity elsewhere in a campaign, measured on gold (`benchmarks.identical`)."""


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
