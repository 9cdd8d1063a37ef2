"""The places of one sentence where a name may stand, each with what it may mean; and which of them win."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crossner_core.gazetteer.candidates import Options
from crossner_core.gazetteer.disambiguation import Choice
from crossner_core.gazetteer.matcher import Letters, ScanRules
from crossner_core.schema import Sentence
from crossner_core.tokenize import tokenize, words_of

LINK, PAGE, DBPEDIA = "link", "page", "dbpedia"


@dataclass(slots=True)
class Place:
    """Tokens `[start, end)` and what they may mean; `choice` is None for a link to a page that nobody knows."""

    start: int
    end: int
    source: str
    score: float
    choice: Choice | None
    options: Options
    type: str | None
    case: float = 1.0
    target: str = ""


class Words:
    """The words of a sentence, which of them are free of links, and how they meet the tokens of `tokenize`."""

    __slots__ = ("_ends", "_starts", "letters", "ours", "segments", "sentence", "words")

    def __init__(self, sentence: Sentence, rules: ScanRules, *, links: bool) -> None:
        self.sentence, self.words = sentence, sentence.words
        self.letters = Letters(self.words, rules)
        self.segments = _segments(sentence) if links and sentence.links else None
        self.ours: Sequence[str] = words_of(sentence.text)
        self._starts: dict[int, int] | None = None
        self._ends: dict[int, int] = {}
        # Ours cover every character but white space; with the same words in the same order theirs are the same places.
        if len(self.ours) != len(self.words) or tuple(self.ours) != self.words:
            starts = {token.start: at for at, token in enumerate(sentence.tokens)}
            ends = {token.end: at + 1 for at, token in enumerate(sentence.tokens)}
            tokens = tokenize(sentence.text)
            self._starts = {at: starts[one.start] for at, one in enumerate(tokens) if one.start in starts}
            self._ends = {at + 1: ends[one.end] for at, one in enumerate(tokens) if one.end in ends}

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the sentence's tokens for some of ours; None where they begin or end inside one, or touch a link."""
        if self._starts is not None:
            low, high = self._starts.get(start), self._ends.get(end)
            if low is None or high is None or low >= high:
                return None
            start, end = low, high
        if (segments := self.segments) is not None and (segments[start] < 0 or segments[start] != segments[end - 1]):
            return None
        return start, end

    def is_free(self, start: int, end: int) -> bool:
        """Tell whether no link touches tokens `[start, end)`."""
        segments = self.segments
        return segments is None or (segments[start] >= 0 and segments[start] == segments[end - 1])


def _segments(sentence: Sentence) -> list[int]:
    """Number the stretches between links token by token; -1 inside a link."""
    found = [0] * len(sentence.tokens)
    for link in sentence.links:
        for at in range(link.start, link.end):
            found[at] = -1
    number, before = 0, False
    for at, value in enumerate(found):
        if value < 0:
            number += not before
            before = True
        else:
            found[at], before = number, False
    return found


def leftmost_longest(places: Iterable[Place]) -> list[Place]:
    """Choose places so that none overlap: the leftmost first, of these the longest."""
    chosen: list[Place] = []
    at = 0
    for place in sorted(places, key=lambda place: (place.start, -place.end)):
        if place.start >= at:
            chosen.append(place)
            at = place.end
    return chosen


def best_links(places: Sequence[Place]) -> list[Place]:
    """Choose links so that none overlap: those with a type first, then the longer, then by score."""
    chosen: list[Place] = []
    for place in sorted(places, key=lambda one: (one.type is None, one.start - one.end, -one.score, one.start)):
        if all(place.end <= other.start or other.end <= place.start for other in chosen):
            chosen.append(place)
    return chosen
