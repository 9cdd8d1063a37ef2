"""Near-duplicate sentences: labelled differently, or in different splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from crossner_core.label_review.base import Desk, Finding, Gold, in_words, ranked, register, touching
from crossner_core.near_duplicates import alike_pairs
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Span

# A conflict is worth more of the expert's time than a repetition across splits.
_LEAK = 0.5


@register(
    "near_duplicates",
    "Near-duplicates",
    "A sentence that nearly says the same is labelled otherwise, or lies in another split.",
)
def find(gold: Gold, options: LabelReviewOptions, desk: Desk) -> list[Finding]:
    """Doubt both sides of each conflict between near-duplicates, and report those that agree across splits.

    The score is the sentences' similarity, halved if they agree. Only words that both have are compared. There are no
    probabilities to hold back by: one sentence says this and one says that, and one of them is wrong.
    """
    findings = []
    for first, other, alike in alike_pairs([item.sentence for item in gold.items], options.alike):
        conflicts = [
            *_conflicts(gold, first, other, alike),
            *_conflicts(gold, other, first, alike),
        ]
        findings += conflicts or list(_leak(gold, first, other, alike))
    return ranked(findings)


def _conflicts(gold: Gold, first: int, other: int, alike: float) -> Iterator[Finding]:
    """Yield the places of `first` that `other` labels differently."""
    mine, theirs = gold.items[first], gold.items[other]
    for start, end, labelled, proposed in differences(mine, theirs):
        where = f"a sentence of {gold.splits[other]} that says {'the same' if alike == 1 else 'nearly the same'}"
        why = f"In {where} it is {in_words(mine.sentence, proposed, gold.titles)}."
        yield Finding(first, "conflict", start, end, labelled, proposed, alike, why, other, tuple(sorted(theirs.spans)))


def differences(
    mine: LabelledSentence, theirs: LabelledSentence
) -> Iterator[tuple[int, int, tuple[Span, ...], tuple[Span, ...]]]:
    """Yield places `[start, end)` of my words that they label differently: my spans there, and theirs mapped here."""
    places = _same_words(mine, theirs)
    moved = {back for span in theirs.spans if (back := _moved(span, places)) is not None}
    seen = set(places.values())
    own = {span for span in mine.spans if set(range(span.start, span.end)) <= seen}
    for start, end in _clusters(own ^ moved, own | moved):
        yield start, end, touching(mine.spans, start, end), touching(moved, start, end)


def _leak(gold: Gold, first: int, other: int, alike: float) -> Iterator[Finding]:
    if gold.splits[first] == gold.splits[other]:
        return
    item = gold.items[first]
    why = f"It stands in {gold.splits[first]}, and {'again' if alike == 1 else 'nearly again'} in {gold.splits[other]}."
    labelled = tuple(sorted(item.spans))
    yield Finding(first, "leak", 0, len(item.sentence.tokens), labelled, labelled, alike * _LEAK, why, other,
                  tuple(sorted(gold.items[other].spans)))  # fmt: skip


def _same_words(mine: LabelledSentence, theirs: LabelledSentence) -> dict[int, int]:
    """Return their token → my token, for the words that both have in order, ignoring case."""
    left, right = ([word.lower() for word in item.sentence.words] for item in (theirs, mine))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    return {block.a + offset: block.b + offset for block in blocks for offset in range(block.size)}


def _moved(span: Span, places: dict[int, int]) -> Span | None:
    """Return their span over my tokens; None if I lack one of its words, or have others in between."""
    tokens = [places.get(token) for token in range(span.start, span.end)]
    first = tokens[0]
    if first is None or tokens != list(range(first, first + len(tokens))):
        return None
    return Span(first, first + len(tokens), span.type)


def _clusters(differing: Iterable[Span], all_spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
    """Yield the places of differing spans, each widened to whole spans; overlapping places are merged."""
    reach: list[tuple[int, int]] = []
    for span in sorted(differing):
        start, end = span.start, span.end
        while (wide := _widened(start, end, all_spans)) != (start, end):
            start, end = wide
        if reach and start < reach[-1][1]:
            reach[-1] = (min(reach[-1][0], start), max(reach[-1][1], end))
        else:
            reach.append((start, end))
    yield from reach


def _widened(start: int, end: int, spans: Iterable[Span]) -> tuple[int, int]:
    near = touching(spans, start, end)
    return min([start, *(span.start for span in near)]), max([end, *(span.end for span in near)])
