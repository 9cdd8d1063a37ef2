"""Suggestions of a zero-shot tagger behind HTTP that takes a text with labels, as servers of GLiNER do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crossner_core.domains import Domain
from crossner_core.options.base import option
from crossner_core.outside.base import SCORE, Named, OutsideModel, Reading, Request, Unreadable
from crossner_core.schema import LabelledSentence, Sentence
from crossner_core.suggest.base import SuggestionSource, register


@dataclass(frozen=True)
class GlinerModel(OutsideModel):
    """A tagger that is posted `{"text", "labels", "threshold"}` and answers with entities."""

    threshold: float = option(0.5, "Score from which the service names an entity.", min=0, max=1)

    def request(self, domain: Domain, sentence: Sentence, examples: Sequence[LabelledSentence] = ()) -> Request:
        """Return the request: the text, and the titles of the types as labels."""
        body = {"text": sentence.text, "labels": list(domain.titles.values()), "threshold": self.threshold}
        return Request(self.address, body | ({"model": self.model} if self.model else {}))

    def read(self, document: Any) -> Reading:
        """Read a list of entities, or an object that holds it as `entities`; their offsets are ignored."""
        entries = document.get("entities") if isinstance(document, dict) else document
        if not isinstance(entries, list):
            raise Unreadable("the answer holds no list of entities")
        named = [made for entry in entries if (made := _named(entry)) is not None]
        return Reading(tuple(named), len(entries) - len(named))


def _named(entry: Any) -> Named | None:
    """Return an entry's text, type and score; a missing score is replaced, one outside [0, 1] makes it malformed."""
    if not isinstance(entry, dict):
        return None
    text, kind, score = entry.get("text"), entry.get("label", entry.get("type")), entry.get("score", SCORE)
    is_score = isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 1
    if not (isinstance(text, str) and isinstance(kind, str) and is_score):
        return None
    return Named(text, kind, float(score))


GLINER = register(
    SuggestionSource(
        id="gliner",
        title="Outside zero-shot tagger",
        cost="one request to a service that takes a text with labels",
        kinds={"gliner": "outside zero-shot tagger"},
        outside=GlinerModel,
    )
)
