"""Words that are an entity elsewhere, but not here."""

from __future__ import annotations

from collections import Counter

from crossner_core.label_review.base import Desk, Finding, Gold, ranked, register
from crossner_core.label_review.surfaces import Key, Surfaces
from crossner_core.label_review.weighing import Rule, Weights
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import Span

RULE = Rule(floor=0.5, margin=0.0)
"""A share of gold is no model's probability: from 0.8 on, hardly a planted error is left, and below 0.5 hardly one is
lost for a twentieth of the proposals (`benchmarks/second_look.py`)."""


@register(
    "unlabelled_repeats",
    "Unlabelled repeats",
    "Words that gold labels at half of their places or more stand here without a label.",
)
def find(gold: Gold, options: LabelReviewOptions, desk: Desk) -> list[Finding]:
    """Doubt each unlabelled occurrence of a surface that is usually labelled; the score is the labelled share.

    The share is smoothed by one unlabelled pseudo-occurrence. Words are compared as written, case included.
    """
    return proposals(gold, RULE)


def proposals(gold: Gold, rule: Rule) -> list[Finding]:
    """Return the findings that the rule does not hold back; their probabilities are shares of the words' places."""
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
        types = surfaces.types(key)
        labelled, every = types.total(), types.total() + bare[key]
        weights = Weights(types[name] / every, bare[key] / every)
        if not rule.lets(weights):
            continue
        words = gold.items[number].sentence.surface(start, end)
        why = f"“{words}” is an entity at {labelled} of {every} places, mostly {gold.title(name)}; not here."
        proposed = (Span(start, end, name),)
        findings.append(
            Finding(
                number, "missing", start, end, (), proposed, labelled / (every + 1), why,
                proposed_probability=weights.proposed, present_probability=weights.present,
            )
        )  # fmt: skip
    return ranked(findings)
