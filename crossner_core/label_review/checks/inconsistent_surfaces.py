"""The same words labelled as different types."""

from __future__ import annotations

from crossner_core.label_review.base import Desk, Finding, Gold, ranked, register
from crossner_core.label_review.surfaces import Surfaces
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import Span


@register(
    "inconsistent_surfaces",
    "Inconsistent types",
    "The same words have another type elsewhere in the gold, at least as often as this one.",
)
def find(gold: Gold, options: LabelReviewOptions, desk: Desk) -> list[Finding]:
    """Doubt each entity whose words have another type at least as often; the score is that type's smoothed share.

    Smoothed by one pseudo-count, so that five against one is more doubtful than one against one. The probabilities are
    the shares of the words' types in gold. They are not held back further: what two types have equally often is in
    doubt on both sides.
    """
    surfaces = Surfaces(gold.items)
    findings = []
    for number, item in enumerate(gold.items):
        for span in item.spans:
            key = item.sentence.words[span.start : span.end]
            rival = surfaces.rival(key, span.type)
            if rival is None:
                continue
            name, count = rival
            counts = surfaces.types(key)
            own = counts[span.type]
            surface = item.sentence.surface(span.start, span.end)
            why = f"“{surface}” is {gold.title(name)} {count} ×, {gold.title(span.type)} {own} × in the gold."
            proposed = (Span(span.start, span.end, name),)
            score = count / (counts.total() + 1)
            findings.append(
                Finding(
                    number, "type", span.start, span.end, (span,), proposed, score, why,
                    proposed_probability=count / counts.total(), present_probability=own / counts.total(),
                )
            )  # fmt: skip
    return ranked(findings)
