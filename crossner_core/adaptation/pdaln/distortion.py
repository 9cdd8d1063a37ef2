"""Distorted copies of a sentence: words replaced by synonyms, or a stretch of words left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crossner_core.schema import LabelledSentence, Span, sentence_from_words

Synonyms = Mapping[str, Sequence[str]]

# Share of the words that is replaced, or left out.
SHARE = 0.2


def distorted(item: LabelledSentence, synonyms: Synonyms, rng: np.random.Generator) -> LabelledSentence:
    """Return a copy with synonyms or with a stretch left out, by even chance; where one cannot be, the other is.

    A sentence that neither can change comes back as it is. Source: PDALN section 4.2.1; shares are not given there.
    """
    ways = [lambda: with_synonyms(item, synonyms, rng), lambda: without_stretch(item, rng)]
    if rng.random() < 0.5:
        ways.reverse()
    return ways[0]() or ways[1]() or item


def with_synonyms(item: LabelledSentence, synonyms: Synonyms, rng: np.random.Generator) -> LabelledSentence | None:
    """Replace a share of the words by synonyms, at least one; spans stay. None where no word has a synonym."""
    words = list(item.sentence.words)
    open_to = [at for at, word in enumerate(words) if synonyms.get(word)]
    if not open_to:
        return None
    count = min(len(open_to), max(1, round(SHARE * len(words))))
    for at in rng.choice(open_to, size=count, replace=False).tolist():
        choices = synonyms[words[at]]
        words[at] = choices[int(rng.integers(len(choices)))]
    return LabelledSentence(sentence_from_words(words, id=item.sentence.id), item.spans)


def without_stretch(item: LabelledSentence, rng: np.random.Generator) -> LabelledSentence | None:
    """Leave out a stretch of a share of the words, with the whole of each entity it touches.

    None where nothing would be left.
    """
    words = item.sentence.words
    size = max(1, round(SHARE * len(words)))
    start = int(rng.integers(max(1, len(words) - size + 1)))
    end = start + size
    touched = [span for span in item.spans if span.start < end and start < span.end]
    start, end = min([start, *(span.start for span in touched)]), max([end, *(span.end for span in touched)])
    if end - start >= len(words):
        return None
    spans = tuple(_moved(span, end, end - start) for span in item.spans if span not in touched)
    return LabelledSentence(sentence_from_words([*words[:start], *words[end:]], id=item.sentence.id), spans)


def _moved(span: Span, after: int, by: int) -> Span:
    return Span(span.start - by, span.end - by, span.type) if span.start >= after else span
