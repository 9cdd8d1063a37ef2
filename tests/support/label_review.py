"""Sentences to review, checks run as the worker does, and the gold that stands."""

from __future__ import annotations

from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Span, sentence_from_words
from db.engine import Store
from workbench.data import layers
from workbench.jobs.kinds import second_look as label_review_kind
from workbench.labelling import label_review

POOL = "A great crowd sang with Mara Vell in the rain until all the lamps of Oslo went out ."
MARA = (5, 7, "musicalartist")


def said(text: str, *spans: tuple[int, int, str], id: str = "s") -> LabelledSentence:
    return LabelledSentence(sentence_from_words(text.split(), id=id), tuple(Span(*span) for span in spans))


def look(store: Store, campaign: int, *checks: str) -> None:
    """Run checks as the worker does, without its process."""
    from crossner_core.label_review.base import Desk, check

    with store.read() as session:
        gold, ids = label_review_kind.gold_of(session, campaign)
    for id in checks or ("inconsistent_surfaces", "near_duplicates", "unlabelled_repeats"):
        found = check(id).find(gold, LabelReviewOptions(), Desk())
        assert found is not None
        with store.write() as session:
            label_review.keep_findings(session, campaign, id, found, ids)


def gold_of(store: Store, campaign: int) -> dict[str, tuple[Span, ...]]:
    with store.read() as session:
        return {one.labelled.sentence.text: one.labelled.spans for one in layers.gold(session, campaign)}
