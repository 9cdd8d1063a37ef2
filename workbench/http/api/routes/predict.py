"""Predict the entities of texts with a trained model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from crossner_core.errors import BadInput
from crossner_core.schema import Sentence, check_content, sentence_from_words
from crossner_core.tokenize import tokenize
from workbench.accounts.roles import KEEPERS
from workbench.http.api.declared import Answer, Body, Call, Id, Nothing, route
from workbench.http.api.routes.sentences import MarkedSpan, marked, offsets
from workbench.runs import predicting

MOST_SENTENCES = 256
MOST_CHARACTERS = 20_000
"""Of one sentence."""
MOST_IN_ALL = 200_000
"""Characters of one request."""

Text = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(min_length=1, max_length=5000)]


class ToPredict(Body):
    """Sentences, as `texts` or as `words`, and whose model predicts: a run's, or the one that a campaign uses now."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=MOST_SENTENCES)] | None = None
    """Each is taken as one sentence, and split into tokens as an import does it."""
    words: Annotated[list[Words], Field(min_length=1, max_length=MOST_SENTENCES)] | None = None
    """Sentences that are split already; their text is the words joined by spaces."""
    run: Id | None = None
    campaign: Id | None = None
    """The best model on dev of the campaign's newest snapshot."""


class PredictedSpan(MarkedSpan):
    """A predicted entity with its probability in [0, 1]."""

    probability: float


class PredictedSentence(Answer):
    """A sentence with its predicted entities."""

    text: str
    tokens: list[tuple[int, int]]
    """Character offsets of the tokens."""
    entities: list[PredictedSpan]


class Predictions(Answer):
    """Predictions in the order of the sentences."""

    run: int
    """The run whose model predicted."""
    is_calibrated: bool
    """Its probabilities were fitted to dev; without dev they are the model's own."""
    sentences: list[PredictedSentence]


@route("POST", "/predict", scope="read", roles=KEEPERS, use=predicting.predict, slots="model")
def predict(call: Call, inputs: Nothing, body: ToPredict) -> Predictions:
    """Predict the entities of some sentences with a trained model; nothing is kept.

    The first request for a model loads it, which takes seconds; it is then kept in memory.
    """
    sentences = _sentences(body)
    made = predicting.predict(call.store, call.actor, sentences, run_id=body.run, campaign_id=body.campaign)
    predicted = [
        PredictedSentence(
            text=sentence.text,
            tokens=offsets(sentence),
            entities=[
                PredictedSpan(**span.model_dump(), probability=suggestion.score)
                for span, suggestion in zip(
                    marked(sentence, [suggestion.span for suggestion in suggestions]), suggestions, strict=True
                )
            ],
        )
        for sentence, suggestions in zip(sentences, made.suggestions, strict=True)
    ]
    return Predictions(run=made.run_id, is_calibrated=made.is_calibrated, sentences=predicted)


def _sentences(body: ToPredict) -> list[Sentence]:
    if (body.texts is None) == (body.words is None):
        raise BadInput("Give the sentences either as texts or as words.")
    if body.texts is not None:
        characters = sum(map(len, body.texts))
        sentences = [Sentence(str(number), text, tokenize(text)) for number, text in enumerate(body.texts, start=1)]
    else:
        words = body.words or []
        characters = sum(len(word) + 1 for sentence in words for word in sentence)
        sentences = [sentence_from_words(sentence, id=str(number)) for number, sentence in enumerate(words, start=1)]
    if characters > MOST_IN_ALL:
        raise BadInput(f"The sentences have {characters:,} characters; up to {MOST_IN_ALL:,} are read at a time.")
    for sentence in sentences:
        check_content(sentence)
    return sentences
