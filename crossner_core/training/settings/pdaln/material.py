"""PDALN's data: sampled source sentences, entities exchanged between domains, distorted copies; no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crossner_core.schema import LabelledSentence, Sentence, Span, sentence_from_words

if TYPE_CHECKING:
    import numpy as np

    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe

Surface = tuple[str, ...]
Surfaces = Mapping[str, tuple[Surface, ...]]
Synonyms = Mapping[str, Sequence[str]]

# Retries for a copy that duplicates an earlier one.
_TRIES = 10
# Fraction of a sentence's words that distortion replaces or removes.
FRACTION = 0.2
# Combined with the seed: random streams for drawing source sentences and exchanging entities.
_DRAW, _EXCHANGE = 1, 2


@dataclass(frozen=True, slots=True)
class Material:
    """What a stage's objective draws from besides the stage's own batches; `round` is 0 in the base stage."""

    train: tuple[LabelledSentence, ...]
    target: tuple[LabelledSentence, ...]
    unlabelled: tuple[Sentence, ...]
    round: int = 0

    @property
    def supervised(self) -> bool:
        """Whether target labels may be used."""
        return bool(self.target)


def distorts(recipe: Recipe) -> bool:
    """Return whether sentences have distorted copies, of which words are replaced by synonyms."""
    return recipe.pdaln_use_contrastive or recipe.pdaln_label_distorted


def whole_source(data: TrainingData) -> tuple[LabelledSentence, ...]:
    """Return all source sentences that have words."""
    return tuple(item for item in data.source_train if item.sentence.tokens)


def source_sample(recipe: Recipe, data: TrainingData) -> tuple[LabelledSentence, ...]:
    """Return the source sentences that a run draws with its seed, in corpus order.

    With `pdaln_with_entities` they are drawn from those with an entity of a type that labelled target entities have.
    """
    filled = whole_source(data)
    if recipe.setting == "pdaln" and recipe.pdaln_with_entities and recipe.pdaln_source_sentences:
        shared = {span.type for item in data.train for span in item.spans}
        usable = tuple(item for item in filled if any(span.type in shared for span in item.spans))
        filled = usable or filled
    count = recipe.pdaln_source_sentences
    if not count or count >= len(filled):
        return filled
    import numpy as np

    drawn = np.random.default_rng([recipe.seed, _DRAW]).permutation(len(filled))[:count]
    return tuple(filled[index] for index in sorted(drawn.tolist()))


def adaptive_data(
    recipe: Recipe, source: Sequence[LabelledSentence], target: Sequence[LabelledSentence]
) -> tuple[tuple[LabelledSentence, ...], str]:
    """Return sentences of both domains with entities exchanged, and a note on them."""
    ours, theirs = _exchanged(recipe, source, target)
    note = (
        f"Adaptive data: {len(ours.items)} sentences from {len(target)} target sentences ({ours.skipped} without an "
        f"entity to exchange), {len(theirs.items)} from {len(source)} source sentences ({theirs.skipped} without)."
    )
    return ours.items + theirs.items, note


def unchanged_data(
    recipe: Recipe, source: Sequence[LabelledSentence], target: Sequence[LabelledSentence]
) -> tuple[tuple[LabelledSentence, ...], str]:
    """Return what adaptive data is made from: each sentence as often as it has copies there, and a note on them.

    If no entity can be exchanged, these are the sentences with entities, as often as copies were asked for.
    """
    ours, theirs = _exchanged(recipe, source, target)
    items = ours.originals + theirs.originals
    if not items:
        both = ((target, recipe.pdaln_target_copies), (source, recipe.pdaln_source_copies))
        items = tuple(item for sentences, copies in both for item in sentences if item.spans for _ in range(copies))
    return items, f"The rounds use {len(items)} sentences as they are: each as often as adaptive data has copies of it."


def _exchanged(
    recipe: Recipe, source: Sequence[LabelledSentence], target: Sequence[LabelledSentence]
) -> tuple[Augmented, Augmented]:
    """Return what the exchange makes of the target's and of the source's sentences."""
    import numpy as np

    rng = np.random.default_rng([recipe.seed, _EXCHANGE])
    how = recipe.pdaln_replace
    ours = exchange(target, surfaces(source), recipe.pdaln_target_copies, rng, replace=how)
    return ours, exchange(source, surfaces(target), recipe.pdaln_source_copies, rng, replace=how)


@dataclass(frozen=True, slots=True)
class Augmented:
    """Augmented sentences with the one each was made from, and the number of sentences that gave none."""

    items: tuple[LabelledSentence, ...]
    originals: tuple[LabelledSentence, ...]
    skipped: int


def surfaces(items: Sequence[LabelledSentence]) -> dict[str, tuple[Surface, ...]]:
    """Return the distinct surfaces of each type's entities, sorted."""
    surfaces: dict[str, set[Surface]] = {}
    for item in items:
        words = item.sentence.words
        for span in item.spans:
            surfaces.setdefault(span.type, set()).add(words[span.start : span.end])
    return {name: tuple(sorted(surfaces[name])) for name in sorted(surfaces)}


def exchange(
    items: Sequence[LabelledSentence], others: Surfaces, copies: int, rng: np.random.Generator, *, replace: str = "one"
) -> Augmented:
    """Return up to `copies` new sentences for each, with entities replaced by ones of the other domain.

    `replace` is one (a single entity per copy, drawn for each) or all. An entity is replaced as a whole by another
    surface of its type, drawn uniformly from the distinct ones. Sentences without entities, or whose types the other
    domain lacks, give none; copies are never duplicated, even if that leaves fewer.
    Source: PDALN section 4.1.1.
    """
    made: list[LabelledSentence] = []
    originals: list[LabelledSentence] = []
    skipped = 0
    for item in items:
        own = _copies(item, others, copies, rng, replace)
        made += own
        originals += [item] * len(own)
        skipped += not own
    return Augmented(tuple(made), tuple(originals), skipped)


def replaced(item: LabelledSentence, by: Mapping[int, Surface], *, id: str) -> LabelledSentence:
    """Return the sentence with other words in the spans at these indices, and adjusted spans."""
    words: list[str] = []
    spans: list[Span] = []
    at = 0
    old = item.sentence.words
    for index, span in sorted(enumerate(item.spans), key=lambda pair: pair[1].start):
        words += old[at : span.start]
        start = len(words)
        words += by.get(index, old[span.start : span.end])
        spans.append(Span(start, len(words), span.type))
        at = span.end
    return LabelledSentence(sentence_from_words([*words, *old[at:]], id=id), tuple(spans))


def _copies(
    item: LabelledSentence, others: Surfaces, copies: int, rng: np.random.Generator, replace: str
) -> list[LabelledSentence]:
    words = item.sentence.words
    partners = {
        index: [surface for surface in others.get(span.type, ()) if surface != words[span.start : span.end]]
        for index, span in enumerate(item.spans)
    }
    open_to = [index for index, others in partners.items() if others]
    made: dict[Surface, LabelledSentence] = {}
    tries = copies + _TRIES if open_to else 0
    while len(made) < copies and tries:
        tries -= 1
        chosen = open_to if replace == "all" else [open_to[int(rng.integers(len(open_to)))]]
        by = {index: partners[index][int(rng.integers(len(partners[index])))] for index in chosen}
        copy = replaced(item, by, id=f"{item.sentence.id}~{len(made) + 1}")
        made.setdefault(copy.sentence.words, copy)
    return list(made.values())


def distorted(item: LabelledSentence, synonyms: Synonyms, rng: np.random.Generator) -> LabelledSentence:
    """Return a copy with synonyms or with a stretch removed, with equal probability; if one is impossible, the other.

    A sentence that neither can change is returned as it is. Source: PDALN section 4.2.1, which gives no fractions.
    """
    ways = [lambda: with_synonyms(item, synonyms, rng), lambda: without_stretch(item, rng)]
    if rng.random() < 0.5:
        ways.reverse()
    return ways[0]() or ways[1]() or item


def with_synonyms(item: LabelledSentence, synonyms: Synonyms, rng: np.random.Generator) -> LabelledSentence | None:
    """Replace a share of the words by synonyms, at least one; spans stay. None if no word has a synonym."""
    words = list(item.sentence.words)
    open_to = [index for index, word in enumerate(words) if synonyms.get(word)]
    if not open_to:
        return None
    count = min(len(open_to), max(1, round(FRACTION * len(words))))
    for index in rng.choice(open_to, size=count, replace=False).tolist():
        choices = synonyms[words[index]]
        words[index] = choices[int(rng.integers(len(choices)))]
    return LabelledSentence(sentence_from_words(words, id=item.sentence.id), item.spans)


def without_stretch(item: LabelledSentence, rng: np.random.Generator) -> LabelledSentence | None:
    """Remove a stretch of words, with the whole of each entity it touches.

    Returns None if no words would remain.
    """
    words = item.sentence.words
    size = max(1, round(FRACTION * len(words)))
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
