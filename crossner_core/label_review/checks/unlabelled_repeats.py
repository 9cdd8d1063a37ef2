"""Words that are an entity elsewhere, but not here."""

from __future__ import annotations

from collections import Counter

from crossner_core.label_review.base import Desk, Finding, Gold, ranked, register
from crossner_core.label_review.surfaces import Key, Surfaces
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import Span


@register(
    "unlabelled_repeats",
    "Unlabelled repeats",
    "Words that are an entity elsewhere in the gold stand here without one.",
)
def find(gold: Gold, options: LabelReviewOptions, desk: Desk) -> list[Finding]:
    """Doubt each unlabelled occurrence of a labelled surface; the score is the labelled share.

    The share is smoothed by one unlabelled pseudo-occurrence. Words are compared as written, case included.
    """
    surfaces = Surfaces(gold.items)
    places = [
        (number, start, end, item.sentence.words[start:end])
        for number, item in enumerate(gold.items)
        for start, end in surfaces.unlabelled(item.sentence.words, item.spans)
    ]
    bare: Counter[Key] = Counter(key for _, _, _, key in places)
    findings = []
    for number, start, end, key in places:
        name = surfaces.usual(key)
        assert name is not None, "only labelled surfaces are looked for"
        labelled = surfaces.types(key).total()
        words = gold.items[number].sentence.surface(start, end)
        where = f"{labelled} of {labelled + bare[key]} places"
        why = f"“{words}” is an entity at {where}, mostly {gold.title(name)}; not here."
        score = labelled / (labelled + bare[key] + 1)
        findings.append(Finding(number, "missing", start, end, (), (Span(start, end, name),), score, why))
    return ranked(findings)
